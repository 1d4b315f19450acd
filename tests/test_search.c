/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "execute/execute.h"
#include "harness.h"
#include "scenario_fixture.h"
#include "sweep/point.h"

/* A scenario of one system, which is read, and its lengths. */
struct hand_search {
    struct scenario scenario;
    struct lengths lengths;
    struct search_result result;
};

struct cell {
    const char *model, *platform, *system, *context, *space, *knobs;
    int seed;
};

static bool open_cell(struct hand_search *hand, const struct cell *cell, struct error *err)
{
    char text[2048];
    *hand = (struct hand_search){0};
    snprintf(text, sizeof text,
             "model: %s\ndevice: h800\nplatform: %s\nengine: critical-path\nseed: %d\n"
             "data: {lengths: github, context: %s, global_batch: 24}\niterations: {warm_up: 0, measured: 5}\n"
             "systems: [{name: %s, plan: auto, plan_space: {%s}, knobs: {%s}}]\n",
             cell->model, cell->platform, cell->seed, cell->context, cell->system, cell->space, cell->knobs);
    return scenario_read(fixture_write("search/cell.yaml", text), 0, NULL, &hand->scenario, err) &&
           system_check_entries(&hand->scenario, err) && search_check(&hand->scenario, err) &&
           lengths_open(&hand->scenario.data, scenario_data_dir(), &hand->lengths, err);
}

static void search_cell(struct hand_search *hand, const struct cell *cell, bool exhaustive)
{
    struct error err = {0};
    struct search_options options = {.exhaustive = exhaustive};
    bool ok =
        open_cell(hand, cell, &err) && search_system(&hand->scenario, &hand->lengths, 0, &options, &hand->result, &err);
    CHECK_TEXT(err.text, "");
    CHECK(ok);
}

static void close_cell(struct hand_search *hand)
{
    search_result_free(&hand->result);
    lengths_close(&hand->lengths);
    scenario_free(&hand->scenario);
}

static const struct search_plan *chosen(const struct hand_search *hand)
{
    CHECK(hand->result.n_ranked > 0);
    return &hand->result.plans[hand->result.ranked[0]];
}

static bool same_plan(const struct search_plan *a, const struct search_plan *b)
{
    return a->layout.tp == b->layout.tp && a->layout.pp == b->layout.pp && a->layout.cp == b->layout.cp &&
           a->layout.dp == b->layout.dp && a->layout.recompute == b->layout.recompute &&
           a->layout.offload == b->layout.offload;
}

static void check_cell(bool holds, const struct cell *cell, const char *what)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s, %s on %s, context %s, space {%s}, seed %d", what, cell->system, cell->model,
             cell->platform, cell->context, cell->space, cell->seed);
    harness_true(holds, text, __FILE__, __LINE__);
}

/* Small spaces of systems without a state in which memory, time or neither decides. */
static const struct cell cells[] = {
    {"llama-7b", "hopper-1x8", "best-fit", "32Ki", "name: free, offload: [0, 1]", "", 1},
    {"llama-7b", "hopper-1x8", "slimpack", "32Ki", "name: free, offload: [0, 1]", "max_factor: 16", 1},
    {"llama-7b", "hopper-2x8", "best-fit", "64Ki", "name: megatron, offload: [0.5, 0]", "", 2},
    {"llama-7b", "hopper-2x8", "slimpack", "64Ki", "name: free, pp: [2, 4, 8], offload: [0, 0.5, 1]", "max_factor: 8",
     2},
    {"llama-13b", "hopper-2x8", "best-fit", "16Ki", "name: low-tp, offload: [0]", "", 3},
    {"llama-13b", "hopper-2x8", "slimpack", "128Ki", "tp: [2, 8], recompute: [none, full]", "max_factor: 4", 4},
    {"llama-7b", "hopper-1x8", "slimpack", "16Ki", "tp: 1", "dp_merge: false", 5},
    {"llama-7b", "hopper-2x8", "length-balanced", "32Ki", "offload: [0, 1]", "", 6},
    {"llama-7b", "hopper-2x8", "flops-balanced", "64Ki", "offload: 0", "", 7},
    {"llama-7b", "hopper-2x8", "bytescale", "64Ki", "", "", 8},
    {"llama-7b", "hopper-2x8", "bytescale", "128Ki", "", "offload: always", 9},
    {"llama-7b", "hopper-2x8", "megatron-dynamic-cp", "64Ki", "offload: [0, 0.5]", "", 10},
};
enum { N_CELLS = sizeof cells / sizeof *cells };

