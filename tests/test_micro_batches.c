/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check statistics of the micro-batches of a plan. */
#include "simulate/micro_batches.h"

#include <math.h>

#include "hand_plan.h"
#include "harness.h"

/* Five micro-batches have 1, 2, 3, 4 and 5 samples of 16 tokens, so FLOPs are 1 to 5 times as many. p5 of five values
 * in order lies a fifth of the way from the first to the second. p95 lies four fifths of the way from the fourth to the
 * last: 4.8 / 1.2 = 4. The second pipeline's micro-batches are equal, 1. The third has one micro-batch and does not
 * count. */
TEST(micro_batch_spread__is_that_of_each_pipeline)
{
    struct plan plan;
    hand_plan(&plan, 3, 2, 1);
    int32_t sample = 0;
    for (int pass = 0; pass < N_PASSES; pass++) {
        sample = 0;
        for (int32_t n = 1; n <= 5; n++) {
            struct plan_partition *partition = &plan.phases[0].pipelines[0].partition[pass];
            for (int32_t i = 0; i < n; i++)
                plan_add_slice(partition, (struct slice){sample++, 0, 16});
            plan_add_micro_batch(partition);
        }
        for (int32_t i = 0; i < 3; i++)
            hand_micro_batch(&plan.phases[0].pipelines[1].partition[pass], (struct slice){sample++, 0, 16});
        hand_micro_batch(&plan.phases[0].pipelines[2].partition[pass], (struct slice){sample++, 0, 1000});
    }
    hand_order(&plan);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct micro_batches_spread spread = micro_batches_spread_of(&plan, hand_setting(), pass);
        CHECK_CLOSE(spread.flop, (4.0 + 1) / 2, 1e-14);
        CHECK_CLOSE(spread.own_flop, spread.flop, 1e-14);
        double time_s[5];
        for (int32_t i = 0; i < 5; i++) {
            struct cost_pass cost = dag_pass_cost(&plan.phases[0].pipelines[0], hand_setting(), pass, i, 0);
            time_s[i] = cost_pass_s(&cost);
            CHECK_TRUE(i == 0 || time_s[i] > time_s[i - 1]);
        }
        double p95 = 0.2 * time_s[3] + 0.8 * time_s[4], p5 = 0.8 * time_s[0] + 0.2 * time_s[1];
        CHECK_CLOSE(spread.time, (p95 / p5 + 1) / 2, 1e-14);
        double mean_s = (time_s[0] + time_s[1] + time_s[2] + time_s[3] + time_s[4]) / 5;
        CHECK_CLOSE(spread.imbalance, (time_s[4] / mean_s + 1) / 2, 1e-14);
    }
    plan_free(&plan);
}

/* A micro-batch that two ranks share has half the FLOPs on each. */
TEST(micro_batch_spread__counts_the_share_of_a_rank)
{
    struct plan plan;
    hand_plan(&plan, 1, 1, 1);
    for (int pass = 0; pass < N_PASSES; pass++) {
        struct plan_partition *partition = &plan.phases[0].pipelines[0].partition[pass];
        hand_micro_batch(partition, (struct slice){0, 0, 16});
        for (int32_t i = 1; i <= 2; i++)
            plan_add_slice(partition, (struct slice){i, 0, 16});
        plan_add_micro_batch(partition)->context = 2;
    }
    hand_order(&plan);
    CHECK_CLOSE(micro_batches_spread_of(&plan, hand_setting(), PASS_FORWARD).flop, 1, 1e-14);
    plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[1].context = 1; /* 1 and 2: 1.95 / 1.05 */
    CHECK_CLOSE(micro_batches_spread_of(&plan, hand_setting(), PASS_FORWARD).flop, 1.95 / 1.05, 1e-14);
    plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[1].group = 0; /* then one is left */
    CHECK_TRUE(isnan(micro_batches_spread_of(&plan, hand_setting(), PASS_FORWARD).own_flop));
    plan_free(&plan);
}

/* Two pipelines both run two shared micro-batches. The second also runs 1 and 2 unshared samples: 1.95 / 1.05. The
 * first has none to compare, so the mean leaves it out. This holds for these micro-batches and, with padding alone in
 * their place, for all. */
