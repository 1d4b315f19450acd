/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/bound.h"

#include <math.h>

#include "hand_dag.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"

extern const struct training_system system_length_balanced;

/* A system of which no more is known than that it works on the batch. */
static const struct training_system bare = {.name = "bare"};

/* What length-balanced plans takes [s] without the embedding, which one place does unit by unit while the others wait.
 * gradient_sync: with what follows the passes. */
static double planned_s(struct hand_request *hand, bool gradient_sync)
{
    struct plan plan;
    hand_planned(hand, &system_length_balanced, "", &plan);
    const struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    double seconds = hand_plan_makespan_s(&plan, &hand->setting, (struct dag_options){.gradient_sync = gradient_sync});
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (int32_t i = 0; i < pipeline->cut[pass].n_units; i++) {
            struct cost_unit unit = dag_unit(pipeline, pass, i);
            double embedding_s = cost_of_embedding(&hand->setting, pass, &unit).other_s;
            CHECK_TRUE(embedding_s > 0);
            seconds -= embedding_s;
        }
    plan_free(&plan);
    return seconds;
}

/* One place does all, and kernels of the hand's machine take their work alone: nothing is left out but the embedding.
 * With full recomputation the forward of all layers, or of so many, comes once more. */
TEST(of_one_place_only_the_embedding_is_left_out)
{
    static const int32_t recompute_layers[] = {0, 300};
    for (int i = 0; i < 4; i++) {
        struct hand_request hand;
        hand_request_real(&hand, 1, 1, 5000);
        hand_batch(&hand, 3, (int32_t[]){5000, 800, 1700});
        hand.request.layout.recompute = i % 2 == 0 ? RECOMPUTE_NONE : RECOMPUTE_FULL;
        hand.setting.recompute_layers = recompute_layers[i / 2];
        double seconds = planned_s(&hand, true);
        CHECK_CLOSE(bound_of(&system_length_balanced, &hand.request, 1).time_s, seconds, 1e-12);
        CHECK_CLOSE(bound_of(&bare, &hand.request, 1).time_s, seconds, 1e-12);
        hand_request_free(&hand);
    }
}

/* Seconds of the passes that are known of one sample alone on one rank. */
static double sample_s(int32_t tokens)
{
    struct hand_request hand;
    hand_request_real(&hand, 1, 1, 5000);
    hand_batch(&hand, 1, &tokens);
    double all_s = bound_of(&bare, &hand.request, 1).time_s;
    double after_s = bound_after_passes_s(&hand.setting, &hand.request.layout);
    hand_request_free(&hand);
    return all_s - after_s;
}

/* Nothing known of shares: the mean of DP x CP ranks. A system with a state may run more later: what follows the passes
 * is over the largest share. */
TEST(work_is_spread_over_all_ranks)
{
    struct hand_request hand;
    hand_request_real(&hand, 3, 1, 5000);
    hand_batch(&hand, 2, (int32_t[]){5000, 1000});
    hand.request.layout.cp = 2;
    double after_s = bound_after_passes_s(&hand.setting, &hand.request.layout);
    CHECK_CLOSE(bound_of(&bare, &hand.request, 1).time_s, (sample_s(5000) + sample_s(1000)) / 6 + after_s, 1e-9);
    CHECK_CLOSE(bound_of(&bare, &hand.request, 4).time_s, (sample_s(5000) + sample_s(1000)) / 6 + after_s / 4, 1e-9);
    hand_request_free(&hand);
}

/* Ways to share a sample of 5000 and one of 1000 tokens between two ranks. */
enum { N_WAYS = 3 };
static const struct system_share ways[N_WAYS][2] = {{{0, 1}, {1, 1}}, {{0, 1}, {0, 1}}, {{0, 2}, {1, 1}}};
static int32_t first_way, n_ways; /* those that the system has, one after the other, from the last to the first again */

static bool shares(const struct plan_request *request, int32_t variant, struct system_share *share)
{
    for (int32_t i = 0; i < request->batch->n_samples; i++)
        share[i] = ways[(first_way + variant) % N_WAYS][i];
    return variant < n_ways;
}

static const struct training_system sharing = {.name = "sharing", .shares = shares};

/* Apart, both on the first, the long one on both: the most loaded rank counts, a rank's tokens of the longest need
 * memory. Of a system that has them all the least counts, whichever comes first. */
