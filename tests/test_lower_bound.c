/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the lower bound of the time of a plan. */
#include "bounds/lower_bound.h"

#include <math.h>
#include <stdlib.h>

#include "bounds/critical_path.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "plan/order.h"

/* Find when the passes of a plan end, with stages without sends or with their sends. */
static double passes_s(const struct plan *plan, const struct cost_setting *setting, bool sends)
{
    struct dag dag = {0};
    struct timeline timeline = {0};
    struct error err = {0};
    double end_s = 0;
    CHECK_TRUE(dag_build(plan, setting, (struct dag_options){0}, &dag, &err));
    for (int32_t i = 0; !sends && i < dag.n_tasks; i++)
        if (dag.tasks[i].kind == DAG_SEND && dag.tasks[i].purpose == DAG_BOUNDARY)
            dag.duration_s[i] = 0;
    critical_path(&dag, &timeline);
    for (int32_t i = 0; i < dag.n_tasks; i++)
        if (dag.tasks[i].kind == DAG_COMPUTE || dag.tasks[i].kind == DAG_ATTENTION)
            end_s = fmax(end_s, timeline.finish_s[i]);
    timeline_free(&timeline);
    dag_free(&dag);
    return end_s;
}

/* All stages are equal except the ends. m micro-batches take (m - 1)(f + b) of the slowest stage, the last, more than
 * one takes through all stages and back. */
TEST(lower_bound__is_the_time_of_1f1b_for_equal_micro_batches)
{
    for (int32_t stages = 1; stages <= 8; stages *= 2) {
        struct plan one, many;
        hand_uniform(&one, stages, 1, 512);
        hand_uniform(&many, stages, 9, 512);
        double last_s = 0;
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            struct cost_pass cost = dag_pass_cost(one.phases->pipelines, hand_setting(), pass, 0, stages - 1);
            last_s += cost_pass_s(&cost);
        }
        CHECK_CLOSE(lower_bound_s(&many, hand_setting()), lower_bound_s(&one, hand_setting()) + 8 * last_s, 1e-12);
        plan_free(&one);
        plan_free(&many);
    }
}

/* For one pipeline with free sends the bound is the longest path itself. Whole samples have any lengths, and any share
 * of them goes out and comes back. */
TEST(lower_bound__is_the_longest_path_of_one_pipeline_without_sends)
{
    uint64_t seed = 3;
    for (int32_t round = 0; round < 60; round++) {
        struct plan plan;
        int32_t n = 1 + hand_below(&seed, 12), stages = 1 + hand_below(&seed, 6);
        hand_plan(&plan, 1, stages, 1);
        struct plan_pipeline *pipeline = plan.phases->pipelines;
        for (int32_t micro_batch = 0; micro_batch < n; micro_batch++) {
            struct slice whole = {micro_batch, 0, 1 + hand_below(&seed, 3000)};
            double offload = hand_below(&seed, 3) == 0 ? 0 : hand_below(&seed, 11) / 10.0;
            for (int pass = 0; pass < N_PASSES; pass++)
                hand_micro_batch(&pipeline->partition[pass], whole)->offload = offload;
        }
        hand_order(&plan);
        CHECK_CLOSE(lower_bound_s(&plan, hand_setting()), passes_s(&plan, hand_setting(), false), 1e-12);
        plan_free(&plan);
    }
}

/* The same holds for interleaved micro-batches of whole samples, with two or three chunks a stage. */
TEST(lower_bound__walks_all_chunks_of_a_stage)
{
    uint64_t seed = 5;
    for (int32_t round = 0; round < 30; round++) {
        struct plan plan;
        int32_t stages = 2 << hand_below(&seed, 2), n = stages * (1 + hand_below(&seed, 3));
        hand_plan(&plan, 1, stages, 1);
        struct plan_pipeline *pipeline = plan.phases->pipelines;
        pipeline->layout.chunks = 2 + round % 2;
        for (int32_t micro_batch = 0; micro_batch < n; micro_batch++) {
            struct slice whole = {micro_batch, 0, 1 + hand_below(&seed, 3000)};
            for (int pass = 0; pass < N_PASSES; pass++)
                hand_micro_batch(&pipeline->partition[pass], whole);
        }
        plan_fill_need(pipeline);
        order_interleaved(pipeline);
        CHECK_CLOSE(lower_bound_s(&plan, hand_setting()), passes_s(&plan, hand_setting(), false), 1e-12);
        plan_free(&plan);
    }
}

/* The bound is never above the passes' critical path, for plans whose ranks share samples in one phase or in many. */
TEST(lower_bound__bounds_what_systems_plan)
{
    static const char *const names[] = {"bytescale", "megatron-dynamic-cp", "megatron-default-dynamic-cp"};
    int32_t n_phases = 0, n_groups = 0;
    double most = 0;
    for (int32_t round = 0; round < 72; round++) {
        struct hand_request hand;
        struct plan plan;
        struct error err = {0};
        const struct training_system *system = system_find(names[round % 3], &err);
        int32_t pp = 1 << round / 3 % 4;
        hand_request_real(&hand, 8, pp, 8000);
        hand.request.layout.offload = round / 12 % 3 * 0.5;
        hand_batch_of(&hand, round % 5 == 0 ? HAND_UNIFORM : HAND_LONG_TAIL, 40, (uint64_t)round + 1);
        hand_knobs(&hand, system, round % 3 == 0 ? "{capacity: 1000, always_offload: true}" : "max_tokens: 1000");
        CHECK_TRUE(system->plan(&hand.request, NULL, &plan, &err));
        double share = lower_bound_s(&plan, &hand.setting) / passes_s(&plan, &hand.setting, true);
        CHECK_TRUE(share > 0.5 && share <= 1 + 1e-12);
        most = fmax(most, share);
        n_phases += plan.n_phases;
        n_groups += plan.phases->n_groups;
        plan_free(&plan);
        hand_request_free(&hand);
    }
    CHECK_TRUE(most > 0.95 && n_phases > 60 && n_groups > 12);
}

/* A limit at the bound lets all prices through, with the least seconds of slices in place of the rest. A limit below
 * the passes of the last stage, which are the bound of a single stage, does not. */
TEST(lower_bound_prices__end_at_a_limit_that_no_plan_keeps)
{
    for (int32_t round = 0; round < 40; round++) {
        struct hand_request hand;
        struct plan plan;
        struct error err = {0};
        const struct training_system *system = system_find("slimpack", &err);
        hand_request_real(&hand, 4, round % 2 == 0 ? 1 : 4, 8000);
        hand.request.layout.recompute = round % 3 == 0 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
        hand_batch_of(&hand, round % 5 == 0 ? HAND_UNIFORM : HAND_LONG_TAIL, 40, (uint64_t)round + 1);
        hand_knobs(&hand, system, "");
        CHECK_TRUE(system->plan(&hand.request, NULL, &plan, &err));
        struct batch_bound_pass least[N_PASSES];
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
            least[pass] = batch_bound_pass_of(&hand.request, pass);
        struct lower_bound_limit limit = {lower_bound_s(&plan, &hand.setting), &hand.batch, least};
        struct lower_bound_price *prices = lower_bound_prices(&plan, &hand.setting, &limit);
        CHECK_TRUE(prices != NULL);
        CHECK_CLOSE(lower_bound_at_prices_s(&plan, prices), limit.seconds, 1e-15);
        lower_bound_free_prices(&plan, prices);
        limit.seconds *= round % 2 == 0 ? 1 - 1e-6 : 0.3;
        CHECK_TRUE(lower_bound_prices(&plan, &hand.setting, &limit) == NULL);
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
            free(least[pass].attention_s);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}
