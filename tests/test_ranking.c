/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which plans of a search are decided on, and in which order. */
#include "search/ranking.h"

#include <math.h>

#include "harness.h"

/* The plans are in the order of a space: TP, recomputation, offload. Each has its time in the ranking, and its time if
 * all five decide (0: it was not decided on). The limits are SEARCH_FEW 4 and SEARCH_NEAR_PERCENT 5. */
static const struct {
    int64_t tp;
    enum recompute recompute;
    double offload, ranking_s, time_s;
} rows[] = {
    {1, RECOMPUTE_NONE, 0, 1.00, 1.10},      {1, RECOMPUTE_NONE, 0.5, 1.02, 0},
    {1, RECOMPUTE_SELECTIVE, 0, 1.04, 1.08}, {1, RECOMPUTE_FULL, 0, 1.06, 0},
    {2, RECOMPUTE_NONE, 0, 1.20, 1.09},      {4, RECOMPUTE_NONE, 0, 1.30, 1.09},
    {8, RECOMPUTE_NONE, 0, 1.36, 0},         {8, RECOMPUTE_FULL, 0, 1.28, 1.30},
    {16, RECOMPUTE_NONE, 0, 1.35, 0},        {16, RECOMPUTE_SELECTIVE, 0, 1.34, 0.9},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

struct hand_ranking {
    struct search_plan plans[N_ROWS];
    int32_t ranked[N_ROWS];
    struct search_result result;
};

/* Make a ranking of plans that are all resolved and fit. Iterations of equal work count a fifth each. */
static void ranking_of(struct hand_ranking *hand)
{
    *hand = (struct hand_ranking){0};
    for (int32_t i = 0; i < N_ROWS; i++) {
        struct search_plan *plan = &hand->plans[i];
        plan->layout = (struct scenario_plan){.tp = rows[i].tp,
                                              .pp = 1,
                                              .cp = 1,
                                              .dp = 1,
                                              .recompute = (int32_t)rows[i].recompute,
                                              .offload = rows[i].offload};
        plan->verdict = SEARCH_SLOWER;
        plan->ranking_s = rows[i].ranking_s;
        plan->score.time_s = rows[i].time_s;
        for (int j = 0; j < SEARCH_DECIDING_ITERATIONS; j++)
            plan->score.iteration_s[j] = rows[i].time_s;
    }
    for (int j = 0; j < SEARCH_DECIDING_ITERATIONS; j++)
        hand->result.iterations[j] = (struct search_iteration){.iteration = j, .weight = 0.2, .model_flop = 1};
    hand->result.plans = hand->plans;
    hand->result.n_plans = N_ROWS;
    hand->result.ranked = hand->ranked;
}

/* By time they are 0 (1 and 0.5 offloaded are of one layout and recomputation), 2, 3, 4, 7, 5, 9, 8, 6. The fastest of
 * the layouts are 1.00, 1.20, 1.28 and 1.30, and TP 16's 1.34. */
TEST(ranking__lists_the_fastest_of_each_layout_and_recomputation)
{
    static const int32_t expected[] = {0, 2, 3, 4, 7, 5, 9, 8, 6};
    struct hand_ranking hand;
    ranking_of(&hand);
    CHECK_CLOSE(ranking_few_s(&hand.result), 1.30, 1e-15);
    CHECK_EQUAL(hand.result.n_ranked, 9);
    for (int i = 0; i < 9; i++)
        CHECK_EQUAL(hand.ranked[i], expected[i]);
    for (int i = 4; i < N_ROWS; i++) /* two layouts fewer than it takes */
        hand.plans[i].verdict = i < 7 ? SEARCH_TOO_LARGE : SEARCH_SLOWER;
    CHECK_TRUE(isinf(ranking_few_s(&hand.result)));
}

/* Near means up to 5% above the layout's fastest, or above the fourth layout's 1.30 if that is less. It is less for TP
 * 16 and for a new one. */
TEST(ranking__measures_nearness_to_the_layout_and_the_fourth_layout)
{
    struct hand_ranking hand;
    ranking_of(&hand);
    double few_s = ranking_few_s(&hand.result);
    CHECK_CLOSE(ranking_near_s(&hand.result, &hand.plans[0].layout, few_s), 1.05 * 1.00, 1e-15);
    CHECK_CLOSE(ranking_near_s(&hand.result, &hand.plans[6].layout, few_s), 1.05 * 1.28, 1e-15);
    CHECK_CLOSE(ranking_near_s(&hand.result, &hand.plans[8].layout, few_s), 1.05 * 1.30, 1e-15);
    struct scenario_plan other = hand.plans[0].layout;
    other.pp = 2;
    CHECK_CLOSE(ranking_near_s(&hand.result, &other, few_s), 1.05 * 1.30, 1e-15);
}

/* An open plan must also beat the one of its layout and recomputation, if that comes first. Otherwise a tie is enough,
 * also for bounds that are rounded. */
TEST(ranking__asks_an_open_plan_to_beat_its_like)
{
    struct hand_ranking hand;
    ranking_of(&hand);
    hand.plans[1].verdict = SEARCH_OPEN; /* offloads; 0 comes first */
    CHECK_TRUE(ranking_limit_s(&hand.result, 1, ranking_few_s(&hand.result)) < 1.00);
    CHECK_CLOSE(ranking_limit_s(&hand.result, 1, ranking_few_s(&hand.result)), 1.00, 1e-11);
    ranking_of(&hand);
    hand.plans[0].verdict = SEARCH_OPEN; /* 1 took 1.02 and comes behind */
    CHECK_TRUE(ranking_limit_s(&hand.result, 0, ranking_few_s(&hand.result)) > 1.02);
    CHECK_CLOSE(ranking_limit_s(&hand.result, 0, ranking_few_s(&hand.result)), 1.02, 1e-11);
    ranking_of(&hand);
    hand.plans[3].verdict = SEARCH_OPEN; /* no other recomputes in full, so it is near the layout's fastest */
    CHECK_CLOSE(ranking_limit_s(&hand.result, 3, ranking_few_s(&hand.result)), 1.05, 1e-15);
}

/* TP 1 was decided on twice. The plan that wins is slower in the ranking than its layout's fastest. 9 was faster still
 * and did not fit in the run. Ties (4 and 5) go as in the space. */
TEST(ranking__orders_decided_plans_by_time)
{
    static const int32_t expected[] = {2, 4, 5, 0, 7, 1, 3, 8, 6, 9};
    struct hand_ranking hand;
    ranking_of(&hand);
    for (int32_t i = 0; i < N_ROWS; i++)
        hand.plans[i].verdict = rows[i].time_s > 0 ? SEARCH_RUNNER_UP : SEARCH_SLOWER;
    CHECK_TRUE(ranking_fastest(&hand.result) == &hand.plans[9]);
    hand.plans[9].verdict = SEARCH_MISFIT;
    CHECK_TRUE(ranking_fastest(&hand.result) == &hand.plans[2]);
    ranking_conclude(&hand.result);
    CHECK_TRUE(hand.result.fits);
    CHECK_EQUAL(hand.result.n_ranked, N_ROWS);
    for (int i = 0; i < N_ROWS; i++)
        CHECK_EQUAL(hand.ranked[i], expected[i]);
    CHECK_EQUAL(hand.plans[2].verdict, SEARCH_CHOSEN);
    CHECK_EQUAL(hand.result.count[SEARCH_RUNNER_UP], 4);
    CHECK_EQUAL(hand.result.count[SEARCH_SLOWER], 4);
    CHECK_EQUAL(hand.result.count[SEARCH_MISFIT], 1);
    CHECK_CLOSE(hand.plans[0].score.slower, 1.10 / 1.08 - 1, 1e-12);
}

/* Work is 1, 3, 1, 1, 1 with weights of a fifth: 1.4 in all. The first takes 2 s. The second needs 9 s and not 6, which
 * is 3 s more of a fifth's weight. The third's 1 s is no more than 2. So 2 s of 2 + 0.6 / 1.4 s are left. */
TEST(ranking__expects_no_less_than_the_bounds)
{
    struct hand_ranking hand;
    ranking_of(&hand);
    struct search_plan *plan = &hand.plans[0];
    hand.result.iterations[1].model_flop = 3;
    plan->least_s[1] = 9;
    plan->least_s[2] = 1;
    CHECK_CLOSE(ranking_expected_s(&hand.result, plan, 2), 2 + 0.6 / 1.4, 1e-14);
    CHECK_CLOSE(ranking_expected_s(&hand.result, plan, 4), 4, 1e-14);
    CHECK_CLOSE(ranking_time_within_s(&hand.result, plan, 2 + 0.6 / 1.4), 2, 1e-12);
    CHECK_CLOSE(ranking_time_within_s(&hand.result, plan, 4), 4, 1e-14);
    CHECK_TRUE(isinf(ranking_time_within_s(&hand.result, plan, INFINITY)));
}
