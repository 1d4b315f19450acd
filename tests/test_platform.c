/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/platform.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "harness.h"
#include "scenario_fixture.h"

static const char platforms[] = SLIMSIM_BUILD_DIR "/platforms";

TEST(built_platforms_are_as_the_generator_made_them)
{
    struct platform platform;
    struct error err = {0};
    uint64_t hash;
    CHECK_TRUE(platform_read(platforms, "hopper-16x8", &platform, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TEXT(platform.name, "hopper-16x8");
    CHECK_EQUAL(platform.n_nodes, 16);
    CHECK_EQUAL(platform.gpus_per_node, 8);
    CHECK_EQUAL(platform_n_gpus(&platform), 128);
    CHECK_TRUE(platform.n_uplinks == 16 && platform.n_spine_links == 0); /* one leaf */
    CHECK_TRUE(platform_same_node(&platform, 8, 15) && !platform_same_node(&platform, 7, 8));
    CHECK_TRUE(platform.nvlink_bytes_per_s == 200e9 && platform.nic_bytes_per_s == 50e9);
    CHECK_TRUE(platform.pcie_bytes_per_s == 64e9 && platform.host_memory_bytes == 1000 * 0x1p30);
    CHECK_TRUE(hash_file(platform.path, &hash, &err) && hash == platform.hash);
    CHECK_TRUE(platform_read(platforms, "h100-32x8", &platform, &err));
    CHECK_EQUAL(platform_n_gpus(&platform), 256);
    CHECK_TRUE(platform.nvlink_bytes_per_s == 450e9 && platform.nic_bytes_per_s == 50e9);
    CHECK_TRUE(platform.pcie_bytes_per_s == 64e9 && platform.host_memory_bytes == 2e12);
    CHECK_TRUE(platform_read(platforms, "hopper-128x8", &platform, &err));
    CHECK_TRUE(platform.n_uplinks == 128 && platform.n_spine_links == 4);
    CHECK_TRUE(platform_read("/nowhere", SLIMSIM_BUILD_DIR "/platforms/hopper-2x8-free.xml", &platform, &err));
    CHECK_TEXT(platform.name, "hopper-2x8-free");
    CHECK_EQUAL(platform_n_gpus(&platform), 16);
}

/* Each is one change of hopper-2x8; `line` stands for the line of the change. */
static const struct {
    const char *old, *new, *message;
} refused[] = {
    {"<link id=\"nv1_3_u\" bandwidth=\"200GBps\"", "<link id=\"nv1_3_u\" bandwidth=\"0GBps\"",
     ": nv1_3_u: bandwidth '0GBps' is not a positive number; allowed: such as 400Gbps or 50GBps"},
    {"bandwidth=\"200GBps\"", "bandwidth=\"nan\"", "bandwidth 'nan' is not a positive number"},
    {"bandwidth=\"200GBps\"", "bandwidth=\"-1GBps\"", "bandwidth '-1GBps' is not a positive number"},
    {"bandwidth=\"200GBps\"", "bandwidth=\"1e-300bps\"", "bandwidth '1e-300bps' is out of range (1 to 1e24)"},
    {"bandwidth=\"200GBps\"", "bandwidth=\"1e100GBps\"", "bandwidth '1e100GBps' is out of range"},
    {"bandwidth=\"200GBps\" ", "", ": <link> lacks the attribute bandwidth"},
    {"<link id=\"ib1_7_d\" bandwidth=\"400Gbps\"", "<link id=\"ib1_7_d\" bandwidth=\"200Gbps\"",
     "ib1_7_d has another bandwidth (2.5e+10) than ib0_0_u (5e+10, line "},
    {"latency=\"0\"", "latency=\"2us\"", "latency '2us' is not 0; here it must be 0: SimGrid shares"},
    {"id=\"pc1_2_d\"", "id=\"pc1_2_x\"", "link pc1_2_d is missing; nodes must be equal"},
    {"id=\"pt1_u\"", "id=\"pt1_x\"", "a route names the link 'pt1_u', which the file does not declare"},
    {"id=\"pt1_u\"", "id=\"pt0_u\"", "pt0_u stands twice, first on line "},
    {"id=\"nv1_0_u\"", "id=\"nv0_0_u\"", "link nv1_0_u is missing"},
    {"<host id=\"g1_7\"", "<host id=\"g2_0\"", "host g1_7 is missing; nodes must be equal, and the file has 3 of them"},
    {"<host id=\"g1_7\"", "<host id=\"gpu\"", "host gpu: allowed are g<node>_<gpu> and cpu<node>"},
    {"<host id=\"g1_7\"", "<host id=\"g01_7\"", "host g01_7: allowed are"},
    {"<host id=\"g1_7\"", "<host id=\"g99999999999_7\"", "host g99999999999_7: allowed are"},
    {"<host id=\"cpu1\"", "<host id=\"cpu0\"", "host cpu1 is missing"},
    {"<host id=\"g0_0\" speed=\"989.4Tf\"", "<host id=\"g0_0\" speed=\"1Tf\"", "has another speed"},
    {"<host id=\"g0_0\" speed=\"989.4Tf\"", "<host id=\"g0_0\" speed=\"0f\"",
     "g0_0: speed '0f' is not a positive number; allowed: such as 989.4Tf"},
    {"<host id=\"g0_0\" speed=\"989.4Tf\"", "<host id=\"g0_0\"", "<host> lacks the attribute speed"},
    {"<prop id=\"host_memory_bytes\"", "<prop id=\"other\"", "node 0 must have host_memory_bytes once"},
    {"id=\"host_memory_bytes\" value=\"1073741824000\"", "id=\"host_memory_bytes\" value=\"1\"",
     "node 1 has another host_memory_bytes than node 0"},
    {"<route src=\"g0_0\"", "<route src=\"g7_0\"",
     "a route names the host or router 'g7_0', which the file does not declare"},
    {"gw_src=\"sw0\"", "gw_src=\"sw9\"", "a route names the host or router 'sw9'"},
    {"</platform>", "", "not well-formed XML: no element found"},
    {"</zone>", "</zoen>", "not well-formed XML: mismatched tag"},
};

TEST(a_platform_that_simgrid_would_die_of_is_refused)
{
    char *good = fixture_read(SLIMSIM_BUILD_DIR "/platforms/hopper-2x8.xml");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct platform platform;
        struct error err = {0};
        char *text = fixture_replace(good, refused[i].old, refused[i].new);
        CHECK_TRUE(!platform_read("/nowhere", fixture_write("broken.xml", text), &platform, &err));
        CHECK_CONTAINS(err.text, "broken.xml:");
        CHECK_CONTAINS(err.text, refused[i].message);
        CHECK_EQUAL(err.status, ERROR_INVALID);
        free(text);
    }
    free(good);
}

TEST(messages_name_the_line)
{
    struct platform platform;
    struct error err = {0};
    const char *path = fixture_write("lines.xml", "<platform version=\"4.1\">\n<zone id=\"links\">\n"
                                                  "<link id=\"nv0_0_u\" bandwidth=\"x\"\n latency=\"1us\"/>\n"
                                                  "</zone>\n<host id=\"g0_0\" speed=\"1Tf\"/></platform>\n");
    CHECK_TRUE(!platform_read("/nowhere", path, &platform, &err));
    CHECK_CONTAINS(err.text, "lines.xml:3: nv0_0_u: bandwidth 'x'");
    CHECK_CONTAINS(err.text, "lines.xml:3: nv0_0_u: latency '1us'");
    CHECK_CONTAINS(err.text, "host cpu0 is missing");
}

TEST(files_that_are_no_platform_are_refused)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "empty.xml:1:1: not well-formed XML: no element found"},
        {"<platform/>", "no GPU in it; allowed: hosts g0_0"},
        {"<platform><host id=\"cpu0\" speed=\"1f\"/></platform>", "no GPU in it"},
        {"<platform><host id=\"0123456789012345678901234567890123456789012345678\" speed=\"1f\"/></platform>",
         "empty.xml:1: the name 0123456789012345678901234567890123456789012345678... is longer than 47 bytes"},
        {"<platform><prop id=\"host_memory_bytes\" value=\"5\"/></platform>", "host_memory_bytes stands in ''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct platform platform;
        struct error err = {0};
        CHECK_TRUE(!platform_read("/nowhere", fixture_write("empty.xml", cases[i].text), &platform, &err));
        CHECK_CONTAINS(err.text, cases[i].message);
    }
}

