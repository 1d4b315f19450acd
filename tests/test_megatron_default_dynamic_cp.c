/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of Megatron's dynamic context parallelism of 2026. */
#include "hand_dag.h"
#include "hand_request.h"
#include "harness.h"

#include <math.h>

extern const struct training_system system_megatron_default_dynamic_cp;

static void plan_of(struct hand_request *hand, const char *knobs, struct plan *plan)
{
    hand_planned(hand, &system_megatron_default_dynamic_cp, knobs, plan);
    CHECK_EQUAL(plan->n_phases, 1);
}

/* Check the micro-batches of each rank, and the size of the group of each micro-batch of all ranks, rank by rank. */
static void check_ranks(struct hand_request *hand, const char *knobs, const char *const *ranks, const int32_t *sizes)
{
    struct plan plan;
    plan_of(hand, knobs, &plan);
    for (int32_t rank = 0; rank < plan.phases[0].n_pipelines; rank++)
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            const struct plan_partition *partition = &plan.phases[0].pipelines[rank].partition[pass];
            int32_t n = partition->n_micro_batches;
            CHECK_TEXT(hand_cut_text(partition), ranks[rank]);
            CHECK_EQUAL(n, plan.phases[0].pipelines[0].partition[PASS_FORWARD].n_micro_batches);
            for (int32_t i = 0; i < n; i++)
                CHECK_EQUAL(partition->micro_batches[i].context, sizes[rank * n + i]);
        }
    plan_free(&plan);
}

static void check_refusal(struct hand_request *hand, const char *knobs, const char *text)
{
    struct plan plan = {0};
    struct error err = {0};
    hand_knobs(hand, &system_megatron_default_dynamic_cp, knobs);
    CHECK_TRUE(!system_megatron_default_dynamic_cp.plan(&hand->request, NULL, &plan, &err));
    CHECK_CONTAINS(err.text, text);
}

/* A rank holds four tokens. 6 needs both ranks, 3 tokens and work 6^2/2 = 18 each. No rank is free for 2, but the group
 * has room: (6 + 2)/2 = 4. Work 18 + 2^2/2 = 20 is below 6 x 4 x 1.05 = 25.2. */
TEST(default_dynamic_cp__packs_a_short_sample_beside_a_long_one)
{
    struct hand_request hand;
    hand_request(&hand, 2, 1, 8);
    hand_batch(&hand, 2, (int32_t[]){6, 2});
    check_ranks(&hand, "max_tokens: 4", (const char *const[]){"[0:0-6 1:0-2]", "[0:0-6 1:0-2]"}, (int32_t[]){2, 2});
    hand_request_free(&hand);
}

/* A rank holds eight tokens. 10 needs two ranks, work 50. 8 needs one, where it would be work 64, but on two ranks it
 * is 32. So the fullest rank has 50 with two, and 8 takes two. 2 would make 52 of the first group and 34 of the second
 * one. */
TEST(default_dynamic_cp__keeps_the_fullest_rank_low)
{
    struct hand_request hand;
    hand_request(&hand, 4, 1, 10);
    hand_batch(&hand, 3, (int32_t[]){10, 8, 2});
    check_ranks(&hand, "max_tokens: 8", (const char *const[]){"[0:0-10]", "[0:0-10]", "[1:0-8 2:0-2]", "[1:0-8 2:0-2]"},
                (int32_t[]){2, 2, 2, 2});
    hand_request_free(&hand);
}

/* A rank holds eight tokens. 8 is work 64 on the first rank. 4 opens a group of one, because 16 on one rank or 8 on two
 * leave 64. The next 4 joins it, since a group comes before a new one and 32 is less than 64. The last 4 opens a
 * group. All three grow to two ranks, and the first one to four. */
TEST(default_dynamic_cp__breaks_ties_by_size_and_then_by_age)
{
    struct hand_request hand;
    hand_request(&hand, 8, 1, 8);
    hand_batch(&hand, 4, (int32_t[]){8, 4, 4, 4});
    check_ranks(&hand, "max_tokens: 8",
                (const char *const[]){"[0:0-8]", "[0:0-8]", "[0:0-8]", "[0:0-8]", "[1:0-4 2:0-4]", "[1:0-4 2:0-4]",
                                      "[3:0-4]", "[3:0-4]"},
                (int32_t[]){4, 4, 4, 4, 2, 2, 2, 2});
    hand_request_free(&hand);
}

/* A rank holds four tokens. 4 takes the first, 3 the second rank. The other 3 finds no room and waits. 1 finds some on
 * the second rank. In the next micro-batch the group of 3 grows to both ranks. */
