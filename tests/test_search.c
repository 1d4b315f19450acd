/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "execute/execute.h"
#include "hand_dag.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "harness.h"
#include "scenario/scenario_read.h"
#include "scenario_fixture.h"
#include "search/bound.h"
#include "search/score.h"
#include "search/space.h"
#include "simulate/summary.h"

/* A scenario of one system, which is read, and its lengths. */
struct hand_search {
    struct scenario scenario;
    struct lengths lengths;
    struct search_result result;
};

struct cell {
    const char *model, *platform, *system, *context, *space, *knobs;
    int seed; /* 6 to 11: narrow heads, 12 to 17: wide ones */
};

static bool open_cell(struct hand_search *hand, const struct cell *cell, struct error *err)
{
    static const char *const overlaps[] = {"none", "gradients", "both"};
    char text[2048];
    *hand = (struct hand_search){0};
    snprintf(text, sizeof text,
             "model: %s\ndevice: h800\nmemory_limit: 1\nplatform: %s\nengine: critical-path\nseed: %d\n"
             "communication: {dp_overlap: %s}\n"
             "data: {lengths: github, context: %s, global_batch: 24}\niterations: {warm_up: 0, measured: 5}\n"
             "systems: [{name: %s, plan: auto, plan_space: {%s}, knobs: {%s}}]\n",
             cell->model, cell->platform, cell->seed, overlaps[cell->seed % 3], cell->context, cell->system,
             cell->space, cell->knobs);
    if (!scenario_read(fixture_write("search/cell.yaml", text), 0, NULL, &hand->scenario, err))
        return false;
    hand_heads(&hand->scenario.model, (uint64_t)cell->seed / 6);
    return system_check_entries(&hand->scenario, err) && search_check(&hand->scenario, err) &&
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
           a->layout.dp == b->layout.dp && a->layout.vpp == b->layout.vpp && a->layout.sharding == b->layout.sharding &&
           a->layout.recompute == b->layout.recompute && a->layout.offload == b->layout.offload;
}

static void check_cell(bool holds, const struct cell *cell, const char *what)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s, %s on %s, context %s, space {%s}, seed %d", what, cell->system, cell->model,
             cell->platform, cell->context, cell->space, cell->seed);
    harness_true(holds, text, __FILE__, __LINE__);
}

/* Small spaces in which memory, time or neither decides. */
static const struct cell cells[] = {
    {"llama-7b", "hopper-1x8", "best-fit", "32Ki", "name: free, offload: [0, 1]", "", 1},
    {"llama-7b", "hopper-1x8", "slimpack", "32Ki", "name: free, offload: [0, 1]", "max_factor: 16", 1},
    {"llama-7b", "hopper-2x8", "best-fit", "64Ki", "name: megatron, offload: [0.5, 0]", "", 2},
    {"llama-7b", "hopper-2x8", "slimpack", "64Ki", "name: free, pp: [2, 4, 8], offload: [0, 0.5, 1]", "max_factor: 8",
     2},
    {"llama-13b", "hopper-2x8", "best-fit", "16Ki", "name: low-tp, offload: [0]", "", 9},
    {"llama-13b", "hopper-2x8", "slimpack", "128Ki", "tp: [2, 8], recompute: [none, full]", "max_factor: 4", 4},
    {"llama-7b", "hopper-1x8", "slimpack", "16Ki", "tp: 1", "dp_merge: false", 17},
    {"llama-7b", "hopper-2x8", "length-balanced", "32Ki", "offload: [0, 1]", "", 6},
    {"llama-7b", "hopper-2x8", "flops-balanced", "64Ki", "offload: 0", "", 7},
    {"llama-7b", "hopper-2x8", "bytescale", "64Ki", "", "", 8},
    {"llama-7b", "hopper-2x8", "bytescale", "128Ki", "", "offload: always", 9},
    {"llama-7b", "hopper-2x8", "megatron-dynamic-cp", "64Ki", "offload: [0, 0.5]", "", 10},
    {"llama-7b", "hopper-2x8", "wlb-llm", "128Ki", "offload: 0", "thresholds: [16Ki]", 12},
    {"llama-7b", "hopper-2x8", "hotspa", "32Ki", "offload: 0", "", 13},
    {"llama-7b", "hopper-2x8", "dynapipe", "64Ki", "", "", 14},
    {"llama-13b", "hopper-2x8", "dynapipe", "32Ki", "recompute: [none]", "", 15},
    {"llama-7b", "hopper-2x8", "dynapipe", "32Ki", "recompute: [full]", "", 16},
    {"llama-7b", "hopper-1x8", "slimpack", "64Ki", "name: free, tp: [1, 2], offload: [0, 0.5, 1]",
     "offload: plan, max_factor: 8", 3},
    {"llama-7b", "hopper-2x8", "best-fit", "32Ki", "offload: [0, 1], cp: [1, 2], vpp: [4, 2, 1, 2]", "", 10},
    {"llama-13b", "hopper-2x8", "length-balanced", "16Ki", "name: wide, offload: 0, recompute: [none, full]", "", 12},
    {"llama-7b", "hopper-1x8", "slimpack", "32Ki", "name: wide, offload: [0, 1]", "max_factor: 8", 13},
    {"llama-7b", "hopper-1x8", "best-fit", "64Ki", "name: wide, pp: [1, 2]", "", 8},
    {"llama-7b", "hopper-2x8", "wlb-llm", "64Ki", "name: wide, offload: 0, vpp: [1, 2]", "thresholds: [16Ki]", 15},
    {"llama-13b", "hopper-1x8", "best-fit", "32Ki", "offload: [0.6, 0.8, 1], recompute: [none, selective]", "", 9},
    {"bloom-7b1", "hopper-2x8", "best-fit", "32Ki", "pp: [2, 4, 8], offload: [0, 1]", "", 1},
    {"bloom-7b1", "hopper-2x8", "slimpack", "32Ki", "pp: [2, 4, 8], offload: [0, 1]", "max_factor: 8", 2},
    {"bloom-7b1", "hopper-2x8", "bytescale", "64Ki", "pp: [4, 8]", "", 3},
    {"deepseek-llm-67b", "hopper-8x8", "best-fit", "16Ki", "tp: 8, cp: [1, 2], offload: [0, 1]", "", 4},
    {"deepseek-llm-67b", "hopper-8x8", "slimpack", "16Ki", "tp: 8", "max_factor: 8", 5},
};
enum { N_CELLS = sizeof cells / sizeof *cells };

