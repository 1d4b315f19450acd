/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the copies of offloaded activations to the host and back. */
#include "dag/dag.h"

#include <string.h>

#include "base/check.h"
#include "bounds/critical_path.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "harness.h"

/* One stage has three micro-batches. Half of micro-batch 1's activations go to the host. They come back while the pass
 * before its backward runs, not sooner. */
TEST(offload__returns_before_its_backward)
{
    struct plan plan;
    hand_uniform(&plan, 1, 3, 16);
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    pipeline->partition[PASS_FORWARD].micro_batches[1].offload = 0.5;
    struct plan_step steps[] = {{PASS_FORWARD, 0, 0},  {PASS_FORWARD, 1, 0},  {PASS_FORWARD, 2, 0},
                                {PASS_BACKWARD, 0, 0}, {PASS_BACKWARD, 1, 0}, {PASS_BACKWARD, 2, 0}};
    memcpy(pipeline->steps, steps, sizeof steps);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    int32_t out = hand_find(&dag, DAG_SEND, DAG_OFFLOAD, 0), in = hand_find(&dag, DAG_SEND, DAG_PREFETCH, 0);
    double bytes = 0.5 * 16 * 840 * hand_layer_bytes(hand_setting(), RECOMPUTE_NONE, false);
    CHECK_CLOSE(dag.duration_s[out], 4e-6 + bytes / 25e9, 1e-15);
    CHECK_CLOSE(dag.duration_s[in], dag.duration_s[out], 1e-15);
    CHECK_EQUAL(dag.tasks[out].to_rank, -1);
    CHECK_EQUAL(dag.tasks[in].from_rank, -1);
    hand_times(&dag, 1.0, 1.0);
    struct timeline timeline = {0};
    dag.duration_s[out] = 0.25;
    dag.duration_s[in] = 0.5;
    critical_path(&dag, &timeline);
    CHECK_CLOSE(timeline.start_s[out], 2.0, 1e-15);
    CHECK_CLOSE(timeline.start_s[in], 3.0, 1e-15);
    CHECK_CLOSE(timeline.makespan_s, 6.0, 1e-15);
    dag.duration_s[in] = 4.0; /* slower than the pass before: backward 1 waits to 7 */
    critical_path(&dag, &timeline);
    CHECK_CLOSE(timeline.makespan_s, 9.0, 1e-15);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

/* Replicas have one stage, forward 1 and backward 2 s, and half of their micro-batches away while the passes run. A
 * copy that comes back in 0.5 s hides, as the gradients are due at 3 s. A copy of 5 s, from 1 on, on the last replica
 * alone, is as long as its backward, though no pass follows it. So the gradients are due at 6 s. */
TEST(offload__makes_gradients_wait_for_the_last_copy)
{
    for (int32_t n = 1; n <= 2; n++)
        for (int slow = 0; slow < 2; slow++) {
            struct plan plan;
            struct timeline timeline = {0};
            int32_t last = 0;
            hand_plan(&plan, n, 1, 1);
            for (int32_t i = 0; i < 2 * n; i++) {
                struct plan_partition *partition = &plan.phases[0].pipelines[i / 2].partition[i % 2];
                struct plan_micro_batch *micro_batch = hand_micro_batch(partition, (struct slice){i / 2, 0, 16});
                micro_batch->offload = 0.5;
                micro_batch->streams = true;
            }
            hand_order(&plan);
            struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
            hand_times(&dag, 1.0, 2.0);
            hand_send_times(&dag, 0.5);
            for (int32_t i = 0; i < dag.n_tasks; i++)
                last = dag.tasks[i].purpose == DAG_PREFETCH ? i : last;
            dag.duration_s[last] = slow ? 5 : 0.5;
            critical_path(&dag, &timeline);
            int32_t due = hand_find(&dag, DAG_SYNC, DAG_REDUCE_SCATTER, 0);
            CHECK_CLOSE(timeline.start_s[due], slow ? 6 : 3, 1e-15);
            timeline_free(&timeline);
            dag_free(&dag);
            plan_free(&plan);
        }
}

/* Half of the second of three forwards goes out from 2 to 6. The third forward does not wait for it, the backward
 * behind it does. */
TEST(offload__lets_one_pass_run_beside_a_copy_out)
{
    struct plan plan;
    struct timeline timeline = {0};
    hand_uniform(&plan, 1, 3, 16);
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    pipeline->partition[PASS_FORWARD].micro_batches[1].offload = 0.5;
    for (int i = 0; i < 6; i++)
        pipeline->steps[i] = (struct plan_step){i < 3 ? PASS_FORWARD : PASS_BACKWARD, i % 3, 0};
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    hand_times(&dag, 1.0, 1.0);
    dag.duration_s[hand_find(&dag, DAG_SEND, DAG_OFFLOAD, 0)] = 4;
    dag.duration_s[hand_find(&dag, DAG_SEND, DAG_PREFETCH, 0)] = 0.5;
    critical_path(&dag, &timeline);
    CHECK_CLOSE(timeline.makespan_s, 9.0, 1e-15); /* B0 6-7, copy in 6-6.5, B1 7-8, B2 8-9 */
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

/*
 * Two stages run three micro-batches, all offloaded, with forward 1 and backward 2. Stage 0 runs F0 F1 B0 F2 B1 B2.
 * Stage 1 runs F0 B0 F1 B1 F2 B2 and copies nothing, since each backward follows its forward.
 *
 * Copies of 1.5 hide. Stage 0: F0 0-1, F1 1-2, B0 4-6, F2 6-7, B1 7-9, B2 10-12. Out: 1-2.5, 2.5-4, 7-8.5. In: 2.5-4
 * (F1 had begun, and the copy out had ended), 4-5.5 (from B0 on), 8.5-10 (B1 had begun at 7). Copies of 3 do not. Out:
 * 1-4, 4-7, 10-13. In: 4-7, 7-10, 13-16. Stage 0: B0 7-9, F2 9-10, B1 10-12, B2 16-18.
 */
TEST(offload__copies_back_beside_a_backward_and_a_forward)
{
    static const double copy_s[] = {1.5, 3}, in_s[2][3] = {{2.5, 4, 8.5}, {4, 7, 13}}, end_s[] = {12, 18};
    struct plan plan;
    hand_uniform(&plan, 2, 3, 16);
    for (int micro_batch = 0; micro_batch < 3; micro_batch++)
        plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[micro_batch].offload = 0.5;
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    struct timeline timeline = {0};
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_OFFLOAD), 3);
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_PREFETCH), 3);
    hand_times(&dag, 1.0, 2.0);
    for (int round = 0; round < 2; round++) {
        for (int32_t i = 0; i < dag.n_tasks; i++)
            if (dag.tasks[i].purpose == DAG_PREFETCH || dag.tasks[i].purpose == DAG_OFFLOAD)
                dag.duration_s[i] = copy_s[round];
        critical_path(&dag, &timeline);
        for (int32_t i = 0; i < dag.n_tasks; i++)
            if (dag.tasks[i].purpose == DAG_PREFETCH)
                CHECK_CLOSE(timeline.start_s[i], in_s[round][dag.tasks[i].micro_batch], 1e-15);
        CHECK_CLOSE(timeline.makespan_s, end_s[round], 1e-15);
    }
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}
