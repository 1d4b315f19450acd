/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read platforms from SimGrid's XML and refuse wrong files. */
#include "scenario/platform_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "hand_dag.h"
#include "harness.h"
#include "scenario_fixture.h"

TEST(platform_file__reads_counts_and_bandwidths_of_a_written_platform)
{
    static const char *const names[] = {"hopper-1x8",   "hopper-16x8",  "h100-32x8",
                                        "a100n400-8x8", "hopper-128x8", "hopper-2x8-free"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct platform read, written = hand_platform_file(names[i], "written.xml");
        struct error err = {0};
        uint64_t hash;
        CHECK_TRUE(platform_file_read(written.path, &read, &err));
        CHECK_TEXT(err.text, "");
        CHECK_TEXT(read.name, "written");
        CHECK_TRUE(read.n_nodes == written.n_nodes && read.gpus_per_node == written.gpus_per_node);
        CHECK_EQUAL(read.nvlink_domain, read.gpus_per_node);
        CHECK_TRUE(read.n_uplinks == written.n_uplinks && read.n_spine_links == written.n_spine_links);
        CHECK_TRUE(read.nvlink_bytes_per_s == written.nvlink_bytes_per_s);
        CHECK_TRUE(read.nic_bytes_per_s == written.nic_bytes_per_s);
        CHECK_TRUE(read.pcie_bytes_per_s == written.pcie_bytes_per_s);
        CHECK_TRUE(read.host_memory_bytes == written.host_memory_bytes);
        CHECK_TRUE(hash_file(read.path, &hash, &err) && hash == read.hash);
    }
}

static char *xml_of(const char *name)
{
    struct platform platform = hand_platform(name);
    return hand_platform_xml(&platform);
}

/* Each case is one change of hopper-2x8. `line` means the line of the change. */
static const struct {
    const char *old, *new, *message;
} refused[] = {
    {"<link id=\"nv1_3_u\" bandwidth=\"200000000000Bps\"", "<link id=\"nv1_3_u\" bandwidth=\"0GBps\"",
     ": nv1_3_u: bandwidth '0GBps' is not a positive number; allowed: such as 400Gbps or 50GBps"},
    {"bandwidth=\"200000000000Bps\"", "bandwidth=\"nan\"", "bandwidth 'nan' is not a positive number"},
    {"bandwidth=\"200000000000Bps\"", "bandwidth=\"-1GBps\"", "bandwidth '-1GBps' is not a positive number"},
    {"bandwidth=\"200000000000Bps\"", "bandwidth=\"1GB/s\"", "bandwidth '1GB/s' is not a positive number"},
    {"bandwidth=\"200000000000Bps\"", "bandwidth=\"200G\"", "bandwidth '200G' is not a positive number"},
    {"bandwidth=\"200000000000Bps\"", "bandwidth=\"1e-300bps\"", "bandwidth '1e-300bps' is out of range (1 to 1e24)"},
    {"bandwidth=\"200000000000Bps\"", "bandwidth=\"1e100GBps\"", "bandwidth '1e100GBps' is out of range"},
    {"bandwidth=\"200000000000Bps\" ", "", ": <link> lacks the attribute bandwidth"},
    {"<link id=\"ib1_7_d\" bandwidth=\"50000000000Bps\"", "<link id=\"ib1_7_d\" bandwidth=\"25000000000Bps\"",
     "ib1_7_d has another bandwidth (2.5e+10) than ib0_0_u (5e+10, line "},
    {"latency=\"0\"", "latency=\"2us\"", "latency '2us' is not allowed; allowed: 0, since SimGrid shares"},
    {"id=\"pc1_2_d\"", "id=\"pc1_2_x\"", "link pc1_2_d is missing; nodes must be equal"},
    {"id=\"pt1_u\"", "id=\"pt1_x\"", "a route refers to the link 'pt1_u', which the file does not declare"},
    {"id=\"pt1_u\"", "id=\"pt0_u\"", "pt0_u appears twice, first on line "},
    {"id=\"nv1_0_u\"", "id=\"nv0_0_u\"", "link nv1_0_u is missing"},
    {"<host id=\"g1_7\"", "<host id=\"g2_0\"", "host g1_7 is missing; nodes must be equal, and the file has 3 of them"},
    {"<host id=\"g1_7\"", "<host id=\"gpu\"", "host gpu is unknown; allowed: g<node>_<gpu> and cpu<node>"},
    {"<host id=\"g1_7\"", "<host id=\"g01_7\"", "host g01_7 is unknown; allowed:"},
    {"<host id=\"g1_7\"", "<host id=\"g99999999999_7\"", "host g99999999999_7 is unknown; allowed:"},
    {"<host id=\"cpu1\"", "<host id=\"cpu0\"", "host cpu1 is missing"},
    {"<host id=\"g0_0\" speed=\"989400000000000f\"", "<host id=\"g0_0\" speed=\"1Tf\"", "has another speed"},
    {"<host id=\"g0_0\" speed=\"989400000000000f\"", "<host id=\"g0_0\" speed=\"0f\"",
     "g0_0: speed '0f' is not a positive number; allowed: such as 989.4Tf"},
    {"<host id=\"g0_0\" speed=\"989400000000000f\"", "<host id=\"g0_0\"", "<host> lacks the attribute speed"},
    {"<prop id=\"host_memory_bytes\"", "<prop id=\"other\"", "node 0 must have host_memory_bytes once"},
    {"id=\"host_memory_bytes\" value=\"1073741824000\"", "id=\"host_memory_bytes\" value=\"1\"",
     "node 1 has another host_memory_bytes than node 0"},
    {"<route src=\"g0_0\"", "<route src=\"g7_0\"",
     "a route refers to the host or router 'g7_0', which the file does not declare"},
    {"gw_src=\"sw0\"", "gw_src=\"sw9\"", "a route refers to the host or router 'sw9'"},
    {"<zone", "<config><prop id=\"tracing/filename\" value=\"victim\"/></config><zone",
     ": <config>: 'tracing/filename:victim' is no option that only changes models; allowed: bmf/max-iterations "},
    {"<zone", "<config><prop id=\"cpu/optim\" value=\"Full tracing:yes\"/></config><zone", ": <config>: 'tracing:yes'"},
    {"</platform>", "", "not well-formed XML: no element found"},
    {"</zone>", "</zoen>", "not well-formed XML: mismatched tag"},
};