static void pruning_changes_neither_the_choice_nor_the_runners_up(void)
{
    for (int i = 0; i < N_CELLS; i++) {
        struct hand_search pruned, exhaustive;
        search_cell(&pruned, &cells[i], false);
        search_cell(&exhaustive, &cells[i], true);
        check_cell(same_plan(chosen(&pruned), chosen(&exhaustive)), &cells[i], "same winner");
        check_cell(chosen(&pruned)->score.time_s == chosen(&exhaustive)->score.time_s, &cells[i], "same time");
        for (int32_t j = 0; j < exhaustive.result.n_ranked; j++) {
            const struct search_plan *plan = &exhaustive.result.plans[exhaustive.result.ranked[j]];
            if (plan->verdict == SEARCH_RUNNER_UP)
                check_cell(j < pruned.result.n_ranked && same_plan(plan, &pruned.result.plans[pruned.result.ranked[j]]),
                           &cells[i], "same runners-up");
        }
        check_cell(pruned.result.n_resolved < exhaustive.result.n_resolved + (pruned.result.n_plans < 50), &cells[i],
                   "pruning spares work"); /* of a few plans perhaps none */
        close_cell(&pruned);
        close_cell(&exhaustive);
    }
}

/* What an exhaustive search resolved once is never below what was known before. */
static void bounds_are_below_every_resolved_plan(void)
{
    int32_t n_checked = 0;
    for (int i = 0; i < N_CELLS; i++) {
        struct hand_search hand;
        search_cell(&hand, &cells[i], true);
        for (int32_t j = 0; j < hand.result.n_plans; j++) {
            const struct search_plan *plan = &hand.result.plans[j];
            if (plan->score.n_iterations != 1)
                continue;
            check_cell(plan->bound.time_s > 0 && plan->bound.time_s <= plan->score.time_s * (1 + 1e-12), &cells[i],
                       "the bound of time holds");
            check_cell(plan->bound.peak_bytes > 0 && plan->bound.peak_bytes <= plan->score.peak_bytes * (1 + 1e-12),
                       &cells[i], "the bound of memory holds");
            n_checked++;
        }
        close_cell(&hand);
    }
    CHECK_TRUE(n_checked > 500);
}

/* The run of a plan that somebody writes down. summary: NULL for none. @return whether it fits */
static bool run_by_hand(const struct hand_search *hand, const struct scenario_plan *layout, int64_t seed,
                        int64_t measured, struct point_summary *summary)
{
    struct error err = {0};
    struct point point = {0};
    struct scenario scenario = hand->scenario; /* borrowed but for the entry */
    struct scenario_system entry = hand->scenario.systems[0];
    entry.plan = *layout;
    entry.auto_plan = false;
    scenario.systems = &entry;
    scenario.seed = seed;
    scenario.measured = measured;
    scenario.trace = SCENARIO_TRACE_NONE;
    bool ok = point_run(&scenario, &hand->lengths, NULL, NULL, NULL, &point, &err);
    CHECK_TEXT(err.text, "");
    CHECK(ok);
    if (summary != NULL)
        *summary = point_summary_of(&scenario, &point.systems[0]);
    bool fits = point.systems[0].fits;
    point_free(&point);
    return fits;
}

/* A batch bounds nothing where samples may wait; and times are in proportion to the tokens that ran, so that leaving
 * long documents out is no gain: with and without queues a token takes as long, within the noise of five batches. */
