/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check how idle time is divided by its causes. */
#include "bounds/bubble.h"

#include <stdio.h>

#include "base/check.h"
#include "hand_plan.h"
#include "harness.h"

static double sum(const struct bubble *bubble)
{
    return bubble->busy_s + bubble->ring_s + bubble->warm_up_s + bubble->imbalance_s + bubble->cool_down_s +
           bubble->dp_wait_s + bubble->sync_s + bubble->reshard_s;
}

/* Stages are equal and the network is free. Each of p stages works m(f + b) and idles (p - 1)(f + b). Stage s (from 0,
 * m >= p) idles s f + (p - 1 - s) b before its first backward. It idles the rest after its last forward, never
 * between. */
TEST(bubble__is_at_the_ends_of_uniform_1f1b)
{
    struct timeline timeline = {0};
    for (int32_t p = 1; p <= 8; p++)
        for (int32_t m = 1; m <= 24; m++) {
            struct plan plan;
            hand_uniform(&plan, p, m, 16);
            struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
            hand_times(&dag, 1.0, 2.0);
            critical_path(&dag, &timeline);
            struct bubble bubble = bubble_of(&dag, &timeline);
            CHECK_CLOSE(bubble.busy_s, p * m * 3.0, 1e-12);
            CHECK_CLOSE(bubble.warm_up_s + bubble.cool_down_s, p * (p - 1) * 3.0, 1e-12);
            if (m >= p)
                CHECK_CLOSE(bubble.warm_up_s, p * (p - 1) * 1.5, 1e-12);
            CHECK_TRUE(bubble.imbalance_s == 0 && bubble.dp_wait_s == 0 && bubble.sync_s == 0 && bubble.ring_s == 0);
            CHECK_CLOSE(bubble_fraction(&bubble), (p - 1.0) / (m + p - 1), 1e-12);
            dag_free(&dag);
            plan_free(&plan);
        }
    timeline_free(&timeline);
}

/* Two stages run four micro-batches. The second forward of stage 0 takes 4 instead of 1.
 *
 *   stage 0: F0 0-1, F1 1-5, B0 5-7, F2 7-8, B1 8-10, F3 10-11, B2 11-13, B3 14-16
 *   stage 1: F0 1-2, B0 2-4, F1 5-6, B1 6-8, F2 8-9, B2 9-11, F3 11-12, B3 12-14
 *
 * Stage 1 waits from 4 to 5 for F1. The wait is imbalance, as F2 and F3 are still to come. 0-1 is warm-up, 13-14 and
 * 14-16 are cool-down. */
