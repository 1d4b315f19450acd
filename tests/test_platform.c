/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which GPUs of a platform share a node, an NVLink domain and a server. They count the seconds of
 * links that GPUs share: NVLink over several nodes, PCIe without NVLink, and NICs. */
#include "scenario/platform.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "hand_cost.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "harness.h"
#include "scenario/faults.h"
#include "scenario/platform_file.h"
#include "scenario/platform_keys.h"
#include "scenario_fixture.h"

/* GPUs 0 to 3 are node 0 and GPUs 4 to 7 are node 1. Both nodes are domain 0. */
TEST(nvlink_domain__joins_two_nodes)
{
    const struct platform *rack = hand_rack_setting()->platform;
    CHECK_EQUAL(platform_nvlink_domain(rack), 8);
    CHECK_EQUAL(platform_node_of(rack, 3), 0);
    CHECK_EQUAL(platform_node_of(rack, 4), 1);
    CHECK_EQUAL(platform_node_of(rack, 9), 2);
    CHECK_EQUAL(platform_gpu_in_node(rack, 7), 3);
    CHECK_EQUAL(platform_gpu_in_node(rack, 9), 1);
    CHECK_EQUAL(platform_domain_of(rack, 7), 0);
    CHECK_EQUAL(platform_domain_of(rack, 8), 1);
    CHECK_TRUE(platform_same_domain(rack, 3, 4) && platform_same_domain(rack, 0, 7));
    CHECK_TRUE(!platform_same_domain(rack, 7, 8) && !platform_same_domain(rack, 8, 0));
}

/* Six GPUs train: four on node 0 and two on node 1. A server has the GPUs of a node, although NVLink joins two. */
TEST(servers__and_hosts_are_nodes_and_no_domains)
{
    const struct platform *rack = hand_rack_setting()->platform;
    CHECK_EQUAL(platform_gpus_in_use(rack, 0, 6), 4);
    CHECK_EQUAL(platform_gpus_in_use(rack, 1, 6), 2);
    CHECK_EQUAL(platform_gpus_in_use(rack, 0, 3), 3);
    CHECK_EQUAL(platform_gpus_per_server(rack), 4);
}

TEST(nvlink_domain__must_not_be_missing)
{
    const struct platform missing = {.n_nodes = 2, .gpus_per_node = 8};
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr); /* CHECK says there why it aborts */
        _exit(platform_same_domain(&missing, 0, 1));
    }
    CHECK_TRUE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* A rack has 18 nodes of 4 GPUs. An all-reduce of 144 bytes over its 72 GPUs sends 2 x 71/72 x 144 by NVLink of 10 B/s
 * at half efficiency, after 2 + 71/2 s. No NIC sends. The ring of two racks has 72 rails of 20 B/s. */
TEST(nvlink_domain__of_a_rack_needs_no_nic)
{
    struct device device = hand_device;
    struct platform rack = hand_links;
    struct cost_setting setting = hand_toy_setting();
    rack.gpus_per_node = 4;
    rack.n_nodes = 36;
    rack.nvlink_domain = 72;
    device.collective[DEVICE_ALL_REDUCE] = (struct device_collective){.latency_s = 2, .step_s = 0.5, .efficiency = 0.5};
    setting.platform = &rack;
    setting.device = &device;
    setting.tensor = 1;
    CHECK_EQUAL(platform_nodes_per_domain(&rack), 18);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_REDUCE, 144, 72, 72), 37.5 + 284 / 5.0, 1e-14);
    CHECK_TRUE(cost_of_rails(&setting, DEVICE_ALL_REDUCE, COST_NIC, 144, 72, 72).duration_s == 0);
    CHECK_EQUAL(cost_ranks_each(&setting, 144), 72);
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_ALL_REDUCE, COST_NIC, 144, 144, 72).duration_s, 286.0 / 72 / 20, 1e-14);
    setting.tensor = 72;
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_REDUCE, 144, 72), 37.5 + 284 / 5.0, 1e-14);
}

