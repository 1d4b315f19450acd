/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the memory of hosts that hold offloaded activations. */
#include "bounds/memory.h"

#include <string.h>

#include "base/check.h"
#include "hand_memory.h"
#include "hand_plan.h"
#include "harness.h"

/* In the run of offload__halves_what_waits forwards end at 1, 2, ... 9 and start their copies out then. The backward
 * that begins at 9 has its copy in at 8 to 8.1, the next at 9 to 9.1. At 9 the ninth micro-batch joins seven. Two such
 * pipelines are on one node of 8 GPUs, or on one node each. */
TEST(memory_host_of__adds_what_all_its_gpus_offload)
{
    struct plan plan;
    struct hand_run run = {0};
    hand_plan(&plan, 2, 1, 1);
    for (int32_t j = 0; j < 2; j++) {
        struct plan_pipeline *pipeline = &plan.phases[0].pipelines[j];
        for (int32_t i = 0; i < 9; i++)
            for (int pass = 0; pass < N_PASSES; pass++)
                hand_micro_batch(&pipeline->partition[pass], (struct slice){9 * j + i, 0, 16})->offload = 0.5;
    }
    hand_order(&plan);
    for (int32_t j = 0; j < 2; j++)
        for (int i = 0; i < 18; i++)
            plan.phases[0].pipelines[j].steps[i] = (struct plan_step){i < 9 ? PASS_FORWARD : PASS_BACKWARD, i % 9, 0};
    run.dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    hand_times(&run.dag, 1.0, 1.0);
    hand_send_times(&run.dag, 0.1);
    critical_path(&run.dag, &run.timeline);
    memory_of(&plan, &run.dag, &run.timeline, hand_setting(), false, &run.memory);
    double half = 0.5 * 16.0 * 840 * hand_activation(RECOMPUTE_NONE, false);
    CHECK_CLOSE(run.memory.host_peak_bytes[0], 8 * half, 1e-14);
    const struct platform *nodes_of_8 = hand_setting()->platform;
    struct memory_host one = memory_host_of(&plan, &run.dag, &run.memory, nodes_of_8, 0);
    CHECK_CLOSE(one.bytes, 2 * 8 * half, 1e-14);
    CHECK_EQUAL(one.node, 0);
    struct platform nodes_of_1 = *nodes_of_8; /* eight nodes in one NVLink domain */
    nodes_of_1.gpus_per_node = 1;
    struct memory_host each = memory_host_of(&plan, &run.dag, &run.memory, &nodes_of_1, 0);
    CHECK_CLOSE(each.bytes, 8 * half, 1e-14);
    run.dag.ranks[1].n_gpus = 4;
    CHECK_CLOSE(memory_host_of(&plan, &run.dag, &run.memory, nodes_of_8, 0).bytes, 5 * 8 * half, 1e-14);
    hand_close_run(&run);
    plan_free(&plan);
}

/* Half of one micro-batch is offloaded. The first two stages send away half of their own 80 or 680 layers. The last one
 * keeps its 80, since the backward follows at once. With a table of shares each sends what that says. */
TEST(host_peak_bytes__follow_the_layers_of_each_stage)
{
    static const int32_t layers[] = {80, 680, 80};
    struct plan plan;
    struct hand_run run;
    struct cost_setting setting = *hand_setting();
    hand_options(&setting, &(struct scenario_plan){.stages = {.first_layers = {1, 80}, .last_layers = {1, 80}}});
    hand_uniform(&plan, 3, 1, 16);
    for (int pass = 0; pass < N_PASSES; pass++)
        plan.phases[0].pipelines[0].partition[pass].micro_batches[0].offload = 0.5;
    hand_open_run(&run, &plan, &setting, false);
    for (int32_t s = 0; s < 3; s++)
        CHECK_CLOSE(run.memory.host_peak_bytes[s],
                    (s < 2) * 0.5 * 16 * layers[s] * hand_activation(RECOMPUTE_NONE, false), 1e-14);
    hand_close_run(&run);
    static const double share[] = {0.25, 1, 0};
    plan.phases[0].pipelines[0].offload = check_malloc(sizeof share);
    memcpy(plan.phases[0].pipelines[0].offload, share, sizeof share);
    hand_open_run(&run, &plan, &setting, true);
    for (int32_t s = 0; s < 3; s++)
        CHECK_CLOSE(run.memory.host_peak_bytes[s], share[s] * 16 * layers[s] * hand_activation(RECOMPUTE_NONE, false),
                    1e-14);
    for (int64_t i = 0; i < run.memory.n_events; i++) /* all is freed in the end, and never more than there is */
        CHECK_TRUE(run.memory.events[i].bytes[MEMORY_ACTIVATIONS] >= -1e-6);
    hand_close_run(&run);
    plan_free(&plan);
}