/* What an exhaustive search resolved once is never below what was known before. @return how many that are */
static int32_t check_bounds(const struct search_result *result, const struct cell *cell)
{
    int32_t n_checked = 0;
    for (int32_t j = 0; j < result->n_plans; j++) {
        const struct search_plan *plan = &result->plans[j];
        if (plan->score.n_iterations != 1)
            continue;
        check_cell(plan->bound.time_s > 0 && plan->bound.time_s <= plan->score.time_s * (1 + 1e-12), cell,
                   "the bound of time holds");
        check_cell(plan->bound.peak_bytes > 0 && plan->bound.peak_bytes <= plan->score.worst.peak_bytes * (1 + 1e-12),
                   cell, "the bound of memory holds");
        n_checked++;
    }
    return n_checked;
}

TEST(pruning_changes_neither_the_choice_nor_the_runners_up)
{
    int32_t n_spared = 0, n_all = 0, n_bounds = 0;
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
        check_cell(pruned.result.n_resolved <= exhaustive.result.n_resolved, &cells[i], "pruning makes no work");
        n_bounds += check_bounds(&exhaustive.result, &cells[i]);
        n_spared += exhaustive.result.n_resolved - pruned.result.n_resolved;
        n_all += exhaustive.result.n_resolved;
        close_cell(&pruned);
        close_cell(&exhaustive);
    }
    CHECK_TRUE(4 * n_spared > n_all && n_bounds > 500);
}

/** Iteration time of what is found of a cell on batches of 24 documents, 999 tokens each but for one of 48Ki in every
 * fifth batch. */
static double time_with_rare_long_samples_s(const struct cell *cell)
{
    struct hand_search hand;
    struct error err = {0};
    const struct search_options options = {0};
    CHECK(open_cell(&hand, cell, &err));
    lengths_close(&hand.lengths);
    hand.scenario.data.lengths[0] = '\0';
    for (int i = 0; i < 5 * 24 - 1; i++)
        strcat(hand.scenario.data.lengths, "999 ");
    strcat(hand.scenario.data.lengths, "48Ki");
    CHECK(lengths_open(&hand.scenario.data, scenario_data_dir(), &hand.lengths, &err));
    CHECK(search_system(&hand.scenario, &hand.lengths, 0, &options, &hand.result, &err));
    double time_s = chosen(&hand)->score.time_s;
    close_cell(&hand);
    return time_s;
}

/* The batch that ranks has no long sample, and many plans of TP 2 and 4 are faster there than those of TP 8. In every
 * fifth batch the long sample has the GPUs of one replica, TP x PP, and TP alone makes it faster. So what is found is
 * no slower than the widest plan by itself. */
TEST(a_long_sample_that_the_ranking_batch_lacks_decides)
{
    const struct cell any = {"llama-7b", "hopper-2x8", "dynapipe", "48Ki", "name: free", "", 3};
    const struct cell wide = {"llama-7b", "hopper-2x8", "dynapipe", "48Ki", "tp: 8, pp: 2", "", 3};
    CHECK_TRUE(time_with_rare_long_samples_s(&any) <= time_with_rare_long_samples_s(&wide));
}

static bool same_layout(const struct search_plan *a, const struct search_plan *b)
{
    return a->layout.tp == b->layout.tp && a->layout.pp == b->layout.pp && a->layout.cp == b->layout.cp;
}

static bool same_recompute(const struct search_plan *a, const struct search_plan *b)
{
    return a->layout.vpp == b->layout.vpp && a->layout.sharding == b->layout.sharding &&
           a->layout.recompute == b->layout.recompute;
}

/** The least ranking time of the plans that fit, of a plan's layout: with its virtual stages, sharding and
 * recomputation, or with any. */
static double least_ranking_s(const struct search_result *result, const struct search_plan *like, bool any)
{
    double least_s = INFINITY;
    for (int32_t i = 0; i < result->n_plans; i++) {
        const struct search_plan *plan = &result->plans[i];
        if (plan->verdict <= SEARCH_SLOWER && same_layout(plan, like) && (any || same_recompute(plan, like)))
            least_s = fmin(least_s, plan->ranking_s);
    }
    return least_s;
}

/** How many layouts have a plan that fits in less time. */
static int32_t n_layouts_below(const struct search_result *result, double time_s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < result->n_plans; i++) {
        bool first = true;
        for (int32_t j = 0; j < i && first; j++)
            first = !same_layout(&result->plans[i], &result->plans[j]);
        n += first && least_ranking_s(result, &result->plans[i], true) < time_s;
    }
    return n;
}

