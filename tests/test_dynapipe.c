/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of DynaPipe. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "packing/packing.h"
#include "plan/order.h"

extern const struct training_system system_dynapipe;

static void plan_of(struct hand_request *hand, const char *knobs, struct plan *plan)
{
    struct error err = {0};
    hand_planned(hand, system_find("dynapipe", &err), knobs, plan);
}

/* Find the seconds of the run [begin, end) of equal samples on a stage, both passes. It has no padding, so attention
 * adds up. */
static double run_s(const struct hand_request *hand, int32_t n, int32_t tokens)
{
    struct slice slices[16];
    double seconds = 0;
    for (int32_t i = 0; i < n; i++)
        slices[i] = (struct slice){i, 0, tokens};
    struct cost_micro_batch micro_batch = {.slices = slices, .n_slices = n, .context = 1};
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(hand->request.setting, pass, &micro_batch);
        seconds += cost_pass_s(&cost);
    }
    return seconds;
}

/* Eight equal samples have 2^k tokens, whose seconds are exact on the grid. The machine's kernels take time in
 * proportion to tokens, so all cuts have one sum. The least ceiling, one sample a micro-batch, wins with stages after
 * it. */
TEST(dynapipe__runs_equal_samples_one_by_one)
{
    struct hand_request hand;
    struct plan plan;
    int32_t tokens[8];
    for (int i = 0; i < 8; i++)
        tokens[i] = 1024;
    hand_request_real(&hand, 1, 4, 1024);
    hand_batch(&hand, 8, tokens);
    plan_of(&hand, "", &plan);
    CHECK_CLOSE(run_s(&hand, 8, 1024), 8 * run_s(&hand, 1, 1024), 1e-9);
    CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].n_micro_batches, 8);
    CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[0].padding_tokens, 0);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Each run is padded to its longest sample, rounded up to 8. Runs are of neighbours in length. */
TEST(dynapipe__pads_a_run_to_its_longest)
{
    struct hand_request hand;
    struct plan plan;
    hand_request_real(&hand, 2, 2, 3000);
    hand_batch_of(&hand, HAND_LONG_TAIL, 60, 5);
    plan_of(&hand, "", &plan);
    int32_t shortest[64], longest[64], n = 0;
    for (int32_t rank = 0; rank < 2; rank++) {
        const struct plan_partition *partition = &plan.phases[0].pipelines[rank].partition[PASS_FORWARD];
        for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++, n++) {
            const struct plan_micro_batch *part = &partition->micro_batches[micro_batch];
            shortest[n] = INT32_MAX;
            longest[n] = 0;
            for (int32_t i = 0; i < part->n_slices; i++) {
                int32_t tokens = slice_tokens(partition->slices[part->first_slice + i]);
                shortest[n] = tokens < shortest[n] ? tokens : shortest[n];
                longest[n] = tokens > longest[n] ? tokens : longest[n];
            }
            CHECK_EQUAL(plan_micro_batch_tokens(partition, micro_batch) + part->padding_tokens,
                        part->n_slices * ((longest[n] + 7) / 8 * 8));
        }
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < n; j++)
            CHECK_TRUE(i == j || shortest[i] >= longest[j] || shortest[j] >= longest[i]);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Find the seconds of a run of samples, both passes, by the header. Attention counts sample by sample. All else counts
 * the padded tokens, interpolated between powers of two. */
static double padded_s(const struct hand_request *hand, const int32_t *tokens, int32_t n)
{
    int64_t padded = (int64_t)n * ((tokens[0] + 7) / 8 * 8);
    int32_t low = 1;
    double attention_s = 0, other_s[2] = {0};
    while (2 * low <= padded)
        low *= 2;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        for (int i = 0; i < 2; i++) {
            struct cost_micro_batch micro_batch = {.padding_tokens = low << i, .context = 1};
            micro_batch.recompute = (enum recompute)hand->request.layout.recompute;
            struct cost_pass cost = cost_of_pass(hand->request.setting, pass, &micro_batch);
            other_s[i] += cost_pass_s(&cost);
        }
        for (int32_t i = 0; i < n; i++) {
            struct slice slice = {0, 0, tokens[i]};
            struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
            micro_batch.recompute = (enum recompute)hand->request.layout.recompute;
            attention_s += cost_of_pass(hand->request.setting, pass, &micro_batch).attention_s;
        }
    }
    return other_s[0] + (other_s[1] - other_s[0]) * (double)(padded - low) / low + attention_s;
}