TEST(the_least_of_all_ways_to_share_counts)
{
    const double long_s = sample_s(5000), short_s = sample_s(1000);
    const double most_s[N_WAYS] = {long_s, long_s + short_s, long_s / 2 + short_s};
    double least_bytes = INFINITY;
    struct hand_request hand;
    hand_request_real(&hand, 2, 1, 5000);
    hand_batch(&hand, 2, (int32_t[]){5000, 1000});
    double after_s = bound_after_passes_s(&hand.setting, &hand.request.layout);
    n_ways = 1;
    for (first_way = 0; first_way < N_WAYS; first_way++) {
        struct bound one = bound_of(&sharing, &hand.request, 1);
        CHECK_CLOSE(one.time_s, most_s[first_way] + after_s, 1e-9);
        least_bytes = fmin(least_bytes, one.peak_bytes);
        CHECK_TRUE(first_way < 2 || one.peak_bytes == least_bytes); /* half of it on each rank */
    }
    n_ways = N_WAYS;
    for (first_way = 0; first_way < N_WAYS; first_way++) {
        struct bound all = bound_of(&sharing, &hand.request, 1);
        CHECK_CLOSE(all.time_s, most_s[2] + after_s, 1e-9);
        CHECK_TRUE(all.peak_bytes == least_bytes);
    }
    hand_request_free(&hand);
}

/* A pipeline runs the longest sample down and up again, one stage after the other: with one sample, and no bytes to
 * send, that is all there is. */
TEST(a_sample_alone_runs_through_all_stages)
{
    struct hand_request hand;
    struct platform platform = *hand_setting()->platform;
    struct device device = *hand_setting()->device;
    hand_request_real(&hand, 1, 4, 5000);
    hand_batch(&hand, 1, (int32_t[]){5000});
    platform.nvlink_bytes_per_s = 1e30;
    device.nvlink.latency_s = 0;
    hand.setting.platform = &platform;
    hand.setting.device = &device;
    double after_s = bound_after_passes_s(&hand.setting, &hand.request.layout);
    CHECK_CLOSE(bound_of(&system_length_balanced, &hand.request, 1).time_s, planned_s(&hand, false) + after_s, 1e-12);
    hand_request_free(&hand);
}

/* The bound takes even shares, a contiguous ring's slowest rank has more: the plan takes longer, and of a sample alone
 * the bound knows it. */
TEST(contiguous_ring__takes_no_less_than_its_bound)
{
    static const int32_t batches[][3] = {{5000, 0, 0}, {5000, 5000, 4000}, {5000, 800, 1700}};
    for (int i = 0; i < 3; i++)
        for (int32_t context = 2; context <= 8; context *= 2) {
            double bound_s[2], plan_s[2];
            for (int contiguous = 0; contiguous < 2; contiguous++) {
                struct hand_request hand;
                hand_request_real(&hand, 1, 1, 5000);
                hand_batch(&hand, i == 0 ? 1 : 3, batches[i]);
                hand.request.layout.cp = context;
                hand.request.layout.cp_type = contiguous ? SCENARIO_RING_CONTIGUOUS : SCENARIO_RING;
                bound_s[contiguous] = bound_of(&system_length_balanced, &hand.request, 1).time_s;
                plan_s[contiguous] = planned_s(&hand, true);
                CHECK_TRUE(bound_of(&bare, &hand.request, 1).time_s <= plan_s[contiguous] * (1 + 1e-12));
                hand_request_free(&hand);
            }
            CHECK_TRUE(bound_s[1] <= plan_s[1] * (1 + 1e-12));
            CHECK_TRUE(plan_s[1] > plan_s[0]);
            CHECK_TRUE(i > 0 || bound_s[1] > bound_s[0]);
        }
}

/* Of 839 layers and the head on two stages the last has 419: no more is known than of 838 layers, whatever the first
 * has. */
TEST(of_unequal_stages_the_least_one_counts)
{
    struct bound bounds[2];
    double after_s[2];
    for (int i = 0; i < 2; i++) {
        struct hand_request hand;
        hand_request_real(&hand, 2, 2, 5000);
        hand_batch(&hand, 2, (int32_t[]){5000, 1000});
        hand.model.layers = i == 0 ? 838 : 839;
        hand.request.layout.stages.count_head = i == 1;
        hand.setting.layers = i == 0 ? 419 : 420; /* of the first, as request_setting has it */
        bounds[i] = bound_of(&system_length_balanced, &hand.request, 1);
        after_s[i] = bound_after_passes_s(&hand.setting, &hand.request.layout);
        hand_request_free(&hand);
    }
    CHECK_TRUE(bounds[0].time_s == bounds[1].time_s && bounds[0].peak_bytes == bounds[1].peak_bytes);
    CHECK_TRUE(after_s[0] == after_s[1]);
}