static void a_system_that_lets_samples_wait_is_searched(void)
{
    double time_s[2];
    for (int i = 0; i < 2; i++) {
        struct cell cell = {"llama-7b",
                            "hopper-2x8",
                            "wlb-llm",
                            "64Ki",
                            "offload: 0, pp: [1, 2]",
                            i == 0 ? "queues: 0" : "thresholds: [16Ki]",
                            11};
        struct hand_search hand;
        search_cell(&hand, &cell, false);
        CHECK_TRUE(hand.result.fits);
        for (int32_t j = 0; j < hand.result.n_plans; j++) {
            const struct search_plan *plan = &hand.result.plans[j];
            check_cell(plan->bound.time_s <= plan->score.time_s || plan->score.n_iterations == 0, &cell,
                       "the bound of time holds");
            check_cell(plan->layout.cp_type == SCENARIO_ALL_GATHER, &cell, "its context parallelism gathers");
        }
        time_s[i] = chosen(&hand)->score.time_s;
        close_cell(&hand);
    }
    CHECK_TRUE(time_s[1] > 0.5 * time_s[0] && time_s[1] < 1.2 * time_s[0]);
}

/* The score is that of a run over the deciding iterations, which is independent of the search. */
static void a_score_is_what_a_run_of_the_plan_gives(void)
{
    for (int i = 0; i < 2; i++) {
        struct hand_search hand;
        struct point_summary summary;
        search_cell(&hand, &cells[i], false);
        CHECK_TRUE(run_by_hand(&hand, &chosen(&hand)->layout, hand.result.seed, SEARCH_DECIDING_ITERATIONS, &summary));
        CHECK_CLOSE(summary.time_mean_s, chosen(&hand)->score.time_s, 1e-12);
        CHECK_CLOSE(summary.peak_bytes, chosen(&hand)->score.peak_bytes, 1e-12);
        CHECK_EQUAL(chosen(&hand)->score.n_iterations, SEARCH_DECIDING_ITERATIONS);
        CHECK_CLOSE(chosen(&hand)->score.compute + chosen(&hand)->score.bubble + chosen(&hand)->score.communication, 1,
                    1e-9);
        close_cell(&hand);
    }
}

/* How far a runner-up is behind: the mean of its differences on the same batches, and their spread / sqrt(5). */
static void a_runner_up_is_compared_on_the_same_batches(void)
{
    struct hand_search hand;
    struct error err = {0};
    struct point point[2] = {0};
    search_cell(&hand, &cells[0], false);
    const struct search_plan *second = &hand.result.plans[hand.result.ranked[1]];
    CHECK(second->verdict == SEARCH_RUNNER_UP);
    hand.scenario.seed = hand.result.seed;
    double first_s = 0, sum = 0, squares = 0;
    for (int i = 0; i < 2; i++) {
        hand.scenario.systems[0].plan = hand.result.plans[hand.result.ranked[i]].layout;
        CHECK(point_run(&hand.scenario, &hand.lengths, NULL, NULL, NULL, &point[i], &err));
    }
    for (int j = 0; j < 5; j++) {
        double difference_s = point[1].systems[0].iterations[j].time_s - point[0].systems[0].iterations[j].time_s;
        first_s += point[0].systems[0].iterations[j].time_s;
        sum += difference_s;
        squares += difference_s * difference_s;
    }
    CHECK_CLOSE(second->score.slower, sum / first_s, 1e-9);
    CHECK_CLOSE(second->score.slower_error, sqrt((squares / 5 - sum / 5 * (sum / 5)) / 4) * 5 / first_s, 1e-9);
    CHECK_TRUE(second->score.slower > 0 && second->score.slower_error > 0);
    point_free(&point[0]);
    point_free(&point[1]);
    close_cell(&hand);
}

