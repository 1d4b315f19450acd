/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of SlimPack. */
#include "base/check.h"
#include "bounds/lower_bound.h"
#include "bounds/memory.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "packing/samples.h"
#include "plan/order.h"
#include "simulate/micro_batches.h"
#include "system/slimpack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const struct training_system system_slimpack;

/* Build phases 1 and 2 for all ranks, with m MicroPacks each. */
static void build(struct hand_request *hand, const char *knobs, int64_t m, struct plan_phase *phase)
{
    struct slimpack_split split;
    hand_knobs(hand, &system_slimpack, knobs);
    const struct slimpack_knobs *read = hand->request.knobs;
    const struct slimpack_cut cut = {m, read->slicing ? SLIMPACK_CUT_ANY : SLIMPACK_CUT_NONE};
    slimpack_split(&hand->request, read->dp_merge ? SLIMPACK_MERGE : SLIMPACK_MERGE_NONE, 0, &split);
    slimpack_build(&(struct slimpack_rank_group){&hand->request, &split, 0, split.n_ranks, NULL}, &cut, phase);
    slimpack_split_free(&split);
}

static void check_formations(const struct plan_partition *partition, int32_t n, const enum plan_formation *expected)
{
    CHECK_EQUAL(partition->n_micro_batches, n);
    for (int32_t i = 0; i < n; i++)
        CHECK_EQUAL(partition->micro_batches[i].formation, expected[i]);
}

static void check_needs(const struct plan_pipeline *pipeline, int32_t n, const int32_t *expected)
{
    CHECK_EQUAL(pipeline->partition[PASS_BACKWARD].n_micro_batches, n);
    for (int32_t i = 0; i < n; i++)
        CHECK_EQUAL(pipeline->need[i], expected[i]);
}

/* The paper's figure of formation states has S1..S9 in 5 MicroPacks of F(x) = 2x(x + 5). S1 (20 tokens) costs 1000, S2
 * (10) 300, S3..S9 (5) 100 each: 2000, so 400 a MicroPack. F = 400 and 800 in S1 are at 11.86 and 17.66: slim, slim.
 * Then 200 of S1 and 200 of S2 (7.81) are mix. 100 of S2 and S3..S5 are mix. S6..S9 are pack. Backward, 5x^2 + 21x, S1
 * costs 2420, S2 710, S3..S9 230 each: 4740, so 948 a MicroPack. From the end of S1, 1472 and 524 are left at 15.19
 * and 8.35. Then 286 of S2 are left at 5.75. Then S3, S4 and 202 of S5's 230 follow, with 28 left at 1.06. */
TEST(slimpack__forms_slim_mix_and_pack_of_nine_samples)
{
    struct hand_request hand;
    struct plan_phase phase;
    hand_request(&hand, 1, 1, 20);
    hand_batch(&hand, 9, (int32_t[]){20, 10, 5, 5, 5, 5, 5, 5, 5});
    build(&hand, "", 5, &phase);
    struct plan_pipeline *pipeline = phase.pipelines;
    CHECK_TEXT(hand_cut_text(&pipeline->partition[PASS_FORWARD]),
               "[0:0-12] [0:12-18] [0:18-20 1:0-8] [1:8-10 2:0-5 3:0-5 "
               "4:0-5] [5:0-5 6:0-5 7:0-5 8:0-5]");
    CHECK_TEXT(hand_cut_text(&pipeline->partition[PASS_BACKWARD]),
               "[0:15-20] [0:8-15] [0:0-8 1:6-10] [1:0-6 2:0-5 3:0-5 "
               "4:1-5] [4:0-1 5:0-5 6:0-5 7:0-5 8:0-5]");
    check_formations(&pipeline->partition[PASS_FORWARD], 5,
                     (enum plan_formation[]){PLAN_SLIM, PLAN_SLIM, PLAN_MIX, PLAN_MIX, PLAN_PACK});
    check_formations(&pipeline->partition[PASS_BACKWARD], 5,
                     (enum plan_formation[]){PLAN_SLIM, PLAN_SLIM, PLAN_MIX, PLAN_MIX, PLAN_MIX});
    check_needs(pipeline, 5, (int32_t[]){3, 3, 4, 4, 5});
    plan_phase_free(&phase);
    hand_request_free(&hand);
}

/* The paper's figure of DP-Merge has an outlier of 40 tokens and 8 samples of 5 on 4 ranks, 5 MicroPacks each. f = 3600
 * and 100, so the total is 4400 and C = 1100. f/2 is more than C, f/4 = 900 is not, so CP = 4. A rank has 900 in 4
 * MicroPacks of 225, and two samples in one of 200. These are smallest (3 and 2 MicroPacks: 300). The outlier is cut at
 * F of 900, 1800, 2700: at 18.86, 27.60, 34.33. Backward it has 8840, a rank's 2210 in 4 MicroPacks of 552.5 beside
 * 460. It is cut with 6630, 4420, 2210 left: at 34.37, 27.71, 19.03. */
