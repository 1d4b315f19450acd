/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of ODC's balancing of a minibatch, and those of its baseline. */
#include "hand_request.h"
#include "harness.h"

extern const struct training_system system_odc;

static void plan_of(struct hand_request *hand, int32_t dp, const char *knobs, struct plan *plan, int32_t n,
                    const int32_t *tokens)
{
    hand_request(hand, dp, 1, 400);
    hand->request.layout.sharding = SCENARIO_ZERO3;
    hand->request.layout.shard_communication = SCENARIO_ON_DEMAND;
    hand_batch(hand, n, tokens);
    hand_planned(hand, &system_odc, knobs, plan);
}

static const char *partition_of(const struct plan *plan, int32_t rank)
{
    return hand_cut_text(&plan->phases[0].pipelines[rank].partition[PASS_FORWARD]);
}

/* Costs are 10000 and ten times 900. Karmarkar-Karp gives 100 one rank, and all 30s the other (9000). 300 tokens need
 * three micro-batches of 100. Three of ten equal costs are 4, 3 and 3, so one has 120 tokens. Four are 3, 3, 2 and 2.
 */
TEST(odc__gives_each_rank_its_own_number_of_micro_batches)
{
    struct hand_request hand;
    struct plan plan;
    const int32_t tokens[] = {30, 30, 30, 30, 30, 100, 30, 30, 30, 30, 30};
    plan_of(&hand, 2, "max_tokens: 100\nquadratic: 1", &plan, 11, tokens);
    CHECK_TEXT(partition_of(&plan, 0), "[5:0-100]");
    CHECK_EQUAL(plan.phases[0].pipelines[1].partition[PASS_FORWARD].n_micro_batches, 4);
    CHECK_EQUAL(plan_micro_batch_tokens(&plan.phases[0].pipelines[1].partition[PASS_FORWARD], 0), 90);
    CHECK_EQUAL(plan_micro_batch_tokens(&plan.phases[0].pipelines[1].partition[PASS_FORWARD], 3), 60);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Pairs of like costs begin as partitions, and the eleventh sample alone. It joins the cheaper side of 100 and 30. So
 * one rank has 100 and four 30s, the other six 30s. 220 tokens need three micro-batches, 100, 60 and 60. So the other
 * rank, which could do with two of 90, has three of 60. */
TEST(lb_micro__gives_all_ranks_the_same_number_of_micro_batches)
{
    struct hand_request hand;
    struct plan plan;
    const int32_t tokens[] = {30, 30, 30, 30, 30, 100, 30, 30, 30, 30, 30};
    plan_of(&hand, 2, "packing: lb-micro\nmax_tokens: 100\nquadratic: 1", &plan, 11, tokens);
    const struct plan_partition *first = &plan.phases[0].pipelines[0].partition[PASS_FORWARD],
                                *second = &plan.phases[0].pipelines[1].partition[PASS_FORWARD];
    CHECK_EQUAL(first->n_micro_batches, 3);
    CHECK_EQUAL(second->n_micro_batches, 3);
    CHECK_EQUAL(plan_micro_batch_tokens(first, 0), 100);
    CHECK_EQUAL(plan_micro_batch_tokens(first, 1), 60);
    CHECK_EQUAL(plan_micro_batch_tokens(second, 0), 60);
    CHECK_EQUAL(plan_micro_batch_tokens(second, 2), 60);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Karmarkar-Karp: 8 - 7 = 1, 6 - 5 = 1, 4 - 1 = 3, 3 - 1 = 2. So sums are 16 and 14. Swapping 8 for 7 gives 15 each. */
TEST(odc__swaps_a_pair_that_lowers_the_dearest_part)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 2, "max_tokens: 400\nlinear: 1", &plan, 5, (int32_t[]){8, 7, 6, 5, 4});
    CHECK_EQUAL(plan_micro_batch_tokens(&plan.phases[0].pipelines[0].partition[PASS_FORWARD], 0), 15);
    CHECK_EQUAL(plan_micro_batch_tokens(&plan.phases[0].pipelines[1].partition[PASS_FORWARD], 0), 15);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* F(x) = 2 x^2 + 10 x is 1408 for 24 and 336 for 10. Each of four 10s beside 24 would cost more than two ranks' mean.
 */
TEST(odc__counts_flops_without_a_profile)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 2, "", &plan, 5, (int32_t[]){10, 10, 24, 10, 10});
    CHECK_TEXT(partition_of(&plan, 0), "[2:0-24]");
    plan_free(&plan);
    hand_request_free(&hand);
}

TEST(odc__refuses_what_it_cannot_run)
{
    static const struct {
        int32_t sharding, communication;
        const char *what;
    } cases[] = {{SCENARIO_ZERO1, SCENARIO_COLLECTIVE, "zero3"}, {SCENARIO_ZERO3, SCENARIO_COLLECTIVE, "on-demand"}};
    for (int i = 0; i < 2; i++) {
        struct hand_request hand;
        struct plan plan = {0};
        struct error err = {0};
        hand_request(&hand, 2, 1, 400);
        hand.request.layout.sharding = cases[i].sharding;
        hand.request.layout.shard_communication = cases[i].communication;
        hand_batch(&hand, 2, (int32_t[]){8, 7});
        hand_knobs(&hand, &system_odc, "");
        CHECK_TRUE(!system_odc.plan(&hand.request, NULL, &plan, &err));
        CHECK_CONTAINS(err.text, cases[i].what);
        hand_request_free(&hand);
    }
}