/* What the search has planned for the run is what the system plans in it. */
static void a_run_with_the_searches_plans_is_the_run(void)
{
    for (int i = 0; i < 2; i++) {
        struct hand_search hand;
        struct error err = {0};
        struct point with = {0}, without = {0};
        search_cell(&hand, &cells[i], false);
        hand.scenario.systems[0].plan = chosen(&hand)->layout;
        CHECK(hand.result.n_iterations == 5);
        for (int j = 0; j < 5; j++)
            CHECK_TRUE(hand.result.planned[j].n_phases > 0);
        CHECK(point_run(&hand.scenario, &hand.lengths, &hand.result, NULL, NULL, &with, &err) &&
              point_run(&hand.scenario, &hand.lengths, NULL, NULL, NULL, &without, &err));
        for (int j = 0; j < 5; j++) {
            const struct point_iteration *a = &with.systems[0].iterations[j], *b = &without.systems[0].iterations[j];
            CHECK_TRUE(a->time_s == b->time_s && a->peak_bytes == b->peak_bytes && a->candidates == b->candidates);
        }
        point_free(&with);
        point_free(&without);
        close_cell(&hand);
    }
}

/* Every plan of a small space by hand, on the iteration that ranks: the fastest that fits is among the runners-up. */
static void no_plan_by_hand_is_faster_on_the_ranking_iteration(void)
{
    for (int i = 0; i < 2; i++) {
        struct hand_search hand;
        struct point_summary summary;
        search_cell(&hand, &cells[i], false);
        double best_s = INFINITY;
        for (int32_t j = 0; j < hand.result.n_ranked; j++) {
            const struct search_plan *plan = &hand.result.plans[hand.result.ranked[j]];
            if (plan->verdict <= SEARCH_RUNNER_UP) {
                CHECK_TRUE(run_by_hand(&hand, &plan->layout, hand.result.seed, 1, &summary));
                best_s = fmin(best_s, summary.time_mean_s);
            }
        }
        for (int32_t j = 0; j < hand.result.n_plans; j++)
            if (run_by_hand(&hand, &hand.result.plans[j].layout, hand.result.seed, 1, &summary))
                check_cell(summary.time_mean_s >= best_s, &cells[i], "no plan by hand is faster");
        close_cell(&hand);
    }
}

/* SlimPack without each of its parts, given by knob: the search that may choose does no worse on its iterations. */
static void a_part_switched_off_is_never_faster_than_the_choice(void)
{
    static const char *const off[] = {"asymmetric: false",     "dp_merge: false",         "slicing: false",
                                      "injection: persistent", "injection: just-in-time", "replica_units: false"};
    for (int i = 0; i < 2; i++) {
        struct cell cell = {"llama-7b", "hopper-2x8", "slimpack", i == 0 ? "32Ki" : "128Ki", "tp: 2, pp: 4", "", 7 + i};
        struct hand_search all, part;
        search_cell(&all, &cell, false);
        for (size_t j = 0; j < sizeof off / sizeof *off; j++) {
            cell.knobs = off[j];
            search_cell(&part, &cell, false);
            check_cell(!part.result.fits || chosen(&all)->score.time_s <= chosen(&part)->score.time_s, &cell, off[j]);
            close_cell(&part);
        }
        close_cell(&all);
    }
}

/* 70B on 8 GPUs: 16 bytes a parameter of states, or 140 GB a GPU and more. */
static void what_does_not_fit_is_the_plan_with_the_least_peak(void)
{
    static const char *const systems[] = {"best-fit", "slimpack"};
    for (int i = 0; i < 2; i++) {
        struct cell cell = {"llama-70b", "hopper-1x8", systems[i], "4Ki", "offload: [0, 1], pp: [1, 4, 8]", "", 1};
        struct hand_search pruned, exhaustive;
        search_cell(&pruned, &cell, false);
        search_cell(&exhaustive, &cell, true);
        CHECK_TRUE(!pruned.result.fits);
        CHECK_EQUAL(pruned.result.n_ranked, 1);
        CHECK_TRUE(chosen(&pruned)->score.peak_bytes > pruned.result.memory_bytes);
        CHECK_TRUE(same_plan(chosen(&pruned), chosen(&exhaustive)));
        for (int32_t j = 0; j < exhaustive.result.n_plans; j++)
            CHECK_TRUE(exhaustive.result.plans[j].score.peak_bytes >= chosen(&pruned)->score.peak_bytes);
        CHECK_TRUE(pruned.result.n_resolved < exhaustive.result.n_resolved);
        close_cell(&pruned);
        close_cell(&exhaustive);
    }
}