TEST(slimpack__shares_an_outlier_by_four_ranks)
{
    struct hand_request hand;
    struct plan_phase phase;
    hand_request(&hand, 4, 2, 40);
    hand_batch(&hand, 9, (int32_t[]){5, 5, 5, 5, 40, 5, 5, 5, 5});
    build(&hand, "", 5, &phase);
    const char *const local[] = {"[0:0-5 5:0-5]", "[1:0-5 6:0-5]", "[2:0-5 7:0-5]", "[3:0-5 8:0-5]"};
    CHECK_EQUAL(phase.n_groups, 1);
    CHECK_EQUAL(phase.groups[0].n_pipelines, 4);
    for (int32_t rank = 0; rank < 4; rank++) {
        struct plan_pipeline *pipeline = &phase.pipelines[rank];
        char text[256];
        snprintf(text, sizeof text, "[4:0-19] [4:19-28] [4:28-34] [4:34-40] %s", local[rank]);
        CHECK_TEXT(hand_cut_text(&pipeline->partition[PASS_FORWARD]), text);
        snprintf(text, sizeof text, "[4:34-40] [4:28-34] [4:19-28] [4:0-19] %s", local[rank]);
        CHECK_TEXT(hand_cut_text(&pipeline->partition[PASS_BACKWARD]), text);
        check_formations(&pipeline->partition[PASS_FORWARD], 5,
                         (enum plan_formation[]){PLAN_SLIM, PLAN_SLIM, PLAN_SLIM, PLAN_SLIM, PLAN_PACK});
        for (int32_t i = 0; i < 5; i++) {
            CHECK_EQUAL(pipeline->partition[PASS_FORWARD].micro_batches[i].context, i < 4 ? 4 : 1);
            CHECK_EQUAL(pipeline->partition[PASS_BACKWARD].micro_batches[i].group, i < 4 ? 0 : -1);
        }
        check_needs(pipeline, 5, (int32_t[]){4, 4, 4, 4, 5});
    }
    plan_phase_free(&phase);
    hand_request_free(&hand);
}

/* The paper's figure of the injected MicroPack has six samples in five MicroPacks each way. Six equal samples have cost
 * 1, so a MicroPack has 6/5. The backward of sample 0 is too short for a MicroPack and takes the end of sample 1, whose
 * forward ends in MicroPack 1. So the last stage runs F1 before B0. Likewise each backward but the last two needs one
 * forward more than its number. */