/* Find (p - 1) T + sum / DP of the runs that end behind the samples of `ends`. It is infinite if one does not fit. */
static double end_of_runs_s(const struct hand_request *hand, const int32_t *tokens, int32_t n, uint32_t ends,
                            double limit)
{
    double most_s = 0, sum_s = 0;
    for (int32_t begin = 0, end = 1; end <= n; end++) {
        if (end < n && !(ends >> (end - 1) & 1))
            continue;
        double seconds = padded_s(hand, tokens + begin, end - begin);
        int32_t padded = (tokens[begin] + 7) / 8 * 8;
        if ((end - begin) * padded > limit)
            return INFINITY;
        most_s = fmax(most_s, seconds);
        sum_s += seconds;
        begin = end;
    }
    return (double)(hand->request.layout.pp - 1) * most_s + sum_s / (double)hand->request.layout.dp;
}

/* Find the runs of a plan, as end_of_runs_s takes them. Samples are sorted, the longest first. */
static uint32_t ends_of(const struct plan *plan)
{
    uint32_t ends = 0;
    for (int32_t i = 0; i < plan->phases->n_pipelines; i++) {
        const struct plan_partition *partition = &plan->phases->pipelines[i].partition[PASS_FORWARD];
        for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++) {
            int32_t last = 0;
            for (int32_t k = 0; k < partition->micro_batches[micro_batch].n_slices; k++)
                last = (int32_t)fmax(last,
                                     partition->slices[partition->micro_batches[micro_batch].first_slice + k].sample);
            ends |= 1U << last;
        }
    }
    return ends;
}

/* Eight samples can be cut in 2^7 ways. Ceilings are 0.1% apart. The one above the best way's longest run has no
 * greater sum, so the result ends at most 0.1% later. */
TEST(dynapipe__finds_the_runs_that_end_first)
{
    uint64_t seed = 9;
    int32_t n_cut = 0, n_joined = 0;
    for (int32_t round = 0; round < 24; round++) {
        struct hand_request hand;
        struct plan plan;
        int32_t tokens[8] = {4000};
        hand_request_real(&hand, 1 + round % 2, 1 + round % 5, 4000);
        struct device device = *hand.setting.device;
        device.launch_s = 1e-4; /* so that joining saves something */
        hand.setting.device = &device;
        hand.request.memory_bytes = round % 3 == 0 ? 3e9 : hand.request.memory_bytes;
        for (int32_t i = 1; i < 8; i++)
            tokens[i] = tokens[i - 1] - hand_below(&seed, tokens[i - 1] * (1 + round % 3) / 4);
        hand_batch(&hand, 8, tokens);
        plan_of(&hand, "step: 0.001", &plan);
        hand.request.layout.recompute =
            (int32_t)plan.phases->pipelines[0].partition[PASS_FORWARD].micro_batches[0].recompute;
        double limit = (double)packing_memory_tokens(&hand.request), least_s = INFINITY;
        uint32_t found = ends_of(&plan);
        limit = limit >= 4000 ? limit : packing_streamed_tokens(&hand.request, 1, 0);
        for (uint32_t ends = 0; ends < 128; ends++)
            least_s = fmin(least_s, end_of_runs_s(&hand, tokens, 8, ends, limit));
        double found_s = end_of_runs_s(&hand, tokens, 8, found, limit);
        CHECK_TRUE(found_s >= least_s && found_s <= least_s * (1 + 0.001 + 1e-12));
        n_cut += (found & 127) != 0;
        n_joined += (found & 127) != 127;
        plan_free(&plan);
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_cut > 5 && n_joined > 5);
}

/* With less and less memory the recomputation is none, selective, full. It is the first with which the longest sample
 * fits p times. */
