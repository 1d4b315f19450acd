/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of best-fit. */
#include "hand_request.h"
#include "harness.h"

#include <stdlib.h>

#include "base/check.h"

extern const struct training_system system_best_fit;

static void plan_of(struct hand_request *hand, const char *knobs, struct plan *plan)
{
    hand_planned(hand, &system_best_fit, knobs, plan);
}

/* The context is 10, and the longest samples come first. 7 (sample 1) opens bin 0, 6 (4) opens bin 1. 4 (0) fits bin 1
 * alone and fills it. 3 (3) fills bin 0, 2 (2) opens bin 2. Two ranks have bins 0 and 2, and bin 1. */
TEST(best_fit__fills_the_bins_counted_by_hand)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 2, 2, 10);
    hand_batch(&hand, 5, (int32_t[]){4, 7, 2, 3, 6});
    plan_of(&hand, "", &plan);
    const struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    CHECK_TEXT(hand_cut_text(&pipeline[0].partition[PASS_FORWARD]), "[1:0-7 3:0-3] [2:0-2]");
    CHECK_TEXT(hand_cut_text(&pipeline[0].partition[PASS_BACKWARD]), "[1:0-7 3:0-3] [2:0-2]");
    CHECK_TEXT(hand_cut_text(&pipeline[1].partition[PASS_FORWARD]), "[4:0-6 0:0-4] []");
    CHECK_EQUAL(pipeline[0].partition[PASS_FORWARD].micro_batches[0].padding_tokens, 0);
    CHECK_EQUAL(pipeline[0].partition[PASS_FORWARD].micro_batches[1].padding_tokens, 8);
    CHECK_EQUAL(pipeline[1].partition[PASS_BACKWARD].micro_batches[1].padding_tokens, 10);
    CHECK_TEXT(hand_order_text(&pipeline[1], 0), "F0 F1 B0 B1");
    CHECK_EQUAL(plan.shards, 2);
    plan_free(&plan);
    plan_of(&hand, "pad: false", &plan);
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[1].partition[PASS_FORWARD]), "[4:0-6 0:0-4]");
    CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[1].padding_tokens, 0);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Seven full bins are shared by two ranks, two bins a micro-batch. Rank 0 has bins 0 2 4 6, rank 1 bins 1 3 5 and one
 * of padding. With three bins a micro-batch the last micro-batch takes the rest. Without padding rank 1 has three bins.
 */
TEST(best_fit__puts_several_bins_in_a_micro_batch)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 2, 1, 10);
    hand_batch(&hand, 7, (int32_t[]){10, 10, 10, 10, 10, 10, 9});
    plan_of(&hand, "micro_batch: 2", &plan);
    const struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    CHECK_TEXT(hand_cut_text(&pipeline[0].partition[PASS_FORWARD]), "[0:0-10 2:0-10] [4:0-10 6:0-9]");
    CHECK_TEXT(hand_cut_text(&pipeline[1].partition[PASS_BACKWARD]), "[1:0-10 3:0-10] [5:0-10]");
    CHECK_EQUAL(pipeline[0].partition[PASS_FORWARD].micro_batches[1].padding_tokens, 1);
    CHECK_EQUAL(pipeline[1].partition[PASS_FORWARD].micro_batches[1].padding_tokens, 10);
    plan_free(&plan);
    plan_of(&hand, "micro_batch: 3", &plan);
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].partition[PASS_FORWARD]), "[0:0-10 2:0-10 4:0-10] [6:0-9]");
    CHECK_EQUAL(plan.phases[0].pipelines[1].partition[PASS_FORWARD].micro_batches[1].padding_tokens, 10);
    plan_free(&plan);
    plan_of(&hand, "{micro_batch: 100, pad: false}", &plan);
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[1].partition[PASS_FORWARD]), "[1:0-10 3:0-10 5:0-10]");
    plan_free(&plan);
    hand_request_free(&hand);
}

/* There are 2 chunks of 2 stages. Four micro-batches run interleaved, three cannot. With padding a fourth micro-batch
 * is empty. With three bins in micro-batches of two, one bin is padding, half of the second micro-batch. Micro-batches
 * larger than all bins hold them all. */