/* In an exhaustive search, by the sentence in the docstring: fewer than four layouts take less than the time of which
 * the plan's is SEARCH_NEAR_PERCENT more, its own among them not; and it is the fastest of its layout, virtual stages,
 * sharding and recomputation (ties: one of them). So some layouts are decided on twice, and a plan may win that its
 * layout's fastest in the ranking iteration beats. */
TEST(recomputations_near_the_fastest_of_a_layout_are_decided_on)
{
    int32_t n_slower = 0, n_twice = 0, n_turned = 0;
    for (int i = 0; i < 7; i++) {
        struct cell cell = {"llama-13b", "hopper-2x8", "slimpack", "64Ki", "", "max_factor: 16", 2 + i};
        struct hand_search hand;
        cell.space = i == 0 ? "" : "recompute: [none, selective], pp: [1, 2]";
        if (i == 6)
            cell = (struct cell){"llama-7b", "hopper-1x8", "best-fit", "32Ki", "name: wide, offload: 0", "", 1};
        search_cell(&hand, &cell, true);
        for (int32_t j = 0; j < hand.result.n_plans; j++) {
            const struct search_plan *plan = &hand.result.plans[j];
            if (plan->verdict > SEARCH_SLOWER)
                continue;
            double layout_s = least_ranking_s(&hand.result, plan, true),
                   reach_s = plan->ranking_s / (1 + SEARCH_NEAR_PERCENT / 100.0);
            bool near = layout_s >= reach_s && n_layouts_below(&hand.result, reach_s) < 4;
            bool fastest = plan->ranking_s == least_ranking_s(&hand.result, plan, false);
            check_cell((near && fastest) == (plan->verdict <= SEARCH_RUNNER_UP), &cell, "decided on");
            n_slower += fastest && !near;
            n_twice += plan->verdict <= SEARCH_RUNNER_UP && plan->ranking_s > layout_s;
            n_turned += plan->verdict == SEARCH_CHOSEN && plan->ranking_s > layout_s;
        }
        close_cell(&hand);
    }
    CHECK_TRUE(n_slower > 0 && n_twice > 0 && n_turned > 0);
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
        *summary = point_summary_of(&scenario, &point, 0);
    bool fits = point.systems[0].fits;
    point_free(&point);
    return fits;
}

/* Lengths that are these batches, one after the other. Caller frees file_tokens. */
static struct lengths list_batches(const struct hand_search *hand, const int64_t *iteration, int n)
{
    struct lengths listed = {.kind = LENGTHS_LISTED};
    for (int i = 0; i < n; i++) {
        struct batch batch = {0};
        lengths_draw(&hand->lengths, &hand->scenario.data, hand->result.seed, iteration[i], &batch);
        listed.file_tokens =
            check_realloc(listed.file_tokens, (size_t)(listed.n + batch.n_samples) * sizeof *listed.file_tokens);
        for (int32_t j = 0; j < batch.n_samples; j++)
            listed.file_tokens[listed.n++] = batch.tokens[j];
        batch_free(&batch);
    }
    return listed;
}

/* The run of a plan over one of the batches that decide, whose lengths are written down. */
static bool run_deciding(const struct hand_search *hand, const struct scenario_plan *layout, int which,
                         struct point_summary *summary)
{
    struct hand_search other = *hand;
    struct lengths listed = list_batches(hand, &hand->result.iterations[which].iteration, 1);
    other.lengths = listed;
    other.scenario.data.global_batch = listed.n;
    bool fits = run_by_hand(&other, layout, 1, 1, summary);
    free(listed.file_tokens);
    return fits;
}

/* A batch bounds nothing where samples may wait; and times are in proportion to the tokens that ran, so that leaving
 * long documents out is no gain: with and without queues a token takes as long, within the noise of five batches. */
TEST(a_system_that_lets_samples_wait_is_searched)
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

/* After its warm-up a system with a state runs the five in a row; times are in proportion to the FLOPs that ran. */
TEST(a_state_flows_through_the_warm_up_and_the_iterations_that_decide)
{
    struct cell cell = {"llama-7b",
                        "hopper-2x8",
                        "wlb-llm",
                        "64Ki, long_documents: truncate",
                        "tp: 2, pp: 1, offload: 0",
                        "thresholds: [8Ki]",
                        11};
    struct error err = {0};
    struct search_options options = {0};
    struct hand_search hand;
    struct point point = {0};
    CHECK(open_cell(&hand, &cell, &err));
    hand.scenario.warm_up = 2;
    CHECK(search_system(&hand.scenario, &hand.lengths, 0, &options, &hand.result, &err));
    int64_t iteration[7] = {SEARCH_CANDIDATES, SEARCH_CANDIDATES + 1};
    for (int i = 0; i < 5; i++)
        iteration[2 + i] = hand.result.iterations[i].iteration;
    struct lengths listed = list_batches(&hand, iteration, 7);
    hand.scenario.systems[0].plan = chosen(&hand)->layout;
    hand.scenario.seed = hand.result.seed;
    CHECK(point_run(&hand.scenario, &listed, NULL, NULL, NULL, &point, &err));
    double time_s = 0, ran_flop = 0, batch_flop = 0, delayed = 0;
    for (int i = 0; i < 5; i++) {
        CHECK_CLOSE(hand.result.iterations[i].weight, 0.2, 1e-15);
        time_s += point.systems[0].iterations[2 + i].time_s / 5;
        ran_flop += point.systems[0].iterations[2 + i].model_flop;
        delayed += (double)point.systems[0].iterations[2 + i].delayed_tokens;
        batch_flop += hand.result.iterations[i].model_flop;
    }
    CHECK_EQUAL(hand.result.n_warm_up, 2);
    CHECK_TRUE(delayed > 0 && fabs(ran_flop / batch_flop - 1) > 1e-3);
    CHECK_CLOSE(chosen(&hand)->score.time_s, time_s * batch_flop / ran_flop, 1e-9);
    point_free(&point);
    free(listed.file_tokens);
    close_cell(&hand);
}

