/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of random documents, padded and padding-free. */
#include <stdlib.h>
#include <string.h>

#include "bounds/evaluate.h"
#include "hand_request.h"
#include "harness.h"
#include "packing/packing.h"

static void plan_of(struct hand_request *hand, const char *system, const char *knobs, struct plan *plan)
{
    struct error err = {0};
    hand_planned(hand, system_find(system, &err), knobs, plan);
}

/* Return the forward FLOPs of a micro-batch, with F(x) = 2x^2 + 10x of each slice. */
static int64_t forward_flop(const struct plan *plan, int32_t pipeline, int32_t micro_batch)
{
    const struct plan_partition *forward = &plan->phases[0].pipelines[pipeline].partition[PASS_FORWARD];
    const struct plan_micro_batch *part = &forward->micro_batches[micro_batch];
    int64_t flop = 0;
    for (int32_t i = 0; i < part->n_slices; i++) {
        int64_t x = forward->slices[part->first_slice + i].end;
        flop += 2 * x * x + 10 * x;
    }
    return flop;
}

/* One micro-batch holds 10, 20, 30 and 40 tokens. Without padding it has 2 (100 + 400 + 900 + 1600) + 10 x 100 = 7000
 * FLOPs. Padded to 40 each has 2 x 1600 + 400 = 3600. */
TEST(padded__runs_attention_on_the_padding)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 1, 1, 100);
    hand_batch(&hand, 4, (int32_t[]){10, 20, 30, 40});
    plan_of(&hand, "padding-free", "micro_batch: 4", &plan);
    CHECK_EQUAL(forward_flop(&plan, 0, 0), 7000);
    CHECK_EQUAL(plan_padded_tokens(&plan), 0);
    plan_free(&plan);
    plan_of(&hand, "padded", "micro_batch: 4", &plan);
    CHECK_EQUAL(forward_flop(&plan, 0, 0), 4 * 3600);
    CHECK_EQUAL(plan_padded_tokens(&plan), 4 * 40 - 100);
    CHECK_EQUAL(plan_tokens(&plan, hand.batch.n_tokens, hand.batch.tokens), 100); /* padding is not trained */
    plan_free(&plan);
    hand_request_free(&hand);
}

/* A micro-batch of one document has no padding. */
TEST(padded__is_padding_free_with_one_document)
{
    struct hand_request hand;
    struct plan padded, without;
    hand_request(&hand, 2, 1, 100);
    hand_batch(&hand, 4, (int32_t[]){10, 20, 30, 40});
    plan_of(&hand, "padded", "micro_batch: 1", &padded);
    plan_of(&hand, "padding-free", "micro_batch: 1", &without);
    CHECK_EQUAL(plan_padded_tokens(&padded), 0);
    for (int32_t rank = 0; rank < 2; rank++)
        for (int32_t i = 0; i < 2; i++)
            CHECK_EQUAL(forward_flop(&padded, rank, i), forward_flop(&without, rank, i));
    plan_free(&padded);
    plan_free(&without);
    hand_request_free(&hand);
}

/* Nine documents in micro-batches of at most four need ceil(9 / 4) = 3, so 4 for two ranks: of 3, 2, 2 and 2. */
TEST(padding_free__gives_ranks_equal_numbers_of_micro_batches)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 2, 1, 100);
    hand_batch(&hand, 9, (int32_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9});
    plan_of(&hand, "padding-free", "micro_batch: 4", &plan);
    const struct plan_pipeline *pipelines = plan.phases[0].pipelines;
    CHECK_EQUAL(pipelines[0].partition[PASS_FORWARD].n_micro_batches, 2);
    CHECK_EQUAL(pipelines[1].partition[PASS_FORWARD].n_micro_batches, 2);
    CHECK_EQUAL(pipelines[0].partition[PASS_FORWARD].micro_batches[0].n_slices, 3);
    CHECK_EQUAL(pipelines[1].partition[PASS_FORWARD].micro_batches[0].n_slices, 2);
    CHECK_EQUAL(pipelines[0].partition[PASS_FORWARD].micro_batches[1].n_slices, 2);
    plan_free(&plan);
    hand_batch(&hand, 3, (int32_t[]){7, 8, 9}); /* fewer documents than four ranks: one each */
    hand.request.layout.dp = 4;
    plan_of(&hand, "padding-free", "micro_batch: 4", &plan);
    for (int32_t rank = 0; rank < 4; rank++)
        CHECK_EQUAL(plan.phases[0].pipelines[rank].partition[PASS_FORWARD].n_slices, rank < 3);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Each document is in one place, and iterations and seeds have orders of their own. */
TEST(padding_free__draws_the_order_by_seed_and_iteration)
{
    struct hand_request hand;
    struct packing packing[3];
    bool seen[40] = {false};
    hand_request(&hand, 1, 1, 100);
    hand_batch_of(&hand, HAND_UNIFORM, 40, 1);
    packing_random(&hand.request, 8, &packing[0]);
    hand.request.iteration++;
    packing_random(&hand.request, 8, &packing[1]);
    hand.request.iteration--;
    hand.request.seed++;
    packing_random(&hand.request, 8, &packing[2]);
    CHECK_EQUAL(packing[0].n_packs, 5);
    for (int32_t i = 0; i < 40; i++)
        seen[packing[0].sample[i]] = true;
    for (int32_t i = 0; i < 40; i++)
        CHECK_TRUE(seen[i]);
    CHECK_TRUE(memcmp(packing[0].sample, packing[1].sample, 40 * sizeof(int32_t)) != 0);
    CHECK_TRUE(memcmp(packing[0].sample, packing[2].sample, 40 * sizeof(int32_t)) != 0);
    for (int32_t i = 0; i < 3; i++)
        packing_free(&packing[i]);
    hand_request_free(&hand);
}

/* A plan is refused if a padded sample has other tokens than the batch. */
TEST(padded__is_checked_against_the_batch)
{
    struct hand_request hand;
    struct plan plan;
    struct error err = {0};
    hand_request(&hand, 1, 1, 100);
    hand_batch(&hand, 2, (int32_t[]){10, 40});
    plan_of(&hand, "padded", "micro_batch: 2", &plan);
    plan.real_tokens[0] = 11;
    CHECK_TRUE(!plan_check(&plan, 2, hand.batch.tokens, &err));
    CHECK_CONTAINS(err.text, "padded sample 0 has not the batch's tokens");
    plan_free(&plan);
    hand_request_free(&hand);
}
