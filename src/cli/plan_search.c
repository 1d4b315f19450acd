/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/plan_search.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/cores.h"
#include "base/status_line.h"
#include "base/text.h"
#include "bounds/memory.h"
#include "dag/dag.h"
#include "search/score.h"
#include "simulate/plan_text.h"
#include "simulate/point_runner.h"
#include "simulate/record.h"
#include "trace/json.h"

enum { MOST_RUNNERS_UP = 10 }; /* number of them that are printed */

/* The iterations of a run take the rest of its time. */
static const double search_share = 0.9;

/** Progress of the searches of a scenario, which may run side by side. */
struct progress {
    const struct scenario *scenario;
    struct status_line status;
    int32_t *settled, *plans; /* [n_systems] most that were settled; all plans, 0: not begun */
    int32_t n_searches;
};

static bool show_progress(void *context, const struct scenario_system *entry, int32_t n_settled, int32_t n_plans,
                          const struct search_plan *best)
{
    struct progress *progress = context;
    int32_t system = (int32_t)(entry - progress->scenario->systems), n = 0, of = 0, n_searches = 0;
    char name[PLAN_TEXT_NAME_SIZE], searches[48] = "", leader[PLAN_TEXT_NAME_SIZE + 160] = "", left[STATUS_LEFT_BYTES];
    double share = 0;
    progress->plans[system] = n_plans;
    if (n_settled > progress->settled[system])
        progress->settled[system] = n_settled;
    for (int32_t i = 0; i < progress->scenario->n_systems; i++) {
        n += progress->settled[i];
        of += progress->plans[i];
        n_searches += progress->plans[i] > 0;
        share += progress->plans[i] > 0 ? (double)progress->settled[i] / progress->plans[i] : 0;
    }
    if (progress->n_searches > 1)
        snprintf(searches, sizeof searches, " in %d of %d searches", (int)n_searches, (int)progress->n_searches);
    status_line_left(progress->status.begin_s, search_share * share / progress->n_searches, left);
    if (best != NULL) {
        plan_text_name(&best->layout, best->score.worst.host_bytes > 0, name);
        snprintf(leader, sizeof leader, "; best of %s so far: %s, %.2f s", entry->label, name, best->ranking_s);
    }
    status_line_print(&progress->status, "plan search: %d of %d plans settled%s%s%s", (int)n, (int)of, searches, left,
                      leader);
    return true;
}

bool plan_search_run(struct scenario *scenario, const struct lengths *lengths, const struct options *options,
                     struct plan_search *search, struct error *err)
{
    size_t n = (size_t)scenario->n_systems;
    struct progress progress = {.scenario = scenario,
                                .settled = check_calloc(n, sizeof *progress.settled),
                                .plans = check_calloc(n, sizeof *progress.plans)};
    struct search_options settings = {
        .engine = scenario->engine == SCENARIO_CRITICAL_PATH ? NULL : point_execute,
        .progress = show_progress,
        .context = &progress,
        .n_threads = cores_available(),
    };
    for (int32_t i = 0; i < scenario->n_systems; i++)
        progress.n_searches += scenario->systems[i].auto_plan;
    status_line_begin(&progress.status, !options->quiet && progress.n_searches > 0, "plan search: %d to do",
                      (int)progress.n_searches);
    search->n_systems = scenario->n_systems;
    search->results = check_calloc((size_t)scenario->n_systems, sizeof *search->results);
    bool ok = search_scenario(scenario, lengths, &settings, search->results, err);
    status_line_end(&progress.status);
    free(progress.settled);
    free(progress.plans);
    return ok;
}

static void print_plan(const struct search_plan *plan)
{
    const struct search_score *score = &plan->score;
    char name[PLAN_TEXT_NAME_SIZE];
    plan_text_name(&plan->layout, score->worst.host_bytes > 0, name);
    bool stopped = plan->verdict == SEARCH_RUNNER_UP && !score_is_whole(score);
    printf("  %-9s  %-36s %s%8.4f s  %6.2f GiB (stage %d, most of it %s)", trace_verdict_names.text[plan->verdict],
           name, stopped ? ">=" : "  ", score->time_s, score->worst.peak_bytes / TEXT_GIB, score->worst.stage,
           memory_class_name[score->worst.class]);
    if (score->worst.host_bytes > 0)
        printf(", %.1f GiB on a host", score->worst.host_bytes / TEXT_GIB);
    printf("  compute %.1f%%, bubble %.1f%%, communication %.1f%%", 100 * score->compute, 100 * score->bubble,
           100 * score->communication);
    if (stopped)
        printf("; at least %.1f%% slower, after %d iterations", 100 * score->slower, score->n_iterations);
    else if (plan->verdict == SEARCH_RUNNER_UP)
        printf("; %.1f%% ± %.1f%% slower", 100 * score->slower, 100 * score->slower_error);
    putchar('\n');
}

static void print_iterations(const struct search_result *result)
{
    printf("  iterations of its seed %lld, with weights:", (long long)result->seed);
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++)
        printf("%s %lld (%.3f)", i > 0 ? "," : "", (long long)result->iterations[i].iteration,
               result->iterations[i].weight);
    if (result->n_warm_up > 0)
        printf("; %d before them to warm up", result->n_warm_up);
    putchar('\n');
}