/* The score is the weighted mean of runs over the deciding batches, which are independent of the search. */
TEST(a_score_is_what_a_run_of_the_plan_gives)
{
    for (int i = 0; i < 2; i++) {
        struct hand_search hand;
        struct point_summary summary;
        search_cell(&hand, &cells[i], false);
        const struct search_score *score = &chosen(&hand)->score;
        double time_s = 0, peak_bytes = 0;
        for (int j = 0; j < 5; j++) {
            CHECK_TRUE(run_deciding(&hand, &chosen(&hand)->layout, j, &summary));
            CHECK_CLOSE(summary.time_mean_s, score->iteration_s[j], 1e-12);
            time_s += hand.result.iterations[j].weight * summary.time_mean_s;
            peak_bytes = fmax(peak_bytes, summary.peak_bytes);
        }
        CHECK_CLOSE(time_s, score->time_s, 1e-12);
        CHECK_CLOSE(peak_bytes, score->worst.peak_bytes, 1e-12);
        CHECK_EQUAL(score->n_iterations, SEARCH_DECIDING_ITERATIONS);
        CHECK_EQUAL(hand.result.n_warm_up, 0);
        CHECK_CLOSE(score->compute + score->bubble + score->communication, 1, 1e-9);
        close_cell(&hand);
    }
}

/* How far a runner-up is behind: the ratio of weighted means on the same batches. Its standard error by the delta
 * method from the weighted second moments of both times, of batches drawn with these weights. */
TEST(a_runner_up_is_compared_on_the_same_batches)
{
    struct hand_search hand;
    struct point_summary first, second;
    search_cell(&hand, &cells[0], false);
    const struct search_plan *runner_up = &hand.result.plans[hand.result.ranked[1]];
    CHECK(runner_up->verdict == SEARCH_RUNNER_UP);
    double a = 0, b = 0, aa = 0, ab = 0, bb = 0, wa = 0, wb = 0, ww = 0;
    for (int j = 0; j < 5; j++) {
        double w = hand.result.iterations[j].weight;
        run_deciding(&hand, &chosen(&hand)->layout, j, &first);
        run_deciding(&hand, &runner_up->layout, j, &second);
        b += w * first.time_mean_s;
        a += w * second.time_mean_s;
        wb += w * w * first.time_mean_s;
        wa += w * w * second.time_mean_s;
        bb += w * w * first.time_mean_s * first.time_mean_s;
        ab += w * w * first.time_mean_s * second.time_mean_s;
        aa += w * w * second.time_mean_s * second.time_mean_s;
        ww += w * w;
    }
    double cov_aa = aa - 2 * a * wa + a * a * ww, cov_bb = bb - 2 * b * wb + b * b * ww,
           cov_ab = ab - a * wb - b * wa + a * b * ww;
    double variance = a * a / (b * b) * (cov_aa / (a * a) - 2 * cov_ab / (a * b) + cov_bb / (b * b)) * 5 / 4;
    CHECK_CLOSE(runner_up->score.slower, a / b - 1, 1e-9);
    CHECK_CLOSE(runner_up->score.slower_error, sqrt(variance), 1e-6);
    CHECK_TRUE(runner_up->score.slower > 0 && runner_up->score.slower_error > 0);
    close_cell(&hand);
}

/* What the search has planned for the run is what the system plans in it. */
TEST(a_run_with_the_searches_plans_is_the_run)
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

/* A system's bug is no result: the third iteration's plan runs a unit twice. */
TEST(a_run_ends_at_a_plan_that_is_wrong)
{
    struct hand_search hand;
    struct error err = {0};
    struct point point = {0};
    search_cell(&hand, &cells[0], false);
    hand.scenario.systems[0].plan = chosen(&hand)->layout;
    struct plan_pipeline *pipeline = &hand.result.planned[2].phases[0].pipelines[0];
    pipeline->steps[1] = pipeline->steps[0];
    CHECK_TRUE(!point_run(&hand.scenario, &hand.lengths, &hand.result, NULL, NULL, &point, &err));
    CHECK_EQUAL(err.status, ERROR_FAILED);
    CHECK_CONTAINS(err.text, "its plan of iteration 2 is wrong, a bug of ");
    CHECK_CONTAINS(err.text, "phase 0, pipeline 0, stage 0: forward unit 0 runs twice or does not exist");
    point_free(&point);
    close_cell(&hand);
}

static bool fits_all_deciding(struct hand_search *hand, const struct scenario_plan *layout)
{
    struct point_summary summary;
    bool fits = true;
    for (int i = 0; i < SEARCH_DECIDING_ITERATIONS && fits; i++)
        fits = run_deciding(hand, layout, i, &summary);
    return fits;
}

/* Every plan of a small space by hand, on the iteration that ranks: the fastest that fits in all five is among the
 * runners-up. */
