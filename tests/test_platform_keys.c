/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read platforms from a name, a file or a few keys. */
#include "scenario/platform_keys.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "scenario/scenario_read.h"
#include "scenario_fixture.h"

static const struct device device = {.name = "hand",
                                     .peak_flop_per_s = {1e15},
                                     .nvlink_bytes_per_s = 450e9,
                                     .node_nic_bytes_per_s = 50e9,
                                     .node_pcie_bytes_per_s = 64e9,
                                     .node_host_memory_bytes = 2e12};

/* Read a scenario with this line of `platform:` and --set assignments. */
static bool read_with(const char *platform, int32_t n_set, const char *const *set, struct scenario *scenario,
                      struct error *err)
{
    char text[1024];
    *err = (struct error){0};
    fixture_data("platform_keys");
    fixture_write("platform_keys/platforms/dgx.yaml", "nodes: 4\nnic: 100Gbps\nnvlink: 300GBps\npcie: 32GBps\n"
                                                      "host_memory: 1TB\ntopology: rail\nleaf: 2\nsource: a test\n");
    snprintf(text, sizeof text,
             "model: llama-13b\ndevice: h800\n%s\ndata: {lengths: github, context: 64Ki, global_batch: 8}\n"
             "systems: [{name: slimpack, plan: {tp: 2, pp: 2}}]\n",
             platform);
    return scenario_read(fixture_write("platform_keys/run.yaml", text), n_set, set, scenario, err);
}