TEST(slimpack__injects_a_forward_for_six_samples_in_five_micro_batches)
{
    struct hand_request hand;
    struct plan_phase phase;
    hand_request(&hand, 1, 2, 10);
    hand_batch(&hand, 6, (int32_t[]){10, 10, 10, 10, 10, 10});
    build(&hand, "", 5, &phase);
    struct plan_pipeline *pipeline = phase.pipelines;
    CHECK_EQUAL(pipeline->partition[PASS_FORWARD].n_micro_batches, 5);
    CHECK_EQUAL(pipeline->partition[PASS_BACKWARD].n_micro_batches, 5);
    check_needs(pipeline, 5, (int32_t[]){2, 3, 4, 5, 5});
    order_one_f_one_b(pipeline, ORDER_JUST_IN_TIME);
    CHECK_TEXT(hand_order_text(pipeline, 1), "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
    CHECK_TEXT(hand_order_text(pipeline, 0), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
    plan_phase_free(&phase);
    hand_request_free(&hand);
}

/* Four samples of 4 (F = 72) go into 3 MicroPacks of 96: F = 24 is at 1.77, 48 at 3. Backward F = 48 is left of sample
 * 1, and 24 of sample 2. */
TEST(slimpack__cuts_symmetric_micro_batches_by_forward_flops)
{
    struct hand_request hand;
    struct plan_phase phase;
    hand_request(&hand, 1, 1, 4);
    hand_batch(&hand, 4, (int32_t[]){4, 4, 4, 4});
    build(&hand, "asymmetric: false", 3, &phase);
    CHECK_TEXT(hand_cut_text(&phase.pipelines->partition[PASS_FORWARD]), "[0:0-4 1:0-2] [1:2-4 2:0-3] [2:3-4 3:0-4]");
    CHECK_TEXT(hand_cut_text(&phase.pipelines->partition[PASS_BACKWARD]), "[0:0-4 1:3-4] [1:0-3 2:2-4] [2:0-2 3:0-4]");
    plan_phase_free(&phase);
    hand_request_free(&hand);
}

/* The samples are those of the DP-Merge figure without its parts. Unmerged, the outlier runs on rank 0 alone and the
 * others share the rest. A threshold of 4 x C = 4400 merges nothing. Without slicing the outlier is one MicroPack. */
TEST(slimpack_knobs__switch_parts_off)
{
    struct hand_request hand;
    struct plan_phase phase;
    hand_request(&hand, 4, 2, 40);
    hand_batch(&hand, 9, (int32_t[]){5, 5, 5, 5, 40, 5, 5, 5, 5});
    const char *const lines[] = {"dp_merge: false", "merge_threshold: 4", "{slicing: false, dp_merge: false}"};
    for (int32_t i = 0; i < 3; i++) {
        build(&hand, lines[i], 2, &phase);
        CHECK_EQUAL(phase.n_groups, 0);
        CHECK_TEXT(hand_cut_text(&phase.pipelines[0].partition[PASS_FORWARD]),
                   i < 2 ? "[4:0-28] [4:28-40]" : "[4:0-40]");
        CHECK_TEXT(hand_cut_text(&phase.pipelines[1].partition[PASS_FORWARD]),
                   i < 2 ? "[0:0-5 3:0-3] [3:3-5 7:0-5]" : "[0:0-5 7:0-5] [3:0-5]");
        plan_phase_free(&phase);
    }
    hand_request_free(&hand);
}

TEST(slimpack__refuses_cp)
{
    struct hand_request hand;
    struct plan plan = {0};
    struct error err = {0};
    hand_request(&hand, 1, 1, 4);
    hand_batch(&hand, 1, (int32_t[]){4});
    hand_knobs(&hand, &system_slimpack, "");
    hand.request.layout.cp = 2;
    hand_options(&hand.setting, &hand.request.layout);
    CHECK_TRUE(!system_slimpack.plan(&hand.request, NULL, &plan, &err));
    CHECK_CONTAINS(err.text, "slimpack: plan.cp must be 1, is 2");
    hand_request_free(&hand);
}

/* Check every share that an outlier leaves on a rank, and the other rules of phase 1 that hold for any batch. */
static void check_split(const struct hand_request *hand, const struct slimpack_split *split)
{
    struct flop_curve curve = flop_layer_curve(&hand->model, 0, PASS_FORWARD);
    fill_flop load[16] = {0}, sum = 0, least, most, largest = 0;
    int32_t n = split->n_outliers + split->local_first[split->n_ranks], ranks = split->n_ranks, wrong = 0;
    for (int32_t i = 0; i < split->n_outliers; i++) {
        const struct slimpack_outlier *o = &split->outliers[i], *before = i > 0 ? o - 1 : NULL;
        fill_flop flop = (fill_flop)flop_of_prefix(curve, hand->batch.tokens[o->sample]) * ranks;
        int32_t of = before != NULL ? before->width : ranks;
        wrong += o->width < 2 || of % o->width != 0 || o->first_rank % o->width != 0;
        wrong += flop <= split->total || flop > split->total * o->width;
        for (int32_t g = 1; g < o->width; g++)
            wrong += of % g == 0 && flop <= split->total * g;
        for (int32_t rank = o->first_rank; rank < o->first_rank + o->width; rank++)
            load[rank] += flop / o->width;
    }
    for (int32_t rank = 0; rank < ranks; rank++)
        for (int32_t i = split->local_first[rank]; i < split->local_first[rank + 1]; i++) {
            fill_flop flop = (fill_flop)flop_of_prefix(curve, hand->batch.tokens[split->local[i]]) * ranks;
            largest = flop > largest ? flop : largest;
            load[rank] += flop;
        }
    least = most = load[0];
    for (int32_t rank = 0; rank < ranks; rank++) {
        sum += load[rank];
        wrong += load[rank] != split->load[rank];
        least = load[rank] < least ? load[rank] : least;
        most = load[rank] > most ? load[rank] : most;
    }
    CHECK_EQUAL(wrong, 0);
    CHECK_EQUAL(n, hand->batch.n_samples);
    CHECK_TRUE(sum == split->total * ranks);
    /* By least load no rank is above the mean by more than one share, local (<= C) or of an outlier (<= C). */
    CHECK_TRUE(most <= 2 * split->total);
    /* Without outliers, longest processing time first gives a spread of at most one sample. */
    CHECK_TRUE(split->n_outliers > 0 || most - least <= largest);
}

/* Check that each local sample, longest first, went to the rank that had the least load then (ties: the lowest). */
static void check_greedy(const struct hand_request *hand, const struct slimpack_split *split)
{
    struct flop_curve curve = flop_layer_curve(&hand->model, 0, PASS_FORWARD);
    fill_flop load[16] = {0};
    int32_t next[16] = {0}, wrong = 0, ranks = split->n_ranks, *order = samples_by_length(&hand->batch);
    for (int32_t i = 0; i < split->n_outliers; i++)
        for (int32_t k = 0; k < split->outliers[i].width; k++)
            load[split->outliers[i].first_rank + k] +=
                (fill_flop)flop_of_prefix(curve, hand->batch.tokens[split->outliers[i].sample]) *
                (ranks / split->outliers[i].width);
    for (int32_t rank = 0; rank < ranks; rank++)
        next[rank] = split->local_first[rank];
    for (int32_t i = split->n_outliers; i < hand->batch.n_samples; i++) {
        int32_t least = 0;
        for (int32_t rank = 1; rank < ranks; rank++)
            least = load[rank] < load[least] ? rank : least;
        wrong += next[least] == split->local_first[least + 1] || split->local[next[least]] != order[i];
        next[least]++;
        load[least] += (fill_flop)flop_of_prefix(curve, hand->batch.tokens[order[i]]) * ranks;
    }
    CHECK_EQUAL(wrong, 0);
    free(order);
}

TEST(slimpack_split__keeps_the_rules_of_phase_1)
{
    uint64_t seed = 17;
    int32_t n_merged = 0;
    for (int32_t round = 0; round < 400; round++) {
        struct hand_request hand;
        struct slimpack_split split;
        hand_request(&hand, 1 + hand_below(&seed, 16), 2, 1 + hand_below(&seed, 5000));
        hand_batch_of(&hand, (enum hand_law)(round % HAND_N_LAWS), 1 + hand_below(&seed, 60), seed);
        hand_knobs(&hand, &system_slimpack, "");
        slimpack_split(&hand.request, SLIMPACK_MERGE, 0, &split);
        check_split(&hand, &split);
        check_greedy(&hand, &split);
        n_merged += split.n_outliers;
        slimpack_split_free(&split);
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_merged > 100);
}

/* Count the FLOPs of a MicroPack, and of its dearest token at most: the last of each of its slices. */
static void micro_batch_flop(const struct plan_partition *partition, int32_t micro_batch, struct flop_curve curve,
                             fill_flop *flop, fill_flop *token)
{
    *flop = 0;
    for (int32_t i = partition->micro_batches[micro_batch].first_slice;
         i < partition->micro_batches[micro_batch].first_slice + partition->micro_batches[micro_batch].n_slices; i++) {
        struct slice slice = partition->slices[i];
        fill_flop last = flop_of_slice(curve, slice.end - 1, slice.end);
        *flop += flop_of_slice(curve, slice.begin, slice.end);
        *token = last > *token ? last : *token;
    }
}

/* A boundary is at most half a token off. So each MicroPack of a rank (an outlier's aside) is within the dearest token
 * of their mean. If a token is dearer than half a MicroPack, there is no balance to keep. */
TEST(slimpack_build__balances_micro_batches_within_a_token)
{
    uint64_t seed = 23;
    int32_t n_checked = 0;
    for (int32_t round = 0; round < 300; round++) {
        struct hand_request hand;
        struct plan_phase phase;
        hand_request_real(&hand, 1 + hand_below(&seed, 8), 2, 256 + hand_below(&seed, 100000));
        hand_batch_of(&hand, (enum hand_law)(round % HAND_N_LAWS), 1 + hand_below(&seed, 60), seed);
        build(&hand, "", 2 * (1 + hand_below(&seed, 16)), &phase);
        for (int32_t rank = 0; rank < phase.n_pipelines; rank++)
            for (int pass = 0; pass < N_PASSES; pass++) {
                const struct plan_partition *partition = &phase.pipelines[rank].partition[pass];
                struct flop_curve curve = flop_layer_curve(&hand.model, 0, (enum pass)pass);
                fill_flop least = -1, most = 0, token = 0, flop;
                for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++) {
                    if (partition->micro_batches[micro_batch].group >= 0)
                        continue;
                    micro_batch_flop(partition, micro_batch, curve, &flop, &token);
                    least = least < 0 || flop < least ? flop : least;
                    most = flop > most ? flop : most;
                }
                if (least < 0 || 2 * token > least)
                    continue;
                CHECK_TRUE(most - least <= 2 * token);
                n_checked++;
            }
        plan_phase_free(&phase);
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_checked > 300);
}

enum { MOST_PARTS = 64 };

/* A rank's outliers, then its local samples: work [FLOPs x DP], and the MicroPacks that hold it. */
struct parts {
    int32_t n;
    fill_flop work[MOST_PARTS];
    int64_t micro_batches[MOST_PARTS];
};

static struct parts parts_of(const struct hand_request *hand, const struct slimpack_split *split,
                             const struct plan_partition *partition, enum pass pass, int32_t rank)
{
    struct flop_curve curve = flop_layer_curve(&hand->model, 0, pass);
    struct parts parts = {0};
    for (int32_t i = 0; i < split->n_outliers; i++) {
        const struct slimpack_outlier *outlier = &split->outliers[i];
        if (rank < outlier->first_rank || rank >= outlier->first_rank + outlier->width)
            continue;
        fill_flop flop = flop_of_prefix(curve, hand->batch.tokens[outlier->sample]);
        parts.work[parts.n] = flop * split->n_ranks / outlier->width;
        for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++)
            parts.micro_batches[parts.n] +=
                partition->slices[partition->micro_batches[micro_batch].first_slice].sample == outlier->sample;
        parts.n++;
    }
    fill_flop local = 0;
    for (int32_t i = split->local_first[rank]; i < split->local_first[rank + 1]; i++)
        local += flop_of_prefix(curve, hand->batch.tokens[split->local[i]]);
    for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++)
        parts.micro_batches[parts.n] += partition->micro_batches[micro_batch].group < 0;
    parts.work[parts.n] = local * split->n_ranks;
    parts.n += local > 0;
    return parts;
}

