/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/point_runner.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cost/attention_choice.h"
#include "cost/cache.h"
#include "simulate/context_bound.h"

enum { MOST_CHILDREN = 8, FLASH2_ITERATIONS = 4 };

/** One system while it runs, and one of its iterations. Iterations that run side by side have a runner each. */
struct runner {
    struct point_system *system;
    int32_t system_index;
    struct iteration_run run;
    struct point_iteration *result;
    struct context_bound *bound;  /* of the system, shared by its runners */
    struct work_exposed *exposed; /* of each task if the iteration runs again, otherwise NULL */
};

bool point_check(const struct scenario *scenario, struct error *err)
{
    if (flop_fits(&scenario->model, 1, scenario->data.context))
        return system_check_entries(scenario, err) && search_check(scenario, err);
    return document_error(&scenario->document, document_find(&scenario->document, 0, "data.context"), err,
                          "data.context: the FLOPs of a layer of %s on %" PRId64 " tokens exceed 2^63; use less",
                          scenario->model.name, scenario->data.context);
}

bool point_lengths(const struct scenario *scenario, struct lengths *lengths, struct error *err)
{
    struct error found = {0};
    char key[64] = "";
    if (lengths_open(&scenario->data, scenario_data_dir(), lengths, &found))
        return true;
    snprintf(key, sizeof key, "%.*s", (int)strcspn(found.text, ":"), found.text);
    int32_t node = document_find(&scenario->document, 0, key);
    if (node >= 0)
        return document_error(&scenario->document, node, err, "%s", found.text);
    node = document_find(&scenario->document, 0, "data.lengths"); /* lengths of a file: the file names itself */
    return document_error(&scenario->document, node, err, "data.lengths: %s", found.text);
}

/* Debian builds igraph without thread safety, and searches of several systems run in threads. */
static pthread_mutex_t igraph_lock = PTHREAD_MUTEX_INITIALIZER;

bool point_execute(const struct scenario *scenario, const struct dag *dag, struct timeline *timeline, struct error *err)
{
    struct execute_options options = {.cfg = scenario->simgrid_cfg};
    struct timeline path = {0};
    pthread_mutex_lock(&igraph_lock);
    struct graph *graph = graph_create(dag, err);
    pthread_mutex_unlock(&igraph_lock);
    critical_path(dag, &path);
    bool ok = graph != NULL && execute(dag, graph, &scenario->platform, &options, timeline, err) &&
              iteration_run_check_simgrid(scenario, timeline->makespan_s, path.makespan_s, err);
    timeline_free(&path);
    pthread_mutex_lock(&igraph_lock);
    graph_free(graph);
    pthread_mutex_unlock(&igraph_lock);
    return ok;
}

/** Await an iteration and measure it. */
static bool end_iteration(struct runner *runner, struct error *err)
{
    if (!iteration_run_end(&runner->run, err))
        return false;
    *runner->result = measure_iteration(&runner->run, runner->system_index);
    return true;
}

static bool observe(const struct runner *runner, const struct point_options *options, struct error *err)
{
    const struct iteration_run *run = &runner->run;
    struct point_view view = {
        .scenario = run->scenario,
        .system = runner->system,
        .system_index = runner->system_index,
        .iteration = runner->result,
        .batch = &run->batch,
        .plan = &run->plan,
        .dag = &run->evaluator.dag,
        .graph = run->graph,
        .timeline = iteration_run_timeline(run),
        .slack_s = run->slack_s,
        .exposed = runner->exposed,
        .memory = &run->evaluator.memory,
    };
    return options->observer == NULL || options->observer(options->context, &view, err);
}