/* Make a node of 8 GPUs without NVLink: PCIe of 40 B/s, two GPUs a switch, four a socket, 16 B/s between sockets. */
static struct platform pcie_node(void)
{
    struct platform node = hand_links;
    node.nvlink_bytes_per_s = 0;
    node.gpus_per_pcie_switch = 2;
    node.gpus_per_socket = 4;
    node.numa_bytes_per_s = 16;
    node.contention = true;
    return node;
}

/* An all-reduce of 80 bytes over 8 GPUs is 14 messages of 1 s and 140 bytes at half of 16 B/s. Over the 4 GPUs of a
 * socket it is 6 messages and 120 bytes at half of 40. With TP 2, two rings cross switches and sockets at once. In an
 * all-to-all 4 GPUs each send 4/7 of their 70 bytes to the other socket. */
TEST(pcie__a_ring_is_as_fast_as_its_slowest_hop)
{
    struct device device = hand_device;
    struct platform node = pcie_node();
    struct cost_setting setting = hand_toy_setting();
    setting.platform = &node;
    setting.device = &device;
    setting.tensor = 1;
    device.pcie = (struct device_link){.latency_s = 1, .efficiency = 0.5};
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_REDUCE, 80, 8, 8), 14 + 140 / 8.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_REDUCE, 80, 4, 4), 6 + 120 / 20.0, 1e-14);
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_TO_ALL, 80, 8), 7 + 70 / (0.5 * 16 / (4 * 4 / 7.0)), 1e-14);
    CHECK_TRUE(cost_collective_extrapolates(&setting, DEVICE_ALL_REDUCE, 80, 8));
    setting.tensor = 2;
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 80, 4, 4), 3 + 60 / 4.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 80, 2, 2), 1 + 40 / 10.0, 1e-14);   /* two switches */
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_REDUCE_SCATTER, 80, 2), 1 + 40 / 20.0, 1e-14); /* TP: one switch */
    CHECK_CLOSE(cost_of_transfer(&setting, COST_NVLINK, 80, 1).duration_s, 1 + 80 / 20.0, 1e-14);
    CHECK_CLOSE(cost_of_transfer(&setting, COST_PCIE, 80, 1).duration_s, 1 + 80 / 10.0, 1e-14);
    node.contention = false;
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 80, 4, 4), 3 + 60 / 8.0, 1e-14);
    CHECK_CLOSE(cost_of_transfer(&setting, COST_PCIE, 80, 1).duration_s, 1 + 80 / 20.0, 1e-14);
}

/* Two nodes of 8 GPUs have 2 NICs of 20 B/s each. An all-reduce of 160 bytes over 16 GPUs sends 300 bytes: 150 by each
 * NIC, and all 300 by NVLink of 10 B/s from GPUs without a rail, in two collectives of 1 s. With TP 4 two GPUs of a
 * group are on different NICs, and four groups send 120 by each NIC at once. */
TEST(shared_nic__has_one_rail)
{
    struct platform shared = hand_links;
    struct cost_setting setting = hand_toy_setting();
    shared.gpus_per_nic = 4;
    shared.contention = true;
    setting.platform = &shared;
    setting.tensor = 1;
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_ALL_REDUCE, COST_NIC, 160, 16, 8).duration_s, 150 / 20.0, 1e-14);
    CHECK_CLOSE(cost_without_rail(&setting, DEVICE_ALL_REDUCE, 160, 16, 8).duration_s, 2 + 300 / 10.0, 1e-14);
    CHECK_CLOSE(cost_uneven_rails_s(&setting, DEVICE_ALL_REDUCE, 160, 16, 8, 8), 32.0, 1e-14);
    CHECK_TRUE(cost_of_transfer(&setting, COST_NIC, 80, 1).bytes_per_s == 20);
    setting.tensor = 4;
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_ALL_REDUCE, COST_NIC, 160, 4, 2).duration_s, 120 / 5.0, 1e-14);
    CHECK_TRUE(cost_of_transfer(&setting, COST_NIC, 80, 1).bytes_per_s == 5);
    shared.contention = false;
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_ALL_REDUCE, COST_NIC, 160, 4, 2).duration_s, 120 / 20.0, 1e-14);
    const struct cost_group each[] = {{8, 1}, {4, 1}, {3, 1}, {2, 4}, {1, 8}, {4, 2}};
    const int32_t rails[] = {2, 1, 1, 2, 1, 2};
    for (int i = 0; i < 6; i++)
        CHECK_EQUAL(cost_n_rails(&shared, each[i]), rails[i]);
}