/* Find the largest MicroPack if m MicroPacks are assigned one by one, each to the part with the largest MicroPacks. No
 * other way has smaller ones. [FLOPs x DP], rounded up */
static fill_flop dealt_micro_batch(const struct parts *parts, int64_t m)
{
    int64_t micro_batches[MOST_PARTS];
    int32_t most = 0;
    for (int32_t i = 0; i < MOST_PARTS; i++)
        micro_batches[i] = 1;
    for (int64_t dealt = parts->n;; dealt++) {
        for (int32_t i = 0; i < parts->n; i++)
            if (parts->work[i] * micro_batches[most] > parts->work[most] * micro_batches[i])
                most = i;
        if (dealt >= m)
            return (parts->work[most] + micro_batches[most] - 1) / micro_batches[most];
        micro_batches[most]++;
    }
}

/* Count the ranks whose outliers have other MicroPacks than the budget makes of them, and those with more than m
 * MicroPacks. */
static int32_t wrong_micro_batches(const struct parts *parts, bool has_local, fill_flop budget, int64_t m)
{
    int32_t wrong = 0;
    int64_t sum = 0;
    for (int32_t i = 0; i < parts->n; i++) {
        wrong += i < parts->n - has_local && parts->micro_batches[i] != (parts->work[i] + budget - 1) / budget;
        sum += parts->micro_batches[i];
    }
    return wrong + (sum > m && sum > parts->n);
}

