/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * This program measures what the simulator costs: build/release/bench/bench [SCENARIO.yaml]
 *
 * 1. It prints CPU seconds of each step of one iteration of each system of a scenario, the median of RUNS. The default
 *    scenario is bench/pipeline-256.yaml.
 * 2. It compares SimGrid with a bare loop of stream actors, in a child.
 * 3. Without a scenario it also runs all iterations of scenarios/quickstart.yaml, without a trace.
 * 4. Without a scenario it also simulates a training of 400 days with its failures.
 * 5. Without a scenario it also prints how the cost of one iteration grows: exponents on the critical path, and a table
 *    on SimGrid by GPUs and micro-batches.
 *
 * With bench/solver.yaml slimpack's solver may take 100 ms of one core for all candidates of one plan. Timings depend
 * on the machine, so quote ratios.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>

#include "base/check.h"
#include "bench.h"
#include "cost/attention_choice.h"
#include "cost/cache.h"
#include "growth.h"
#include "scale.h"
#include "scenario/scenario_read.h"
#include "simgrid.h"
#include "training.h"

enum { STEP_PLAN, STEP_DAG, STEP_PATH, STEP_MEMORY, N_STEPS };
static const char *const step_name[] = {"plan", "dag", "critical path", "memory timeline"};

double median(double *values, size_t n)
{
    gsl_sort(values, 1, n);
    return gsl_stats_median_from_sorted_data(values, 1, n);
}

/**
 * Run one iteration without cached costs, and measure the CPU seconds of each step. Plan and graph are left for the
 * next measurement.
 */
static bool run_once(struct bench *bench, double step_s[N_STEPS], double *simulated_s, struct plan *plan,
                     struct dag *dag, struct error *err)
{
    struct plan_request request =
        plan_request_of(&bench->scenario, &bench->setting, &bench->system.entry->plan, &bench->batch, bench->knobs, 0);
    struct timeline path = {0};
    struct memory memory = {0};
    struct cost_cache costs = {0};
    bench->setting.cache = &costs;
    double start_s = clock_cpu_s();
    bool ok = bench->system.system->plan(&request, bench->state, plan, err);
    step_s[STEP_PLAN] = clock_cpu_s() - start_s;
    start_s = clock_cpu_s();
    ok = ok && dag_build(plan, &bench->setting, (struct dag_options){.gradient_sync = true}, dag, err);
    step_s[STEP_DAG] = clock_cpu_s() - start_s;
    bench->setting.cache = NULL;
    cost_cache_free(&costs);
    if (!ok)
        return false;
    start_s = clock_cpu_s();
    critical_path(dag, &path);
    step_s[STEP_PATH] = clock_cpu_s() - start_s;
    start_s = clock_cpu_s();
    memory_of(plan, dag, &path, &bench->setting, false, &memory);
    step_s[STEP_MEMORY] = clock_cpu_s() - start_s;
    *simulated_s = path.makespan_s;
    timeline_free(&path);
    memory_free(&memory);
    return true;
}

static bool bench_steps(struct bench *bench, struct plan *plan, struct dag *dag, struct error *err)
{
    double step_s[N_STEPS], runs_s[N_STEPS][RUNS], total_s = 0, simulated_s = 0;
    for (int i = 0; i < RUNS; i++) {
        plan_free(plan);
        dag_free(dag);
        if (!run_once(bench, step_s, &simulated_s, plan, dag, err))
            return false;
        for (int j = 0; j < N_STEPS; j++)
            runs_s[j][i] = step_s[j];
    }
    printf("%s: %d tasks, %d edges, %d ranks, %lld candidates, %lld resolved, %.4g s simulated\n",
           bench->system.entry->label, dag->n_tasks, dag->n_edges, dag->n_ranks, (long long)plan->n_candidates,
           (long long)plan->n_resolved, simulated_s);
    for (int j = 0; j < N_STEPS; j++) {
        double step = median(runs_s[j], RUNS);
        total_s += step;
        printf("  %-16s %9.3f ms CPU (median of %d)\n", step_name[j], 1e3 * step, RUNS);
    }
    printf("  %-16s %9.3f ms CPU\n", "together", 1e3 * total_s);
    return true;
}

void children_usage(double *seconds, double *peak_bytes)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    *seconds = (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_sec +
               1e-6 * (double)usage.ru_stime.tv_usec;
    *peak_bytes = 1024.0 * (double)usage.ru_maxrss;
}