/* A plan that fits where the search decides, and not in the run, makes room for the next. */
static void the_chosen_plan_fits_in_every_iteration_of_the_run(void)
{
    int32_t n_misfits = 0;
    for (int seed = 1; seed <= 12; seed++) {
        struct cell cell = {"llama-7b",
                            "hopper-1x8",
                            "slimpack",
                            "32Ki",
                            "recompute: [none, selective]",
                            "offload: plan, max_factor: 16",
                            seed};
        struct hand_search hand;
        search_cell(&hand, &cell, false);
        const int64_t of_run = hand.scenario.seed, measured = hand.scenario.measured;
        check_cell(hand.result.fits && run_by_hand(&hand, &chosen(&hand)->layout, of_run, measured, NULL), &cell,
                   "the chosen plan fits");
        for (int32_t i = 0; i < hand.result.n_plans; i++) {
            const struct search_plan *plan = &hand.result.plans[i];
            if (plan->verdict != SEARCH_MISFIT)
                continue;
            check_cell(run_by_hand(&hand, &plan->layout, hand.result.seed, SEARCH_DECIDING_ITERATIONS, NULL), &cell,
                       "it fits where the search decides");
            check_cell(!run_by_hand(&hand, &plan->layout, of_run, measured, NULL), &cell, "it does not fit in the run");
            n_misfits++;
        }
        close_cell(&hand);
    }
    CHECK_TRUE(n_misfits > 0);
}

/* What is offloaded must find room on the host: with little of it the plan without offload is taken, or none fits. */
static void the_host_memory_is_a_limit(void)
{
    for (int i = 0; i < 2; i++) {
        struct cell cell = {"llama-7b", "hopper-1x8", "best-fit", "32Ki", i == 0 ? "offload: [0, 1]" : "offload: 1", "",
                            1};
        struct error err = {0};
        struct search_options options = {0};
        struct hand_search hand;
        CHECK(open_cell(&hand, &cell, &err));
        hand.scenario.platform.host_memory_bytes = 1;
        CHECK(search_system(&hand.scenario, &hand.lengths, 0, &options, &hand.result, &err));
        CHECK_EQUAL(hand.result.fits, i == 0);
        CHECK_EQUAL(chosen(&hand)->layout.offload > 0, i == 1);
        CHECK_EQUAL(chosen(&hand)->score.host_bytes > 1, i == 1);
        close_cell(&hand);
    }
}

/* CP and full recomputation where memory demands them only; the space without restriction would take them. */
static void features_on_demand_wait_for_memory(void)
{
    struct cell roomy = {"llama-7b", "hopper-2x8", "best-fit", "8Ki", "name: low-tp", "", 1};
    struct cell tight = {"llama-7b", "hopper-2x8", "best-fit", "128Ki", "name: low-tp, offload: 0, pp: [1, 2]", "", 1};
    struct hand_search hand;
    search_cell(&hand, &roomy, false);
    CHECK_TRUE(hand.result.fits && hand.result.count[SEARCH_NOT_DEMANDED] > 0);
    for (int32_t i = 0; i < hand.result.n_plans; i++) {
        const struct search_plan *plan = &hand.result.plans[i];
        bool demanded = plan->layout.cp > 1 || plan->layout.recompute == RECOMPUTE_FULL;
        CHECK_TRUE(!demanded || plan->verdict == SEARCH_NOT_DEMANDED || plan->verdict == SEARCH_MEMORY_PRUNED);
        CHECK_TRUE(plan->layout.tp <= 2);
    }
    close_cell(&hand);
    search_cell(&hand, &tight, false);
    CHECK_TRUE(hand.result.fits && chosen(&hand)->n_demanded == 1);
    for (int32_t i = 0; i < hand.result.n_plans; i++) {
        const struct search_plan *plan = &hand.result.plans[i];
        int32_t n = (plan->layout.cp > 1) + (plan->layout.recompute == RECOMPUTE_FULL);
        CHECK_EQUAL(plan->n_demanded, n);
        CHECK_TRUE(n > 0 || plan->verdict == SEARCH_TOO_LARGE || plan->verdict == SEARCH_MEMORY_PRUNED);
    }
    close_cell(&hand);
}