TEST(no_plan_by_hand_is_faster_on_the_ranking_iteration)
{
    for (int i = 0; i < 2; i++) {
        struct hand_search hand;
        struct point_summary summary;
        search_cell(&hand, &cells[i], false);
        double best_s = INFINITY;
        for (int32_t j = 0; j < hand.result.n_ranked; j++) {
            const struct search_plan *plan = &hand.result.plans[hand.result.ranked[j]];
            if (plan->verdict <= SEARCH_RUNNER_UP) {
                CHECK_TRUE(run_deciding(&hand, &plan->layout, 0, &summary));
                best_s = fmin(best_s, summary.time_mean_s);
            }
        }
        for (int32_t j = 0; j < hand.result.n_plans; j++)
            if (run_deciding(&hand, &hand.result.plans[j].layout, 0, &summary) && summary.time_mean_s < best_s)
                check_cell(!fits_all_deciding(&hand, &hand.result.plans[j].layout), &cells[i],
                           "no plan by hand is faster");
        close_cell(&hand);
    }
}

/* 70B on 8 GPUs: 16 bytes a parameter of states, or 140 GB a GPU and more. */
TEST(what_does_not_fit_is_the_first_plan_with_the_least_peak)
{
    static const char *const systems[] = {"best-fit", "slimpack", "flexsp"};
    for (int i = 0; i < 3; i++) {
        struct cell cell = {"llama-70b", "hopper-1x8", systems[i], "4Ki", "offload: [0, 1], pp: [1, 4, 8]", "", 1};
        struct hand_search pruned, exhaustive;
        search_cell(&pruned, &cell, false);
        search_cell(&exhaustive, &cell, true);
        CHECK_TRUE(!pruned.result.fits);
        CHECK_EQUAL(pruned.result.n_ranked, 1);
        CHECK_TRUE(chosen(&pruned)->score.worst.peak_bytes > pruned.result.limits.gpu_bytes);
        CHECK_TRUE(same_plan(chosen(&pruned), chosen(&exhaustive)));
        for (const struct search_plan *plan = exhaustive.result.plans; plan < chosen(&exhaustive); plan++)
            CHECK_TRUE(plan->score.n_iterations == 0 ||
                       plan->score.worst.peak_bytes > chosen(&pruned)->score.worst.peak_bytes);
        for (int32_t j = 0; j < exhaustive.result.n_plans; j++)
            CHECK_TRUE(exhaustive.result.plans[j].score.worst.peak_bytes >= chosen(&pruned)->score.worst.peak_bytes);
        CHECK_TRUE(pruned.result.n_resolved < exhaustive.result.n_resolved);
        close_cell(&pruned);
        close_cell(&exhaustive);
    }
}

/* What became of a layout. */
static const struct search_plan *plan_like(const struct search_result *result, const struct search_plan *like)
{
    int32_t i = 0;
    while (i < result->n_plans && !same_plan(&result->plans[i], like))
        i++;
    CHECK(i < result->n_plans);
    return &result->plans[i];
}

/* Search again with this memory. */
static void search_within(struct hand_search *hand, double memory_bytes)
{
    struct error err = {0};
    const struct search_options options = {0};
    struct scenario *scenario = &hand->scenario;
    search_result_free(&hand->result);
    scenario->device.memory_bytes += (memory_bytes - request_memory_bytes(scenario)) / scenario->memory_limit;
    CHECK(search_system(&hand->scenario, &hand->lengths, 0, &options, &hand->result, &err));
    CHECK_CLOSE(hand->result.limits.gpu_bytes, memory_bytes, 1e-12);
}

/* Batches of 8 samples of 2048 tokens; the search draws its own among the first SEARCH_CANDIDATES, the run measures
 * five behind these, in the fourth of which one sample has as many tokens as is asked for. Caller frees file_tokens. */
static struct lengths late_surprise(struct hand_search *hand, int32_t tokens)
{
    enum { BATCH = 8, WARM_UP = SEARCH_CANDIDATES, N = (WARM_UP + 5) * BATCH };
    struct lengths listed = {.kind = LENGTHS_LISTED, .n = N, .file_tokens = check_malloc(N * sizeof(int32_t))};
    hand->scenario.data.global_batch = BATCH;
    hand->scenario.warm_up = WARM_UP;
    for (int32_t i = 0; i < N; i++)
        listed.file_tokens[i] = i == (WARM_UP + 3) * BATCH ? tokens : 2048;
    return listed;
}

static void open_surprise(struct hand_search *hand, const struct cell *cell, int32_t tokens)
{
    struct error err = {0};
    CHECK(open_cell(hand, cell, &err));
    lengths_close(&hand->lengths);
    hand->lengths = late_surprise(hand, tokens);
    search_within(hand, 1e13);
}

static void close_surprise(struct hand_search *hand)
{
    free(hand->lengths.file_tokens);
    hand->lengths = (struct lengths){0};
    close_cell(hand);
}

/* What is measured of the run, alone. */
static bool fits_run(const struct hand_search *hand, const struct search_plan *plan, struct point_summary *summary)
{
    struct hand_search other = *hand;
    int64_t n_before = hand->scenario.warm_up * hand->scenario.data.global_batch;
    other.scenario.warm_up = 0;
    other.lengths.file_tokens += n_before;
    other.lengths.n -= n_before;
    return run_by_hand(&other, &plan->layout, hand->scenario.seed, hand->scenario.measured, summary);
}

/* With much memory a plan is chosen that needs more in the run than where the search decides. With a memory between the
 * two it still wins where the search decides, and is then found not to fit: it makes room for one that does. Without
 * the surprise it stays. */