/** Check the speed of execute(). SimGrid runs each task, so it cannot be much faster than the bare loop. */
static bool bench_simgrid(struct bench *bench, const struct dag *dag, struct error *err)
{
    struct bench_rates rates = {0};
    struct graph *graph = graph_create(dag, err);
    bool ok = graph != NULL && bench_simgrid_rates(dag, graph, &bench->scenario.platform, &rates, err);
    graph_free(graph);
    if (!ok)
        return false;
    printf("  %-16s %9.3f ms CPU (median of %d), peak %.0f MB; %d executions, %d transfers\n", "SimGrid",
           1e3 * rates.execute_s, RUNS, rates.peak_bytes / 1e6, rates.n_executions, rates.n_transfers);
    printf("  %-16s %9.3f ms CPU for the same; finishes differ by %.1e of the makespan\n", "bare loop",
           1e3 * rates.bare_s, rates.difference);
    printf("  %-16s %9.2f times that of the bare loop\n", "SimGrid's speed", rates.ratio);
    if (rates.difference > 1e-9)
        return error_set_status(err, ERROR_FAILED, "execute and the bare loop differ by %g", rates.difference);
    if (rates.ratio < 0.8)
        fprintf(stderr, "bench: execute is slower than 0.8 of the bare loop\n");
    return rates.ratio <= 1.3 || error_set_status(err, ERROR_FAILED,
                                                  "execute is %.2f times as fast as the bare loop: SimGrid does not "
                                                  "run the tasks",
                                                  rates.ratio);
}

static bool bench_system(struct bench *bench, struct scenario_system *entry, struct error *err)
{
    struct plan plan = {0};
    struct dag dag = {0};
    bench->system = (struct point_system){.entry = entry, .system = system_find(entry->name, err)};
    if (bench->system.system == NULL)
        return false;
    bench->setting = request_setting(&bench->scenario, &entry->plan);
    bench->knobs = check_calloc(1, bench->system.system->knobs_size);
    bench->state = check_calloc(1, bench->system.system->state_size);
    bool ok = system_read_knobs(bench->system.system, &bench->scenario, entry, bench->knobs, err) &&
              bench_steps(bench, &plan, &dag, err);
    if (ok)
        bench_timeline(bench, &plan, &dag);
    ok = ok && bench_candidates(bench, err) && bench_simgrid(bench, &dag, err);
    plan_free(&plan);
    dag_free(&dag);
    free(bench->knobs);
    free(bench->state);
    return ok;
}

/** Run every system and iteration of a scenario on both engines. */
static bool bench_whole(const char *path, struct error *err)
{
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct point point = {0};
    double before_s, after_s, peak_bytes, start_s = clock_cpu_s();
    children_usage(&before_s, &peak_bytes);
    bool ok = scenario_read(path, 0, NULL, &scenario, err) &&
              lengths_open(&scenario.data, scenario_data_dir(), &lengths, err);
    if (ok)
        attention_choice_resolve(&scenario, &lengths);
    ok = ok && point_run(&scenario, &lengths, &(struct point_options){0}, &point, err);
    children_usage(&after_s, &peak_bytes);
    if (ok)
        printf("%s: %d systems x %d iterations: %.3f s CPU, of which SimGrid %.3f s\n", scenario.name, point.n_systems,
               point.systems[0].n_iterations, clock_cpu_s() - start_s + after_s - before_s, after_s - before_s);
    point_free(&point);
    lengths_close(&lengths);
    scenario_free(&scenario);
    return ok;
}

int main(int argc, char **argv)
{
    setenv("SLIMSIM_DATA", SLIMSIM_SOURCE_DIR, 0);
    const char *path = argc > 1 ? argv[1] : SLIMSIM_SOURCE_DIR "/bench/pipeline-256.yaml";
    struct bench bench = {0};
    struct lengths lengths = {0};
    struct error err = {0};
    bool ok = scenario_read(path, 0, NULL, &bench.scenario, &err) &&
              lengths_open(&bench.scenario.data, scenario_data_dir(), &lengths, &err);
    if (ok) {
        attention_choice_resolve(&bench.scenario, &lengths);
        lengths_draw(&lengths, &bench.scenario.data, bench.scenario.seed, 0, &bench.batch);
    }
    for (int32_t i = 0; ok && i < bench.scenario.n_systems; i++)
        ok = bench_system(&bench, &bench.scenario.systems[i], &err);
    if (argc <= 1)
        ok = ok && bench_whole(SLIMSIM_SOURCE_DIR "/scenarios/quickstart.yaml", &err) && bench_training(&err) &&
             bench_scale(&err) && bench_growth(&err);
    if (!ok)
        fprintf(stderr, "bench: %s\n", err.text);
    batch_free(&bench.batch);
    lengths_close(&lengths);
    scenario_free(&bench.scenario);
    return (int)err.status;
}