/* Keys of a cluster with the links of hand_setting. */
static struct platform_keys keys_of(int64_t nodes, int64_t gpus)
{
    return (struct platform_keys){.nodes = nodes,
                                  .gpus_per_node = gpus,
                                  .nvlink_bytes_per_s = 200e9,
                                  .nic_bytes_per_s = 50e9,
                                  .pcie_bytes_per_s = 25e9,
                                  .host_memory_bytes = 1e12,
                                  .leaf = 36,
                                  .oversubscription = 1,
                                  .contention = true};
}

static struct platform built(const struct platform_keys *keys)
{
    struct platform platform = {0};
    struct error err = {0};
    CHECK_TRUE(platform_from_keys(keys, hand_setting()->device, &platform, &err));
    CHECK_TEXT(err.text, "");
    return platform;
}

/* Two racks of 18 nodes are more than 32, but a leaf switch of 32 would cut the second one. */
TEST(leaf__is_a_multiple_of_the_nodes_of_a_domain)
{
    struct platform_keys keys = keys_of(36, 4);
    keys.leaf = 0;
    CHECK_EQUAL(built(&keys).keys.leaf, 32);
    keys.nvlink_domain = 72;
    CHECK_EQUAL(built(&keys).keys.leaf, 36);
    keys.nvlink_domain = 2;
    CHECK_EQUAL(built(&keys).keys.leaf, 32);
}

static double all_reduce_s(const struct dag *dag, const struct timeline *timeline)
{
    double first_s = INFINITY, last_s = 0;
    for (int32_t t = 0; t < dag->n_tasks; t++)
        if (dag->tasks[t].kind == DAG_SEND && dag->tasks[t].purpose == DAG_ALL_REDUCE) {
            first_s = fmin(first_s, timeline->start_s[t]);
            last_s = fmax(last_s, timeline->finish_s[t]);
        }
    return last_s - first_s;
}

/* Check the time of an all-reduce of all gradients over all GPUs, on the critical path and on SimGrid. `seconds` are of
 * latency and of each byte of the gradients.
 * @return SENDs on rails */
static int32_t check_all_reduce(const struct platform_keys *keys, const double seconds[2])
{
    struct platform platform = built(keys);
    struct cost_setting setting = *hand_setting();
    struct plan plan;
    struct error err = {0};
    struct timeline executed = {0};
    int32_t n_rails = 0;
    setting.platform = &platform;
    hand_options(&setting,
                 &(struct scenario_plan){.cp = 1, .dp = platform_n_gpus(&platform), .sharding = SCENARIO_UNSHARDED});
    hand_whole_samples(&plan, platform_n_gpus(&platform), 1, 16);
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
    double bytes = 4 * hand_stage_parameters(setting.model, 1, (int32_t)setting.model->layers, true, true);
    struct timeline path = hand_longest_path(&dag);
    CHECK_CLOSE(all_reduce_s(&dag, &path), seconds[0] + seconds[1] * bytes, 1e-9);
    CHECK_TRUE(hand_execute(&dag, &platform, &executed, &err));
    CHECK_TEXT(err.text, "");
    CHECK_CLOSE(all_reduce_s(&dag, &executed), seconds[0] + seconds[1] * bytes, 1e-9);
    for (int32_t t = 0; t < dag.n_tasks; t++)
        n_rails += dag.tasks[t].purpose == DAG_ALL_REDUCE && dag.tasks[t].stream % DAG_N_STREAMS == DAG_STREAM_RAIL;
    timeline_free(&path);
    timeline_free(&executed);
    dag_free(&dag);
    plan_free(&plan);
    return n_rails;
}

/* 72 GPUs are a domain of 18 nodes. They send 2 x 71/72 of the gradients by NVLink. */
TEST(all_reduce__in_a_rack_takes_nvlink)
{
    struct platform_keys keys = keys_of(18, 4);
    keys.nvlink_domain = 72;
    CHECK_EQUAL(check_all_reduce(&keys, (double[]){2e-6, 2 * 71 / 72.0 / 200e9}), 0);
}