TEST(the_chosen_plan_fits_in_every_iteration_of_the_run)
{
    const struct cell cell = {"llama-7b", "hopper-1x8", "length-balanced", "64Ki", "offload: 0", "", 1};
    for (int surprise = 0; surprise < 2; surprise++) {
        struct hand_search hand;
        struct point_summary of_run;
        open_surprise(&hand, &cell, surprise ? 64 * 1024 : 2048);
        const struct search_plan roomy = *chosen(&hand);
        fits_run(&hand, &roomy, &of_run);
        CHECK_TRUE(surprise ? of_run.peak_bytes > roomy.score.worst.peak_bytes
                            : of_run.peak_bytes == roomy.score.worst.peak_bytes);
        search_within(&hand, (roomy.score.worst.peak_bytes + of_run.peak_bytes) / 2);
        const struct search_plan *again = plan_like(&hand.result, &roomy);
        CHECK_EQUAL(again->verdict, surprise ? SEARCH_MISFIT : SEARCH_CHOSEN);
        CHECK_EQUAL(again->score.worst.peak_bytes > hand.result.limits.gpu_bytes, surprise);
        CHECK_TRUE(hand.result.fits && fits_run(&hand, chosen(&hand), NULL));
        close_surprise(&hand);
    }
}

/* A system that makes a plan just fit, with less and less memory: what is chosen fits in the run, and what was found
 * not to does not, though it fits where the search decides. */
TEST(what_adapts_to_the_memory_fits_in_every_iteration_of_the_run)
{
    const struct cell cell = {"llama-7b",
                              "hopper-1x8",
                              "slimpack",
                              "64Ki",
                              "recompute: [none, selective], tp: 2",
                              "offload: plan, max_factor: 16",
                              1};
    struct hand_search hand;
    struct point_summary of_run;
    int32_t n_misfits = 0;
    open_surprise(&hand, &cell, 64 * 1024);
    fits_run(&hand, chosen(&hand), &of_run);
    for (int tenths = 8; tenths >= 6; tenths -= 2) {
        search_within(&hand, 0.1 * tenths * of_run.peak_bytes);
        check_cell(fits_run(&hand, chosen(&hand), NULL) == hand.result.fits, &cell, "the chosen plan fits");
        for (int32_t i = 0; i < hand.result.n_plans; i++) {
            const struct search_plan *plan = &hand.result.plans[i];
            if (plan->verdict != SEARCH_MISFIT)
                continue;
            check_cell(!fits_run(&hand, plan, NULL), &cell, "it does not fit in the run");
            for (int j = 0; j < SEARCH_DECIDING_ITERATIONS; j++)
                check_cell(run_deciding(&hand, &plan->layout, j, NULL), &cell, "it fits where the search decides");
            n_misfits++;
        }
    }
    CHECK_TRUE(n_misfits > 0);
    close_surprise(&hand);
}

/* What is offloaded must find room on the host: with little of it the plan without offload is taken, or none fits. */
TEST(the_host_memory_is_a_limit)
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
        CHECK_EQUAL(chosen(&hand)->score.worst.host_bytes > 1, i == 1);
        close_cell(&hand);
    }
}

/* A system that decides itself what it offloads gets plans without offload, and all when it leaves that to them. */
TEST(offload_is_searched_where_a_system_leaves_it_to_the_plan)
{
    static const char *const knobs[] = {"max_factor: 2", "offload: plan, max_factor: 2"};
    int32_t n_plans[2], n_offloading[2] = {0};
    for (int i = 0; i < 2; i++) {
        struct cell cell = {
            "llama-7b", "hopper-1x8", "slimpack", "16Ki", "tp: [2, 4], pp: 2, offload: [0, 0.5, 1]", knobs[i], 1};
        struct hand_search hand;
        search_cell(&hand, &cell, false);
        n_plans[i] = hand.result.n_plans;
        for (int32_t j = 0; j < n_plans[i]; j++)
            n_offloading[i] += hand.result.plans[j].layout.offload > 0;
        close_cell(&hand);
    }
    CHECK_EQUAL(n_plans[1], 3 * n_plans[0]);
    CHECK_EQUAL(n_offloading[0], 0);
    CHECK_EQUAL(n_offloading[1], 2 * n_plans[0]);
}

/* How much of a memory a plan needs, of the GPU's or the host's. */
static double need_of(const struct hand_search *hand, const struct search_plan *plan)
{
    return fmax(plan->score.worst.peak_bytes / hand->result.limits.gpu_bytes,
                plan->score.worst.host_bytes / hand->scenario.platform.host_memory_bytes);
}

/* All offload everything, and no host holds it: of all plans the one is taken that exceeds a memory by the least share.
 * That share is the host's, where it has little, and the GPU's, where it has more. */
TEST(what_does_not_fit_exceeds_a_memory_by_the_least_share)
{
    static const double host_bytes[] = {1e9, 1e15};
    for (int i = 0; i < 2; i++) {
        struct cell cell = {
            "llama-70b", "hopper-1x8", "best-fit", "32Ki", "offload: 1, recompute: [none, full]", "", 1};
        struct error err = {0};
        struct search_options options = {.exhaustive = true};
        struct hand_search hand;
        CHECK(open_cell(&hand, &cell, &err));
        hand.scenario.platform.host_memory_bytes = host_bytes[i];
        CHECK(search_system(&hand.scenario, &hand.lengths, 0, &options, &hand.result, &err));
        double need = need_of(&hand, chosen(&hand));
        CHECK_TRUE(!hand.result.fits && need > 1);
        CHECK_EQUAL(chosen(&hand)->score.worst.peak_bytes / hand.result.limits.gpu_bytes < need, i == 0);
        for (int32_t j = 0; j < hand.result.n_plans; j++)
            CHECK_TRUE(hand.result.plans[j].score.n_iterations == 0 || need_of(&hand, &hand.result.plans[j]) >= need);
        close_cell(&hand);
    }
}

