/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of Megatron's dynamic context parallelism. */
#include "hand_dag.h"
#include "hand_request.h"
#include "harness.h"

#include <math.h>

extern const struct training_system system_megatron_dynamic_cp;

static void plan_of(struct hand_request *hand, const char *knobs, struct plan *plan)
{
    hand_planned(hand, &system_megatron_dynamic_cp, knobs, plan);
}

static const char *partition_of(const struct plan *plan, int32_t phase, int32_t rank)
{
    return hand_cut_text(&plan->phases[phase].pipelines[rank].partition[PASS_FORWARD]);
}

/* A rank takes four tokens. 8 takes two ranks, work 8^2/2 = 32. 4 (16), 4, 4 and 2 (4) take one. Two buckets of 84/2
 * are 8 | 4 4 4 2. 8 goes to ranks 0 and 1, 4 to rank 2, 4 to rank 3 as long as ranks are free. Then the least gets the
 * next: 4 to rank 2 (32), 2 to rank 3 (20). The fullest group has only one sample, so nothing is taken back. */
TEST(dynamic_cp__makes_the_step_counted_by_hand)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 4, 1, 8);
    hand_batch(&hand, 5, (int32_t[]){8, 4, 4, 4, 2});
    plan_of(&hand, "max_tokens: 4", &plan);
    CHECK_EQUAL(plan.n_phases, 1);
    CHECK_TEXT(partition_of(&plan, 0, 0), "[0:0-8]");
    CHECK_TEXT(partition_of(&plan, 0, 1), "[0:0-8]");
    CHECK_TEXT(partition_of(&plan, 0, 2), "[1:0-4] [3:0-4]");
    CHECK_TEXT(partition_of(&plan, 0, 3), "[2:0-4] [4:0-2]");
    CHECK_EQUAL(plan.phases[0].pipelines[1].partition[PASS_BACKWARD].micro_batches[0].context, 2);
    CHECK_EQUAL(plan.phases[0].n_groups, 1);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Three ranks' worth rounds up to four. 12 takes all four ranks. The others find no place beside it, so they form the
 * next step. */
TEST(dynamic_cp__moves_the_rest_to_the_next_step)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 4, 2, 12);
    hand_batch(&hand, 5, (int32_t[]){4, 12, 4, 4, 4});
    plan_of(&hand, "max_tokens: 4", &plan);
    CHECK_EQUAL(plan.n_phases, 2);
    CHECK_TEXT(partition_of(&plan, 0, 3), "[1:0-12]");
    CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[0].context, 4);
    CHECK_TEXT(partition_of(&plan, 1, 0), "[0:0-4]");
    CHECK_TEXT(partition_of(&plan, 1, 3), "[4:0-4]");
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Works are 64 (four ranks), 32 (two) and 16 (one). A share is 112/3, and 32 + 16 is more than 1.1 of it, so each is a
 * bucket. On five ranks 8 finds no place beside 16. But 4, the head of the next bucket, does. */
TEST(dynamic_cp__takes_the_head_of_a_later_bucket_first)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 5, 1, 16);
    hand_batch(&hand, 3, (int32_t[]){8, 16, 4});
    plan_of(&hand, "max_tokens: 4", &plan);
    CHECK_EQUAL(plan.n_phases, 2);
    CHECK_TEXT(partition_of(&plan, 0, 3), "[1:0-16]");
    CHECK_TEXT(partition_of(&plan, 0, 4), "[2:0-4]");
    CHECK_TEXT(partition_of(&plan, 1, 0), "[0:0-8]");
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Works of 36, 25, 25 on two ranks give 36 and 50, or without the last sample 36 and 25. The gap is 11, not 14. So
 * it is left for a step of its own, in which its group doubles. */
TEST(dynamic_cp__takes_the_last_sample_back)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 2, 1, 8);
    hand_batch(&hand, 3, (int32_t[]){5, 6, 5});
    plan_of(&hand, "{max_tokens: 8, delta: 0}", &plan);
    CHECK_EQUAL(plan.n_phases, 2);
    CHECK_TEXT(partition_of(&plan, 0, 0), "[1:0-6]");
    CHECK_TEXT(partition_of(&plan, 0, 1), "[0:0-5]");
    CHECK_TEXT(partition_of(&plan, 1, 1), "[2:0-5]");
    CHECK_EQUAL(plan.phases[1].pipelines[0].partition[PASS_FORWARD].micro_batches[0].context, 2);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* One sample on six ranks gets 1, 2, 4, and then the two that are left. With two samples on six the first doubles, then
 * the second, then the first again by the rest: 2 + 2, 4 + 2. The second group is behind the first one. */