/* 8 GPUs on 4 switches and 2 sockets send 7/4 of the gradients in 14 messages, at the 20 GB/s between the sockets. With
 * one socket it is at the 25 GB/s of PCIe. */
TEST(all_reduce__over_pcie_takes_its_slowest_hop)
{
    struct platform_keys keys = keys_of(1, 8);
    keys.nvlink_bytes_per_s = NAN;
    keys.numa_bytes_per_s = 20e9;
    CHECK_EQUAL(check_all_reduce(&keys, (double[]){14 * 4e-6, 7 / 4.0 / 20e9}), 0);
    keys.sockets = 1;
    CHECK_EQUAL(check_all_reduce(&keys, (double[]){14 * 4e-6, 7 / 4.0 / 25e9}), 0);
}

/* Two NICs of each node carry half of 2 x 15/16 of the gradients each. */
TEST(all_reduce__over_shared_nics_has_a_ring_for_each)
{
    struct platform_keys keys = keys_of(2, 8);
    keys.nics_per_node = 2;
    CHECK_EQUAL(check_all_reduce(&keys, (double[]){4e-6, 15 / 16.0 / 50e9}), 4);
    keys.topology = PLATFORM_RAIL;
    keys.leaf = 1;
    CHECK_EQUAL(check_all_reduce(&keys, (double[]){4e-6, 15 / 16.0 / 50e9}), 4);
}

/* Check what each of n transfers of 1 GB takes that start at once. Each has its from and to, a to of -1 is a host's
 * memory. */
static void check_together(const struct platform_keys *keys, int32_t n, int32_t ends[][2], double seconds)
{
    struct platform platform = built(keys);
    struct dag dag = hand_dag(platform_n_gpus(&platform), 16, 0);
    struct timeline timeline = {0};
    struct error err = {0};
    for (int32_t i = 0; i < n; i++)
        hand_send(&dag, ends[i][0], DAG_STREAM_SEND_FORWARD, ends[i][1], hand_transfer(0, 1e9, 1e12));
    CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err));
    CHECK_TEXT(err.text, "");
    for (int32_t t = 0; t < n && timeline.finish_s != NULL; t++)
        CHECK_CLOSE(timeline.finish_s[t], seconds, 1e-9);
    timeline_free(&timeline);
    dag_free(&dag);
}

/* GPUs 0 and 1 share an uplink of 25 GB/s to other switches and to the host, and GPUs 0 to 3 a link of 20 GB/s to the
 * other socket. Four GPUs share a NIC of 50 GB/s, which is at the switch of the first of them. */
TEST(pcie__switches_and_sockets_are_shared)
{
    struct platform_keys keys = keys_of(2, 8);
    keys.nvlink_bytes_per_s = NAN;
    keys.numa_bytes_per_s = 20e9;
    keys.nics_per_node = 2;
    check_together(&keys, 2, (int32_t[][2]){{0, 1}, {1, 0}}, 1 / 25.0);
    check_together(&keys, 2, (int32_t[][2]){{0, 2}, {3, 1}}, 1 / 25.0);
    check_together(&keys, 2, (int32_t[][2]){{0, 2}, {1, 3}}, 2 / 25.0);
    check_together(&keys, 2, (int32_t[][2]){{0, -1}, {1, -1}}, 2 / 25.0);
    check_together(&keys, 1, (int32_t[][2]){{0, 4}}, 1 / 20.0);
    check_together(&keys, 2, (int32_t[][2]){{0, 4}, {2, 6}}, 2 / 20.0);
    check_together(&keys, 1, (int32_t[][2]){{0, 8}}, 1 / 25.0);
    check_together(&keys, 4, (int32_t[][2]){{0, 8}, {1, 9}, {4, 12}, {5, 13}}, 1 / 25.0);
    check_together(&keys, 2, (int32_t[][2]){{2, 8}, {3, 9}}, 2 / 25.0); /* both by the uplink of their switch */
    keys.contention = false;
    check_together(&keys, 2, (int32_t[][2]){{0, 2}, {1, 3}}, 1 / 25.0);
}