/* CP and full recomputation where memory demands them only; the space without restriction would take them. */
TEST(features_on_demand_wait_for_memory)
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
 * 15 + 10 + 6 + 3 = 34 layouts; without CP, 5 + 4 + 3 + 2 = 14. Of these 14 and 4 have one stage and three shardings;
 * the others have vpp 1, 2 and 4 where the system interleaves, but for the one of 16 stages of two layers, which has
 * two. */
TEST(the_space_holds_every_layout_once)
{
    static const struct {
        const char *system, *space;
        int32_t n;
    } expected[] = {{"best-fit", "recompute: none, offload: 0", 34},
                    {"slimpack", "recompute: none, offload: 0", 14},
                    {"best-fit", "name: wide, vpp: [1, 2, 4], recompute: none, offload: 0", 14 * 3 + 19 * 3 + 2},
                    {"slimpack", "name: wide, vpp: [1, 2, 4], recompute: none, offload: 0", 4 * 3 + 10}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct cell cell = {"llama-7b", "hopper-2x8", expected[i].system, "4Ki", expected[i].space, "", 1};
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
        CHECK_EQUAL(n, expected[i].n);
        close_cell(&hand);
    }
}

/* Where the layers do not divide, the head counts as one, or embedding and head do: 30 layers on 4 and 8 stages, 95 on
 * 2, 4 and 8; not 30 on 32, which would leave first and last stage without a layer, nor with virtual stages. */
TEST(the_space_holds_stages_of_counted_tables)
{
    static const struct {
        const char *model, *space;
        int n;
        struct {
            int pp;
            bool embedding, head;
        } layout[4];
    } expected[] = {
        {"bloom-7b1", "tp: 1, cp: 1", 4, {{1, 0, 0}, {2, 0, 0}, {4, 1, 1}, {8, 1, 1}}},
        {"bloom-7b1", "tp: 1, cp: 1, vpp: 2", 0, {{0}}},
        {"deepseek-llm-67b", "tp: 8, cp: 1", 4, {{1, 0, 0}, {2, 0, 1}, {4, 0, 1}, {8, 0, 1}}},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char space[128];
        snprintf(space, sizeof space, "%s, recompute: full, offload: 0", expected[i].space);
        struct cell cell = {expected[i].model, i == 2 ? "hopper-8x8" : "hopper-1x8", "best-fit", "4Ki", space, "", 1};
        struct hand_search hand;
        struct error err = {0};
        bool holds = open_cell(&hand, &cell, &err);
        int32_t n_plans = 0;
        struct search_plan *plans =
            space_plans(&hand.scenario, &hand.scenario.systems[0], system_find("best-fit", &err), NULL, &n_plans);
        CHECK_EQUAL(n_plans, expected[i].n);
        CHECK_EQUAL(holds, expected[i].n > 0);
        for (int32_t j = 0; j < n_plans; j++) {
            CHECK_EQUAL(plans[j].layout.pp, expected[i].layout[j].pp);
            CHECK_EQUAL(plans[j].layout.stages.count_embedding, expected[i].layout[j].embedding);
            CHECK_EQUAL(plans[j].layout.stages.count_head, expected[i].layout[j].head);
        }
        free(plans);
        close_cell(&hand);
    }
}

/* Four stages and few packs: an iteration is mostly bubbles, of which two virtual stages a rank have half. On one node,
 * one stage: what is shared costs time, and is taken where memory needs it. */
TEST(virtual_stages_and_sharding_are_taken_where_they_pay)
{
    static const struct {
        struct cell cell;
        int64_t vpp;
        enum scenario_sharding sharding;
    } cases[] = {
        {{"llama-7b", "hopper-2x8", "flops-balanced", "32Ki", "tp: 2, pp: 4, cp: 1, offload: 0, vpp: [1, 2]", "", 1},
         2,
         SCENARIO_ZERO1},
        {{"llama-7b", "hopper-1x8", "best-fit", "4Ki", "name: wide, tp: 4, pp: 1, offload: 0", "", 1},
         1,
         SCENARIO_ZERO1},
        {{"llama-30b", "hopper-1x8", "best-fit", "4Ki", "name: wide, tp: 1, pp: 1, cp: 1, offload: 0", "", 1},
         1,
         SCENARIO_ZERO3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_search hand;
        search_cell(&hand, &cases[i].cell, false);
        check_cell(hand.result.fits && chosen(&hand)->layout.vpp == cases[i].vpp &&
                       chosen(&hand)->layout.sharding == (int32_t)cases[i].sharding,
                   &cases[i].cell, "its virtual stages and sharding");
        close_cell(&hand);
    }
}

/* A list's order and what stands in it twice decide nothing. */
TEST(lists_of_a_space_are_sets)
{
    struct cell cell = {"llama-7b",
                        "hopper-1x8",
                        "best-fit",
                        "4Ki",
                        "tp: 8, recompute: [full, none, full, none], offload: [1, 0.5, 1]",
                        "",
                        1};
    static const struct {
        int32_t recompute;
        double offload;
    } expected[] = {{RECOMPUTE_NONE, 0.5}, {RECOMPUTE_NONE, 1}, {RECOMPUTE_FULL, 0.5}, {RECOMPUTE_FULL, 1}};
    struct hand_search hand;
    search_cell(&hand, &cell, false);
    CHECK_EQUAL(hand.result.n_plans, 4);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(hand.result.plans[i].layout.recompute, expected[i].recompute);
        CHECK_CLOSE(hand.result.plans[i].layout.offload, expected[i].offload, 0);
    }
    close_cell(&hand);
}