TEST(dynapipe__recomputes_by_memory)
{
    struct hand_request hand;
    hand_request_real(&hand, 1, 2, 4096);
    hand_batch(&hand, 2, (int32_t[]){4096, 1000});
    int last = -1, n_changes = 0;
    for (double bytes = 10e9; bytes > 1e9; bytes *= 0.97) {
        struct plan plan;
        hand.request.memory_bytes = bytes;
        plan_of(&hand, "", &plan);
        int recompute = (int)plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[0].recompute;
        hand.request.layout.recompute = recompute;
        if (packing_memory_tokens(&hand.request) >= 4096 && recompute != last) {
            CHECK_TRUE(recompute > last);
            last = recompute;
            n_changes++;
        }
        for (int weaker = RECOMPUTE_NONE; weaker < recompute && packing_memory_tokens(&hand.request) >= 4096;
             weaker += weaker == RECOMPUTE_NONE ? (int)RECOMPUTE_SELECTIVE : (int)RECOMPUTE_FULL) {
            hand.request.layout.recompute = weaker;
            CHECK_TRUE(packing_memory_tokens(&hand.request) < 4096);
            hand.request.layout.recompute = recompute;
        }
        plan_free(&plan);
    }
    CHECK_EQUAL(n_changes, 3);
    hand_request_free(&hand);
}

/* 8 7 6 5 4 go into two sets. 8-7 leaves 1, 6-5 leaves 1, 4-1 leaves 3, 3-1 leaves 2. The sums are 16 and 14, though 15
 * and 15 exist (Karmarkar and Karp's known example). In three sets (8 0 0)(7 0 0) gives (8 7 0), with (6 0 0) it gives
 * (8 7 6), spread 2. (5 0 0) and (4 0 0), the widest now, give (5 4 0). With (8 7 6) they give 8+0, 7+4, 6+5 = 11
 * 11 8. */
TEST(differencing__matches_the_sums_counted_by_hand)
{
    const double weight[] = {8, 7, 6, 5, 4};
    for (int32_t k = 2; k <= 3; k++) {
        double sum[3] = {0};
        int32_t set[5];
        packing_differencing(weight, 5, k, false, set);
        for (int i = 0; i < 5; i++) {
            CHECK_TRUE(0 <= set[i] && set[i] < k);
            sum[set[i]] += weight[i];
        }
        CHECK_TRUE(k == 2 ? sum[0] == 16 && sum[1] == 14 : sum[0] == 11 && sum[1] == 11 && sum[2] == 8);
    }
}

static int descending(const void *a, const void *b)
{
    return (*(const double *)a < *(const double *)b) - (*(const double *)a > *(const double *)b);
}

/* Keep partitions as their sums alone, descending. Two of n rows of k become one until one is left. */
static void difference(double (*sums)[6], int32_t n, int32_t k)
{
    for (; n > 1; n--) {
        for (int32_t i = 0; i < 2; i++) /* the two of the widest spread go to the end */
            for (int32_t j = 0; j < n - 1 - i; j++)
                if (sums[j][0] - sums[j][k - 1] > sums[n - 1 - i][0] - sums[n - 1 - i][k - 1])
                    for (int32_t c = 0; c < k; c++) {
                        double other = sums[j][c];
                        sums[j][c] = sums[n - 1 - i][c];
                        sums[n - 1 - i][c] = other;
                    }
        for (int32_t c = 0; c < k; c++)
            sums[n - 2][c] += sums[n - 1][k - 1 - c];
        qsort(sums[n - 2], (size_t)k, sizeof **sums, descending);
    }
}

/* All weights differ, so no two spreads are equal. */
TEST(differencing__agrees_with_its_definition)
{
    uint64_t seed = 17;
    for (int32_t round = 0; round < 200; round++) {
        double weight[30], sums[30][6] = {0}, sum[6] = {0};
        int32_t n = 1 + hand_below(&seed, 30), k = 2 + hand_below(&seed, 5), set[30];
        for (int32_t i = 0; i < n; i++)
            sums[i][0] = weight[i] = sqrt(2 + hand_below(&seed, 1000000) + i * 1e-3);
        packing_differencing(weight, n, k, false, set);
        difference(sums, n, k);
        for (int32_t i = 0; i < n; i++)
            sum[set[i]] += weight[i];
        for (int32_t c = 0; c < k; c++)
            CHECK_TRUE(fabs(sum[c] - sums[0][c]) <= 1e-9 * sums[0][0]);
    }
}