/* Outliers are cut so that the largest MicroPack of any linked rank is as small as possible with m MicroPacks of each.
 * No rank has more than m, or one for each part. @return outliers, counted on each rank */
static int32_t check_budget(const struct hand_request *hand, const struct plan_phase *phase, enum pass pass, int64_t m)
{
    struct slimpack_split split;
    int32_t n_outliers = 0, wrong = 0;
    slimpack_split(&hand->request, SLIMPACK_MERGE, 0, &split);
    struct parts *parts = check_malloc((size_t)split.n_ranks * sizeof *parts);
    for (int32_t first = 0, end = 0; first < split.n_ranks; first = end) {
        fill_flop budget = 1;
        end += slimpack_linked_ranks(&split, first);
        for (int32_t rank = first; rank < end; rank++) {
            parts[rank] = parts_of(hand, &split, &phase->pipelines[rank].partition[pass], pass, rank);
            fill_flop micro_batch = dealt_micro_batch(&parts[rank], m);
            budget = micro_batch > budget ? micro_batch : budget;
        }
        for (int32_t rank = first; rank < end; rank++) {
            bool has_local = split.local_first[rank + 1] > split.local_first[rank];
            wrong += wrong_micro_batches(&parts[rank], has_local, budget, m);
            n_outliers += parts[rank].n - has_local;
        }
    }
    CHECK_EQUAL(wrong, 0);
    free(parts);
    slimpack_split_free(&split);
    return n_outliers;
}

TEST(slimpack_outliers__take_the_micro_batches_of_the_least_budget)
{
    uint64_t seed = 29;
    int32_t n_outliers = 0;
    for (int32_t round = 0; round < 200; round++) {
        struct hand_request hand;
        struct plan_phase phase;
        hand_request_real(&hand, 1 << hand_below(&seed, 5), 2, 256 + hand_below(&seed, 100000));
        hand_batch_of(&hand, HAND_LONG_TAIL, 1 + hand_below(&seed, 60), seed);
        int64_t m = 1 + hand_below(&seed, 40);
        build(&hand, "", m, &phase);
        for (int pass = 0; pass < N_PASSES; pass++)
            n_outliers += check_budget(&hand, &phase, (enum pass)pass, m);
        plan_phase_free(&phase);
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_outliers > 500);
}

/* Times and bytes of a plan without the gradients' traffic, as the solver resolves it. */
struct resolved {
    double makespan_s, peak_bytes;
    double host_bytes; /* the most on the host for one rank */
    double least_s;    /* of any order */
    double node_bytes; /* on the host of the node that has the most */
};

static double *pass_s(const struct dag *dag, int32_t pipeline, int32_t stages, int32_t n_micro_batches)
{
    double *seconds = check_calloc((size_t)(N_PASSES * stages * n_micro_batches), sizeof *seconds);
    for (int32_t i = 0; i < dag->n_tasks; i++) {
        const struct dag_task *task = &dag->tasks[i];
        if (task->pipeline == pipeline && (task->kind == DAG_COMPUTE || task->kind == DAG_ATTENTION))
            seconds[(task->pass * stages + task->stage) * n_micro_batches + task->micro_batch] += dag->duration_s[i];
    }
    return seconds;
}

static bool holds_sample(const struct plan_partition *partition, int32_t micro_batch, int32_t sample)
{
    for (int32_t i = 0; i < partition->micro_batches[micro_batch].n_slices; i++)
        if (partition->slices[partition->micro_batches[micro_batch].first_slice + i].sample == sample)
            return true;
    return false;
}

/* Find a time that no order of a pipeline can beat. One is its work over its stages. The other is the chain of a
 * sample. Its first forward MicroPack comes down p - 1 stages. All its MicroPacks run forward and then backward on the
 * last. Its last backward MicroPack goes up again. The result is the larger of the two. The chain is that of the first
 * MicroPack's first sample, its longest. */
static double least_of_pipeline_s(const struct dag *dag, const struct plan_pipeline *pipeline, int32_t index)
{
    const struct plan_partition *partitions = pipeline->partition;
    if (partitions[PASS_FORWARD].n_micro_batches == 0)
        return 0;
    int32_t stages = pipeline->layout.stages, sample = partitions[PASS_FORWARD].slices[0].sample;
    int32_t n_micro_batches = partitions[0].n_micro_batches > partitions[1].n_micro_batches
                                  ? partitions[0].n_micro_batches
                                  : partitions[1].n_micro_batches;
    double *seconds = pass_s(dag, index, stages, n_micro_batches), work_s = 0, chain_s = 0;
    for (int32_t i = 0; i < N_PASSES * stages * n_micro_batches; i++)
        work_s += seconds[i] / stages;
    for (int pass = 0; pass < N_PASSES; pass++) {
        int32_t end = -1; /* first forward, last backward MicroPack */
        for (int32_t micro_batch = 0; micro_batch < partitions[pass].n_micro_batches; micro_batch++)
            if (holds_sample(&partitions[pass], micro_batch, sample)) {
                chain_s += seconds[(pass * stages + stages - 1) * n_micro_batches + micro_batch];
                end = pass == PASS_BACKWARD || end < 0 ? micro_batch : end;
            }
        for (int32_t stage = 0; stage < stages - 1; stage++)
            chain_s += seconds[(pass * stages + stage) * n_micro_batches + end];
    }
    free(seconds);
    return fmax(work_s, chain_s);
}