/* Context ranks of TP x CP = 8 GPUs stay on their node, of more they do not. */
TEST(context_across_nodes_is_demanded_beyond_a_node)
{
    struct cell cell = {
        "llama-7b", "hopper-2x8", "best-fit", "4Ki", "pp: 1, recompute: none, on_demand: cp-across-nodes", "", 1};
    struct hand_search hand;
    int32_t n_at = 0, n_beyond = 0;
    search_cell(&hand, &cell, false);
    for (int32_t i = 0; i < hand.result.n_plans; i++) {
        const struct scenario_plan *layout = &hand.result.plans[i].layout;
        bool beyond = layout->cp > 1 && layout->tp * layout->cp > 8;
        CHECK_EQUAL(hand.result.plans[i].n_demanded, beyond);
        n_at += layout->cp > 1 && layout->tp * layout->cp == 8;
        n_beyond += beyond;
    }
    CHECK_TRUE(n_at > 0 && n_beyond > 0);
    close_cell(&hand);
}

/* Two replicas with P parameters in n buckets on a node of 200 GB/s, fp32 gradients: 1 us + 2P bytes reduce, 1 us + P
 * bytes gather. The bound has those that are whole behind the passes; the graph the last bucket of the hidden ones,
 * too, as its passes are longer. */
TEST(what_follows_the_passes_is_bounded_by_what_cannot_hide)
{
    static const struct {
        enum scenario_sharding sharding;
        enum scenario_data_overlap overlap;
        double whole[2], last[2]; /* gradients, parameters: 1: there is one */
    } cases[] = {{SCENARIO_ZERO1, SCENARIO_OVERLAP_NONE, {1, 1}, {0, 0}},
                 {SCENARIO_ZERO1, SCENARIO_OVERLAP_GRADIENTS, {0, 1}, {1, 0}},
                 {SCENARIO_ZERO1, SCENARIO_OVERLAP_BOTH, {0, 0}, {1, 1}},
                 {SCENARIO_ZERO2, SCENARIO_OVERLAP_NONE, {0, 1}, {0, 0}},
                 {SCENARIO_ZERO2, SCENARIO_OVERLAP_GRADIENTS, {0, 1}, {0, 0}},
                 {SCENARIO_ZERO2, SCENARIO_OVERLAP_BOTH, {0, 0}, {0, 1}},
                 {SCENARIO_ZERO3, SCENARIO_OVERLAP_NONE, {0, 0}, {0, 0}}};
    struct plan plan;
    struct cost_setting setting = *hand_setting();
    struct model model = *setting.model;
    struct scenario_plan layout = {.tp = 1, .pp = 1, .cp = 1, .dp = 2, .vpp = 1};
    model.vocabulary = 1000000;
    setting.model = &model;
    setting.plan = &layout;
    hand_whole_samples(&plan, 2, 1, 4096);
    double parameters = cost_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    const double bytes[] = {2 * parameters, parameters};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        layout.sharding = (int32_t)cases[i].sharding;
        setting.communication.dp_overlap = (int32_t)cases[i].overlap;
        double bound_s = cost_optimizer_s(&setting, parameters, 2), last_s = 0;
        for (int k = 0; k < 2; k++) {
            bound_s += cases[i].whole[k] * (1e-6 + bytes[k] / 200e9);
            last_s += cases[i].last[k] * (1e-6 + bytes[k] / n / 200e9);
        }
        CHECK_CLOSE(bound_after_passes_s(&setting, &layout), bound_s, 1e-12);
        double with_s = hand_plan_makespan_s(&plan, &setting, (struct dag_options){.gradient_sync = true});
        double without_s = hand_plan_makespan_s(&plan, &setting, (struct dag_options){0});
        CHECK_CLOSE(with_s - without_s, bound_s + last_s, 1e-9);
    }
    plan_free(&plan);
}

TEST(an_empty_space_is_an_error_with_its_place)
{
    struct cell cell = {"llama-7b", "hopper-2x8", "best-fit", "4Ki", "pp: [3, 5]", "", 1};
    struct hand_search hand;
    struct error err = {0};
    CHECK_TRUE(!open_cell(&hand, &cell, &err));
    CHECK_CONTAINS(err.text,
                   "cell.yaml:10:34: plan: the plan space free holds no plan of best-fit for llama-7b on the 16");
    close_cell(&hand);
}

/* The entry becomes one with that plan, and with SimGrid the few are weighed with its contention. */
TEST(the_scenario_takes_the_plan_that_was_found)
{
    struct error err = {0};
    struct hand_search hand;
    struct search_options options = {.engine = point_execute};
    CHECK(open_cell(&hand, &cells[1], &err));
    CHECK(search_scenario(&hand.scenario, &hand.lengths, &options, &hand.result, &err));
    const struct scenario_plan *plan = &hand.scenario.systems[0].plan;
    CHECK_TRUE(!hand.scenario.systems[0].auto_plan && hand.result.engine);
    CHECK_TRUE(plan->tp == chosen(&hand)->layout.tp && plan->dp == chosen(&hand)->layout.dp &&
               plan->offload == chosen(&hand)->layout.offload);
    CHECK_TRUE(chosen(&hand)->score.contention > -1e-9 && chosen(&hand)->score.contention < 0.5);
    close_cell(&hand);
}