/** Await an iteration, let the observer see it, and empty its runner. */
static bool conclude(struct runner *runner, const struct point_options *options, struct error *err)
{
    const struct scenario *scenario = runner->run.scenario;
    const struct evaluation_limits limits = evaluation_limits_of(request_memory_bytes(scenario), &scenario->platform);
    struct trace_iteration *row = &runner->result->row;
    bool ok = end_iteration(runner, err);
    if (ok && row->measured) {
        struct evaluation worst = {.peak_bytes = row->peak_bytes, .host_bytes = row->host_peak_bytes};
        runner->system->fits = runner->system->fits && evaluation_exceeds(&worst, &limits) == EXCEEDED_NONE;
        measure_stages(&runner->run, runner->system_index, &runner->system->stages);
        if (row->traffic.bytes[TRAFFIC_CONTEXT] > 0 && scenario->replay.n_steps == 0) /* ranks share a micro-batch */
            ok = context_bound_s(runner->bound, &runner->run, &row->context_bound_s, err);
    }
    ok = ok && observe(runner, options, err);
    iteration_run_clear(&runner->run);
    return ok;
}

/** Run all iterations, n runners side by side, in order. */
static bool run_iterations(struct runner *runners, int32_t n, const struct point_options *options, struct error *err)
{
    struct point_system *system = runners->system;
    bool ok = true;
    for (int32_t i = 0; ok && i < system->n_iterations + n - 1; i++) {
        if (i < system->n_iterations) {
            runners[i % n].result = &system->iterations[i];
            ok = iteration_run_begin(&runners[i % n].run, i, err);
        }
        if (ok && i >= n - 1)
            ok = conclude(&runners[(i + 1) % n], options, err);
    }
    return ok;
}

static bool run_system(const struct runner *blank, const struct point_options *options, struct error *err)
{
    int32_t most = options->n_children < MOST_CHILDREN ? options->n_children : MOST_CHILDREN;
    int32_t n = blank->run.scenario->engine != SCENARIO_CRITICAL_PATH && most > 1 ? most : 1;
    struct runner *runners = check_calloc((size_t)n, sizeof *runners);
    struct cost_cache costs = {0};
    struct context_bound bound = {0};
    *runners = *blank;
    runners->bound = &bound;
    bool ok = iteration_run_open(&runners->run, &costs, err);
    blank->system->fits = true;
    for (int32_t i = 1; i < n; i++)
        runners[i] = *runners;
    ok = ok && run_iterations(runners, n, options, err);
    for (int32_t i = 0; i < n; i++)
        iteration_run_free(&runners[i].run);
    iteration_run_close(&runners->run);
    context_bound_free(&bound);
    free(runners);
    return ok;
}

/** Run one iteration, note what each task exposes, and let the observer see it. */
static bool run_again(struct runner *runner, int64_t iteration, const struct point_options *options, struct error *err)
{
    struct iteration_run *run = &runner->run;
    struct point_iteration result;
    runner->result = &result;
    if (!iteration_run_begin(run, iteration, err) || !end_iteration(runner, err))
        return false;
    const struct dag *dag = &run->evaluator.dag;
    runner->exposed = check_malloc((size_t)dag->n_tasks * sizeof *runner->exposed);
    work_exposed_of(&run->plan, dag, &run->group_faulty, runner->exposed);
    bool ok = observe(runner, options, err);
    free(runner->exposed);
    return ok;
}

/** Plan the iterations before this one if the system holds a state, then run it. */
static bool run_system_again(struct runner *runner, int64_t iteration, const struct point_options *options,
                             struct error *err)
{
    struct cost_cache costs = {0};
    bool ok = iteration_run_open(&runner->run, &costs, err);
    runner->run.again = true;
    for (int64_t i = runner->run.system->state_size > 0 ? 0 : iteration; ok && i < iteration; i++) {
        ok = iteration_run_plan(&runner->run, i, err);
        iteration_run_clear(&runner->run);
    }
    ok = ok && run_again(runner, iteration, options, err);
    iteration_run_free(&runner->run);
    iteration_run_close(&runner->run);
    return ok;
}

static struct runner runner_of(const struct scenario *scenario, const struct lengths *lengths,
                               const struct point_options *options, struct point_system *system)
{
    int32_t index = (int32_t)(system->entry - scenario->systems);
    return (struct runner){.system = system,
                           .system_index = index,
                           .run = {.scenario = scenario,
                                   .lengths = lengths,
                                   .search = options->searches == NULL ? NULL : &options->searches[index],
                                   .entry = system->entry,
                                   .system = system->system}};
}

