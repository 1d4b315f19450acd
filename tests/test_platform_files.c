/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execute/execute.h"
#include "hand_dag.h"
#include "harness.h"

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

/* Run; a failure is the test's. */
static bool run(const struct dag *dag, const struct built *platform, struct timeline *timeline)
{
    struct platform file = hand_platform(platform->name, platform->n_nodes);
    struct error err = {0};
    bool ok = hand_execute(dag, &file, timeline, &err);
    CHECK_TEXT(err.text, "");
    return ok;
}

/* Append a lone transfer from GPU to GPU (-1: its host's memory), after all before it. */
static void append_route(struct dag *dag, int32_t from, int32_t to, double bytes_per_s)
{
    int32_t send = hand_send(dag, 0, DAG_STREAM_SEND_FORWARD, to, hand_transfer(0, giga, bytes_per_s));
    dag->tasks[send].from_rank = from;
}

/* 1 GB alone from the first and the last node: NVLink inside a node, the NIC between nodes (next node, farthest node,
   same and other rail), PCIe to and from the host. */
TEST(every_platform_loads_and_its_routes_have_their_bandwidths)
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

/* SimGrid's own tool finds all routes of a file: its graph has a vertex for the last NIC. */
TEST(every_platform_opens_in_simgrids_graphicator)
{
    for (int32_t i = 0; i < N_BUILT; i++) {
        char command[4096], line[4096], nic[64], dot[1024];
        bool found = false;
        snprintf(dot, sizeof dot, "%s", harness_path("platform.dot"));
        snprintf(nic, sizeof nic, "\"ib%d_7_u\"", built[i].n_nodes - 1);
        snprintf(command, sizeof command, "simgrid-graphicator '%s/platforms/%s.xml' '%s' >/dev/null 2>&1",
                 SLIMSIM_BUILD_DIR, built[i].name, dot);
        CHECK_EQUAL(system(command), 0);
        FILE *file = fopen(dot, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            found = found || strstr(line, nic) != NULL;
        CHECK_TRUE(found);
        if (file != NULL)
            fclose(file);
    }
}

/* 8 GPUs of node 0 send to those of the last node, on rails, while the other direction does so too: ports and uplinks
   are as wide as the NICs, so nobody is slowed down. */
TEST(all_nics_of_a_node_run_at_full_speed_in_both_directions)
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

/* All GPUs but one of node 0 send to its GPU 0, and to their host's memory: NVLink into GPU 0 is shared by 7, PCIe is
   one link a GPU. On a free platform nothing is shared. */
TEST(links_are_shared_but_on_free_platforms)
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

/* 2 leaves of 2 nodes of 4 GPUs; uplinks of a fourth of the NICs: 8 senders of 25 GB/s share 50 GB/s into the spine. */
TEST(other_sizes_and_an_oversubscribed_spine_can_be_generated)
{
    struct built platform = {"hopper-4x4", 4, false};
    struct platform file = hand_platform(platform.name, platform.n_nodes);
    file.gpus_per_node = 4;
    snprintf(file.path, sizeof file.path, "%s", harness_path("hopper-4x4.xml"));
    char command[4096];
    snprintf(command, sizeof command,
             "/usr/bin/env python3 '%s/platforms/generate.py' --nodes 4 --gpus 4 --nic 200Gbps --nvlink 450GBps "
             "--nodes-per-leaf 2 --oversubscription 4 > '%s'",
             SLIMSIM_SOURCE_DIR, file.path);
    CHECK_EQUAL(system(command), 0);
    struct dag dag = hand_dag(16, 9, 1);
    for (int32_t gpu = 0; gpu < 8; gpu++)
        hand_send(&dag, gpu, DAG_STREAM_SEND_FORWARD, gpu + 8, hand_transfer(0, giga, 25e9));
    hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 1, hand_transfer(0, giga, 450e9));
    struct timeline timeline = {0};
    struct error err = {0};
    if (CHECK_TRUE(hand_execute(&dag, &file, &timeline, &err)))
        for (int32_t t = 0; t < dag.n_tasks; t++)
            CHECK_CLOSE(timeline.finish_s[t] - timeline.start_s[t], t < 8 ? 8 * giga / 50e9 : giga / 450e9, 1e-12);
    dag_free(&dag);
    timeline_free(&timeline);
}

/* What the scenario sees of each file is what generate.py was asked for: the paper's cluster. */
TEST(every_platform_is_read_with_its_counts_and_bandwidths)
{
    for (int32_t i = 0; i < N_BUILT; i++) {
        struct platform read, expected = hand_platform(built[i].name, built[i].n_nodes);
        struct error err = {0};
        CHECK_TRUE(platform_read(SLIMSIM_BUILD_DIR "/platforms", built[i].name, &read, &err));
        CHECK_TEXT(err.text, "");
        CHECK_TEXT(read.name, expected.name);
        CHECK_TEXT(read.path, expected.path);
        CHECK_EQUAL(read.n_nodes, expected.n_nodes);
        CHECK_EQUAL(read.gpus_per_node, expected.gpus_per_node);
        CHECK_TRUE(read.nvlink_bytes_per_s == expected.nvlink_bytes_per_s);
        CHECK_TRUE(read.nic_bytes_per_s == expected.nic_bytes_per_s);
        CHECK_TRUE(read.pcie_bytes_per_s == expected.pcie_bytes_per_s);
        CHECK_TRUE(read.host_memory_bytes == expected.host_memory_bytes);
    }
}

/* Nothing but options that make sense; the file is not written. */
TEST(the_generator_refuses_wrong_options)
{
    static const char *const wrong[] = {"",
                                        "--nodes 0",
                                        "--nodes 2 --nic 0Gbps",
                                        "--nodes 2 --nic 400",
                                        "--nodes 2 --pcie nanGBps",
                                        "--nodes 2 --host-memory 0.3B",
                                        "--nodes 2 --oversubscription 0.5"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char command[4096];
        snprintf(command, sizeof command, "/usr/bin/env python3 '%s/platforms/generate.py' %s > '%s' 2>&1",
                 SLIMSIM_SOURCE_DIR, wrong[i], harness_path("refused.txt"));
        CHECK_TRUE(system(command) != 0);
    }
}