static struct resolved resolve(const struct hand_request *hand, const struct plan *plan)
{
    struct timeline timeline = {0};
    struct memory memory = {0};
    struct dag dag = hand_built(plan, &hand->setting, (struct dag_options){.gradient_sync = false});
    critical_path(&dag, &timeline);
    memory_of(plan, &dag, &timeline, &hand->setting, false, &memory);
    struct resolved resolved = {timeline.makespan_s, memory.peak_bytes[memory.worst_rank], 0, 0, 0};
    resolved.node_bytes = memory_host_of(plan, &dag, &memory, hand->setting.platform, 0).bytes;
    for (int32_t i = 0; i < memory.n_ranks; i++)
        resolved.host_bytes = fmax(resolved.host_bytes, memory.host_peak_bytes[i]);
    for (int32_t i = 0; i < plan->phases[0].n_pipelines; i++)
        resolved.least_s = fmax(resolved.least_s, least_of_pipeline_s(&dag, &plan->phases[0].pipelines[i], i));
    CHECK_TRUE(resolved.least_s <= resolved.makespan_s * (1 + 1e-9));
    memory_free(&memory);
    timeline_free(&timeline);
    dag_free(&dag);
    return resolved;
}

static struct resolved solve(struct hand_request *hand, const char *knobs)
{
    struct error err = {0};
    struct plan plan = {0};
    hand_knobs(hand, &system_slimpack, knobs);
    CHECK_TRUE(system_slimpack.plan(&hand->request, NULL, &plan, &err));
    CHECK_TRUE(plan_check(&plan, hand->batch.n_samples, hand->batch.tokens, &err));
    struct resolved resolved = resolve(hand, &plan);
    plan_free(&plan);
    return resolved;
}