TEST(micro_batch_spread__skips_pipelines_with_nothing_to_compare)
{
    struct plan plan;
    hand_plan(&plan, 2, 1, 1);
    for (int32_t pipeline = 0; pipeline < 2; pipeline++)
        for (int pass = 0; pass < N_PASSES; pass++) {
            struct plan_partition *partition = &plan.phases[0].pipelines[pipeline].partition[pass];
            hand_micro_batch(partition, (struct slice){0, 0, 16})->group = 0;
            hand_micro_batch(partition, (struct slice){1, 0, 16})->group = 0;
            if (pipeline == 0)
                continue;
            hand_micro_batch(partition, (struct slice){2, 0, 16});
            for (int32_t i = 3; i <= 4; i++)
                plan_add_slice(partition, (struct slice){i, 0, 16});
            plan_add_micro_batch(partition);
        }
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        CHECK_CLOSE(micro_batches_spread_of(&plan, hand_setting(), pass).own_flop, 1.95 / 1.05, 1e-14);
    struct plan_partition *partition = &plan.phases[0].pipelines[0].partition[PASS_FORWARD];
    double all = micro_batches_spread_of(&plan, hand_setting(), PASS_FORWARD).flop;
    for (int32_t i = 0; i < 2; i++)
        partition->micro_batches[i] = (struct plan_micro_batch){.padding_tokens = 16, .context = 1, .group = -1};
    CHECK_CLOSE(micro_batches_spread_of(&plan, hand_setting(), PASS_FORWARD).flop, 2 * all - 1, 1e-14);
    plan_free(&plan);
}

/* Two phases have the same two pipelines of two stages with 1 and 3 micro-batches. Passes take 3 and 9 seconds on each
 * place, mean 6. In the second phase passes take twice as long on pipeline 0 alone: 6 and 9, mean 7.5. Together this is
 * 18 / 13.5. */
TEST(micro_batches_pipeline_imbalance__compares_the_pipelines_of_a_phase)
{
    struct plan plan, second, *both[] = {&plan, &second};
    for (int k = 0; k < 2; k++) {
        hand_plan(both[k], 2, 2, 1);
        for (int32_t sample = 0; sample < 4; sample++)
            for (int pass = 0; pass < N_PASSES; pass++)
                hand_micro_batch(&both[k]->phases[0].pipelines[sample > 0].partition[pass],
                                 (struct slice){sample, 0, 16});
        hand_order(both[k]);
    }
    hand_append(&plan, &second);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    hand_times(&dag, 1, 2);
    for (int32_t i = 0; i < dag.n_tasks; i++)
        if (dag.tasks[i].phase == 1 && dag.tasks[i].pipeline == 0)
            dag.duration_s[i] *= 2;
    CHECK_CLOSE(micro_batches_pipeline_imbalance(&dag), 18 / 13.5, 1e-14);
    dag_free(&dag);
    plan_free(&plan);
}

/* Slices of a padded micro-batch may hold padding alone. They have no FLOPs to compare, but seconds. */
TEST(micro_batch_spread__skips_micro_batches_of_padding)
{
    struct plan plan;
    hand_plan(&plan, 1, 1, 1);
    for (int pass = 0; pass < N_PASSES; pass++) {
        struct plan_partition *partition = &plan.phases[0].pipelines[0].partition[pass];
        hand_micro_batch(partition, (struct slice){0, 0, 16});
        for (int32_t i = 0; i < 3; i++)
            plan_add_micro_batch(partition)->padding_tokens = 16;
    }
    hand_order(&plan);
    struct micro_batches_spread one = micro_batches_spread_of(&plan, hand_setting(), PASS_FORWARD);
    CHECK_TRUE(isnan(one.flop));
    CHECK_TRUE(one.time > 1);
    for (int pass = 0; pass < N_PASSES; pass++) { /* 1 and 2 are left: 1.95 / 1.05 */
        struct plan_partition *partition = &plan.phases[0].pipelines[0].partition[pass];
        for (int32_t i = 1; i <= 2; i++)
            plan_add_slice(partition, (struct slice){i, 0, 16});
        plan_add_micro_batch(partition);
    }
    hand_order(&plan);
    CHECK_CLOSE(micro_batches_spread_of(&plan, hand_setting(), PASS_FORWARD).flop, 1.95 / 1.05, 1e-14);
    plan_free(&plan);
}

TEST(micro_batches_using__counts_each_pipeline)
{
    struct plan plan;
    hand_plan(&plan, 3, 1, 1);
    plan.phases[0].pipelines[0].features = PLAN_SLICED | PLAN_PERSISTENT;
    plan.phases[0].pipelines[2].features = PLAN_SLICED | PLAN_ASYMMETRIC;
    CHECK_EQUAL(micro_batches_using(&plan, PLAN_SLICED), 2);
    CHECK_EQUAL(micro_batches_using(&plan, PLAN_ASYMMETRIC), 1);
    CHECK_EQUAL(micro_batches_using(&plan, PLAN_LONG_WARM_UP), 0);
    plan_free(&plan);
}