/* A node of one GPU needs no route between GPUs; the memory may stand in the node's zone. */
TEST(a_node_of_one_gpu_and_memory_of_a_zone_are_allowed)
{
    struct platform platform;
    struct error err = {0};
    const char *path = fixture_write(
        "one.xml", "<platform><zone id=\"node0\"><prop id=\"host_memory_bytes\" value=\"64GiB\"/>"
                   "<link id=\"nv0_0_u\" bandwidth=\"1GBps\"/><link id=\"nv0_0_d\" bandwidth=\"1GBps\"/>"
                   "<link id=\"ib0_0_u\" bandwidth=\"8Gbps\"/><link id=\"ib0_0_d\" bandwidth=\"1GBps\"/>"
                   "<link id=\"pc0_0_u\" bandwidth=\"1GiBps\"/><link id=\"pc0_0_d\" bandwidth=\"1GiBps\"/>"
                   "<host id=\"g0_0\" speed=\"1Tf,2Tf\"/><host id=\"cpu0\" speed=\"1Gf\"/></zone></platform>");
    CHECK_TRUE(platform_read("/nowhere", path, &platform, &err));
    CHECK_TEXT(err.text, "");
    CHECK_EQUAL(platform_n_gpus(&platform), 1);
    CHECK_TRUE(platform.host_memory_bytes == 64 * 0x1p30);
    CHECK_TRUE(platform.nic_bytes_per_s == 1e9 && platform.pcie_bytes_per_s == 0x1p30);
}

TEST(an_unknown_name_lists_those_there_are)
{
    struct platform platform;
    struct error err = {0};
    CHECK_TRUE(!platform_read(platforms, "hoper-16x8", &platform, &err));
    CHECK_CONTAINS(err.text, "no platform 'hoper-16x8'; did you mean 'hopper-16x8'? available: ");
    CHECK_CONTAINS(err.text, "hopper-2x8, hopper-2x8-free, ");
}

/* Seed 3. */
TEST(random_mutations_give_a_platform_or_a_message)
{
    char *good = fixture_read(SLIMSIM_BUILD_DIR "/platforms/hopper-1x8.xml");
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
        bool ok = platform_read("/nowhere", fixture_write("mutated.xml", good), &platform, &err);
        CHECK_TRUE(ok == (*err.text == '\0'));
        n_refused += !ok;
        if (i % 10 == 9) {
            free(good);
            good = fixture_read(SLIMSIM_BUILD_DIR "/platforms/hopper-1x8.xml");
        }
    }
    CHECK_TRUE(n_refused > 100);
    free(good);
}
