/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests run transfers on the XML of every topology. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "execute/execute.h"
#include "hand_dag.h"
#include "harness.h"
#include "scenario/faults.h"
#include "scenario/platform_file.h"
#include "scenario/platform_keys.h"
#include "scenario_fixture.h"

static const struct built {
    const char *name;
    int32_t n_nodes;
    bool free;
} built[] = {
    {"hopper-1x8", 1, false},     {"hopper-2x8", 2, false},       {"hopper-16x8", 16, false},
    {"hopper-32x8", 32, false},   {"hopper-128x8", 128, false},   {"hopper-512x8", 512, false},
    {"hopper-2x8-free", 2, true}, {"hopper-16x8-free", 16, true}, {"hopper-32x8-free", 32, true},
};
enum { N_BUILT = sizeof built / sizeof built[0] };

static const double giga = 1e9; /* bytes sent by each transfer */

/* Run the graph. A failure makes the test fail. */
static bool run(const struct dag *dag, const struct built *platform, struct timeline *timeline)
{
    struct platform used = hand_platform(platform->name);
    struct error err = {0};
    bool ok = hand_execute(dag, &used, timeline, &err);
    CHECK_TEXT(err.text, "");
    return ok;
}

/* Append a transfer from GPU to GPU (-1: its host's memory) that begins after all before it. */
static void append_route(struct dag *dag, int32_t from, int32_t to, double bytes_per_s)
{
    int32_t send = hand_send(dag, 0, DAG_STREAM_SEND_FORWARD, to, hand_transfer(0, giga, bytes_per_s));
    dag->tasks[send].from_rank = from;
}

/* 1 GB is sent by itself from the first and the last node. It goes by NVLink inside a node, by the NIC between nodes
 * (next node, farthest node, same and other rail), and by PCIe to and from the host. */
TEST(platform_xml__gives_routes_their_bandwidths)
{
    for (int32_t i = 0; i < N_BUILT; i++) {
        struct dag dag = hand_dag(1, 16, 0);
        int32_t last = 8 * built[i].n_nodes - 8; /* first GPU of the last node */
        append_route(&dag, 0, 1, 200e9);
        append_route(&dag, last + 7, last, 200e9);
        append_route(&dag, last + 3, -1, 64e9);
        append_route(&dag, -1, last + 3, 64e9);
        if (last > 0) {
            append_route(&dag, 2, 8, 50e9);
            append_route(&dag, 3, last + 3, 50e9);
            append_route(&dag, last + 3, 4, 50e9);
        }
        struct timeline timeline = {0};
        if (run(&dag, &built[i], &timeline))
            for (int32_t t = 0; t < dag.n_tasks; t++)
                CHECK_CLOSE(timeline.finish_s[t] - timeline.start_s[t], dag.duration_s[t], 1e-12);
        dag_free(&dag);
        timeline_free(&timeline);
    }
}