TEST(dynamic_cp__doubles_groups_until_no_rank_is_empty)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 6, 1, 8);
    hand_batch(&hand, 1, (int32_t[]){3});
    plan_of(&hand, "max_tokens: 4", &plan);
    CHECK_EQUAL(plan.phases[0].pipelines[5].partition[PASS_FORWARD].micro_batches[0].context, 6);
    plan_free(&plan);
    hand_batch(&hand, 2, (int32_t[]){3, 3});
    plan_of(&hand, "max_tokens: 4", &plan);
    const int32_t context[] = {4, 4, 4, 4, 2, 2};
    for (int32_t rank = 0; rank < 6; rank++)
        CHECK_EQUAL(plan.phases[0].pipelines[rank].partition[PASS_FORWARD].micro_batches[0].context, context[rank]);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Works on five ranks with 400 tokens each are 463080 or 469910 (four ranks), 180000 (two), 90000 and 1 (one). They are
 * of three kinds, so shares are thirds. The second and third come to 1.105 shares, and the third opens a bucket. Or
 * they come to 1.095, and the third is behind the second, which finds no place. The last one, behind the third or
 * alone, finds one in either case. */
TEST(dynamic_cp__closes_a_bucket_a_tenth_above_its_share)
{
    static const char *const last_rank[] = {"[2:0-300] [3:0-1]", "[3:0-1]"};
    for (int32_t i = 0; i < 2; i++) {
        struct hand_request hand;
        struct plan plan;
        hand_request(&hand, 5, 1, 1600);
        hand_batch(&hand, 4, (int32_t[]){1361 + 10 * i, 600, 300, 1});
        plan_of(&hand, "max_tokens: 400", &plan);
        CHECK_TEXT(partition_of(&plan, 0, 4), last_rank[i]);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* There are three ranks. Two of them have work 320000. The third has 160000 and 380^2 or 379^2, which is 4.9% or 5.1%
 * less. The first is balanced, so the last sample forms a step of its own; the second is not. */
TEST(dynamic_cp__ends_a_step_within_a_twentieth)
{
    for (int32_t i = 0; i < 2; i++) {
        struct hand_request hand;
        struct plan plan;
        hand_request(&hand, 3, 1, 800);
        hand_batch(&hand, 4, (int32_t[]){800, 400, 380 - i, 100});
        plan_of(&hand, "max_tokens: 400", &plan);
        CHECK_EQUAL(plan.n_phases, 2 - i);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* Samples have one token, and a rank takes four. Micro-batches have four with `pack`, and one without. */
TEST(dynamic_cp__may_pack_the_samples_of_a_group)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 2, 1, 4);
    hand_batch(&hand, 10, (int32_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
    plan_of(&hand, "{max_tokens: 4, pack: true}", &plan);
    CHECK_TEXT(partition_of(&plan, 0, 0), "[0:0-1 2:0-1 4:0-1 6:0-1] [8:0-1]");
    plan_free(&plan);
    plan_of(&hand, "max_tokens: 4", &plan);
    CHECK_TEXT(partition_of(&plan, 0, 1), "[1:0-1] [3:0-1] [5:0-1] [7:0-1] [9:0-1]");
    plan_free(&plan);
    hand_request_free(&hand);
}

/* There are one sample of eight tokens and sixteen of one. By squares these are 16 against 64, and all go to the other
 * rank. So few tokens have FLOPs nearly in proportion to them. Then they are twice as much, so the first rank has some
 * of them, too. */
TEST(dynamic_cp__may_balance_flops)
{
    struct hand_request hand;
    struct plan plan;
    int32_t tokens[17] = {8};
    for (int32_t i = 1; i < 17; i++)
        tokens[i] = 1;
    hand_request_real(&hand, 2, 1, 8);
    hand_batch(&hand, 17, tokens);
    plan_of(&hand, "max_tokens: 8", &plan);
    CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].n_micro_batches, 1);
    plan_free(&plan);
    plan_of(&hand, "{max_tokens: 8, work: flop}", &plan);
    CHECK_TRUE(plan.phases[0].pipelines[0].partition[PASS_FORWARD].n_micro_batches > 3);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* All memory may be used. M is the context or one of its halves, and none of them ends before the one that was
 * found. */
TEST(dynamic_cp__finds_the_fastest_half_of_the_capacity)
{
    struct hand_request hand;
    struct plan plan;
    int32_t n_faster = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        double found_s, least_s = INFINITY, whole_s = 0;
        hand_request_real(&hand, 8, 1, 16384);
        hand.request.memory_bytes = 1e15;
        hand_batch_of(&hand, HAND_LONG_TAIL, 60, seed);
        plan_of(&hand, "", &plan);
        CHECK_EQUAL(plan.n_candidates, 6);
        found_s = hand_plan_makespan_s(&plan, &hand.setting, (struct dag_options){0});
        plan_free(&plan);
        for (int32_t most = 16384; most >= 512; most /= 2) {
            char knobs[64];
            snprintf(knobs, sizeof knobs, "max_tokens: %d", most);
            plan_of(&hand, knobs, &plan);
            double end_s = hand_plan_makespan_s(&plan, &hand.setting, (struct dag_options){0});
            whole_s = most == 16384 ? end_s : whole_s;
            least_s = fmin(least_s, end_s);
            plan_free(&plan);
        }
        CHECK_TRUE(found_s == least_s);
        n_faster += found_s < whole_s;
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_faster > 0); /* it matters */
}