/* GPUs of a domain of two nodes send by NVLink. Others take NICs, each node's own port. */
TEST(nvlink_domain__joins_nodes_on_simgrid)
{
    for (int32_t topology = PLATFORM_FAT_TREE; topology <= PLATFORM_DRAGONFLY; topology++) {
        struct platform_keys keys = keys_of(8, 4);
        keys.nvlink_domain = 8;
        keys.topology = topology;
        keys.leaf = 4;
        check_together(&keys, 2, (int32_t[][2]){{0, 5}, {4, 1}}, 1 / 200.0);
        check_together(&keys, 4, (int32_t[][2]){{0, 8}, {1, 9}, {4, 12}, {5, 13}}, 1 / 50.0);
        check_together(&keys, 1, (int32_t[][2]){{0, 16}}, 1 / 50.0);
        keys.nics_per_node = 2;
        check_together(&keys, 4, (int32_t[][2]){{0, 8}, {1, 9}, {4, 12}, {5, 13}}, 2 / 50.0);
    }
}

/* The NIC of GPUs 4 to 7 has half its bandwidth, whichever of them is named, and however many. */
TEST(shared_nic__is_slow_once)
{
    struct platform_keys keys = keys_of(2, 8);
    keys.nics_per_node = 2;
    struct platform platform = built(&keys);
    const struct fault faults_of_nics[] = {{.kind = FAULT_NIC, .gpus = {1, {5}}, .factor = 2},
                                           {.kind = FAULT_NIC, .gpus = {3, {4, 5, 6}}, .factor = 2}};
    for (int i = 0; i < 2; i++) {
        struct faults faults = faults_of(&faults_of_nics[i], 1, &platform);
        struct dag dag = hand_dag(16, 2, 0);
        struct timeline timeline = {0};
        struct error err = {0};
        dag.faults = &faults;
        hand_send(&dag, 4, DAG_STREAM_SEND_FORWARD, 12, hand_transfer(0, 1e9, 1e12));
        hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, 1e9, 1e12));
        CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err));
        CHECK_CLOSE(timeline.finish_s[0], 2 / 50.0, 1e-9);
        CHECK_CLOSE(timeline.finish_s[1], 1 / 50.0, 1e-9);
        CHECK_TRUE(faults_factor(&faults, FAULT_NIC, 7) == 2 && faults_factor(&faults, FAULT_NIC, 3) == 1);
        timeline_free(&timeline);
        dag_free(&dag);
        faults_free(&faults);
    }
}

/* The XML reads back as what the keys say. */
TEST(platform_xml__tells_who_shares_links)
{
    for (int i = 0; i < 4; i++) {
        struct platform_keys keys = keys_of(4, 8);
        keys.nvlink_domain = i == 0 ? 16 : 0;
        keys.nics_per_node = i == 1 ? 16 : 2;
        keys.contention = i != 2;
        keys.nvlink_bytes_per_s = i == 3 ? NAN : 200e9;
        keys.numa_bytes_per_s = i == 3 ? 20e9 : 0;
        struct platform read, written = built(&keys);
        struct error err = {0};
        char *text = hand_platform_xml(&written);
        CHECK_TRUE(platform_file_read(fixture_write("links.xml", text), &read, &err));
        CHECK_TEXT(err.text, "");
        CHECK_TRUE(read.nvlink_domain == written.nvlink_domain && read.gpus_per_nic == written.gpus_per_nic);
        CHECK_TRUE(read.gpus_per_pcie_switch == written.gpus_per_pcie_switch);
        CHECK_TRUE(read.gpus_per_socket == written.gpus_per_socket && read.contention == written.contention);
        CHECK_TRUE(read.nvlink_bytes_per_s == written.nvlink_bytes_per_s);
        CHECK_TRUE(read.nic_bytes_per_s == written.nic_bytes_per_s &&
                   read.numa_bytes_per_s == written.numa_bytes_per_s);
        CHECK_TRUE(read.nic_bytes_per_s == (i == 1 ? 100e9 : 50e9));
        free(text);
    }
}

