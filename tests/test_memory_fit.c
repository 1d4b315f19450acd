/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests check offload and recomputation of single micro-batches, and the bound on what they reach. */
#include "packing/memory_fit.h"

#include "bounds/stage_memory.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "packing/memory_bound.h"

extern const struct training_system system_slimpack;

static void set_recompute(struct plan *plan, int32_t micro_batch, enum recompute recompute)
{
    for (int pass = 0; pass < N_PASSES; pass++)
        plan->phases[0].pipelines[0].partition[pass].micro_batches[micro_batch].recompute = recompute;
}

/* Four whole samples run on four stages. The first holds all of them before its backward, the second three. Memory asks
 * for two that recompute fully. The first two do, as they keep no keys and values. The memory they free counts on the
 * second stage, too, which also has too little. */
TEST(memory_fit__recomputes_no_more_than_it_must)
{
    struct hand_request hand;
    struct plan plan;
    struct evaluator evaluator = {0};
    struct evaluation outcome;
    struct error err = {0};
    hand_request_real(&hand, 1, 4, 4096);
    hand_batch_of(&hand, HAND_EQUAL, 4, 1);
    hand_uniform(&plan, 4, 4, 4096);
    plan.shards = 1;
    for (int32_t micro_batch = 0; micro_batch < 4; micro_batch++)
        set_recompute(&plan, micro_batch, micro_batch < 2 ? RECOMPUTE_FULL : RECOMPUTE_SELECTIVE);
    CHECK_TRUE(memory_fit(&hand.request, (struct memory_fit_rule){0}, &plan, &evaluator, &outcome, &err));
    hand.request.memory_bytes = outcome.peak_bytes;
    for (int32_t micro_batch = 0; micro_batch < 2; micro_batch++)
        set_recompute(&plan, micro_batch, RECOMPUTE_SELECTIVE);
    CHECK_TRUE(memory_fit(&hand.request, (struct memory_fit_rule){0}, &plan, &evaluator, &outcome, &err));
    for (int32_t stage = 0; stage < 2; stage++)
        CHECK_TRUE(evaluator.memory.peak_bytes[stage] > hand.request.memory_bytes);
    CHECK_TRUE(
        memory_fit(&hand.request, (struct memory_fit_rule){.recompute = true}, &plan, &evaluator, &outcome, &err));
    CHECK_TRUE(outcome.peak_bytes <= hand.request.memory_bytes);
    const struct plan_micro_batch *micro_batches = plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches;
    for (int32_t micro_batch = 0; micro_batch < 4; micro_batch++)
        CHECK_EQUAL(micro_batches[micro_batch].recompute, micro_batch < 2 ? RECOMPUTE_FULL : RECOMPUTE_SELECTIVE);
    evaluator_free(&evaluator);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* 1F1B keeps as many micro-batches as there are stages behind. With room for little more than stage 2 of 8 has, stages
 * 0 and 1 offload, and the others nothing. */
TEST(memory_fit__offloads_on_no_stage_with_room)
{
    struct hand_request hand;
    struct plan plan;
    struct evaluator evaluator = {0};
    struct evaluation roomy, adapted;
    struct error err = {0};
    hand_request_real(&hand, 1, 8, 4096);
    hand_batch_of(&hand, HAND_EQUAL, 16, 1);
    hand_uniform(&plan, 8, 16, 4096);
    plan.shards = 1;
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    CHECK_TRUE(memory_fit(&hand.request, (struct memory_fit_rule){0}, &plan, &evaluator, &roomy, &err));
    CHECK_TRUE(pipeline->offload == NULL);
    struct cost_setting own = dag_setting(&hand.setting, &pipeline->layout, 0);
    double micro_batch_bytes = 4096 * cost_activation_bytes(&own, RECOMPUTE_NONE, false);
    hand.request.memory_bytes =
        roomy.peak_bytes - 1.5 * micro_batch_bytes; /* stage 0 has 8 micro-batches and the table */
    CHECK_TRUE(memory_fit(&hand.request, (struct memory_fit_rule){.offload = true}, &plan, &evaluator, &adapted, &err));
    CHECK_TRUE(adapted.peak_bytes <= hand.request.memory_bytes);
    CHECK_TRUE(adapted.makespan_s < 1.01 * roomy.makespan_s); /* the copies hide */
    double share[8] = {0};
    for (int32_t stage = 0; stage < 8; stage++)
        for (int32_t i = 0; i < 16; i++)
            share[stage] += plan_offload(pipeline, i, stage);
    CHECK_TRUE(share[0] > 1 && share[0] > share[1] && share[1] > 0);
    for (int32_t stage = 2; stage < 8; stage++)
        CHECK_TRUE(share[stage] == 0);
    evaluator_free(&evaluator);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Four whole samples run on four stages. The first stage holds all four at once. So memory for what stands and for
 * three of them is too little by at least the fourth. A host that has room for it lets the plan through. */
TEST(memory_bound__counts_what_the_orders_hold_at_once)
{
    struct hand_request hand;
    struct plan plan;
    struct platform platform;
    hand_request_real(&hand, 1, 4, 4096);
    hand_uniform(&plan, 4, 4, 4096);
    plan.shards = 1;
    platform = *hand.setting.platform;
    hand.setting.platform = &platform;
    struct stage_memory first = stage_memory_of(&hand.setting, &plan.phases[0].pipelines[0].layout, 0, 1,
                                                &(struct stage_memory_micro_batch){RECOMPUTE_NONE, 0});
    double micro_batch_bytes = 4096 * first.token.held, standing = stage_memory_standing_bytes(&first);
    hand.request.memory_bytes = standing + 3 * micro_batch_bytes;
    CHECK_CLOSE(memory_bound_excess(&hand.request, (struct memory_fit_rule){0}, &plan),
                (standing + 4 * micro_batch_bytes) / hand.request.memory_bytes - 1, 1e-9);
    for (int roomy = 0; roomy < 2; roomy++) { /* the four stages are on one node; only the first has too much */
        platform.host_memory_bytes = micro_batch_bytes * (roomy ? 1.01 : 0.99);
        CHECK_EQUAL(memory_bound_excess(&hand.request, (struct memory_fit_rule){.offload = true}, &plan) == 0, roomy);
    }
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Whatever memory_fit does, a plan that the bound rules out does not fit. */
TEST(memory_bound__rules_out_only_what_memory_fit_cannot_save)
{
    int32_t n_out = 0, n_fit = 0;
    for (int32_t round = 0; round < 60; round++) {
        struct hand_request hand;
        struct plan plan;
        struct evaluator evaluator = {0};
        struct evaluation evaluation, fitted;
        struct error err = {0};
        struct memory_fit_rule rule = {.offload = round % 3 > 0, .recompute = round % 3 > 1};
        hand_request_real(&hand, 4, 1 << round % 3, 8000);
        hand_batch_of(&hand, round % 2 == 0 ? HAND_UNIFORM : HAND_LONG_TAIL, 40, (uint64_t)round + 1);
        hand_planned(&hand, &system_slimpack, "{offload: plan, replica_micro_packs: false}", &plan);
        struct platform platform = *hand.setting.platform;
        platform.host_memory_bytes = 1e9 * (1 + round % 7);
        hand.setting.platform = &platform;
        CHECK_TRUE(memory_fit(&hand.request, (struct memory_fit_rule){0}, &plan, &evaluator, &evaluation, &err));
        hand.request.memory_bytes = evaluation.peak_bytes * (0.4 + round % 11 * 0.06);
        double excess = memory_bound_excess(&hand.request, rule, &plan);
        struct evaluation_limits limits = evaluation_limits_of(hand.request.memory_bytes, &platform);
        CHECK_TRUE(memory_fit(&hand.request, rule, &plan, &evaluator, &fitted, &err));
        bool fits = evaluation_exceeds(&fitted, &limits) == EXCEEDED_NONE;
        CHECK_TRUE(excess == 0 || !fits);
        n_out += excess > 0;
        n_fit += fits;
        evaluator_free(&evaluator);
        plan_free(&plan);
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_out > 10 && n_fit > 10);
}