/* SimGrid's own tool finds all routes of a file. Its graph has a vertex for the last NIC. */
TEST(platform_xml__opens_in_simgrids_graphicator)
{
    for (int32_t i = 0; i < N_BUILT; i++) {
        struct platform platform = hand_platform_file(built[i].name, "graphicator.xml");
        char command[4096], line[4096], nic[64], dot[1024];
        bool found = false;
        snprintf(dot, sizeof dot, "%s", harness_path("platform.dot"));
        snprintf(nic, sizeof nic, "\"ib%d_7_u\"", built[i].n_nodes - 1);
        snprintf(command, sizeof command, "simgrid-graphicator '%s' '%s' >/dev/null 2>&1", platform.path, dot);
        CHECK_EQUAL(system(command), 0);
        FILE *file = fopen(dot, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            found = found || strstr(line, nic) != NULL;
        CHECK_TRUE(found);
        if (file != NULL)
            fclose(file);
    }
}

/* 8 GPUs of node 0 send to those of the last node on rails, while the other direction does so too. Ports and uplinks
 * are as wide as the NICs, so no transfer is slowed down. */
TEST(platform_xml__lets_all_nics_run_at_full_speed)
{
    for (int32_t i = 1; i < N_BUILT; i++) {
        struct dag dag = hand_dag(8 * built[i].n_nodes, 16, 0);
        int32_t last = 8 * built[i].n_nodes - 8;
        for (int32_t gpu = 0; gpu < 8; gpu++) {
            hand_send(&dag, gpu, DAG_STREAM_SEND_FORWARD, last + gpu, hand_transfer(0, giga, 50e9));
            hand_send(&dag, last + gpu, DAG_STREAM_SEND_BACKWARD, gpu, hand_transfer(0, giga, 50e9));
        }
        struct timeline timeline = {0};
        if (run(&dag, &built[i], &timeline))
            for (int32_t t = 0; t < dag.n_tasks; t++)
                CHECK_CLOSE(timeline.finish_s[t], 0.02, 1e-12);
        dag_free(&dag);
        timeline_free(&timeline);
    }
}

/* All GPUs of node 0 except GPU 0 send to GPU 0, and to their host's memory. 7 transfers share NVLink into GPU 0, and
 * each GPU has its own PCIe link. On a free platform nothing is shared. */
TEST(platform_xml__shares_links_unless_free)
{
    for (int32_t i = 0; i < N_BUILT; i++) {
        struct dag dag = hand_dag(8, 14, 0);
        for (int32_t gpu = 1; gpu < 8; gpu++) {
            hand_send(&dag, gpu, DAG_STREAM_SEND_FORWARD, 0, hand_transfer(0, giga, 200e9));
            hand_send(&dag, gpu, DAG_STREAM_TO_HOST, -1, hand_transfer(0, giga, 64e9));
        }
        struct timeline timeline = {0};
        if (run(&dag, &built[i], &timeline))
            for (int32_t t = 0; t < dag.n_tasks; t++) {
                double flows = dag.tasks[t].to_rank == 0 && !built[i].free ? 7 : 1;
                CHECK_CLOSE(timeline.finish_s[t], flows * dag.duration_s[t], 1e-12);
            }
        dag_free(&dag);
        timeline_free(&timeline);
    }
}

/* Make a platform of these keys with numbers of the paper's cluster. */
static struct platform platform_of(int32_t topology, int64_t nodes, int64_t gpus, int64_t leaf, double oversubscription)
{
    const struct platform_keys keys = {.nodes = nodes,
                                       .gpus_per_node = gpus,
                                       .nvlink_bytes_per_s = 200e9,
                                       .nic_bytes_per_s = 50e9,
                                       .pcie_bytes_per_s = 64e9,
                                       .host_memory_bytes = 1e12,
                                       .leaf = leaf,
                                       .oversubscription = oversubscription,
                                       .topology = topology,
                                       .contention = true};
    const struct device device = {.name = "hand", .peak_flop_per_s = {1e15}};
    struct platform platform = {0};
    struct error err = {0};
    CHECK_TRUE(platform_from_keys(&keys, &device, &platform, &err));
    CHECK_TEXT(err.text, "");
    return platform;
}

/* Check the time of 1 GB sent at once from each GPU of `first` to `last` - 1 to the GPU with a number larger by
 * `shift`. */
static void check_shift(const struct platform *platform, int32_t first, int32_t last, int32_t shift, double seconds)
{
    struct dag dag = hand_dag(last, last - first, 0);
    for (int32_t gpu = first; gpu < last; gpu++)
        hand_send(&dag, gpu, DAG_STREAM_SEND_FORWARD, gpu + shift, hand_transfer(0, giga, 50e9));
    struct timeline timeline = {0};
    struct error err = {0};
    if (CHECK_TRUE(hand_execute(&dag, platform, &timeline, &err)))
        for (int32_t t = 0; t < dag.n_tasks; t++)
            CHECK_CLOSE(timeline.finish_s[t], seconds, 1e-12);
    CHECK_TEXT(err.text, "");
    dag_free(&dag);
    timeline_free(&timeline);
}

/* Return the makespan of 1 GB from each GPU to each GPU of another node, all at once. */
static double all_to_all_s(const struct platform *platform)
{
    int32_t n = platform_n_gpus(platform);
    struct dag dag = hand_dag(n * n, n * n, 0); /* each transfer has its own rank, so all start at once */
    for (int32_t from = 0; from < n; from++)
        for (int32_t to = 0; to < n; to++)
            if (!platform_same_domain(platform, from, to)) {
                int32_t send =
                    hand_send(&dag, from * n + to, DAG_STREAM_SEND_FORWARD, to, hand_transfer(0, giga, 50e9));
                dag.tasks[send].from_rank = from;
            }
    for (int32_t place = 0; place < dag.n_ranks; place++)
        dag.ranks[place].rank = place / n;
    struct timeline timeline = {0};
    struct error err = {0};
    CHECK_TRUE(hand_execute(&dag, platform, &timeline, &err));
    CHECK_TEXT(err.text, "");
    double seconds = timeline.makespan_s;
    dag_free(&dag);
    timeline_free(&timeline);
    return seconds;
}

/* 4 nodes have 4 GPUs each, and a leaf has 2 nodes. One half sends to the other half, so 8 GB cross, and 8 x 50 GB/s /
 * o lead from a leaf switch to the spine. All to all, a GPU sends 12 GB by its NIC, and a leaf sends 8 x 8 GB to the
 * spine. */
TEST(fat_tree__half_and_all_to_all_take_the_uplinks_time)
{
    for (double o = 1; o <= 4; o *= 2) {
        struct platform platform = platform_of(PLATFORM_FAT_TREE, 4, 4, 2, o);
        CHECK_TRUE(platform.n_uplinks == 4 && platform.n_spine_links == 2);
        check_shift(&platform, 0, 8, 8, 8 * giga / (400e9 / o));
        check_shift(&platform, 0, 4, 4, giga / 50e9);
        CHECK_CLOSE(all_to_all_s(&platform), fmax(12 * giga / 50e9, 64 * giga / (400e9 / o)), 1e-9);
    }
}

/* 6 nodes of 2 GPUs form 3 groups of 2 nodes. A group has 4 NICs, and 4 x 50 GB/s / o / 2 lead to each other group. 4
 * GB from a group to the next one share that link. All to all, 4 x 4 GB go between two groups, and 10 GB go by a NIC.
 */
TEST(dragonfly__half_and_all_to_all_take_the_time_of_links_between_groups)
{
    for (double o = 1; o <= 4; o *= 2) {
        struct platform platform = platform_of(PLATFORM_DRAGONFLY, 6, 2, 2, o);
        CHECK_TRUE(platform.n_uplinks == 6 && platform.n_spine_links == 0);
        check_shift(&platform, 0, 4, 4, 4 * giga / (100e9 / o));
        check_shift(&platform, 0, 4, 8, 4 * giga / (100e9 / o));
        check_shift(&platform, 0, 2, 2, giga / 50e9);
        CHECK_CLOSE(all_to_all_s(&platform), fmax(10 * giga / 50e9, 16 * giga / (100e9 / o)), 1e-9);
    }
}

/* 4 nodes of 4 GPUs form groups of 2 nodes. A rail's switch has 2 NICs, and 2 x 50 GB/s / o lead to the spine. On the
 * rails 8 GB cross from half to half, 2 GB on each. Inside a group nothing above the NICs is shared. All to all, 12 GB
 * go into a NIC. Out of it go 4 GB of its node to its number in the group, and 8 GB of its own to the other group. 16
 * GB go by a rail's uplink. */
TEST(rail__half_and_all_to_all_take_the_time_of_the_rails)
{
    for (double o = 1; o <= 4; o *= 2) {
        struct platform platform = platform_of(PLATFORM_RAIL, 4, 4, 2, o);
        CHECK_TRUE(platform.n_uplinks == 0 && platform.n_spine_links == 8);
        check_shift(&platform, 0, 8, 8, 2 * giga / (100e9 / o));
        check_shift(&platform, 0, 4, 4, giga / 50e9);
        CHECK_CLOSE(all_to_all_s(&platform), fmax(12 * giga / 50e9, 16 * giga / (100e9 / o)), 1e-9);
    }
}

/* GPUs 0 and 1 of node 0 send 1 GB to GPU 1 of two other nodes. In a group both take NIC 1, which lasts 40 ms. To other
 * groups each takes its own NIC, which lasts 20 ms. The same holds for a fat tree. */
TEST(rail__another_gpu_number_is_reached_by_nvlink_and_the_receivers_rail)
{
    for (int32_t i = 0; i < 3; i++) {
        struct platform platform = platform_of(i < 2 ? PLATFORM_RAIL : PLATFORM_FAT_TREE, 3, 2, i == 0 ? 3 : 1, 1);
        struct dag dag = hand_dag(2, 2, 0);
        hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 3, hand_transfer(0, giga, 50e9));
        hand_send(&dag, 1, DAG_STREAM_SEND_FORWARD, 5, hand_transfer(0, giga, 50e9));
        struct timeline timeline = {0};
        struct error err = {0};
        if (CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err)))
            for (int32_t t = 0; t < 2; t++)
                CHECK_CLOSE(timeline.finish_s[t], i == 0 ? 0.04 : 0.02, 1e-12);
        CHECK_TEXT(err.text, "");
        dag_free(&dag);
        timeline_free(&timeline);
    }
}