TEST(platform_file__refuses_a_file_that_kills_simgrid)
{
    char *good = xml_of("hopper-2x8");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct platform platform;
        struct error err = {0};
        char *text = fixture_replace(good, refused[i].old, refused[i].new);
        CHECK_TRUE(!platform_file_read(fixture_write("broken.xml", text), &platform, &err));
        CHECK_CONTAINS(err.text, "broken.xml:");
        CHECK_CONTAINS(err.text, refused[i].message);
        CHECK_EQUAL(err.status, ERROR_INVALID);
        free(text);
    }
    free(good);
}

TEST(platform_file__takes_options_that_change_models)
{
    char *good = xml_of("hopper-2x8"),
         *text = fixture_replace(good, "<zone", "<config><prop id=\"cpu/optim\" value=\"Full\"/></config><zone");
    struct platform platform;
    struct error err = {0};
    CHECK_TRUE(platform_file_read(fixture_write("options.xml", text), &platform, &err));
    CHECK_TEXT(err.text, "");
    free(text);
    free(good);
}

TEST(platform_file__names_the_line)
{
    struct platform platform;
    struct error err = {0};
    const char *path = fixture_write("lines.xml", "<platform version=\"4.1\">\n<zone id=\"links\">\n"
                                                  "<link id=\"nv0_0_u\" bandwidth=\"x\"\n latency=\"1us\"/>\n"
                                                  "</zone>\n<host id=\"g0_0\" speed=\"1Tf\"/></platform>\n");
    CHECK_TRUE(!platform_file_read(path, &platform, &err));
    CHECK_CONTAINS(err.text, "lines.xml:3: nv0_0_u: bandwidth 'x'");
    CHECK_CONTAINS(err.text, "lines.xml:3: nv0_0_u: latency '1us'");
    CHECK_CONTAINS(err.text, "host cpu0 is missing");
}

TEST(platform_file__refuses_files_of_another_kind)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "empty.xml:1:1: not well-formed XML: no element found"},
        {"<platform/>", "the file has no GPU; allowed: hosts g0_0"},
        {"<platform><host id=\"cpu0\" speed=\"1f\"/></platform>", "the file has no GPU"},
        {"<platform><host id=\"0123456789012345678901234567890123456789012345678\" speed=\"1f\"/></platform>",
         "empty.xml:1: the name 0123456789012345678901234567890123456789012345678... is longer than the limit of 47 "
         "bytes"},
        {"<platform><prop id=\"host_memory_bytes\" value=\"5\"/></platform>", "host_memory_bytes belongs to ''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct platform platform;
        struct error err = {0};
        CHECK_TRUE(!platform_file_read(fixture_write("empty.xml", cases[i].text), &platform, &err));
        CHECK_CONTAINS(err.text, cases[i].message);
    }
}

/* A node of one GPU needs no route between GPUs. The memory may be a property of the node's zone. */
TEST(platform_file__allows_one_gpu_and_memory_of_a_zone)
{
    struct platform platform;
    struct error err = {0};
    const char *path = fixture_write(
        "one.xml", "<platform><zone id=\"node0\"><prop id=\"host_memory_bytes\" value=\"64GiB\"/>"
                   "<link id=\"nv0_0_u\" bandwidth=\"1GBps\"/><link id=\"nv0_0_d\" bandwidth=\"1GBps\"/>"
                   "<link id=\"ib0_0_u\" bandwidth=\"8Gbps\"/><link id=\"ib0_0_d\" bandwidth=\"1GBps\"/>"
                   "<link id=\"pc0_0_u\" bandwidth=\"1GiBps\"/><link id=\"pc0_0_d\" bandwidth=\"1GiBps\"/>"
                   "<host id=\"g0_0\" speed=\"1Tf,2Tf\"/><host id=\"cpu0\" speed=\"1Gf\"/></zone></platform>");
    CHECK_TRUE(platform_file_read(path, &platform, &err));
    CHECK_TEXT(err.text, "");
    CHECK_EQUAL(platform_n_gpus(&platform), 1);
    CHECK_TRUE(platform.host_memory_bytes == 64 * 0x1p30);
    CHECK_TRUE(platform.nic_bytes_per_s == 1e9 && platform.pcie_bytes_per_s == 0x1p30);
}

/* The seed is 3. */
TEST(platform_file__reads_or_refuses_random_mutations)
{
    char *good = xml_of("hopper-1x8");
    size_t n = strlen(good);
    uint64_t state = 3;
    int n_refused = 0;
    for (int i = 0; i < 300; i++) {
        struct platform platform;
        struct error err = {0};
        for (int j = 0; j < 3; j++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            good[(state >> 33) % n] = "0123456789_<>/\"&gnvcpu "[(state >> 20) % 23];
        }
        bool ok = platform_file_read(fixture_write("mutated.xml", good), &platform, &err);
        CHECK_TRUE(ok == (*err.text == '\0'));
        n_refused += !ok;
        if (i % 10 == 9) {
            free(good);
            good = xml_of("hopper-1x8");
        }
    }
    CHECK_TRUE(n_refused > 100);
    free(good);
}