static void print_result(const struct scenario_system *entry, const struct search_result *result)
{
    const int32_t *count = result->count;
    printf(
        "plan search for %s, space %s: %d plans, %d resolved; excluded: %d by their least memory, %d by their least "
        "time, %d not demanded by memory, %d refused, %d planned and too large, %d that did not fit all iterations\n",
        entry->label, entry->space.name, result->n_plans, result->n_resolved, count[SEARCH_MEMORY_PRUNED],
        count[SEARCH_BOUND_PRUNED], count[SEARCH_NOT_DEMANDED], count[SEARCH_REFUSED], count[SEARCH_TOO_LARGE],
        count[SEARCH_MISFIT]);
    print_iterations(result);
    int32_t n_runners_up = 0;
    for (int32_t i = 0; i < result->n_ranked; i++) {
        const struct search_plan *plan = &result->plans[result->ranked[i]];
        n_runners_up += plan->verdict == SEARCH_RUNNER_UP;
        if (plan->verdict == SEARCH_CHOSEN || plan->verdict == SEARCH_MISFIT ||
            (plan->verdict == SEARCH_RUNNER_UP && n_runners_up <= MOST_RUNNERS_UP))
            print_plan(plan);
    }
    if (result->faster >= 0)
        print_plan(&result->plans[result->faster]);
    if (n_runners_up > MOST_RUNNERS_UP)
        printf("  and %d more runners-up; --json and the trace's table plans have them\n",
               n_runners_up - MOST_RUNNERS_UP);
    if (result->fits && result->tight)
        puts("  no plan fits surely; these fit tightly");
    if (result->fits)
        return;
    const struct search_plan *nearest = &result->plans[result->ranked[0]];
    double above_bytes = nearest->score.worst.peak_bytes - result->limits.gpu_bytes;
    printf("  no plan fits; the chosen one comes nearest, ");
    if (above_bytes > 0)
        printf("%.2f GiB above the %.2f GiB of a GPU on stage %d\n", above_bytes / TEXT_GIB,
               result->limits.gpu_bytes / TEXT_GIB, nearest->score.worst.stage);
    else
        printf("with %.2f GiB of a node's host memory, more than it has\n", nearest->score.worst.host_bytes / TEXT_GIB);
}

void plan_search_print(const struct scenario *scenario, const struct plan_search *search)
{
    bool any = false, engine = false;
    for (int32_t i = 0; i < search->n_systems; i++)
        if (search->results[i].n_plans > 0) {
            print_result(&scenario->systems[i], &search->results[i]);
            any = true;
            engine = engine || search->results[i].engine;
        }
    if (any)
        printf("(The search has its own batches, chosen from %d draws. The first batch ranks all plans. The weighted "
               "mean of %d batches decides between the best %d layouts and plans within %d%% of them, by critical "
               "path%s. `slower` compares with the chosen plan, ± one standard error of this mean. A plan that stopped "
               "early takes at least so long (>=).)\n\n",
               SEARCH_CANDIDATES, SEARCH_DECIDING_ITERATIONS, SEARCH_FEW, SEARCH_NEAR_PERCENT,
               engine ? " times SimGrid's contention in the first batch" : "");
}

/** Return the row of `plans` of a trace, with the class of memory that has most. */
static json_t *json_of_plan(int32_t system, int32_t rank, const struct search_plan *plan)
{
    const struct trace_plan of = record_plan(system, rank, plan);
    json_t *row = json_of_row(TRACE_PLANS, &of, NULL, NULL);
    json_object_del(row, "system");
    json_object_set_new(row, "slower_error", json_of_number(plan->score.slower_error));
    json_object_set_new(row, "peak_class", json_string(memory_class_name[plan->score.worst.class]));
    return row;
}

json_t *plan_search_json(const struct scenario *scenario, const struct plan_search *search, int32_t system)
{
    const struct search_result *result = &search->results[system];
    if (result->n_plans == 0)
        return NULL;
    json_t *plans = json_array(), *counts = json_object(), *iterations = json_array();
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++)
        json_array_append_new(
            iterations, json_pack("{s:I, s:f, s:f}", "iteration", (json_int_t)result->iterations[i].iteration, "weight",
                                  result->iterations[i].weight, "model_flop", result->iterations[i].model_flop));
    for (int32_t i = 0; i < result->n_ranked; i++)
        json_array_append_new(plans, json_of_plan(system, i, &result->plans[result->ranked[i]]));
    for (int i = 0; i < SEARCH_N_VERDICTS; i++)
        json_object_set_new(counts, trace_verdict_names.text[i], json_integer(result->count[i]));
    return json_pack("{s:s, s:s, s:I, s:o, s:i, s:i, s:i, s:b, s:o, s:o}", "space",
                     scenario->systems[system].space.name, "space_source", scenario->systems[system].space.source,
                     "seed", (json_int_t)result->seed, "iterations", iterations, "warm_up", result->n_warm_up, "plans",
                     result->n_plans, "resolved", result->n_resolved, "fits", result->fits, "verdicts", counts,
                     "ranking", plans);
}

void plan_search_free(struct plan_search *search)
{
    for (int32_t i = 0; search->results != NULL && i < search->n_systems; i++)
        search_result_free(&search->results[i]);
    free(search->results);
    *search = (struct plan_search){0};
}
