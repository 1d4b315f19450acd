/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check what the search of plans chooses, prunes and ranks. */
#include "search/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "execute/execute.h"
#include "hand_search.h"
#include "harness.h"
#include "search/bound.h"
#include "search/score.h"
#include "simulate/summary.h"

/* In these small spaces memory, time or neither decides. */
static const struct hand_cell cells[] = {
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
    {"llama-7b", "hopper-2x8", "bytescale", "128Ki", "", "always_offload: true", 9},
    {"llama-7b", "hopper-2x8", "megatron-dynamic-cp", "64Ki", "offload: [0, 0.5]", "", 10},
    {"llama-7b", "hopper-2x8", "megatron-dp-balanced", "32Ki", "offload: [0, 1], cp: [1, 2], vpp: [1, 2]", "", 6},
    {"llama-7b", "hopper-2x8", "megatron-default-dynamic-cp", "64Ki", "offload: [0, 0.5]", "", 10},
    {"llama-7b", "hopper-2x8", "megatron-default-dynamic-cp", "32Ki", "offload: 0, vpp: [1, 2]", "", 11},
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

/* Check that a plan which an exhaustive search resolved once is not below its bounds. @return how many there are */
static int32_t check_bounds(const struct search_result *result, const struct hand_cell *cell)
{
    int32_t n_checked = 0;
    for (int32_t j = 0; j < result->n_plans; j++) {
        const struct search_plan *plan = &result->plans[j];
        if (plan->score.n_iterations != 1)
            continue;
        hand_check_cell(plan->bound.time_s > 0 && plan->bound.time_s <= plan->score.time_s * (1 + 1e-12), cell,
                        "the bound of time holds");
        hand_check_cell(plan->bound.peak_bytes > 0 &&
                            plan->bound.peak_bytes <= plan->score.worst.peak_bytes * (1 + 1e-12),
                        cell, "the bound of memory holds");
        n_checked++;
    }
    return n_checked;
}

/* Return whether a plan stopped that would not have fit later. Then no other plan is decided on in its place. */
static bool stopped_before_it_was_too_large(const struct search_result *pruned, const struct search_result *exhaustive)
{
    bool any = false;
    for (int32_t i = 0; i < pruned->n_plans; i++)
        any |= pruned->plans[i].verdict == SEARCH_RUNNER_UP && exhaustive->plans[i].verdict == SEARCH_TOO_LARGE;
    return any;
}

TEST(pruning__changes_neither_the_choice_nor_the_runners_up)
{
    int32_t n_spared = 0, n_all = 0, n_bounds = 0, n_stopped = 0;
    for (int i = 0; i < N_CELLS; i++) {
        struct hand_search pruned, exhaustive;
        hand_search_cell(&pruned, &cells[i], false);
        hand_search_cell(&exhaustive, &cells[i], true);
        hand_check_cell(hand_same_choice(hand_chosen(&pruned), hand_chosen(&exhaustive)), &cells[i], "same winner");
        hand_check_cell(hand_chosen(&pruned)->score.time_s == hand_chosen(&exhaustive)->score.time_s, &cells[i],
                        "same time");
        for (int32_t j = 0; j < exhaustive.result.n_ranked; j++) {
            int32_t which = exhaustive.result.ranked[j];
            const struct search_plan *plan = &exhaustive.result.plans[which], *same = &pruned.result.plans[which];
            if (plan->verdict != SEARCH_RUNNER_UP)
                continue;
            bool whole = score_is_whole(&same->score), tied = plan->score.slower <= SEARCH_TIE_PERCENT / 100.0;
            bool slower = same->verdict == SEARCH_SLOWER || same->verdict == SEARCH_BOUND_PRUNED;
            bool left_out = slower && !tied && stopped_before_it_was_too_large(&pruned.result, &exhaustive.result);
            hand_check_cell(same->verdict == SEARCH_RUNNER_UP || left_out, &cells[i], "same runners-up");
            hand_check_cell(whole ? same->score.time_s == plan->score.time_s : !tied, &cells[i], "ties are whole");
            hand_check_cell(left_out || same->score.time_s <= plan->score.time_s * (1 + 1e-12), &cells[i], "at least");
            n_stopped += !whole && !left_out;
        }
        hand_check_cell(pruned.result.n_resolved <= exhaustive.result.n_resolved, &cells[i], "pruning makes no work");
        n_bounds += check_bounds(&exhaustive.result, &cells[i]);
        n_spared += exhaustive.result.n_resolved - pruned.result.n_resolved;
        n_all += exhaustive.result.n_resolved;
        hand_close_cell(&pruned);
        hand_close_cell(&exhaustive);
    }
    CHECK_TRUE(4 * n_spared > n_all && n_bounds > 500 && n_stopped > 20);
}

/** Find the iteration time of a cell's chosen plan. Batches have 24 documents of 999 tokens each, except for one of
 * 48Ki in every fifth batch. */
static double time_with_rare_long_samples_s(const struct hand_cell *cell)
{
    struct hand_search hand;
    struct error err = {0};
    const struct search_options options = {0};
    CHECK(hand_open_cell(&hand, cell, &err));
    lengths_close(&hand.lengths);
    hand.scenario.data.lengths[0] = '\0';
    for (int i = 0; i < 5 * 24 - 1; i++)
        strcat(hand.scenario.data.lengths, "999 ");
    strcat(hand.scenario.data.lengths, "48Ki");
    CHECK(lengths_open(&hand.scenario.data, scenario_data_dir(), &hand.lengths, &err));
    CHECK(search_system(&hand.scenario, &hand.lengths, 0, &options, &hand.result, &err));
    double time_s = hand_chosen(&hand)->score.time_s;
    hand_close_cell(&hand);
    return time_s;
}

/* The batch that ranks has no long sample. Many plans of TP 2 and 4 are faster there than those of TP 8. In every fifth
 * batch the long sample has the GPUs of one replica, TP x PP, and TP alone makes it faster. So the chosen plan is no
 * slower than the widest plan by itself. */
TEST(deciding__counts_a_long_sample_that_the_ranking_lacks)
{
    const struct hand_cell any = {"llama-7b", "hopper-2x8", "dynapipe", "48Ki", "name: free", "", 3};
    const struct hand_cell wide = {"llama-7b", "hopper-2x8", "dynapipe", "48Ki", "tp: 8, pp: 2", "", 3};
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

/** Find the least ranking time of the plans that fit, of a plan's layout. They have its virtual stages, sharding and
 * recomputation, or any. */
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

/** Count the layouts that have a plan that fits in less time. */
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

/* In an exhaustive search the sentence in the docstring holds. Fewer than four layouts take less than the time that the
 * plan's exceeds by SEARCH_NEAR_PERCENT. Its own layout is not among them. The plan is the fastest of its layout,
 * virtual stages, sharding and recomputation (ties: one of them). So some layouts are decided on twice. A plan may win
 * that its layout's fastest in the ranking iteration beats. */
TEST(ranking__decides_on_recomputations_near_the_fastest)
{
    int32_t n_slower = 0, n_twice = 0, n_turned = 0;
    for (int i = 0; i < 7; i++) {
        struct hand_cell cell = {"llama-13b", "hopper-2x8", "slimpack", "128Ki", "", "max_factor: 16", 27 + i};
        struct hand_search hand;
        cell.space = i == 0 ? "" : "recompute: [none, norm+activation], pp: [1, 2, 4]";
        if (i == 6)
            cell = (struct hand_cell){"llama-7b", "hopper-1x8", "best-fit", "32Ki", "name: wide, offload: 0", "", 1};
        hand_search_cell(&hand, &cell, true);
        for (int32_t j = 0; j < hand.result.n_plans; j++) {
            const struct search_plan *plan = &hand.result.plans[j];
            if (plan->verdict > SEARCH_SLOWER)
                continue;
            double layout_s = least_ranking_s(&hand.result, plan, true),
                   reach_s = plan->ranking_s / (1 + SEARCH_NEAR_PERCENT / 100.0);
            bool near = layout_s >= reach_s && n_layouts_below(&hand.result, reach_s) < 4;
            bool fastest = plan->ranking_s == least_ranking_s(&hand.result, plan, false);
            hand_check_cell((near && fastest) == (plan->verdict <= SEARCH_RUNNER_UP), &cell, "decided on");
            n_slower += fastest && !near;
            n_twice += plan->verdict <= SEARCH_RUNNER_UP && plan->ranking_s > layout_s;
            n_turned += plan->verdict == SEARCH_CHOSEN && plan->ranking_s > layout_s;
        }
        hand_close_cell(&hand);
    }
    CHECK_TRUE(n_slower > 0 && n_twice > 0 && n_turned > 0);
}

/* Run a plan that somebody writes down. summary: NULL for none. @return whether it fits */
static bool run_by_hand(const struct hand_search *hand, const struct scenario_plan *layout, int64_t seed,
                        int64_t measured, struct trace_summary *summary)
{
    struct error err = {0};
    struct point point = {0};
    struct scenario scenario = hand->scenario; /* borrowed, except for the entry */
    struct scenario_system entry = hand->scenario.systems[0];
    entry.plan = *layout;
    entry.auto_plan = false;
    scenario.systems = &entry;
    scenario.seed = seed;
    scenario.measured = measured;
    scenario.trace = SCENARIO_TRACE_NONE;
    bool ok = point_run(&scenario, &hand->lengths, &(struct point_options){0}, &point, &err);
    CHECK_TEXT(err.text, "");
    CHECK(ok);
    if (summary != NULL)
        *summary = point_summary_of(&scenario, &point, 0);
    bool fits = point.systems[0].fits;
    point_free(&point);
    return fits;
}

/* List these batches, one after the other. The caller frees file_tokens. */
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

/* Run a plan over one of the batches that decide, whose lengths are written down. */
static bool run_deciding(const struct hand_search *hand, const struct scenario_plan *layout, int which,
                         struct trace_summary *summary)
{
    struct hand_search other = *hand;
    struct lengths listed = list_batches(hand, &hand->result.iterations[which].iteration, 1);
    other.lengths = listed;
    other.scenario.data.global_batch = listed.n;
    bool fits = run_by_hand(&other, layout, 1, 1, summary);
    free(listed.file_tokens);
    return fits;
}

/* A batch bounds nothing if samples may wait. Times are in proportion to the tokens that ran, so it is no gain to leave
 * long documents out. With and without queues a token takes as long, within the noise of five batches. */
TEST(search__takes_a_system_that_lets_samples_wait)
{
    double time_s[2];
    for (int i = 0; i < 2; i++) {
        struct hand_cell cell = {"llama-7b",
                                 "hopper-2x8",
                                 "wlb-llm",
                                 "64Ki",
                                 "offload: 0, pp: [1, 2]",
                                 i == 0 ? "queues: 0" : "thresholds: [16Ki]",
                                 11};
        struct hand_search hand;
        hand_search_cell(&hand, &cell, false);
        CHECK_TRUE(hand.result.fits);
        for (int32_t j = 0; j < hand.result.n_plans; j++) {
            const struct search_plan *plan = &hand.result.plans[j];
            hand_check_cell(plan->bound.time_s <= plan->score.time_s || plan->score.n_iterations == 0, &cell,
                            "the bound of time holds");
            hand_check_cell(plan->layout.cp_type == SCENARIO_ALL_GATHER, &cell, "its context parallelism gathers");
        }
        time_s[i] = hand_chosen(&hand)->score.time_s;
        hand_close_cell(&hand);
    }
    CHECK_TRUE(time_s[1] > 0.5 * time_s[0] && time_s[1] < 1.2 * time_s[0]);
}

/* After its warm-up a system with a state runs the five in a row. Times are in proportion to the FLOPs that ran. */
TEST(search__carries_a_state_through_warm_up_and_deciding)
{
    const char *context = "64Ki, long_documents: truncate", *plans = "tp: 2, pp: 1, offload: 0";
    struct hand_cell cell = {"llama-7b", "hopper-2x8", "wlb-llm", context, plans, "thresholds: [8Ki]", 11};
    struct error err = {0};
    struct search_options options = {0};
    struct hand_search hand;
    struct point point = {0};
    CHECK(hand_open_cell(&hand, &cell, &err));
    hand.scenario.warm_up = 2;
    CHECK(search_system(&hand.scenario, &hand.lengths, 0, &options, &hand.result, &err));
    int64_t iteration[7] = {SEARCH_CANDIDATES, SEARCH_CANDIDATES + 1};
    for (int i = 0; i < 5; i++)
        iteration[2 + i] = hand.result.iterations[i].iteration;
    struct lengths listed = list_batches(&hand, iteration, 7);
    hand.scenario.systems[0].plan = hand_chosen(&hand)->layout;
    hand.scenario.seed = hand.result.seed;
    CHECK(point_run(&hand.scenario, &listed, &(struct point_options){0}, &point, &err));
    double time_s = 0, ran_flop = 0, batch_flop = 0, delayed = 0;
    for (int i = 0; i < 5; i++) {
        CHECK_CLOSE(hand.result.iterations[i].weight, 0.2, 1e-15);
        time_s += point.systems[0].iterations[2 + i].row.time_s / 5;
        ran_flop += point.systems[0].iterations[2 + i].row.model_flop;
        delayed += (double)point.systems[0].iterations[2 + i].row.delayed_tokens;
        batch_flop += hand.result.iterations[i].model_flop;
    }
    CHECK_EQUAL(hand.result.n_warm_up, 2);
    CHECK_TRUE(delayed > 0 && fabs(ran_flop / batch_flop - 1) > 1e-3);
    CHECK_CLOSE(hand_chosen(&hand)->score.time_s, time_s * batch_flop / ran_flop, 1e-9);
    point_free(&point);
    free(listed.file_tokens);
    hand_close_cell(&hand);
}

/* The score is the weighted mean of runs over the deciding batches, which are independent of the search. */
TEST(search_score__is_what_a_run_of_the_plan_gives)
{
    for (int i = 0; i < 2; i++) {
        struct hand_search hand;
        struct trace_summary summary;
        hand_search_cell(&hand, &cells[i], false);
        const struct search_score *score = &hand_chosen(&hand)->score;
        double time_s = 0, peak_bytes = 0;
        for (int j = 0; j < 5; j++) {
            CHECK_TRUE(run_deciding(&hand, &hand_chosen(&hand)->layout, j, &summary));
            CHECK_CLOSE(summary.time_mean_s, score->iteration_s[j], 1e-12);
            time_s += hand.result.iterations[j].weight * summary.time_mean_s;
            peak_bytes = fmax(peak_bytes, summary.peak_bytes);
        }
        CHECK_CLOSE(time_s, score->time_s, 1e-12);
        CHECK_CLOSE(peak_bytes, score->worst.peak_bytes, 1e-12);
        CHECK_EQUAL(score->n_iterations, SEARCH_DECIDING_ITERATIONS);
        CHECK_EQUAL(hand.result.n_warm_up, 0);
        CHECK_CLOSE(score->compute + score->bubble + score->communication, 1, 1e-9);
        hand_close_cell(&hand);
    }
}

/* A runner-up is behind by the ratio of weighted means on the same batches. The delta method gives its standard
 * error. It takes the weighted second moments of both times, of batches drawn with these weights. */
TEST(runner_up__is_compared_on_the_same_batches)
{
    struct hand_search hand;
    struct trace_summary first, second;
    hand_search_cell(&hand, &cells[0], false);
    const struct search_plan *runner_up = &hand.result.plans[hand.result.ranked[1]];
    CHECK(runner_up->verdict == SEARCH_RUNNER_UP);
    double a = 0, b = 0, aa = 0, ab = 0, bb = 0, wa = 0, wb = 0, ww = 0;
    for (int j = 0; j < 5; j++) {
        double w = hand.result.iterations[j].weight;
        run_deciding(&hand, &hand_chosen(&hand)->layout, j, &first);
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
    hand_close_cell(&hand);
}

/* The plans that the search made for the run are those that the system makes in it. */
TEST(search__gives_the_plans_of_the_run)
{
    for (int i = 0; i < 2; i++) {
        struct hand_search hand;
        struct error err = {0};
        struct point with = {0}, without = {0};
        hand_search_cell(&hand, &cells[i], false);
        hand.scenario.systems[0].plan = hand_chosen(&hand)->layout;
        CHECK(hand.result.n_iterations == 5);
        for (int j = 0; j < 5; j++)
            CHECK_TRUE(hand.result.planned[j].n_phases > 0);
        CHECK(
            point_run(&hand.scenario, &hand.lengths, &(struct point_options){.searches = &hand.result}, &with, &err) &&
            point_run(&hand.scenario, &hand.lengths, &(struct point_options){0}, &without, &err));
        const struct point_iteration *a = with.systems->iterations, *b = without.systems->iterations;
        for (int j = 0; j < 5; j++)
            CHECK_TRUE(a[j].row.time_s == b[j].row.time_s && a[j].row.peak_bytes == b[j].row.peak_bytes &&
                       a[j].row.candidates == b[j].row.candidates);
        point_free(&with);
        point_free(&without);
        hand_close_cell(&hand);
    }
}

/* A system's bug is no result. The third iteration's plan runs a micro-batch twice. */
TEST(search__ends_the_run_at_a_wrong_plan)
{
    struct hand_search hand;
    struct error err = {0};
    struct point point = {0};
    hand_search_cell(&hand, &cells[0], false);
    hand.scenario.systems[0].plan = hand_chosen(&hand)->layout;
    struct plan_pipeline *pipeline = &hand.result.planned[2].phases[0].pipelines[0];
    pipeline->steps[1] = pipeline->steps[0];
    CHECK_TRUE(
        !point_run(&hand.scenario, &hand.lengths, &(struct point_options){.searches = &hand.result}, &point, &err));
    CHECK_EQUAL(err.status, ERROR_FAILED);
    CHECK_CONTAINS(err.text, "its plan of iteration 2 is wrong, a bug of ");
    CHECK_CONTAINS(err.text, "phase 0, pipeline 0, stage 0: forward micro-batch 0 runs twice or does not exist");
    point_free(&point);
    hand_close_cell(&hand);
}

static bool fits_all_deciding(struct hand_search *hand, const struct scenario_plan *layout)
{
    struct trace_summary summary;
    bool fits = true;
    for (int i = 0; i < SEARCH_DECIDING_ITERATIONS && fits; i++)
        fits = run_deciding(hand, layout, i, &summary);
    return fits;
}

/* Every plan of a small space runs by hand on the iteration that ranks. The fastest that fits in all five is among the
 * runners-up. */
TEST(search__misses_no_faster_plan)
{
    for (int i = 0; i < 2; i++) {
        struct hand_search hand;
        struct trace_summary summary;
        hand_search_cell(&hand, &cells[i], false);
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
                hand_check_cell(!fits_all_deciding(&hand, &hand.result.plans[j].layout), &cells[i],
                                "no plan by hand is faster");
        hand_close_cell(&hand);
    }
}

/* 70B on 8 GPUs has 16 bytes a parameter of states, or 140 GB a GPU and more. */
TEST(search__gives_the_least_peak_if_nothing_fits)
{
    static const char *const systems[] = {"best-fit", "slimpack", "flexsp"};
    for (int i = 0; i < 3; i++) {
        struct hand_cell cell = {"llama-70b", "hopper-1x8", systems[i], "4Ki", "offload: [0, 1], pp: [1, 4, 8]", "", 1};
        struct hand_search pruned, exhaustive;
        hand_search_cell(&pruned, &cell, false);
        hand_search_cell(&exhaustive, &cell, true);
        CHECK_TRUE(!pruned.result.fits);
        CHECK_EQUAL(pruned.result.n_ranked, 1);
        CHECK_TRUE(hand_chosen(&pruned)->score.worst.peak_bytes > pruned.result.limits.gpu_bytes);
        CHECK_TRUE(hand_same_choice(hand_chosen(&pruned), hand_chosen(&exhaustive)));
        for (const struct search_plan *plan = exhaustive.result.plans; plan < hand_chosen(&exhaustive); plan++)
            CHECK_TRUE(plan->score.n_iterations == 0 ||
                       plan->score.worst.peak_bytes > hand_chosen(&pruned)->score.worst.peak_bytes);
        for (int32_t j = 0; j < exhaustive.result.n_plans; j++)
            CHECK_TRUE(exhaustive.result.plans[j].score.worst.peak_bytes >=
                       hand_chosen(&pruned)->score.worst.peak_bytes);
        CHECK_TRUE(pruned.result.n_resolved < exhaustive.result.n_resolved);
        hand_close_cell(&pruned);
        hand_close_cell(&exhaustive);
    }
}

/* Find the plan of the same layout in a result. */
static const struct search_plan *plan_like(const struct search_result *result, const struct search_plan *like)
{
    int32_t i = 0;
    while (i < result->n_plans && !hand_same_choice(&result->plans[i], like))
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

/* List batches of 8 samples of 2048 tokens. The search draws its own among the first SEARCH_CANDIDATES. The run
 * measures five behind these. In the fourth, one sample has that many tokens. The caller frees file_tokens. */
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

static void open_surprise(struct hand_search *hand, const struct hand_cell *cell, int32_t tokens)
{
    struct error err = {0};
    CHECK(hand_open_cell(hand, cell, &err));
    lengths_close(&hand->lengths);
    hand->lengths = late_surprise(hand, tokens);
    search_within(hand, 1e13);
}

static void close_surprise(struct hand_search *hand)
{
    free(hand->lengths.file_tokens);
    hand->lengths = (struct lengths){0};
    hand_close_cell(hand);
}

/* Run the measured iterations alone. */
static bool fits_run(const struct hand_search *hand, const struct search_plan *plan, struct trace_summary *summary)
{
    struct hand_search other = *hand;
    int64_t n_before = hand->scenario.warm_up * hand->scenario.data.global_batch;
    other.scenario.warm_up = 0;
    other.lengths.file_tokens += n_before;
    other.lengths.n -= n_before;
    return run_by_hand(&other, &plan->layout, hand->scenario.seed, hand->scenario.measured, summary);
}

/* With much memory the search chooses a plan that needs more in the run than in the deciding iterations. With a memory
 * between the two it still wins in the deciding iterations, and is then found not to fit. It makes room for one that
 * does. Without the long sample it stays. */
TEST(search__chooses_a_plan_that_fits_in_the_whole_run)
{
    const struct hand_cell cell = {"llama-7b", "hopper-1x8", "length-balanced", "64Ki", "offload: 0", "", 1};
    for (int surprise = 0; surprise < 2; surprise++) {
        struct hand_search hand;
        struct trace_summary of_run;
        open_surprise(&hand, &cell, surprise ? 64 * 1024 : 2048);
        const struct search_plan roomy = *hand_chosen(&hand);
        fits_run(&hand, &roomy, &of_run);
        CHECK_TRUE(surprise ? of_run.peak_bytes > roomy.score.worst.peak_bytes
                            : of_run.peak_bytes == roomy.score.worst.peak_bytes);
        search_within(&hand, (roomy.score.worst.peak_bytes + of_run.peak_bytes) / 2);
        const struct search_plan *again = plan_like(&hand.result, &roomy);
        CHECK_EQUAL(again->verdict, surprise ? SEARCH_MISFIT : SEARCH_CHOSEN);
        CHECK_EQUAL(again->score.worst.peak_bytes > hand.result.limits.gpu_bytes, surprise);
        CHECK_TRUE(hand.result.fits && fits_run(&hand, hand_chosen(&hand), NULL));
        close_surprise(&hand);
    }
}

/* A system makes a plan just fit, with less and less memory. The chosen plan fits in the run. A plan that was found not
 * to fit does not, though it fits in the deciding iterations. */
TEST(search__fits_adaptive_plans_in_the_whole_run)
{
    const struct hand_cell cell = {"llama-7b",
                                   "hopper-1x8",
                                   "slimpack",
                                   "64Ki",
                                   "recompute: [none, norm+activation], tp: 2",
                                   "offload: plan, max_factor: 16",
                                   1};
    struct hand_search hand;
    struct trace_summary of_run;
    int32_t n_misfits = 0;
    open_surprise(&hand, &cell, 64 * 1024);
    fits_run(&hand, hand_chosen(&hand), &of_run);
    for (int tenths = 8; tenths >= 6; tenths -= 2) {
        search_within(&hand, 0.1 * tenths * of_run.peak_bytes);
        hand_check_cell(fits_run(&hand, hand_chosen(&hand), NULL) == hand.result.fits, &cell,
                        "the hand_chosen plan fits");
        for (int32_t i = 0; i < hand.result.n_plans; i++) {
            const struct search_plan *plan = &hand.result.plans[i];
            if (plan->verdict != SEARCH_MISFIT)
                continue;
            hand_check_cell(!fits_run(&hand, plan, NULL), &cell, "it does not fit in the run");
            for (int j = 0; j < SEARCH_DECIDING_ITERATIONS; j++)
                hand_check_cell(run_deciding(&hand, &plan->layout, j, NULL), &cell, "it fits where the search decides");
            n_misfits++;
        }
    }
    CHECK_TRUE(n_misfits > 0);
    close_surprise(&hand);
}

/* Offloaded activations must find room on the host. With little of it the plan without offload is taken, or none
 * fits. */
TEST(search__keeps_to_the_host_memory)
{
    for (int i = 0; i < 2; i++) {
        struct hand_cell cell = {
            "llama-7b", "hopper-1x8", "best-fit", "32Ki", i == 0 ? "offload: [0, 1]" : "offload: 1", "", 1};
        struct error err = {0};
        struct search_options options = {0};
        struct hand_search hand;
        CHECK(hand_open_cell(&hand, &cell, &err));
        hand.scenario.platform.host_memory_bytes = 1;
        CHECK(search_system(&hand.scenario, &hand.lengths, 0, &options, &hand.result, &err));
        CHECK_EQUAL(hand.result.fits, i == 0);
        CHECK_EQUAL(hand_chosen(&hand)->layout.offload > 0, i == 1);
        CHECK_EQUAL(hand_chosen(&hand)->score.worst.host_bytes > 1, i == 1);
        hand_close_cell(&hand);
    }
}

/* A system that decides the offload itself gets plans without offload. It gets all if it leaves the offload to them. */
TEST(search__tries_offload_if_the_system_leaves_it_open)
{
    static const char *const knobs[] = {"max_factor: 2", "offload: plan, max_factor: 2"};
    int32_t n_plans[2], n_offloading[2] = {0};
    for (int i = 0; i < 2; i++) {
        struct hand_cell cell = {
            "llama-7b", "hopper-1x8", "slimpack", "16Ki", "tp: [2, 4], pp: 2, offload: [0, 0.5, 1]", knobs[i], 1};
        struct hand_search hand;
        hand_search_cell(&hand, &cell, false);
        n_plans[i] = hand.result.n_plans;
        for (int32_t j = 0; j < n_plans[i]; j++)
            n_offloading[i] += hand.result.plans[j].layout.offload > 0;
        hand_close_cell(&hand);
    }
    CHECK_EQUAL(n_plans[1], 3 * n_plans[0]);
    CHECK_EQUAL(n_offloading[0], 0);
    CHECK_EQUAL(n_offloading[1], 2 * n_plans[0]);
}

/* Find the share of a memory, the GPU's or the host's, that a plan needs. */
static double need_of(const struct hand_search *hand, const struct search_plan *plan)
{
    return fmax(plan->score.worst.peak_bytes / hand->result.limits.gpu_bytes,
                plan->score.worst.host_bytes / hand->scenario.platform.host_memory_bytes);
}

/* All plans offload everything, and no host holds it. The search takes the plan that exceeds a memory by the least
 * share. If the host has little, the share is the host's. If it has more, it is the GPU's. */
TEST(search__gives_the_least_excess_if_nothing_fits)
{
    static const double host_bytes[] = {1e9, 1e15};
    for (int i = 0; i < 2; i++) {
        struct hand_cell cell = {
            "llama-70b", "hopper-1x8", "best-fit", "32Ki", "offload: 1, recompute: [none, full]", "", 1};
        struct error err = {0};
        struct search_options options = {.exhaustive = true};
        struct hand_search hand;
        CHECK(hand_open_cell(&hand, &cell, &err));
        hand.scenario.platform.host_memory_bytes = host_bytes[i];
        CHECK(search_system(&hand.scenario, &hand.lengths, 0, &options, &hand.result, &err));
        double need = need_of(&hand, hand_chosen(&hand));
        CHECK_TRUE(!hand.result.fits && need > 1);
        CHECK_EQUAL(hand_chosen(&hand)->score.worst.peak_bytes / hand.result.limits.gpu_bytes < need, i == 0);
        for (int32_t j = 0; j < hand.result.n_plans; j++)
            CHECK_TRUE(hand.result.plans[j].score.n_iterations == 0 || need_of(&hand, &hand.result.plans[j]) >= need);
        hand_close_cell(&hand);
    }
}

/* CP and full recomputation are taken only if memory demands them. The space without restriction would take them. */
TEST(on_demand__waits_for_memory)
{
    struct hand_cell roomy = {"llama-7b", "hopper-2x8", "best-fit", "8Ki", "name: low-tp", "", 1};
    struct hand_cell tight = {"llama-7b", "hopper-2x8", "best-fit", "128Ki", "name: low-tp, offload: 0, pp: [1, 2]", "",
                              1};
    struct hand_search hand;
    hand_search_cell(&hand, &roomy, false);
    CHECK_TRUE(hand.result.fits && hand.result.count[SEARCH_NOT_DEMANDED] > 0);
    for (int32_t i = 0; i < hand.result.n_plans; i++) {
        const struct search_plan *plan = &hand.result.plans[i];
        bool demanded = plan->layout.cp > 1 || plan->layout.recompute == RECOMPUTE_FULL;
        CHECK_TRUE(!demanded || plan->verdict == SEARCH_NOT_DEMANDED || plan->verdict == SEARCH_MEMORY_PRUNED);
        CHECK_TRUE(plan->layout.tp <= 2);
    }
    hand_close_cell(&hand);
    hand_search_cell(&hand, &tight, false);
    CHECK_TRUE(hand.result.fits && hand_chosen(&hand)->n_demanded == 1);
    for (int32_t i = 0; i < hand.result.n_plans; i++) {
        const struct search_plan *plan = &hand.result.plans[i];
        int32_t n = (plan->layout.cp > 1) + (plan->layout.recompute == RECOMPUTE_FULL);
        CHECK_EQUAL(plan->n_demanded, n);
        CHECK_TRUE(n > 0 || plan->verdict == SEARCH_TOO_LARGE || plan->verdict == SEARCH_MEMORY_PRUNED);
    }
    hand_close_cell(&hand);
}

/* With four stages and few packs an iteration is mostly bubbles. Two virtual stages a rank halve them. On one node and
 * one stage sharding costs time. It is taken if memory needs it. */
TEST(search__takes_virtual_stages_and_sharding_if_they_pay)
{
    static const struct {
        struct hand_cell cell;
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
        hand_search_cell(&hand, &cases[i].cell, false);
        hand_check_cell(hand.result.fits && hand_chosen(&hand)->layout.vpp == cases[i].vpp &&
                            hand_chosen(&hand)->layout.sharding == (int32_t)cases[i].sharding,
                        &cases[i].cell, "its virtual stages and sharding");
        hand_close_cell(&hand);
    }
}

/* The entry becomes one with that plan. With SimGrid the few are compared with its contention. */
TEST(search_scenario__takes_the_plan_that_was_found)
{
    struct error err = {0};
    struct hand_search hand;
    struct search_options options = {.engine = point_execute};
    CHECK(hand_open_cell(&hand, &cells[1], &err));
    CHECK(search_scenario(&hand.scenario, &hand.lengths, &options, &hand.result, &err));
    const struct scenario_plan *plan = &hand.scenario.systems[0].plan;
    CHECK_TRUE(!hand.scenario.systems[0].auto_plan && hand.result.engine);
    CHECK_TRUE(plan->tp == hand_chosen(&hand)->layout.tp && plan->dp == hand_chosen(&hand)->layout.dp &&
               plan->offload == hand_chosen(&hand)->layout.offload);
    CHECK_TRUE(hand_chosen(&hand)->score.contention > -1e-9 && hand_chosen(&hand)->score.contention < 0.5);
    hand_close_cell(&hand);
}

/* Threads change no result, and the first error in the order of systems is the one that is reported. */
TEST(search_scenario__finds_the_same_in_threads)
{
    enum { N = 3 };
    struct error err = {0};
    struct hand_search hand;
    struct search_result results[N] = {0};
    struct search_options options = {.n_threads = N};
    CHECK(hand_open_cell(&hand, &cells[1], &err));
    struct scenario_system *one = hand.scenario.systems, systems[N] = {*one, *one, *one};
    CHECK(search_system(&hand.scenario, &hand.lengths, 0, &options, &hand.result, &err));
    hand.scenario.systems = systems;
    hand.scenario.n_systems = N;
    CHECK(search_scenario(&hand.scenario, &hand.lengths, &options, results, &err));
    for (int i = 0; i < N; i++) {
        const struct search_plan *plan = &results[i].plans[results[i].ranked[0]];
        CHECK_TRUE(results[i].ranked[0] == hand.result.ranked[0] &&
                   plan->score.time_s == hand_chosen(&hand)->score.time_s);
        CHECK_TRUE(results[i].n_resolved == hand.result.n_resolved && !systems[i].auto_plan);
        search_result_free(&results[i]);
    }
    hand.scenario.systems = one;
    hand.scenario.n_systems = 1;
    hand_close_cell(&hand);
}

/* SimGrid runs measured iterations only. Run side by side they take the same times as in order. */
TEST(point_run__gives_the_same_side_by_side)
{
    struct error err = {0};
    struct hand_search hand;
    struct point points[2] = {0};
    CHECK(hand_open_cell(&hand, &cells[1], &err));
    hand.scenario.engine = SCENARIO_BOTH;
    struct search_options options = {0};
    CHECK(search_system(&hand.scenario, &hand.lengths, 0, &options, &hand.result, &err));
    hand.scenario.systems[0].plan = hand_chosen(&hand)->layout;
    for (int i = 0; i < 2; i++)
        CHECK(point_run(&hand.scenario, &hand.lengths, &(struct point_options){.n_children = 4 * i}, &points[i], &err));
    for (int64_t i = 0; i < hand.scenario.warm_up + hand.scenario.measured; i++) {
        const struct trace_iteration *a = &points[0].systems[0].iterations[i].row;
        const struct trace_iteration *b = &points[1].systems[0].iterations[i].row;
        CHECK_TRUE(a->time_s == b->time_s && a->peak_bytes == b->peak_bytes);
        CHECK_TRUE(a->measured ? a->simgrid_s == b->simgrid_s : isnan(a->simgrid_s) && isnan(b->simgrid_s));
    }
    point_free(&points[0]);
    point_free(&points[1]);
    hand_close_cell(&hand);
}