TEST(platform__every_key_reaches_its_field)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(
        read_with("platform: {nodes: 3, gpus_per_node: 4, nvlink: 450GBps, nic: 400Gbps, pcie: 64GBps, host_memory: "
                  "1000GiB, leaf: 2, oversubscription: 2, topology: rail, contention: false}",
                  0, NULL, &s, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TEXT(s.platform.name, "3x4-free");
    CHECK_TRUE(s.platform.n_nodes == 3 && s.platform.gpus_per_node == 4 && s.platform.nvlink_domain == 4 &&
               *s.platform.path == '\0');
    CHECK_TRUE(s.platform.nvlink_bytes_per_s == 450e9 && s.platform.nic_bytes_per_s == 50e9);
    CHECK_TRUE(s.platform.pcie_bytes_per_s == 64e9 && s.platform.host_memory_bytes == 1000 * 0x1p30);
    CHECK_TRUE(s.platform.keys.leaf == 2 && s.platform.keys.oversubscription == 2);
    CHECK_TRUE(s.platform.keys.topology == PLATFORM_RAIL && !s.platform.keys.contention);
    CHECK_TRUE(s.platform.n_uplinks == 0 && s.platform.n_spine_links == 8);
    CHECK_TRUE(s.platform.gpu_flop_per_s == s.device.peak_flop_per_s[PRECISION_BF16]);
    scenario_free(&s);
}

/* A word is the same as a mapping, and a size may follow the name. Keys beside it and --set change what the file says.
 */
TEST(platform__a_name_is_a_base_for_keys)
{
    static const struct {
        const char *line, *set, *name;
        int32_t nodes, gpus;
        double nic;
        bool contention;
    } cases[] = {
        {"platform: dgx", NULL, "dgx-4x8", 4, 8, 12.5e9, true},
        {"platform: {name: dgx}", NULL, "dgx-4x8", 4, 8, 12.5e9, true},
        {"platform: dgx-16x4", NULL, "dgx-16x4", 16, 4, 12.5e9, true},
        {"platform: dgx-2x8-free", NULL, "dgx-2x8-free", 2, 8, 12.5e9, false},
        {"platform: {name: dgx-2x8, nic: 200Gbps}", NULL, "dgx-2x8", 2, 8, 25e9, true},
        {"platform: dgx-2x8", "platform.nic=200Gbps", "dgx-2x8", 2, 8, 25e9, true},
        {"platform: dgx-2x8", "platform=hopper-2x8", "hopper-2x8", 2, 8, 50e9, true},
        {"platform: {nodes: 2, nic: 1GBps, nvlink: 2GBps, pcie: 1GBps, host_memory: 1GB}", "platform.name=dgx",
         "dgx-2x8", 2, 8, 1e9, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scenario s;
        struct error err;
        if (!CHECK_TRUE(read_with(cases[i].line, cases[i].set != NULL, &cases[i].set, &s, &err))) {
            CHECK_TEXT(err.text, "");
            continue;
        }
        CHECK_TEXT(s.platform.name, cases[i].name);
        CHECK_TRUE(s.platform.n_nodes == cases[i].nodes && s.platform.gpus_per_node == cases[i].gpus);
        CHECK_TRUE(s.platform.nic_bytes_per_s == cases[i].nic);
        CHECK_EQUAL(s.platform.keys.contention, cases[i].contention);
        scenario_free(&s);
    }
}

TEST(platform__what_is_not_given_is_the_devices)
{
    const struct platform_keys keys = {
        .nodes = 2, .gpus_per_node = 8, .leaf = 32, .oversubscription = 1, .contention = true, .nic_bytes_per_s = 1e9};
    struct platform platform, same, other;
    struct error err = {0};
    CHECK_TRUE(platform_from_keys(&keys, &device, &platform, &err));
    CHECK_TRUE(platform.nvlink_bytes_per_s == 450e9 && platform.keys.nvlink_bytes_per_s == 450e9);
    CHECK_TRUE(platform.nic_bytes_per_s == 1e9 && platform.pcie_bytes_per_s == 64e9);
    CHECK_TRUE(platform.host_memory_bytes == 2e12 && platform.gpu_flop_per_s == 1e15);
    struct device silent = device;
    silent.node_nic_bytes_per_s = silent.nvlink_bytes_per_s = 0;
    CHECK_TRUE(!platform_from_keys(&keys, &silent, &same, &err));
    CHECK_TEXT(err.text, "platform.nvlink: is required, since the file of device hand does not give it either");
    err = (struct error){0};
    struct platform_keys changed = keys, given = platform.keys;
    changed.leaf = 16;
    CHECK_TRUE(platform_from_keys(&given, &silent, &same, &err) && platform_from_keys(&changed, &device, &other, &err));
    CHECK_TRUE(same.hash == platform.hash && other.hash != platform.hash);
}

/* The resolved text holds the defaults that were used. It reads back to the same bits and text. */
TEST(platform__the_resolved_text_reads_back)
{
    static const char *const lines[] = {
        "platform: dgx-2x8", "platform: {name: dgx, oversubscription: 1.5}",
        "platform: {nodes: 2, nvlink: 1GBps, nic: 2GBps, pcie: 3GBps, host_memory: 7GB}"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct scenario s, again;
        struct error err;
        CHECK_TRUE(read_with(lines[i], 0, NULL, &s, &err));
        char *text = scenario_text(&s);
        CHECK_TRUE(strstr(text, i == 2 ? "nic: 2e+09\n" : "nic: 1.25e+10\n") != NULL);
        CHECK_TRUE(scenario_read(fixture_write("platform_keys/again.yaml", text), 0, NULL, &again, &err));
        CHECK_TEXT(err.text, "");
        char *text_again = scenario_text(&again);
        CHECK_TEXT(text_again, text);
        CHECK_TRUE(again.platform.hash == s.platform.hash);
        CHECK_TEXT(again.platform.name, s.platform.name);
        free(text);
        free(text_again);
        scenario_free(&s);
        scenario_free(&again);
    }
}

TEST(platform__wrong_keys_are_refused)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"", "run.yaml:1:1: platform: is required (the cluster); allowed: a name of `slimsim list platforms`"},
        {"platform:", "platform: is required"},
        {"platform: ''", "run.yaml:3:11: platform: '' is empty"},
        {"platform: [a]", "run.yaml:3:11: platform: expected a mapping of keys, found a list"},
        {"platform: hoper-16x8",
         "run.yaml:3:11: platform: there is no platform 'hoper'; did you mean 'hopper'? available: dgx, "
         "hopper, or the path of a file that ends in .yaml, or .xml; a name may end in a size: hopper-16x8"},
        {"platform: hopper-0x8", "platform: there is no platform 'hopper-0x8'"},
        {"platform: hopper-16x8x2", "platform: there is no platform 'hopper-16x8x2'"},
        {"platform: hopper-016x8", "platform: there is no platform 'hopper-016x8'"},
        {"platform: hopper-9999999999999999999999x8",
         "platform: there is no platform 'hopper-9999999999999999999999x8'"},
        {"platform: ./absent.yaml", "absent.yaml: cannot be read: No such file"},
        {"platform: {nodes: 2, nik: 1GBps}", "run.yaml:3:22: platform.nik: unknown key; did you mean 'nic'?"},
        {"platform: {nodes: 2.5}", "platform.nodes: '2.5' is not a whole number"},
        {"platform: {name: dgx, nic: 4Gbit/s}", NULL},
        {"platform: {name: dgx, nic: 400}",
         "run.yaml:3:28: platform.nic: '400' is below 1 MB/s; allowed: a number with its unit (400Gbps "
         "= "
         "400Gb/s = 400Gbit/s, 50GBps = 50GB/s or 46GiB/s, also with k, M or T, or bytes/s such as 5e10), 0 to 1"},
        {"platform: {name: dgx, nic: 400G}", "platform.nic: '400G' has no known unit of bandwidth"},
        {"platform: {name: dgx, nic: 4Gb}", "platform.nic: '4Gb' has no known unit of bandwidth"},
        {"platform: {name: dgx, nic: 4KB/s}", "platform.nic: '4KB/s' may mean 1000 or 1024"},
        {"platform: {name: dgx, nic: fast}", "platform.nic: 'fast' is not a number"},
        {"platform: {name: dgx, nic: -4Gbps}", "platform.nic: '-4Gbps' is out of range"},
        {"platform: {name: dgx, pcie: 7Mbps}", "run.yaml:3:29: platform.pcie: '7Mbps' is below 1 MB/s"},
        {"platform: {name: dgx, host_memory: 0.5}",
         "run.yaml:3:11: platform.host_memory: 0.5 is out of range; allowed: at least 1"},
        {"platform: {name: dgx, oversubscription: 0.5}", "platform.oversubscription: '0.5' is out of range"},
        {"platform: {name: dgx, topology: torus}",
         "platform.topology: 'torus' is not known; allowed: fat-tree, rail, "},
        {"platform: {name: dgx, leaf: -1}", "platform.leaf: '-1' is out of range"},
        {"platform: {nic: 4GBps}", "run.yaml:3:11: platform.nodes: is required if no file gives it"},
        {"platform: {nodes: 2}", "platform.nic: is required, since the file of device h800 does not give it either"},
        {"platform: {name: dgx, nodes: 5000, leaf: 2, topology: dragonfly}",
         "platform.leaf: 2 divides 5000 nodes into 2500 groups of a dragonfly; allowed: at most 1024 groups"},
        {"platform: {name: dgx, topology: rail}\nfaults: [{kind: uplink, nodes: [0], factor: 2}]",
         "platform dgx-4x8 has no links pt<node>_u and _d, which kind uplink slows down; allowed: topology fat-tree or "
         "dragonfly"},
        {"platform: {name: dgx, topology: dragonfly}\nfaults: [{kind: spine, leaves: [0], factor: 2}]",
         "platform dgx-4x8 has no links up<leaf>_u and _d, which kind spine slows down; allowed: topology fat-tree or "
         "rail "
         "with more nodes than platform.leaf"},
        {"platform: {name: ./own.xml, nic: 4GBps}",
         "run.yaml:3:29: platform.nic: is not allowed beside an XML file (platform.name), which describes the whole "
         "cluster; leave this key out"},
    };
    fixture_data("platform_keys");
    fixture_write("platform_keys/own.xml", "<platform/>");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scenario s;
        struct error err;
        CHECK_EQUAL(read_with(cases[i].line, 0, NULL, &s, &err), cases[i].message == NULL);
        CHECK_CONTAINS(err.text, cases[i].message != NULL ? cases[i].message : "");
        scenario_free(&s);
    }
}

