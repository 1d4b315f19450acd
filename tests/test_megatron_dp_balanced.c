/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the packs of Megatron's scheduler that deals them out to the DP ranks. */
#include "hand_request.h"
#include "harness.h"

extern const struct training_system system_megatron_dp_balanced;

/* Check the micro-batches of each rank. */
static void check_ranks(struct hand_request *hand, const char *knobs, const char *const *ranks)
{
    struct plan plan;
    hand_planned(hand, &system_megatron_dp_balanced, knobs, &plan);
    CHECK_EQUAL(plan.n_phases, 1);
    for (int32_t rank = 0; rank < plan.phases[0].n_pipelines; rank++)
        CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[rank].partition[PASS_FORWARD]), ranks[rank]);
    plan_free(&plan);
}

/* A pack takes the context, 8 tokens. 3 and 4 are the first pack, as 2 is too much. 2 and 6 are the next, 8 the last.
 * Two ranks need four packs, and the last one has one sample. So 6 leaves the pack before it, as the fourth one. */
TEST(dp_balanced__packs_in_the_order_of_arrival)
{
    struct hand_request hand;
    hand_request(&hand, 2, 1, 8);
    hand_batch(&hand, 5, (int32_t[]){3, 4, 2, 6, 8});
    check_ranks(&hand, "", (const char *const[]){"[0:0-3 1:0-4] [4:0-8]", "[2:0-2] [3:0-6]"});
    hand_request_free(&hand);
}

/* Two context ranks of 3 tokens hold 6. 7 is more, so it has a pack of its own. */
TEST(dp_balanced__counts_the_tokens_of_all_context_ranks)
{
    struct hand_request hand;
    hand_request(&hand, 1, 1, 8);
    hand.request.layout.cp = 2;
    hand_batch(&hand, 5, (int32_t[]){3, 3, 1, 7, 1});
    check_ranks(&hand, "max_tokens: 3", (const char *const[]){"[0:0-3 1:0-3] [2:0-1] [3:0-7] [4:0-1]"});
    hand_request_free(&hand);
}

/* The context is odd: 5 tokens are 3 on each of two ranks, or 6. */
TEST(dp_balanced__rounds_the_context_of_a_rank_up)
{
    struct hand_request hand;
    hand_request(&hand, 1, 1, 5);
    hand.request.layout.cp = 2;
    hand_batch(&hand, 3, (int32_t[]){3, 3, 1});
    check_ranks(&hand, "", (const char *const[]){"[0:0-3 1:0-3] [2:0-1]"});
    hand_request_free(&hand);
}

/* There are two packs, of 4 4 4 and 3 3, and five ranks. The last pack gives its second sample, and the first one its
 * third and second. */
TEST(dp_balanced__takes_from_the_pack_before_when_one_sample_is_left)
{
    struct hand_request hand;
    hand_request(&hand, 5, 1, 12);
    hand_batch(&hand, 5, (int32_t[]){4, 4, 4, 3, 3});
    check_ranks(&hand, "", (const char *const[]){"[0:0-4]", "[3:0-3]", "[4:0-3]", "[2:0-4]", "[1:0-4]"});
    hand_request_free(&hand);
}

/* Three packs of one sample have nothing to give, and the fourth rank has none. */
TEST(dp_balanced__leaves_ranks_empty_if_samples_are_too_few)
{
    struct hand_request hand;
    hand_request(&hand, 4, 1, 8);
    hand_batch(&hand, 3, (int32_t[]){8, 8, 8});
    check_ranks(&hand, "", (const char *const[]){"[0:0-8]", "[1:0-8]", "[2:0-8]", ""});
    hand_request_free(&hand);
}

/* Two stages with two chunks need two micro-batches a rank, four in all. One pack of six samples gives its last three.
 * Three samples cannot be four packs. */
TEST(dp_balanced__has_whole_rounds_of_interleaved_stages)
{
    struct hand_request hand;
    struct plan plan = {0};
    struct error err = {0};
    hand_request(&hand, 2, 2, 8);
    hand.request.layout.vpp = 2;
    hand_batch(&hand, 6, (int32_t[]){1, 1, 1, 1, 1, 1});
    check_ranks(&hand, "", (const char *const[]){"[0:0-1 1:0-1 2:0-1] [4:0-1]", "[5:0-1] [3:0-1]"});
    hand_batch(&hand, 3, (int32_t[]){8, 8, 8});
    CHECK_TRUE(!system_megatron_dp_balanced.plan(&hand.request, NULL, &plan, &err));
    CHECK_CONTAINS(err.text, "interleaved stages need packs in multiples of 4 (dp x pp), and 3 samples are too few");
    hand_request_free(&hand);
}