/* Inside a node of rails, NVLink connects GPUs and PCIe connects them to the host. Each transfer runs by itself. */
TEST(rail__transfers_inside_a_node_stay_there)
{
    struct platform platform = platform_of(PLATFORM_RAIL, 2, 4, 1, 1);
    struct dag dag = hand_dag(8, 16, 0);
    for (int32_t gpu = 0; gpu < 8; gpu++) {
        hand_send(&dag, gpu, DAG_STREAM_SEND_FORWARD, gpu ^ 1, hand_transfer(0, giga, 200e9));
        hand_send(&dag, gpu, DAG_STREAM_TO_HOST, -1, hand_transfer(0, giga, 64e9));
    }
    struct timeline timeline = {0};
    struct error err = {0};
    if (CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err)))
        for (int32_t t = 0; t < dag.n_tasks; t++)
            CHECK_CLOSE(timeline.finish_s[t], dag.duration_s[t], 1e-12);
    CHECK_TEXT(err.text, "");
    dag_free(&dag);
    timeline_free(&timeline);
}

/* One rank for the 4 GPUs of a node sends to a node of the other group. Each GPU has a switch of its own, with 2 x 50
 * GB/s / 2 to the spine. This carries the GPU's NIC, though not 4 of them. At an oversubscription of 4 it does not. */