TEST(best_fit__interleaves_whole_groups_of_micro_batches)
{
    struct hand_request hand;
    struct plan plan;
    struct error err = {0};
    hand_request(&hand, 1, 2, 10);
    hand.request.layout.vpp = 2;
    hand_batch(&hand, 4, (int32_t[]){10, 10, 10, 10});
    plan_of(&hand, "", &plan);
    CHECK_TRUE(plan_check(&plan, 4, hand.batch.tokens, &err));
    CHECK_EQUAL(plan.phases[0].pipelines[0].layout.chunks, 2);
    CHECK_TEXT(hand_order_text(&plan.phases[0].pipelines[0], 1),
               "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3");
    plan_free(&plan);
    hand_knobs(&hand, &system_best_fit, "micro_batch: 2");
    CHECK_TRUE(system_best_fit.plan(&hand.request, NULL, &plan, &err));
    plan_free(&plan);
    hand_batch(&hand, 3, (int32_t[]){10, 10, 10});
    plan_of(&hand, "", &plan);
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].partition[PASS_FORWARD]), "[0:0-10] [1:0-10] [2:0-10] []");
    CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_BACKWARD].micro_batches[3].padding_tokens, 10);
    plan_free(&plan);
    plan_of(&hand, "micro_batch: 2", &plan);
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].partition[PASS_FORWARD]), "[0:0-10 1:0-10] [2:0-10]");
    CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[1].padding_tokens, 10);
    plan_free(&plan);
    plan_of(&hand, "micro_batch: 1000000", &plan);
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].partition[PASS_FORWARD]), "[0:0-10 1:0-10 2:0-10] []");
    plan_free(&plan);
    hand_knobs(&hand, &system_best_fit, "pad: false");
    CHECK_TRUE(!system_best_fit.plan(&hand.request, NULL, &plan, &err));
    CHECK_TEXT(err.text, "plan.vpp: interleaved 1F1B needs micro-batches in multiples of the pipeline's 2 stages, and "
                         "one has 3; with vpp 1 any "
                         "number runs");
    hand_request_free(&hand);
}

/* TP is 2, CP 4, DP 2, PP 3. Ranks are assigned TP first, then CP, DP, PP. The place (DP 1, stage 2, CP 3, TP 1) is GPU
 * 1*8 + 2*16 + 3*2 + 1 = 47, the last of 48. */
TEST(best_fit__keeps_the_context_degree_and_ranks_of_megatron)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 2, 3, 10);
    hand.request.layout.tp = 2;
    hand.request.layout.cp = 4;
    hand_options(&hand.setting, &hand.request.layout);
    hand_batch(&hand, 2, (int32_t[]){5, 10});
    plan_of(&hand, "", &plan);
    CHECK_EQUAL(plan_rank(&plan.phases[0].pipelines[1].layout, 2, 3, 1), 47);
    CHECK_EQUAL(plan.phases[0].pipelines[1].partition[PASS_FORWARD].micro_batches[0].context, 4);
    CHECK_EQUAL(plan.phases[0].pipelines[1].partition[PASS_FORWARD].micro_batches[0].group, -1);
    CHECK_EQUAL(plan.shards, 8);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Apply the definition bin by bin: the fullest bin that holds the sample, and the lowest of equal ones. @return bins */
static int32_t naive(const struct batch *batch, int32_t context, int32_t *bin)
{
    int32_t n = 0;
    int32_t *room = check_malloc((size_t)batch->n_samples * sizeof *room);
    for (int32_t length = context; length > 0; length--)
        for (int32_t i = 0; i < batch->n_samples; i++) {
            if (batch->tokens[i] != length)
                continue;
            int32_t best = -1;
            for (int32_t b = 0; b < n; b++)
                if (room[b] >= length && (best < 0 || room[b] < room[best]))
                    best = b;
            if (best < 0)
                room[best = n++] = context;
            room[best] -= length;
            bin[i] = best;
        }
    free(room);
    return n;
}

TEST(best_fit__agrees_with_its_definition)
{
    uint64_t seed = 5;
    for (int32_t round = 0; round < 60; round++) {
        struct hand_request hand;
        struct plan plan;
        int32_t bin[300], wrong = 0;
        hand_request(&hand, 1, 1, 1 + hand_below(&seed, 120));
        hand_batch_of(&hand, (enum hand_law)(round % HAND_N_LAWS), 1 + hand_below(&seed, 300), seed);
        plan_of(&hand, "", &plan);
        const struct plan_partition *partition = &plan.phases[0].pipelines[0].partition[PASS_FORWARD];
        CHECK_EQUAL(partition->n_micro_batches, naive(&hand.batch, (int32_t)hand.request.context, bin));
        for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++)
            for (int32_t i = 0; i < partition->micro_batches[micro_batch].n_slices; i++)
                wrong +=
                    bin[partition->slices[partition->micro_batches[micro_batch].first_slice + i].sample] != micro_batch;
        CHECK_EQUAL(wrong, 0);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}