TEST(bubble__counts_a_slow_micro_batch_as_imbalance)
{
    struct plan plan;
    struct timeline timeline = {0};
    hand_uniform(&plan, 2, 4, 16);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    hand_times(&dag, 1.0, 2.0);
    for (int32_t i = 0; i < dag.n_tasks; i++)
        if (dag.tasks[i].stage == 0 && dag.tasks[i].micro_batch == 1 && dag.tasks[i].pass == PASS_FORWARD &&
            dag.tasks[i].kind == DAG_COMPUTE)
            dag.duration_s[i] = 4.0;
    critical_path(&dag, &timeline);
    struct bubble bubble = bubble_of(&dag, &timeline);
    CHECK_CLOSE(timeline.makespan_s, 16.0, 1e-15);
    CHECK_CLOSE(bubble.busy_s, 27.0, 1e-15);
    CHECK_CLOSE(bubble.warm_up_s, 1.0, 1e-15);
    CHECK_CLOSE(bubble.imbalance_s, 1.0, 1e-15);
    CHECK_CLOSE(bubble.cool_down_s, 3.0, 1e-15);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

/* Pipelines of one stage have 1 and 3 micro-batches. The first waits 2 rounds of 3. After both the optimizer takes half
 * a second on each of two places. Its ring takes 1 second before it and 1 after it. */
TEST(bubble__counts_the_wait_for_the_slowest_pipeline)
{
    struct plan plan;
    struct timeline timeline = {0};
    hand_plan(&plan, 2, 1, 1);
    for (int32_t sample = 0; sample < 4; sample++)
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_micro_batch(&plan.phases[0].pipelines[sample > 0].partition[pass], (struct slice){sample, 0, 16});
    hand_order(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
    hand_times(&dag, 1.0, 2.0);
    for (int32_t i = 0; i < dag.n_tasks; i++)
        dag.duration_s[i] = dag.tasks[i].kind == DAG_SEND        ? 1.0
                            : dag.tasks[i].kind == DAG_OPTIMIZER ? 0.5
                                                                 : dag.duration_s[i];
    critical_path(&dag, &timeline);
    struct bubble bubble = bubble_of(&dag, &timeline);
    CHECK_CLOSE(timeline.makespan_s, 11.5, 1e-15);
    CHECK_CLOSE(bubble.busy_s, 4 * 3.0 + 2 * 0.5, 1e-15);
    CHECK_CLOSE(bubble.dp_wait_s, 6.0, 1e-15);
    CHECK_CLOSE(bubble.sync_s, 4.0, 1e-15);
    CHECK_CLOSE(bubble.total_s, 23.0, 1e-15);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

/* CP is 2, GEMMs take 1, attention 1, the ring 3. In each of two passes the ring shows for 2 seconds on both places.
 * Then rank 1's GEMMs take 2. Rank 0 waits for them with its attention, too, so its ring shows for 2 as well. */
TEST(bubble__shows_a_ring_longer_than_attention)
{
    struct plan plan;
    struct timeline timeline = {0};
    hand_plan(&plan, 1, 1, 2);
    for (int pass = 0; pass < N_PASSES; pass++)
        hand_micro_batch(&plan.phases[0].pipelines[0].partition[pass], (struct slice){0, 0, 16})->context = 2;
    hand_order(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    for (int32_t i = 0; i < dag.n_tasks; i++)
        dag.duration_s[i] = dag.tasks[i].kind == DAG_SYNC                                    ? 0
                            : dag.tasks[i].kind == DAG_SEND                                  ? 3
                            : dag.tasks[i].kind == DAG_COMPUTE && dag.tasks[i].dag_rank == 1 ? 2
                                                                                             : 1;
    critical_path(&dag, &timeline);
    struct bubble bubble = bubble_of(&dag, &timeline);
    CHECK_CLOSE(timeline.makespan_s, 10.0, 1e-15);
    CHECK_CLOSE(bubble.busy_s, 2 * (2.0 + 3.0), 1e-15);
    CHECK_CLOSE(bubble.ring_s, 2 * (2.0 + 2.0), 1e-15);
    CHECK_CLOSE(sum(&bubble), bubble.total_s, 1e-15);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

/* Pipelines 0 and 1 share a micro-batch, and 1 and 2 share the next one. Before that one pipeline 2 runs an unshared
 * micro-batch. */
static void chained_groups(struct plan *plan)
{
    static const int32_t group_of[3][2] = {
        {0, -1}, {0, 1}, {-1, 1}}; /* of each pipeline's micro-batches, first and second */
    hand_plan(plan, 3, 1, 1);
    struct plan_phase *phase = plan->phases;
    phase->n_groups = 2;
    phase->groups = check_calloc(2, sizeof *phase->groups);
    for (int32_t i = 0; i < 2; i++) {
        phase->groups[i].n_pipelines = 2;
        phase->groups[i].pipelines = check_calloc(2, sizeof(int32_t));
        phase->groups[i].pipelines[0] = i;
        phase->groups[i].pipelines[1] = i + 1;
    }
    for (int32_t i = 0; i < 3; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            for (int32_t k = 0; k < (i == 0 ? 1 : 2); k++) {
                int32_t group = group_of[i][k];
                struct slice slice = {group >= 0 ? group : 2, 0, 16};
                struct plan_micro_batch *micro_batch = hand_micro_batch(&phase->pipelines[i].partition[pass], slice);
                micro_batch->group = group;
                micro_batch->context = group >= 0 ? 2 : 1;
            }
    hand_order(plan);
}

/* GEMMs take 1, attention 1/2 on its own block and 1/2 on the other, the ring 3. The unshared micro-batch of pipeline 2
 * takes 10. F and B of the first group run at 0-4 and 4-8 on places 0 and 1, whose rings show for 2 seconds each. Place
 * 1 does GEMMs and its own block of the second group at 8-9.5. It waits for place 2, which comes at 21. The wait is
 * imbalance, as the ring has not begun. The ring runs at 21-24. Behind the other block it shows for 2.5 seconds on
 * place 1, and for 2 on place 2. The backward runs at 24-28, with 2 seconds on both. */
TEST(bubble__counts_no_wait_for_a_member_as_ring)
{
    struct plan plan;
    struct timeline timeline = {0};
    chained_groups(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    for (int32_t i = 0; i < dag.n_tasks; i++) {
        const struct dag_task *task = &dag.tasks[i];
        bool own = task->pipeline == 2 && task->micro_batch == 0 && task->kind == DAG_COMPUTE;
        dag.duration_s[i] = own                           ? 10
                            : task->kind == DAG_SYNC      ? 0
                            : task->kind == DAG_SEND      ? 3
                            : task->kind == DAG_ATTENTION ? 0.5
                                                          : 1;
    }
    critical_path(&dag, &timeline);
    struct bubble bubble = bubble_of(&dag, &timeline);
    CHECK_CLOSE(timeline.makespan_s, 28, 1e-15);
    CHECK_CLOSE(bubble.busy_s, 4.0 + 8 + 24, 1e-15);
    CHECK_CLOSE(bubble.ring_s, 4 * 2.0 + 2.5 + 2 + 2 * 2, 1e-15);
    CHECK_CLOSE(bubble.imbalance_s, 11.5, 1e-15);
    CHECK_CLOSE(bubble.dp_wait_s, 20, 1e-15);
    CHECK_CLOSE(sum(&bubble), 3 * 28.0, 1e-15);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

/* A pipeline of TP 2 is followed by two of TP 1 on the same four GPUs. Each has 2 stages and 3 micro-batches, so 9
 * seconds of 12 are busy. Between them 5 seconds are re-sharding. A place may stand for both TP ranks or for one; the
 * GPUs' seconds are the same. */
TEST(bubble__counts_phases_by_their_gpus)
{
    struct plan plan, second;
    struct timeline timeline = {0};
    hand_uniform(&plan, 2, 3, 16);
    plan.phases[0].pipelines[0].layout.tensor = plan.phases[0].pipelines[0].layout.stage_stride = 2;
    hand_plan(&second, 2, 2, 1);
    for (int32_t micro_batch = 0; micro_batch < 6; micro_batch++)
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_micro_batch(&second.phases[0].pipelines[micro_batch / 3].partition[pass],
                             (struct slice){micro_batch, 0, 16});
    hand_order(&second);
    hand_append(&plan, &second);
    plan.phases[1].n_reshards = 1;
    plan.phases[1].reshards = check_malloc(sizeof(struct plan_reshard));
    plan.phases[1].reshards[0] = (struct plan_reshard){0, 1, 1e6};
    for (int all = 0; all < 2; all++) {
        struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.all_tensor_ranks = all == 1});
        CHECK_EQUAL(dag.n_ranks, all == 1 ? 8 : 6);
        hand_times(&dag, 1.0, 2.0);
        for (int32_t i = 0; i < dag.n_tasks; i++)
            if (dag.tasks[i].purpose == DAG_RESHARD && dag.tasks[i].kind == DAG_SEND)
                dag.duration_s[i] = 5.0;
        critical_path(&dag, &timeline);
        struct bubble bubble = bubble_of(&dag, &timeline);
        CHECK_CLOSE(timeline.makespan_s, 29.0, 1e-15);
        CHECK_CLOSE(bubble.total_s, 4 * 29.0, 1e-15);
        CHECK_CLOSE(bubble.busy_s, 4 * 18.0, 1e-15);
        CHECK_CLOSE(bubble.reshard_s, 4 * 5.0, 1e-15);
        CHECK_TRUE(bubble.sync_s == 0);
        CHECK_CLOSE(bubble.warm_up_s + bubble.cool_down_s, 4 * 6.0, 1e-15);
        dag_free(&dag);
    }
    timeline_free(&timeline);
    plan_free(&plan);
}

TEST(bubble__has_parts_that_add_up_on_random_plans)
{
    struct timeline timeline = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct plan plan;
        hand_random(&plan, seed);
        struct dag dag = hand_built(&plan, hand_setting(),
                                    (struct dag_options){.gradient_sync = seed % 2, .all_tensor_ranks = seed % 3 == 0});
        critical_path(&dag, &timeline);
        struct bubble bubble = bubble_of(&dag, &timeline);
        if (bubble.total_s <= 0)
            printf("seed %llu\n", (unsigned long long)seed);
        CHECK_CLOSE(sum(&bubble), bubble.total_s, 1e-12);
        int32_t n_gpus = 0;
        for (int32_t i = 0; i < dag.n_ranks; i++)
            n_gpus += dag.ranks[i].n_gpus;
        CHECK_CLOSE(bubble.total_s, n_gpus * timeline.makespan_s, 1e-12);
        CHECK_TRUE(bubble_fraction(&bubble) >= 0 && bubble_fraction(&bubble) < 1);
        dag_free(&dag);
        plan_free(&plan);
    }
    timeline_free(&timeline);
}