/* 16 GPUs, 32 layers and heads: TP x PP x CP x DP = 16 with TP 1, 2, 4, 8. With p = PP and c = CP powers of two that is
 * 15 + 10 + 6 + 3 = 34 layouts; without CP, 5 + 4 + 3 + 2 = 14. */
static void the_space_holds_every_layout_once(void)
{
    static const char *const systems[] = {"best-fit", "slimpack"};
    static const int32_t expected[] = {34, 14};
    for (int i = 0; i < 2; i++) {
        struct cell cell = {"llama-7b", "hopper-2x8", systems[i], "4Ki", "recompute: none, offload: 0", "", 1};
        struct hand_search hand;
        search_cell(&hand, &cell, false);
        int32_t n = 0;
        for (int32_t j = 0; j < hand.result.n_plans; j++) {
            const struct scenario_plan *layout = &hand.result.plans[j].layout;
            CHECK_EQUAL(layout->tp * layout->pp * layout->cp * layout->dp, 16);
            n++;
            for (int32_t k = 0; k < j; k++)
                CHECK_TRUE(!same_plan(&hand.result.plans[j], &hand.result.plans[k]));
        }
        CHECK_EQUAL(n, expected[i]);
        close_cell(&hand);
    }
}

static void an_empty_space_is_an_error_with_its_place(void)
{
    struct cell cell = {"llama-7b", "hopper-2x8", "best-fit", "4Ki", "pp: [3, 5]", "", 1};
    struct hand_search hand;
    struct error err = {0};
    CHECK_TRUE(!open_cell(&hand, &cell, &err));
    CHECK_CONTAINS(err.text,
                   "cell.yaml:8:34: plan: the plan space free holds no plan of best-fit for llama-7b on the 16");
    close_cell(&hand);
}

/* The entry becomes one with that plan, and with SimGrid the few are weighed with its contention. */
static void the_scenario_takes_the_plan_that_was_found(void)
{
    struct error err = {0};
    struct hand_search hand;
    struct search_options options = {.engine = execute};
    CHECK(open_cell(&hand, &cells[1], &err));
    CHECK(search_scenario(&hand.scenario, &hand.lengths, &options, &hand.result, &err));
    const struct scenario_plan *plan = &hand.scenario.systems[0].plan;
    CHECK_TRUE(!hand.scenario.systems[0].auto_plan && hand.result.engine);
    CHECK_TRUE(plan->tp == chosen(&hand)->layout.tp && plan->dp == chosen(&hand)->layout.dp &&
               plan->offload == chosen(&hand)->layout.offload);
    CHECK_TRUE(chosen(&hand)->score.contention > -1e-9 && chosen(&hand)->score.contention < 0.5);
    close_cell(&hand);
}

int main(void)
{
    return HARNESS_MAIN(
        "search", TEST(pruning_changes_neither_the_choice_nor_the_runners_up),
        TEST(bounds_are_below_every_resolved_plan), TEST(a_system_that_lets_samples_wait_is_searched),
        TEST(a_score_is_what_a_run_of_the_plan_gives), TEST(a_run_with_the_searches_plans_is_the_run),
        TEST(a_runner_up_is_compared_on_the_same_batches), TEST(no_plan_by_hand_is_faster_on_the_ranking_iteration),
        TEST(a_part_switched_off_is_never_faster_than_the_choice),
        TEST(what_does_not_fit_is_the_plan_with_the_least_peak),
        TEST(the_chosen_plan_fits_in_every_iteration_of_the_run), TEST(the_host_memory_is_a_limit),
        TEST(features_on_demand_wait_for_memory), TEST(the_space_holds_every_layout_once),
        TEST(an_empty_space_is_an_error_with_its_place), TEST(the_scenario_takes_the_plan_that_was_found));
}
