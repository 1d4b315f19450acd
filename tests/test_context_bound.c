/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests compare DCP's bound with critical paths of the plan itself. */
#include "simulate/context_bound.h"

#include <stdio.h>

#include "cost/attention.h"
#include "hand_plan.h"
#include "harness.h"

static const struct scenario scenario;

/** Return the critical path of a plan as it is. */
static double path_s(const struct plan *plan, const struct cost_setting *setting)
{
    struct evaluator evaluator = {0};
    struct error err = {0};
    CHECK_TRUE(evaluate_time(&evaluator, plan, setting, (struct dag_options){.gradient_sync = true}, &err));
    double seconds = evaluator.timeline.makespan_s;
    evaluator_free(&evaluator);
    return seconds;
}

static double bound_s(const struct plan *plan, const struct cost_setting *setting)
{
    struct context_bound bound = {0};
    struct iteration_run run = {.scenario = &scenario, .plan = *plan, .group_faulty = *setting};
    struct error err = {0};
    double first_s = 0, seconds = 0;
    CHECK_TRUE(context_bound_s(&bound, &run, &first_s, &err) && context_bound_s(&bound, &run, &seconds, &err));
    CHECK_TRUE(first_s == seconds); /* the cache changes nothing */
    context_bound_free(&bound);
    return seconds;
}

/** Make a plan of one document on `context` ranks. */
static void one_document(struct plan *plan, int32_t context, int32_t tokens)
{
    hand_plan(plan, 1, 1, context);
    for (int pass = 0; pass < N_PASSES; pass++)
        hand_micro_batch(&plan->phases[0].pipelines[0].partition[pass], (struct slice){0, 0, tokens})->context =
            context;
    hand_order(plan);
}

/** Return the attention of a document in both passes, or what its collectives take. */
static double both_s(const struct cost_setting *setting, int32_t context, int32_t tokens, bool collectives)
{
    const struct slice document = {0, 0, tokens};
    const struct cost_micro_batch micro_batch = {.slices = &document, .n_slices = 1, .context = context};
    double seconds = 0;
    for (enum pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
        struct cost_pass cost = cost_of_pass(setting, pass, &micro_batch);
        seconds += collectives ? cost.context_s : cost.attention_s;
    }
    return seconds;
}

/* A contiguous ring leaves its last rank 3/4 of a causal triangle, and sums gradients. Its messages are shorter than
 * attention and run beside it. The bound has half of the triangle. */
TEST(context_bound__halves_the_attention_of_a_contiguous_ring)
{
    enum { TOKENS = 1 << 16 };
    struct cost_setting setting = *hand_setting();
    struct plan plan;
    setting.cp_type = SCENARIO_RING_CONTIGUOUS;
    setting.ranks = 2;
    one_document(&plan, 2, TOKENS);
    double own_s = both_s(&setting, 2, TOKENS, false), half_s = both_s(&setting, 1, TOKENS, false) / 2;
    CHECK_TRUE(own_s > 1.5 * half_s);
    CHECK_CLOSE(path_s(&plan, &setting) - bound_s(&plan, &setting), own_s - half_s, 1e-9);
    plan_free(&plan);
}

/* Gathered keys of one document leave each rank half of the attention. The gathers of both passes vanish. */
TEST(context_bound__removes_gathers)
{
    enum { TOKENS = 1 << 12 };
    struct cost_setting setting = *hand_setting();
    struct plan plan;
    setting.cp_type = SCENARIO_ALL_GATHER;
    setting.ranks = 2;
    one_document(&plan, 2, TOKENS);
    CHECK_CLOSE(both_s(&setting, 2, TOKENS, false), both_s(&setting, 1, TOKENS, false) / 2, 1e-12);
    double gathers_s = both_s(&setting, 2, TOKENS, true);
    CHECK_TRUE(gathers_s > 0);
    CHECK_CLOSE(path_s(&plan, &setting) - bound_s(&plan, &setting), gathers_s, 1e-9);
    plan_free(&plan);
}

/* Without context ranks the bound is the critical path itself. */
TEST(context_bound__changes_nothing_else)
{
    struct plan plan;
    one_document(&plan, 1, 64);
    CHECK_TRUE(bound_s(&plan, hand_setting()) == path_s(&plan, hand_setting()));
    plan_free(&plan);
}

/* Random plans have groups of pipelines, padding, recomputation and slices cut twice. */
TEST(context_bound__is_never_above_the_critical_path)
{
    static const int32_t types[] = {SCENARIO_RING, SCENARIO_RING_CONTIGUOUS, SCENARIO_ALL_GATHER, SCENARIO_ULYSSES};
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct cost_setting setting = *hand_setting();
        struct plan plan;
        hand_random(&plan, seed);
        setting.cp_type = types[seed % 4];
        setting.cp_overlap = seed % 8 < 4;
        double seconds = bound_s(&plan, &setting), own_s = path_s(&plan, &setting);
        if (!CHECK_TRUE(seconds <= own_s * (1 + 1e-12)))
            printf("seed %d: %.17g above %.17g\n", (int)seed, seconds, own_s);
        plan_free(&plan);
    }
}