static void random_request(struct hand_request *hand, int32_t round, uint64_t *seed)
{
    static const enum recompute recompute[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    hand_request_real(hand, 1 + hand_below(seed, 6), 1 << hand_below(seed, 3), 256 + hand_below(seed, 100000));
    hand_heads(&hand->model, (uint64_t)round);
    hand->request.layout.recompute = (int32_t)recompute[hand_below(seed, 3)];
    hand_batch_of(hand, (enum hand_law)(round % HAND_N_LAWS), 1 + hand_below(seed, 60), *seed);
}

static fill_flop fullest_of(const struct slimpack_split *split)
{
    fill_flop fullest = 0;
    for (int32_t rank = 0; rank < split->n_ranks; rank++)
        fullest = split->load[rank] > fullest ? split->load[rank] : fullest;
    return fullest;
}

/* Three equal samples are on two ranks, none above a rank's mean. One rank would have two of them, 4/3 of the mean.
 * Shared evenly both have the mean, and the plan is faster than if nothing may be shared. Four samples leave nothing to
 * share. */
TEST(merge_even__shares_until_loads_are_level)
{
    struct hand_request hand;
    for (int32_t n = 3; n <= 4; n++) {
        struct slimpack_split by_flop, even;
        hand_request_real(&hand, 2, 2, 30000);
        hand_batch(&hand, n, (int32_t[]){30000, 30000, 30000, 30000});
        double shared_s = solve(&hand, "").makespan_s, apart_s = solve(&hand, "dp_merge: false").makespan_s;
        hand_knobs(&hand, &system_slimpack, "");
        hand.request.memory_bytes = 1e18; /* memory merges nothing */
        slimpack_split(&hand.request, SLIMPACK_MERGE, 0, &by_flop);
        slimpack_split(&hand.request, SLIMPACK_MERGE_EVEN, 0, &even);
        CHECK_EQUAL(by_flop.n_outliers, 0);
        CHECK_EQUAL(even.n_outliers, n == 3 ? 3 : 0);
        CHECK_TRUE(3 * fullest_of(&by_flop) == (n == 3 ? 4 : 3) * by_flop.total);
        CHECK_TRUE(fullest_of(&even) == even.total);
        CHECK_TRUE(n == 3 ? shared_s < 0.9 * apart_s : shared_s <= apart_s);
        slimpack_split_free(&by_flop);
        slimpack_split_free(&even);
        hand_request_free(&hand);
    }
}

/* No rank has more than a tenth above the mean. Otherwise the loads are at least as even as by sharing FLOPs alone. */
TEST(merge_even__loads_no_rank_more)
{
    uint64_t seed = 71;
    int32_t n_evener = 0;
    for (int32_t round = 0; round < 200; round++) {
        struct hand_request hand;
        struct slimpack_split by_flop, even;
        random_request(&hand, round, &seed);
        hand_knobs(&hand, &system_slimpack, "");
        hand.request.memory_bytes = 1e18; /* memory merges nothing */
        slimpack_split(&hand.request, SLIMPACK_MERGE, 0, &by_flop);
        slimpack_split(&hand.request, SLIMPACK_MERGE_EVEN, 0, &even);
        fill_flop before = fullest_of(&by_flop), now = fullest_of(&even);
        CHECK_TRUE(now <= before);
        CHECK_TRUE(100 * before > 110 * by_flop.total || now == before);
        n_evener += now < before;
        slimpack_split_free(&by_flop);
        slimpack_split_free(&even);
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_evener > 20);
}

/* One sample of a MicroPack comes back at once, on one stage. Memory for nine tenths of it asks for a tenth, in steps
 * of a percent, which streams beside its passes. With the memory of the states and three of 840 layers all but two go.
 * With that of one layer it does not fit. */
TEST(slimpack__streams_what_memory_asks_for_on_one_stage)
{
    struct hand_request hand;
    hand_request_real(&hand, 1, 1, 100000);
    hand_batch(&hand, 1, (int32_t[]){100000});
    const char *knobs = "{slicing: false, micro_packs: 1}", *kept = "{slicing: false, micro_packs: 1, offload: plan}";
    struct resolved roomy = solve(&hand, knobs);
    hand.request.layout.offload = 1;
    struct resolved least = solve(&hand, kept);
    double layer_bytes = (roomy.peak_bytes - least.peak_bytes) / 838;
    hand.request.layout.offload = 0;
    hand.request.memory_bytes = roomy.peak_bytes - 84 * layer_bytes;
    CHECK_TRUE(solve(&hand, kept).peak_bytes > hand.request.memory_bytes);
    struct resolved some = solve(&hand, knobs);
    CHECK_TRUE(some.peak_bytes <= hand.request.memory_bytes &&
               some.peak_bytes > hand.request.memory_bytes - 8.4 * layer_bytes);
    CHECK_CLOSE(some.makespan_s, roomy.makespan_s, 1e-12);
    hand.request.memory_bytes = least.peak_bytes + layer_bytes;
    CHECK_CLOSE(solve(&hand, knobs).peak_bytes, least.peak_bytes, 1e-12);
    hand.request.memory_bytes = least.peak_bytes - layer_bytes;
    CHECK_TRUE(solve(&hand, knobs).peak_bytes > hand.request.memory_bytes);
    hand_request_free(&hand);
}

/* One sample is too long for a rank's memory. Alone it never fits, whatever the MicroPacks. Two ranks share it, since
 * half of it fits, though its FLOPs would not ask for it (a threshold of 1000). */
TEST(merge_memory__shares_what_one_rank_cannot_hold)
{
    struct hand_request hand;
    struct slimpack_split split;
    hand_request_real(&hand, 4, 2, 100000);
    hand_batch(&hand, 4, (int32_t[]){100000, 100, 100, 100});
    struct resolved roomy = solve(&hand, "{dp_merge: false, micro_packs: 64, offload: plan}");
    hand.request.memory_bytes = 0.75 * roomy.peak_bytes;
    CHECK_TRUE(slimpack_rank_tokens(&hand.request, false) < 100000 &&
               slimpack_rank_tokens(&hand.request, false) > 50000);
    CHECK_TRUE(solve(&hand, "{dp_merge: false, offload: plan}").peak_bytes > hand.request.memory_bytes);
    hand_knobs(&hand, &system_slimpack, "{merge_threshold: 1000, offload: plan}");
    slimpack_split(&hand.request, SLIMPACK_MERGE, 0, &split);
    CHECK_EQUAL(split.n_outliers, 1);
    CHECK_EQUAL(split.outliers[0].width, 4); /* by FLOPs f/g <= C takes all ranks */
    slimpack_split_free(&split);
    CHECK_TRUE(solve(&hand, "{merge_threshold: 1000, offload: plan}").peak_bytes <= hand.request.memory_bytes);
    slimpack_split(&hand.request, SLIMPACK_MERGE_EVEN, 0, &split);
    CHECK_EQUAL(split.n_outliers, 0);
    slimpack_split_free(&split);
    hand_request_free(&hand);
}

/* Memory merges samples by the tokens that fit a rank's memory. By the memory timeline a sample a tenth shorter fits,
 * and one a tenth longer does not, with each recomputation. In many slices the gradients of keys and values are those
 * of nearly all tokens. On one stage the sample may also run whole. */
TEST(slimpack__fits_as_many_tokens_as_it_says)
{
    static const enum recompute recompute[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    for (int32_t round = 0; round < 9; round++) {
        struct hand_request hand;
        int32_t stages = 1 << round % 3;
        const char *knobs =
            stages > 1 ? "{dp_merge: false, offload: plan, micro_packs: 64}" : "{dp_merge: false, offload: plan}";
        hand_request_real(&hand, 1, stages, 16000000);
        hand.request.memory_bytes = 120e9 / stages + 10e9; /* states, and a little */
        hand.request.layout.recompute = (int32_t)recompute[round / 3];
        hand_knobs(&hand, &system_slimpack, knobs);
        int64_t tokens = slimpack_rank_tokens(&hand.request, false);
        hand_batch(&hand, 1, (int32_t[]){(int32_t)(tokens * 9 / 10)});
        CHECK_TRUE(solve(&hand, knobs).peak_bytes <= hand.request.memory_bytes);
        hand_batch(&hand, 1, (int32_t[]){(int32_t)(tokens * 11 / 10)});
        CHECK_TRUE(solve(&hand, knobs).peak_bytes > hand.request.memory_bytes);
        hand_request_free(&hand);
    }
}

/* Hosts of 10 GB offload for the 4 GPUs of their node, or for 8. NVLink domains of two nodes do not matter. */
TEST(slimpack__shares_a_host_among_the_gpus_of_its_node)
{
    int64_t tokens[3];
    for (int i = 0; i < 3; i++) {
        struct hand_request hand;
        struct platform platform = *hand_setting()->platform;
        platform.host_memory_bytes = 10e9;
        platform.gpus_per_node = i < 2 ? 4 : 8;
        platform.nvlink_domain = i < 1 ? 4 : 8;
        hand_request_real(&hand, 4, 2, 16000000);
        hand.setting.platform = &platform;
        hand.request.memory_bytes = 70e9;
        hand_knobs(&hand, &system_slimpack, "{offload: auto}");
        tokens[i] = slimpack_rank_tokens(&hand.request, true);
        hand_request_free(&hand);
    }
    CHECK_EQUAL(tokens[0], tokens[1]);
    CHECK_TRUE(tokens[2] < tokens[1]);
}

/* Find the seconds of the slowest MicroPack of a rank on the last stage. */
static double slowest_micro_batch_s(const struct hand_request *hand, const struct plan_phase *phase, enum pass pass)
{
    const struct plan_pipeline *pipeline = &phase->pipelines[0];
    double slowest_s = 0;
    for (int32_t micro_batch = 0; micro_batch < pipeline->partition[pass].n_micro_batches; micro_batch++) {
        struct cost_pass cost = dag_pass_cost(pipeline, &hand->setting, pass, micro_batch, pipeline->layout.stages - 1);
        slowest_s = fmax(slowest_s, cost.kernels_s + cost.attention_s + cost.tensor_s + cost.shard_s);
    }
    return slowest_s;
}

/* Made equal in time, the slowest MicroPack of a rank is never slower than made equal in FLOPs. It is mostly faster (a
 * little: this device's efficiencies are constant). */
TEST(slimpack_micro_batches__of_equal_time_have_no_slower_one)
{
    uint64_t seed = 43;
    int32_t n_faster = 0;
    for (int32_t round = 0; round < 100; round++) {
        struct hand_request hand;
        struct plan_phase equal_flop, equal_time;
        hand_request_real(&hand, 1, 4, 256 + hand_below(&seed, 100000));
        hand_batch_of(&hand, (enum hand_law)(round % HAND_N_LAWS), 1 + hand_below(&seed, 60), seed);
        int64_t m = 4 * (1 + hand_below(&seed, 8));
        build(&hand, "", m, &equal_flop);
        build(&hand, "balance: time", m, &equal_time);
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            double before_s = slowest_micro_batch_s(&hand, &equal_flop, pass),
                   now_s = slowest_micro_batch_s(&hand, &equal_time, pass);
            CHECK_TRUE(now_s <= before_s);
            n_faster += now_s < before_s;
        }
        plan_phase_free(&equal_flop);
        plan_phase_free(&equal_time);
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_faster > 100);
}

/* With less and less memory auto finds plans that fit where the plan's own setting does not. One that fits already
 * stays the same. */
TEST(slimpack_auto__makes_plans_just_fit)
{
    static const char *const adapting[] = {"offload: auto", "recompute: auto, offload: plan", "recompute: auto"};
    static const char *const fixed_knobs = "{offload: plan, max_factor: 16}";
    struct hand_request hand;
    int32_t n_fit = 0;
    hand_request_real(&hand, 2, 4, 20000);
    hand_batch_of(&hand, HAND_LONG_TAIL, 40, 3);
    struct resolved roomy = solve(&hand, fixed_knobs);
    for (int32_t tenths = 10; tenths >= 4; tenths--) {
        hand.request.memory_bytes = 0.1 * tenths * roomy.peak_bytes;
        struct resolved fixed = solve(&hand, fixed_knobs);
        for (size_t i = 0; i < sizeof adapting / sizeof *adapting; i++) {
            char knobs[96];
            snprintf(knobs, sizeof knobs, "{%s, max_factor: 16}", adapting[i]);
            struct resolved adapted = solve(&hand, knobs);
            bool fits = adapted.peak_bytes <= hand.request.memory_bytes;
            CHECK_TRUE(fits || fixed.peak_bytes > hand.request.memory_bytes);
            if (tenths == 10)
                CHECK_CLOSE(adapted.makespan_s, roomy.makespan_s, 1e-12);
            n_fit += fits && fixed.peak_bytes > hand.request.memory_bytes;
        }
    }
    CHECK_TRUE(n_fit >= 3);
    hand_request_free(&hand);
}

/* Four ranks would share the outlier, but at most two can share two groups of keys and values. */
TEST(slimpack_ulysses__assigns_whole_heads)
{
    struct hand_request hand;
    struct slimpack_split split;
    hand_request_real(&hand, 4, 2, 100000);
    hand_batch(&hand, 4, (int32_t[]){100000, 100, 100, 100});
    hand_knobs(&hand, &system_slimpack, "");
    hand.model.kinds[0].heads = 6;
    hand.model.kinds[0].kv_heads = 2;
    for (int ulysses = 0; ulysses < 2; ulysses++) {
        hand.request.layout.cp_type = ulysses ? SCENARIO_ULYSSES : SCENARIO_RING;
        hand_options(&hand.setting, &hand.request.layout);
        slimpack_split(&hand.request, SLIMPACK_MERGE, 0, &split);
        CHECK_EQUAL(split.n_outliers, 1);
        CHECK_EQUAL(split.outliers[0].width, ulysses ? 2 : 4);
        slimpack_split_free(&split);
    }
    hand.setting.tensor = 2; /* each TP rank has one group, so nothing is shared */
    slimpack_split(&hand.request, SLIMPACK_MERGE, 0, &split);
    CHECK_EQUAL(split.n_outliers, 0);
    slimpack_split_free(&split);
    hand_request_free(&hand);
}
