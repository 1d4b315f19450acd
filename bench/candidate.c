/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file measures graphs and candidates of slimpack (bench.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bench.h"
#include "cost/cache.h"
#include "plan/order.h"
#include "system/slimpack.h"

/** Compute a longest path in the least possible time: each task pulls the ends of its predecessors. */
static double pull(const struct dag *dag, double *finish_s)
{
    double last_s = 0;
    for (int32_t task = 0; task < dag->n_tasks; task++) {
        double start_s = 0;
        for (int32_t edge = dag->in_first[task]; edge < dag->in_first[task + 1]; edge++)
            start_s = finish_s[dag->in_task[edge]] > start_s ? finish_s[dag->in_task[edge]] : start_s;
        finish_s[task] = start_s + dag->duration_s[task];
        last_s = finish_s[task] > last_s ? finish_s[task] : last_s;
    }
    return last_s;
}

/** Return the least time, since other load only adds to it. */
static double least(const double *values, int n)
{
    double value = values[0];
    for (int i = 1; i < n; i++)
        value = values[i] < value ? values[i] : value;
    return value;
}

void bench_timeline(const struct bench *bench, const struct plan *plan, const struct dag *dag)
{
    enum { TURNS = 10 * RUNS };
    struct timeline path = {0};
    struct memory memory = {0};
    double pull_s[TURNS], timeline_s[TURNS], *finish_s = check_malloc((size_t)dag->n_tasks * sizeof *finish_s);
    for (int i = 0; i < TURNS; i++) {
        double start_s = clock_cpu_s();
        double last_s = pull(dag, finish_s);
        pull_s[i] = clock_cpu_s() - start_s;
        start_s = clock_cpu_s();
        critical_path(dag, &path);
        memory_of(plan, dag, &path, &bench->setting, false, &memory);
        timeline_s[i] = clock_cpu_s() - start_s;
        CHECK(last_s == path.makespan_s);
        memory_free(&memory);
    }
    double bare = least(pull_s, TURNS), both = least(timeline_s, TURNS);
    printf(
        "  critical path and memory timeline take %.2f times a bare pull pass (%.3f and %.3f ms CPU, the least of %d "
        "turns; the bare pass takes %.2f ns an edge)\n",
        both / bare, 1e3 * both, 1e3 * bare, TURNS, 1e9 * bare / dag->n_edges);
    timeline_free(&path);
    free(finish_s);
}

/** Evaluate one candidate of all pipelines, with the arrays that a search has. */
static bool try_candidate(const struct bench *bench, const struct slimpack_rank_group *group,
                          struct evaluator *evaluator, struct error *err)
{
    struct plan plan = {.n_phases = 1, .shards = scenario_plan_shards(&group->request->layout)};
    struct evaluation evaluation;
    plan.phases = check_calloc(1, sizeof *plan.phases);
    const struct slimpack_cut cut = {.m = ((const struct slimpack_knobs *)bench->knobs)->micro_packs};
    slimpack_build(group, &cut, plan.phases);
    for (int32_t i = 0; i < plan.phases->n_pipelines; i++)
        order_one_f_one_b(&plan.phases->pipelines[i], ORDER_JUST_IN_TIME);
    bool ok =
        evaluate(evaluator, &plan, &bench->setting, (struct dag_options){.gradient_sync = true}, &evaluation, err);
    plan_free(&plan);
    return ok;
}

/** Measure the least seconds of a candidate. */
static bool try_all(const struct bench *bench, const struct slimpack_rank_group *group, double *each_s,
                    struct error *err)
{
    enum { N = 10 * RUNS };
    struct evaluator evaluator = {0};
    double runs_s[N];
    bool ok = true;
    for (int i = 0; ok && i < N; i++) {
        double start_s = clock_cpu_s();
        ok = try_candidate(bench, group, &evaluator, err);
        runs_s[i] = clock_cpu_s() - start_s;
    }
    *each_s = ok ? least(runs_s, N) : 0;
    evaluator_free(&evaluator);
    return ok;
}

bool bench_candidates(struct bench *bench, struct error *err)
{
    const struct slimpack_knobs *knobs = bench->knobs;
    if (strcmp(bench->system.system->name, "slimpack") != 0 || knobs->micro_packs == 0)
        return true;
    struct plan_request request =
        plan_request_of(&bench->scenario, &bench->setting, &bench->system.entry->plan, &bench->batch, bench->knobs, 0);
    struct slimpack_split split;
    struct cost_cache costs = {0};
    double anew_s, cached_s;
    slimpack_split(&request, knobs->dp_merge ? SLIMPACK_MERGE : SLIMPACK_MERGE_NONE, 0, &split);
    struct slimpack_rank_group group = {&request, &split, 0, split.n_ranks, NULL};
    bool ok = try_all(bench, &group, &anew_s, err);
    bench->setting.cache = &costs;
    ok = ok && try_all(bench, &group, &cached_s, err);
    bench->setting.cache = NULL;
    if (ok)
        printf("  %.0f candidates a second: slices, orders, graph, path and memory of %d pipelines x %lld "
               "micro-batches; %.0f if "
               "every cost is computed again\n",
               1 / cached_s, split.n_ranks, (long long)knobs->micro_packs, 1 / anew_s);
    cost_cache_free(&costs);
    slimpack_split_free(&split);
    return ok;
}