/* Properties that no machine can have are refused. */
TEST(platform_file__checks_who_shares_links)
{
    static const char *const cases[][3] = {
        {"nvlink_domain\" value=\"16", "nvlink_domain\" value=\"12",
         "nvlink_domain 12 does not divide the 8 GPUs of a node"},
        {"gpus_per_nic\" value=\"4", "gpus_per_nic\" value=\"4.5", "gpus_per_nic 4.5 is no number of GPUs"},
        {"id=\"nvlink_domain", "id=\"gpus_per_pcie_switch", "gpus_per_pcie_switch 16 does not divide the 8 GPUs"},
        {"<prop id=\"gpus_per_nic\" value=\"4\"/>", "", "link ib0_2_u is missing"},
    };
    struct platform_keys keys = keys_of(2, 8);
    keys.nvlink_domain = 16;
    keys.nics_per_node = 2;
    struct platform read, written = built(&keys);
    char *text = hand_platform_xml(&written);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = {0};
        char *wrong = check_strdup(""), *rest = text;
        for (char *at; (at = strstr(rest, cases[i][0])) != NULL; rest = at + strlen(cases[i][0])) {
            char *longer = check_asprintf("%s%.*s%s", wrong, (int)(at - rest), rest, cases[i][1]);
            free(wrong);
            wrong = longer;
        }
        char *all = check_asprintf("%s%s", wrong, rest);
        CHECK_TRUE(!platform_file_read(fixture_write("wrong.xml", all), &read, &err));
        CHECK_CONTAINS(err.text, cases[i][2]);
        free(wrong);
        free(all);
    }
    free(text);
}

/* Each mistake is refused with what is allowed. The hash tells the keys apart. */
TEST(platform_keys__check_who_shares_links)
{
    static const struct {
        int64_t domain, nics, of_switch, sockets, leaf;
        bool none;
        int32_t topology;
        const char *message;
    } cases[] = {
        {12, 0, 0, 0, 36, false, 0,
         "platform.nvlink_domain: 12 does not divide the 8 GPUs of a node; allowed: a divisor or a multiple"},
        {0, 3, 0, 0, 36, false, 0, "platform.nics_per_node: 3 does not divide the 8 GPUs of a node"},
        {0, 0, 3, 0, 36, true, 0,
         "platform.gpus_per_pcie_switch: 3 does not divide the 8 GPUs of a node; allowed: a divisor"},
        {0, 0, 4, 4, 36, true, 0,
         "platform.sockets: 4 does not divide the 2 PCIe switches of a node; allowed: a divisor"},
        {0, 0, 0, 0, 36, true, 0, "platform.numa: is required, since the file of device"},
        {8, 0, 0, 1, 36, true, 0, "platform.nvlink_domain: needs NVLink, but platform.nvlink is none"},
        {0, 0, 2, 0, 36, false, 0, "gpus_per_pcie_switch, sockets and numa describe nodes without NVLink"},
        {24, 0, 0, 0, 4, false, 0,
         "platform.leaf: 4 nodes would cut the NVLink domain of 3 nodes; allowed: multiples of 3"},
        {0, 0, 0, 1, 36, true, PLATFORM_RAIL, "platform.topology: rail needs NVLink between all GPUs of a node"},
        {4, 0, 0, 0, 36, false, PLATFORM_RAIL, "platform.topology: rail needs NVLink between all GPUs of a node"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct platform_keys keys = keys_of(12, 8);
        struct platform platform;
        struct error err = {0};
        keys.nvlink_domain = cases[i].domain;
        keys.nics_per_node = cases[i].nics;
        keys.gpus_per_pcie_switch = cases[i].of_switch;
        keys.sockets = cases[i].sockets;
        keys.leaf = cases[i].leaf;
        keys.topology = cases[i].topology;
        keys.nvlink_bytes_per_s = cases[i].none ? NAN : 200e9;
        CHECK_TRUE(!platform_from_keys(&keys, hand_setting()->device, &platform, &err));
        CHECK_CONTAINS(err.text, cases[i].message);
    }
    struct platform_keys keys = keys_of(4, 8), rack = keys, shared = keys;
    rack.nvlink_domain = 16;
    shared.nics_per_node = 2;
    CHECK_TRUE(built(&keys).hash != built(&rack).hash && built(&keys).hash != built(&shared).hash);
}