TEST(default_dynamic_cp__lets_a_sample_wait_for_the_next_micro_batch)
{
    struct hand_request hand;
    hand_request(&hand, 2, 1, 8);
    hand_batch(&hand, 4, (int32_t[]){3, 1, 4, 3});
    check_ranks(&hand, "max_tokens: 4", (const char *const[]){"[2:0-4] [3:0-3]", "[0:0-3 1:0-1] [3:0-3]"},
                (int32_t[]){1, 2, 1, 2});
    hand_request_free(&hand);
}

/* Three samples have a rank each. The groups grow one after the other to 2, 2, 2, and the first one to 4. */
TEST(default_dynamic_cp__lets_the_first_of_the_smallest_groups_grow)
{
    struct hand_request hand;
    hand_request(&hand, 8, 1, 8);
    hand_batch(&hand, 3, (int32_t[]){3, 3, 3});
    check_ranks(
        &hand, "max_tokens: 4",
        (const char *const[]){"[0:0-3]", "[0:0-3]", "[0:0-3]", "[0:0-3]", "[1:0-3]", "[1:0-3]", "[2:0-3]", "[2:0-3]"},
        (int32_t[]){4, 4, 4, 4, 2, 2, 2, 2});
    hand_request_free(&hand);
}

/* The smallest group is not the first one: 5 has two ranks and 2 has one, which grows. */
TEST(default_dynamic_cp__lets_only_the_smallest_groups_grow)
{
    struct hand_request hand;
    hand_request(&hand, 4, 1, 8);
    hand_batch(&hand, 2, (int32_t[]){5, 2});
    check_ranks(&hand, "max_tokens: 4", (const char *const[]){"[0:0-5]", "[0:0-5]", "[1:0-2]", "[1:0-2]"},
                (int32_t[]){2, 2, 2, 2});
    hand_request_free(&hand);
}

/* 6 and 14 ranks have groups of 1, 2 and all. Two samples have a rank each, and then two. Groups of two cannot grow to
 * all ranks, so all share both samples. */
TEST(default_dynamic_cp__takes_all_ranks_if_groups_cannot_grow)
{
    static const int32_t n_ranks[] = {6, 14};
    for (int32_t i = 0; i < 2; i++) {
        struct hand_request hand;
        struct plan plan;
        hand_request(&hand, n_ranks[i], 1, 100);
        hand_batch(&hand, 2, (int32_t[]){50, 50});
        plan_of(&hand, "max_tokens: 100", &plan);
        CHECK_EQUAL(plan.phases[0].n_groups, 1);
        for (int32_t rank = 0; rank < n_ranks[i]; rank++) {
            const struct plan_partition *partition = &plan.phases[0].pipelines[rank].partition[PASS_FORWARD];
            CHECK_TEXT(hand_cut_text(partition), "[0:0-50 1:0-50]");
            CHECK_EQUAL(partition->micro_batches[0].context, n_ranks[i]);
        }
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* Two ranks hold eight tokens. 20 takes both all the same, and 1 finds no room beside it. */
TEST(default_dynamic_cp__gives_all_ranks_to_a_sample_that_is_too_long)
{
    struct hand_request hand;
    hand_request(&hand, 2, 1, 20);
    hand_batch(&hand, 2, (int32_t[]){20, 1});
    check_ranks(&hand, "max_tokens: 4", (const char *const[]){"[0:0-20] [1:0-1]", "[0:0-20] [1:0-1]"},
                (int32_t[]){2, 2, 2, 2});
    hand_request_free(&hand);
}

/* Groups have at least two ranks. 3 is work 4.5 on each. The second opens a group. The third makes 9 of either, so it
 * joins the earlier one, (3 + 3)/2 tokens. Three ranks have groups of one and three, four have no group of three. */
TEST(default_dynamic_cp__has_no_group_below_the_minimum)
{
    struct hand_request hand;
    hand_request(&hand, 4, 1, 8);
    hand_batch(&hand, 3, (int32_t[]){3, 3, 3});
    check_ranks(&hand, "{max_tokens: 4, min_cp: 2}",
                (const char *const[]){"[0:0-3 2:0-3]", "[0:0-3 2:0-3]", "[1:0-3]", "[1:0-3]"}, (int32_t[]){2, 2, 2, 2});
    check_refusal(&hand, "min_cp: 3", "knobs.min_cp: 3 is no size of a group; allowed: 4, which is");
    check_refusal(&hand, "min_cp: 8", "knobs.min_cp: 8 is no size of a group");
    hand.request.layout.dp = 3;
    check_ranks(&hand, "{max_tokens: 4, min_cp: 3}",
                (const char *const[]){"[0:0-3 1:0-3 2:0-3]", "[0:0-3 1:0-3 2:0-3]", "[0:0-3 1:0-3 2:0-3]"},
                (int32_t[]){3, 3, 3});
    hand_request_free(&hand);
}

/* Two stages need two micro-batches. Groups have 4, 2 and 2 ranks, and half of the ranks are the first one's. So the
 * others stay and grow to 4 and 4, and the first one follows with 8. Three samples cannot be four micro-batches. */
TEST(default_dynamic_cp__splits_a_micro_batch_for_interleaved_stages)
{
    struct hand_request hand;
    hand_request(&hand, 8, 2, 8);
    hand.request.layout.vpp = 2;
    hand_batch(&hand, 3, (int32_t[]){3, 3, 3});
    check_ranks(&hand, "max_tokens: 4",
                (const char *const[]){"[1:0-3] [0:0-3]", "[1:0-3] [0:0-3]", "[1:0-3] [0:0-3]", "[1:0-3] [0:0-3]",
                                      "[2:0-3] [0:0-3]", "[2:0-3] [0:0-3]", "[2:0-3] [0:0-3]", "[2:0-3] [0:0-3]"},
                (int32_t[]){4, 8, 4, 8, 4, 8, 4, 8, 4, 8, 4, 8, 4, 8, 4, 8});
    hand.request.layout.pp = 4;
    check_refusal(&hand, "max_tokens: 4", "need micro-batches in multiples of 4 (pp), and none has several groups");
    hand_request_free(&hand);
}

/* Four stages need four micro-batches. One of four groups is split into 2 3 and 0 1. The search goes on from the last
 * one: 0 1 becomes 1, and 0 follows. Then 2 3 becomes 3, and 2 follows. */
TEST(default_dynamic_cp__splits_from_the_last_micro_batch_on)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 8, 4, 8);
    hand.request.layout.vpp = 2;
    hand_batch(&hand, 4, (int32_t[]){3, 3, 3, 3});
    plan_of(&hand, "max_tokens: 4", &plan);
    for (int32_t rank = 0; rank < 8; rank++)
        CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[rank].partition[PASS_FORWARD]),
                   "[3:0-3] [1:0-3] [0:0-3] [2:0-3]");
    CHECK_EQUAL(plan.phases[0].n_groups, 1);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Six ranks have groups of 2, 2 and 2, for samples of 5 with four tokens a rank. Half of six ranks are three, and the
 * first boundary behind them is at four. 2 grows to all ranks. 0 and 1 cannot, so they share all. */
