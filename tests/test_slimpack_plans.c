/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests compare the plans that SlimPack finds with less freedom, or with more memory. */
#include <math.h>

#include "bounds/evaluate.h"
#include "hand_model.h"
#include "hand_request.h"
#include "harness.h"
#include "plan/check.h"
#include "system/slimpack.h"

extern const struct training_system system_slimpack;

static void random_request(struct hand_request *hand, int32_t dp, int32_t round, uint64_t *seed)
{
    static const enum recompute recompute[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    hand_request_real(hand, dp, 1 << hand_below(seed, 3), 256 + hand_below(seed, 100000));
    hand_heads(&hand->model, (uint64_t)round);
    hand->request.layout.recompute = (int32_t)recompute[hand_below(seed, 3)];
    hand_batch_of(hand, (enum hand_law)(round % HAND_N_LAWS), 1 + hand_below(seed, 24), *seed);
}

static struct evaluation solve(struct hand_request *hand, const char *knobs)
{
    struct error err = {0};
    struct plan plan = {0};
    struct evaluator evaluator = {0};
    struct evaluation evaluation = {0};
    hand_knobs(hand, &system_slimpack, knobs);
    CHECK_TRUE(system_slimpack.plan(&hand->request, NULL, &plan, &err));
    CHECK_TRUE(plan_check(&plan, hand->batch.n_samples, hand->batch.tokens, &err));
    CHECK_TRUE(
        evaluate(&evaluator, &plan, &hand->setting, (struct dag_options){.gradient_sync = false}, &evaluation, &err));
    evaluator_free(&evaluator);
    plan_free(&plan);
    return evaluation;
}

TEST(slimpack__is_no_slower_than_whole_samples)
{
    struct hand_request hand;
    for (uint64_t seed = 83, round = 0; round < 12; round++) {
        random_request(&hand, 1 + hand_below(&seed, 6), (int32_t)round, &seed);
        hand.request.memory_bytes = 1e18;
        CHECK_TRUE(solve(&hand, "").makespan_s <= 1.005 * solve(&hand, "slicing: false").makespan_s);
        hand_request_free(&hand);
    }
}

TEST(slimpack__is_no_slower_with_dp_merge)
{
    struct hand_request hand;
    for (uint64_t seed = 89, round = 0; round < 12; round++) {
        random_request(&hand, 1 << hand_below(&seed, 4), (int32_t)round, &seed);
        hand.request.memory_bytes = 1e18;
        CHECK_TRUE(solve(&hand, "").makespan_s <= 1.005 * solve(&hand, "dp_merge: false").makespan_s);
        hand_request_free(&hand);
    }
}

/* Memory rises from half of that which the plan takes without a limit, in steps of 10%. */
TEST(slimpack__is_no_slower_with_more_memory)
{
    struct hand_request hand;
    int32_t n_fits = 0;
    for (uint64_t seed = 97, round = 0; round < 8; round++) {
        double best_s = INFINITY;
        random_request(&hand, 2 << hand_below(&seed, 3), (int32_t)round, &seed);
        hand.request.memory_bytes = 1e18;
        double peak_bytes = solve(&hand, "").peak_bytes;
        for (int32_t percent = 50; percent <= 110; percent += 10) {
            hand.request.memory_bytes = peak_bytes * percent / 100;
            struct evaluation evaluation = solve(&hand, "");
            if (evaluation.peak_bytes > hand.request.memory_bytes) {
                CHECK_TRUE(best_s == INFINITY);
                continue;
            }
            CHECK_TRUE(evaluation.makespan_s <= 1.005 * best_s);
            best_s = fmin(best_s, evaluation.makespan_s);
            n_fits++;
        }
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_fits > 20);
}

/* A backward cut by forward FLOPs has the same slices, so that no MicroPack waits for another's whole chain. */
TEST(slimpack__cuts_both_passes_alike_without_asymmetry)
{
    struct hand_request hand;
    for (uint64_t seed = 101, round = 0; round < 8; round++) {
        random_request(&hand, 1 << hand_below(&seed, 3), (int32_t)round, &seed);
        hand.request.memory_bytes = 1e18;
        double peak_bytes = solve(&hand, "injection: just-in-time").peak_bytes;
        CHECK_TRUE(solve(&hand, "{asymmetric: false, injection: just-in-time}").peak_bytes <= 1.5 * peak_bytes);
        hand_request_free(&hand);
    }
}