TEST(rail__a_folded_group_crosses_a_switch_for_each_gpu)
{
    for (double o = 2; o <= 4; o *= 2) {
        struct platform platform = platform_of(PLATFORM_RAIL, 4, 4, 2, o);
        struct dag dag = hand_dag(1, 1, 0);
        struct timeline timeline = {0};
        struct error err = {0};
        dag.ranks[0].n_gpus = 4;
        hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, giga, 50e9));
        CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err) == (o == 2));
        CHECK_TRUE((strstr(err.text, "link up0_u above the NICs has 25 GB/s for 1 GPUs") != NULL) == (o == 4));
        dag_free(&dag);
        timeline_free(&timeline);
    }
}

/* The uplink of rail 0 of group 0 has a quarter of its 100 GB/s. GPU 0 crosses it to the other group, and GPU 1 does
 * not. */
TEST(rail__a_slow_spine_link_is_that_of_one_rail)
{
    struct platform platform = platform_of(PLATFORM_RAIL, 4, 4, 2, 1);
    struct fault fault = {.kind = FAULT_SPINE, .leaves = {1, {0}}, .factor = 4};
    struct faults faults = faults_of(&fault, 1, &platform);
    struct dag dag = hand_dag(2, 2, 0);
    struct timeline timeline = {0};
    struct error err = {0};
    dag.faults = &faults;
    hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, giga, 50e9));
    hand_send(&dag, 1, DAG_STREAM_SEND_FORWARD, 9, hand_transfer(0, giga, 50e9));
    CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err));
    CHECK_TEXT(err.text, "");
    CHECK_CLOSE(timeline.finish_s[0], 0.04, 1e-12);
    CHECK_CLOSE(timeline.finish_s[1], 0.02, 1e-12);
    dag_free(&dag);
    timeline_free(&timeline);
    faults_free(&faults);
}