/* A user's file is named by its path, and its errors have its lines. */
TEST(platform__a_file_of_the_users_is_read)
{
    struct scenario s;
    struct error err;
    fixture_data("platform_keys");
    fixture_write("platform_keys/lab.yaml", "nodes: 2\nnvlink: 1GBps\nnic: 2GBps\npcie: 3GBps\nhost_memory: 7GB\n");
    CHECK_TRUE(read_with("platform: lab.yaml", 0, NULL, &s, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TEXT(s.platform.name, "lab-2x8");
    CHECK_TRUE(s.platform.pcie_bytes_per_s == 3e9 && *s.platform.keys.name == '/');
    scenario_free(&s);
    fixture_write("platform_keys/lab.yaml", "nodes: 2\nnvlink: 1GBps\nnick: 2GBps\n");
    CHECK_TRUE(!read_with("platform: lab.yaml", 0, NULL, &s, &err));
    CHECK_CONTAINS(err.text, "lab.yaml:3:1: nick: unknown key; did you mean 'nic'?");
}

/* Every shipped file gives all values except the GPU's, with their sources. */
TEST(platform__shipped_files_name_their_sources)
{
    static const char *const names[] = {"hopper", "h100", "a800", "a100n400"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct platform_keys keys;
        struct error err = {0};
        CHECK_TRUE(platform_keys_of_name(SLIMSIM_SOURCE_DIR, names[i], &keys, &err));
        CHECK_TEXT(err.text, "");
        CHECK_TRUE(keys.nodes > 0 && keys.nvlink_bytes_per_s > 0 && keys.nic_bytes_per_s > 0);
        CHECK_TRUE(keys.pcie_bytes_per_s > 0 && keys.host_memory_bytes > 0 && *keys.source != '\0');
    }
}
