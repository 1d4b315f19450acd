/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the draws of `jitter:` and what they do to passes. */
#include "scenario/jitter.h"

#include <math.h>

#include "hand_dag.h"
#include "hand_plan.h"
#include "harness.h"

TEST(jitter__has_a_mean_of_one_and_its_coefficient_of_variation)
{
    enum { N = 100000 };
    struct jitter jitter = jitter_of((struct jitter){.forward = 0.016, .backward = 0.024}, 1, 0);
    for (int backward = 0; backward < 2; backward++) {
        double sum = 0, squares = 0;
        for (int32_t i = 0; i < N; i++) {
            double factor = jitter_factor(&jitter, backward, i % 64, i / 64 % 8, i / 512);
            CHECK_TRUE(factor > 0);
            sum += factor;
            squares += factor * factor;
        }
        double mean = sum / N;
        CHECK_CLOSE(mean, 1, 5 * 0.024 / sqrt(N)); /* five standard errors */
        CHECK_CLOSE(sqrt(squares / N - mean * mean), backward ? 0.024 : 0.016, 0.02);
    }
}

TEST(jitter__draws_the_same_again_and_others_for_another_pass)
{
    const struct jitter shares = {.forward = 0.1, .backward = 0.1};
    struct jitter jitter = jitter_of(shares, 1, 3), again = jitter_of(shares, 1, 3);
    double factor = jitter_factor(&jitter, false, 8, 1, 2);
    CHECK_TRUE(factor == jitter_factor(&again, false, 8, 1, 2));
    CHECK_TRUE(factor != jitter_factor(&jitter, true, 8, 1, 2) && factor != jitter_factor(&jitter, false, 9, 1, 2));
    CHECK_TRUE(factor != jitter_factor(&jitter, false, 8, 2, 2) && factor != jitter_factor(&jitter, false, 8, 1, 3));
    again = jitter_of(shares, 1, 4);
    CHECK_TRUE(factor != jitter_factor(&again, false, 8, 1, 2));
    again = jitter_of(shares, 2, 3);
    CHECK_TRUE(factor != jitter_factor(&again, false, 8, 1, 2));
    CHECK_TRUE(jitter_factor(&(struct jitter){.backward = 0.1}, false, 8, 1, 2) == 1);
}

/* Two replicas have one micro-batch each. Without transfers of gradients the step is the longer of both, each of which
 * has a forward and a backward of its own factor. */
TEST(jitter__stretches_the_kernels_of_each_pass)
{
    struct plan plan;
    struct jitter jitter = jitter_of((struct jitter){.forward = 0.1, .backward = 0.2}, 1, 0);
    struct cost_setting setting = *hand_setting();
    hand_whole_samples(&plan, 2, 1, 4096);
    setting.jitter = &jitter;
    double expected = 0;
    for (int32_t i = 0; i < 2; i++) {
        double rank_s = 0;
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            struct cost_pass cost = dag_pass_cost(&plan.phases[0].pipelines[i], &setting, pass, 0, 0);
            rank_s += jitter_factor(&jitter, pass == PASS_BACKWARD, i, 0, 0) * (cost.kernels_s + cost.attention_s);
        }
        expected = fmax(expected, rank_s);
    }
    CHECK_CLOSE(hand_plan_makespan_s(&plan, &setting, (struct dag_options){.fold_equal = true}), expected, 1e-12);
    plan_free(&plan);
}