TEST(default_dynamic_cp__lets_a_part_take_all_ranks)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 6, 2, 8);
    hand.request.layout.vpp = 2;
    hand_batch(&hand, 3, (int32_t[]){5, 5, 5});
    plan_of(&hand, "max_tokens: 4", &plan);
    for (int32_t rank = 0; rank < 6; rank++)
        CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[rank].partition[PASS_FORWARD]), "[2:0-5] [0:0-5 1:0-5]");
    CHECK_EQUAL(plan.phases[0].n_groups, 1);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Ranks that share a micro-batch would cut it differently. */
TEST(default_dynamic_cp__refuses_schedules_that_cut)
{
    struct hand_request hand;
    hand_request(&hand, 2, 2, 8);
    hand_batch(&hand, 1, (int32_t[]){3});
    hand.request.layout.schedule = SCENARIO_SEQ1F1B;
    check_refusal(&hand, "", "allowed: 1f1b, interleaved, gpipe, zero-bubble");
    hand.request.layout.schedule = SCENARIO_TERAPIPE;
    check_refusal(&hand, "", "allowed: 1f1b, interleaved, gpipe, zero-bubble");
    hand_request_free(&hand);
}

/* Groups of all sizes run interleaved, and no stage waits in a circle. */
TEST(default_dynamic_cp__runs_interleaved)
{
    int32_t n_groups = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct hand_request hand;
        struct plan plan;
        int32_t pp = seed % 2 == 0 ? 2 : 4;
        hand_request_real(&hand, 8, pp, 8000);
        hand.request.layout.vpp = 2;
        hand_layers(&hand.setting, cost_n_layers(&hand.setting) / 2);
        hand_batch_of(&hand, HAND_LONG_TAIL, 60, seed);
        plan_of(&hand, "max_tokens: 1000", &plan);
        double end_s = hand_plan_makespan_s(&plan, &hand.setting, (struct dag_options){0});
        CHECK_TRUE(isfinite(end_s) && end_s > 0);
        CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].n_micro_batches % pp, 0);
        n_groups += plan.phases[0].n_groups;
        plan_free(&plan);
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_groups > 24);
}

/* All memory may be used. L is the context or one of its halves, and none of them ends before the one that was found.
 */
TEST(default_dynamic_cp__finds_the_fastest_half_of_the_capacity)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct hand_request hand;
        struct plan plan;
        double found_s, least_s = INFINITY;
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
            least_s = fmin(least_s, hand_plan_makespan_s(&plan, &hand.setting, (struct dag_options){0}));
            plan_free(&plan);
        }
        CHECK_TRUE(found_s == least_s);
        hand_request_free(&hand);
    }
}
