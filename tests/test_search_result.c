/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests search plans near the limit of memory: those that fit surely rank, and tight ones are named. */
#include <math.h>

#include "hand_search.h"
#include "harness.h"

/* Two plans of one node: activations are kept or all recomputed. */
static const struct hand_cell cell = {
    "llama-7b", "hopper-1x8", "best-fit", "32Ki", "tp: 2, pp: 1, cp: 1, offload: 0, recompute: [none, full]", "", 3};

static const double reserve_most = 0.25; /* of tests/scenario_fixture.c */

/** Search with plans up to `fits`, on GPUs of so many bytes that a rank may use. */
static void search_with(struct hand_search *hand, double memory_bytes, enum scenario_fits fits)
{
    struct error err = {0};
    const struct search_options options = {0};
    struct scenario *scenario = &hand->scenario;
    search_result_free(&hand->result);
    scenario->device.memory_bytes += (memory_bytes - request_memory_bytes(scenario)) / scenario->memory_limit;
    scenario->fits = scenario->systems[0].plan.fits = fits;
    CHECK(search_system(scenario, &hand->lengths, 0, &options, &hand->result, &err));
}

/** Return the least peak of all plans, as a search without any memory tells it. */
static double least_peak(struct hand_search *hand)
{
    search_with(hand, 1e9, SCENARIO_FITS_TIGHT);
    CHECK_TRUE(!hand->result.fits);
    return hand_chosen(hand)->score.worst.peak_bytes;
}

/* All plans fit surely on a GPU of any size, and nothing is named. Then the memory holds the fastest plan's peak, but
 * not its reserve. So another one is chosen, and the fastest is named. It is what `fits: tight` chooses. */
TEST(search__names_a_faster_plan_that_fits_tightly)
{
    struct hand_search hand;
    hand_search_cell(&hand, &cell, false);
    search_with(&hand, 1e13, SCENARIO_FITS_SURE);
    CHECK_EQUAL(hand.result.faster, -1);
    const struct search_plan fastest = *hand_chosen(&hand);
    double memory_bytes = 1.1 * fastest.score.worst.peak_bytes;
    search_with(&hand, memory_bytes, SCENARIO_FITS_SURE);
    CHECK_TRUE(hand.result.fits && !hand.result.tight);
    const struct search_plan chosen = *hand_chosen(&hand);
    CHECK_TRUE(chosen.score.worst.peak_bytes <= memory_bytes / (1 + reserve_most));
    CHECK_TRUE(!hand_same_choice(&chosen, &fastest));
    CHECK(hand.result.faster >= 0);
    const struct search_plan named = hand.result.plans[hand.result.faster];
    CHECK_EQUAL(named.verdict, SEARCH_TIGHT);
    CHECK_TRUE(hand_same_choice(&named, &fastest));
    CHECK_CLOSE(hand.result.faster_by, chosen.score.time_s / fastest.score.time_s - 1, 1e-12);
    search_with(&hand, memory_bytes, SCENARIO_FITS_TIGHT);
    CHECK_TRUE(hand_same_choice(hand_chosen(&hand), &fastest));
    CHECK_EQUAL(hand.result.faster, -1);
    hand_close_cell(&hand);
}

/* No plan fits surely if the memory holds the least peak without its reserve. Then one that fits tightly is chosen, and
 * the scenario's entry says so. With less memory none fits. */
TEST(search__takes_a_tight_plan_if_no_other_fits)
{
    struct hand_search hand;
    struct error err = {0};
    hand_search_cell(&hand, &cell, false);
    double peak = least_peak(&hand);
    search_with(&hand, 1.1 * peak, SCENARIO_FITS_SURE);
    CHECK_TRUE(hand.result.fits && hand.result.tight && hand.result.faster == -1);
    CHECK_TRUE(hand_chosen(&hand)->score.worst.peak_bytes <= 1.1 * peak);
    const struct search_options options = {0};
    struct search_result result = {0};
    CHECK(search_scenario(&hand.scenario, &hand.lengths, &options, &result, &err));
    CHECK_EQUAL(hand.scenario.systems[0].plan.fits, SCENARIO_FITS_TIGHT);
    CHECK_EQUAL(hand.scenario.fits, SCENARIO_FITS_SURE);
    search_result_free(&result);
    search_with(&hand, 0.99 * peak, SCENARIO_FITS_SURE);
    CHECK_TRUE(!hand.result.fits);
    hand_close_cell(&hand);
}