/* The XML reads back as what the keys say, for users who change it. */
TEST(platform_xml__is_read_back_for_every_topology)
{
    for (int32_t topology = PLATFORM_FAT_TREE; topology <= PLATFORM_DRAGONFLY; topology++) {
        struct platform read, written = platform_of(topology, 5, 2, 2, 2);
        struct error err = {0};
        char *text = hand_platform_xml(&written);
        CHECK_TRUE(platform_file_read(fixture_write("topology.xml", text), &read, &err));
        CHECK_TEXT(err.text, "");
        CHECK_TRUE(read.n_nodes == 5 && read.gpus_per_node == 2 && read.nic_bytes_per_s == 50e9);
        CHECK_TRUE(read.n_uplinks == written.n_uplinks && read.n_spine_links == written.n_spine_links);
        free(text);
    }
}

/* Make SimGrid's own cluster, with hosts named like those of slimsim, one GPU a node and links of 50 GB/s. Its memories
 * have no routes. */
static struct platform cluster_of(const struct platform *like, const char *topology, const char *parameters)
{
    struct platform platform = *like;
    char *text = NULL;
    size_t n_bytes;
    FILE *file = open_memstream(&text, &n_bytes);
    fprintf(
        file,
        "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        "<platform version=\"4.1\"><zone id=\"all\" routing=\"None\">\n<cluster id=\"c\" prefix=\"g\" suffix=\"_0\" "
        "radical=\"0-%d\" speed=\"1Tf\" bw=\"50GBps\" lat=\"0\" topology=\"%s\" topo_parameters=\"%s\"/>\n"
        "<zone id=\"memories\" routing=\"None\">",
        like->n_nodes - 1, topology, parameters);
    for (int32_t n = 0; n < like->n_nodes; n++)
        fprintf(file, "<host id=\"cpu%d\" speed=\"1f\"/>", n);
    fputs("</zone></zone></platform>\n", file);
    fclose(file);
    snprintf(platform.path, sizeof platform.path, "%s", fixture_write("cluster.xml", text));
    free(text);
    return platform;
}

/* Check that random transfers, some after others, take the same times on both. The seeds are 1 to 5. */
static void check_same_times(const struct platform *ours, const struct platform *simgrids)
{
    for (int seed = 1; seed <= 5; seed++) {
        struct rng *rng = rng_create(seed, 0, RNG_TEST);
        struct dag dag = hand_dag(ours->n_nodes, 200, 0);
        for (int32_t i = 0; i < 200; i++) {
            int32_t from = (int32_t)rng_index(rng, ours->n_nodes);
            int32_t to = (from + 1 + (int32_t)rng_index(rng, ours->n_nodes - 1)) % ours->n_nodes;
            enum dag_stream stream = rng_index(rng, 2) == 0 ? DAG_STREAM_SEND_FORWARD : DAG_STREAM_SEND_BACKWARD;
            hand_send(&dag, from, stream, to, hand_transfer(0, (double)(1 + rng_index(rng, 1000)) * 1e6, 50e9));
        }
        struct timeline one = {0}, other = {0};
        struct error err = {0};
        CHECK_TRUE(hand_execute(&dag, ours, &one, &err) && hand_execute(&dag, simgrids, &other, &err));
        CHECK_TEXT(err.text, "");
        for (int32_t t = 0; t < dag.n_tasks && *err.text == '\0'; t++)
            CHECK_CLOSE(one.finish_s[t], other.finish_s[t], 1e-9);
        rng_free(rng);
        dag_free(&dag);
        timeline_free(&one);
        timeline_free(&other);
    }
}

/* 4 switches of 4 nodes have one link each to the root, which is an oversubscription of 4. */
TEST(fat_tree__transfers_take_the_times_of_simgrids_own)
{
    struct platform ours = platform_of(PLATFORM_FAT_TREE, 16, 1, 4, 4);
    struct platform simgrids = cluster_of(&ours, "FAT_TREE", "2;4,4;1,1;1,1");
    check_same_times(&ours, &simgrids);
}

/* 3 groups of 6 nodes have 3 links between each two. SimGrid's group has 3 routers, and their links to each other are
 * 1000 times as wide as needed. */
TEST(dragonfly__transfers_take_the_times_of_simgrids_own)
{
    struct platform ours = platform_of(PLATFORM_DRAGONFLY, 18, 1, 6, 1);
    struct platform simgrids = cluster_of(&ours, "DRAGONFLY", "3,3;1,1;3,1000;2");
    check_same_times(&ours, &simgrids);
}