/* No sum is more than one weight above the mean. */
TEST(differencing__stays_near_the_mean)
{
    uint64_t seed = 5;
    for (int32_t round = 0; round < 200; round++) {
        double weight[40], sum[8] = {0}, most = 0, all = 0;
        int32_t n = 1 + hand_below(&seed, 40), k = 1 + hand_below(&seed, 8), set[40];
        for (int32_t i = 0; i < n; i++) {
            weight[i] = 1 + hand_below(&seed, 1000);
            most = fmax(most, weight[i]);
            all += weight[i];
        }
        packing_differencing(weight, n, k, false, set);
        for (int32_t i = 0; i < n; i++)
            sum[set[i]] += weight[i];
        for (int32_t i = 0; i < k; i++)
            CHECK_TRUE(sum[i] <= all / k + most);
    }
}

/* p = 2, m = 3, and sizes are 1. Without a limit cycle 1 runs F0 on stage 0. Then 2 runs F1 | F0, 3 F2 | B0 F1, 4 B0 |
 * B1 F2, 5 B1 | B2 and 6 B2. A limit of 1 keeps F1 back until B0: strictly one by one. With a limit of 2 the forward F2
 * waits for B0 on stage 0. */
TEST(adaptive_schedule__matches_the_order_counted_by_hand)
{
    const double size[] = {1, 1, 1};
    const char *const orders[][2] = {{"F0 B0 F1 B1 F2 B2", "F0 B0 F1 B1 F2 B2"},
                                     {"F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2"},
                                     {"F0 F1 F2 B0 B1 B2", "F0 B0 F1 B1 F2 B2"}};
    for (int limit = 1; limit <= 3; limit++) {
        struct plan plan;
        hand_uniform(&plan, 2, 3, 16);
        order_adaptive(&plan.phases[0].pipelines[0], size, limit);
        for (int32_t stage = 0; stage < 2; stage++)
            CHECK_TEXT(hand_order_text(&plan.phases[0].pipelines[0], stage), orders[limit - 1][stage]);
        plan_free(&plan);
    }
}

/* No stage has more than the limit, except for a micro-batch that is alone. All micro-batches run. */
TEST(adaptive_schedule__keeps_its_limit)
{
    uint64_t seed = 9;
    for (int32_t round = 0; round < 200; round++) {
        struct plan plan;
        double size[20], limit = 1 + hand_below(&seed, 60);
        int32_t p = 1 + hand_below(&seed, 6), m = 1 + hand_below(&seed, 20);
        for (int32_t i = 0; i < m; i++)
            size[i] = 1 + hand_below(&seed, 30);
        hand_uniform(&plan, p, m, 16);
        struct plan_pipeline *pipeline = plan.phases[0].pipelines;
        order_adaptive(pipeline, size, limit);
        for (int32_t stage = 0; stage < p; stage++) {
            double held = 0;
            int32_t n_held = 0;
            for (int32_t i = pipeline->step_first[stage]; i < pipeline->step_first[stage + 1]; i++) {
                bool forward = pipeline->steps[i].pass == PASS_FORWARD;
                held += forward ? size[pipeline->steps[i].micro_batch] : -size[pipeline->steps[i].micro_batch];
                n_held += forward ? 1 : -1;
                CHECK_TRUE(held <= limit || n_held == 1);
            }
            CHECK_EQUAL(n_held, 0);
        }
        struct error err = {0};
        int32_t tokens[20];
        for (int32_t i = 0; i < m; i++)
            tokens[i] = 16;
        CHECK_TRUE(plan_check(&plan, m, tokens, &err));
        plan_free(&plan);
    }
}

/* Equal samples on four stages are micro-batches of their own, as T counts three times. The original order and all
 * permutations of four clusters are tried, and of three clusters above 20 micro-batches. */
TEST(dynapipe__uses_three_clusters_above_twenty_micro_batches)
{
    int32_t tokens[21];
    for (int32_t i = 0; i < 21; i++)
        tokens[i] = 512;
    for (int32_t n = 20; n <= 21; n++) {
        struct hand_request hand;
        struct plan plan;
        hand_request_real(&hand, 1, 4, 512);
        hand_batch(&hand, n, tokens);
        hand_planned(&hand, &system_dynapipe, "", &plan);
        CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].n_micro_batches, n);
        CHECK_EQUAL(plan.n_resolved, n == 20 ? 25 : 7);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}