/** Return model FLOPs a second of the first measured iterations on the critical path. */
static double first_rate(const struct point_system *system, int64_t n)
{
    double flop = 0, time_s = 0;
    for (int64_t i = 0; i < n; i++)
        if (system->iterations[i].row.measured) {
            flop += system->iterations[i].row.model_flop;
            time_s += system->iterations[i].row.critical_path_s;
        }
    return flop / time_s;
}

/** Run the first measured iterations of all systems with flash2. It is the other end of a scaled attention curve. They
 * are several, since a system may let long samples of the first one wait. */
static bool run_flash2(const struct scenario *scenario, const struct lengths *lengths, struct point *point,
                       struct error *err)
{
    struct scenario one = *scenario;
    struct point other = {0};
    one.attention = DEVICE_FLASH2;
    one.engine = SCENARIO_CRITICAL_PATH;
    one.trace = SCENARIO_TRACE_NONE;
    one.measured = one.measured < FLASH2_ITERATIONS ? one.measured : FLASH2_ITERATIONS;
    bool ok = point_run(&one, lengths, &(struct point_options){0}, &other, err);
    for (int32_t i = 0; ok && i < point->n_systems; i++) {
        int64_t n = one.warm_up + one.measured;
        point->systems[i].flash2 = first_rate(&other.systems[i], n) / first_rate(&point->systems[i], n);
    }
    point_free(&other);
    return ok;
}

bool point_run(const struct scenario *scenario, const struct lengths *lengths, const struct point_options *options,
               struct point *point, struct error *err)
{
    bool ok = true;
    point->n_systems = scenario->n_systems;
    point->memory_bytes = request_memory_bytes(scenario);
    point->systems = check_calloc((size_t)scenario->n_systems, sizeof *point->systems);
    for (int32_t i = 0; ok && i < scenario->n_systems; i++) {
        struct point_system *system = &point->systems[i];
        system->entry = &scenario->systems[i];
        system->dp = system->entry->plan.dp;
        system->n_iterations = (int32_t)(scenario->warm_up + scenario->measured);
        system->iterations = check_calloc((size_t)system->n_iterations, sizeof *system->iterations);
        system->system = system_find(system->entry->name, err);
        struct runner runner = runner_of(scenario, lengths, options, system);
        ok = system->system != NULL && run_system(&runner, options, err);
        system->flash2 = NAN;
    }
    return ok && (!attention_choice_is_scaled(scenario) || run_flash2(scenario, lengths, point, err));
}

/** Return how far from the mean an iteration's time is, relative to it, summed over systems. */
static double distance_to_mean(const struct scenario *scenario, const struct point *point, int64_t iteration)
{
    double distance = 0;
    for (int32_t s = 0; s < point->n_systems; s++) {
        const struct point_system *system = &point->systems[s];
        double sum_s = 0;
        for (int64_t i = scenario->warm_up; i < system->n_iterations; i++)
            sum_s += system->iterations[i].row.time_s;
        distance += fabs(system->iterations[iteration].row.time_s * (double)scenario->measured / sum_s - 1);
    }
    return distance;
}

int64_t point_typical_iteration(const struct scenario *scenario, const struct point *point)
{
    int64_t typical = scenario->warm_up;
    double least = distance_to_mean(scenario, point, typical);
    for (int64_t i = typical + 1; i < scenario->warm_up + scenario->measured; i++) {
        double distance = distance_to_mean(scenario, point, i);
        if (distance < least) {
            least = distance;
            typical = i;
        }
    }
    return typical;
}

bool point_run_again(const struct scenario *scenario, const struct lengths *lengths,
                     const struct point_options *options, int64_t iteration, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; ok && i < scenario->n_systems; i++) {
        struct scenario_system *entry = &scenario->systems[i];
        struct point_system system = {.entry = entry, .dp = entry->plan.dp, .system = system_find(entry->name, err)};
        struct runner runner = runner_of(scenario, lengths, options, &system);
        ok = system.system != NULL && run_system_again(&runner, iteration, options, err);
    }
    return ok;
}

void point_free(struct point *point)
{
    for (int32_t i = 0; i < point->n_systems; i++) {
        free(point->systems[i].iterations);
        free(point->systems[i].stages.at);
    }
    free(point->systems);
    *point = (struct point){0};
}
