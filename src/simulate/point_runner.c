/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/point_runner.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "cost/cache.h"
#include "dag/graph.h"
#include "execute/execute.h"
#include "plan/check.h"

enum { MOST_CHILDREN = 8 };

/** One system while it runs, and one of its iterations. Iterations that run side by side have a runner each. */
struct runner {
    const struct scenario *scenario;
    const struct lengths *lengths;
    const struct search_result *search; /* NULL: no search */
    struct point_system *system;
    int32_t system_index;
    void *knobs, *state;                /* shared */
    struct faults faults, group_faults; /* of GPUs; of TP groups, each with the factors of its slowest GPU */
    struct cost_setting setting;        /* without faults, for plans */
    struct cost_setting faulty;         /* with the faults of GPUs */
    struct cost_setting group_faulty;   /* with the faults of TP groups */
    struct point_iteration *result;
    struct batch batch;
    struct plan plan;
    struct evaluator evaluator; /* its memory has the times of the engine; it has events if again is set */
    struct graph *graph;
    struct execute_options simgrid;
    struct execution *execution; /* NULL: SimGrid does not run */
    struct timeline executed;
    double *slack_s;
    bool again;                   /* for point_run_again */
    struct work_exposed *exposed; /* of each task if again is set, otherwise NULL */
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

static void measure_work(const struct runner *runner, struct point_iteration *result)
{
    struct work work = work_of(&runner->plan, &runner->evaluator.dag, &runner->group_faulty);
    result->hardware_flop = work.hardware_flop;
    result->tensor_s = work.tensor_s;
    result->shard_s = work.shard_s;
    result->pass_s = work.pass_s;
    memcpy(result->extrapolated_s, work.extrapolated_s, sizeof result->extrapolated_s);
}

static void count_forward_units(const struct plan_partition *partition, struct point_iteration *result)
{
    result->forward_units += partition->n_units;
    for (int32_t i = 0; i < partition->n_units; i++) {
        result->padding_tokens += partition->units[i].padding_tokens;
        result->full_units += partition->units[i].recompute == RECOMPUTE_FULL;
        result->listed_units +=
            partition->units[i].recompute != RECOMPUTE_FULL && partition->units[i].recompute != RECOMPUTE_NONE;
    }
}

static void measure_units(const struct runner *runner, struct point_iteration *result)
{
    const struct plan *plan = &runner->plan;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            result->pipelines++;
            result->backward_units += plan->phases[i].pipelines[j].partition[PASS_BACKWARD].n_units;
            count_forward_units(&plan->phases[i].pipelines[j].partition[PASS_FORWARD], result);
        }
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        result->spread[pass] = units_spread_of(plan, &runner->setting, pass);
    result->sliced_pipelines = units_using(plan, PLAN_SLICED);
    result->asymmetric_pipelines = units_using(plan, PLAN_ASYMMETRIC);
    result->just_in_time_pipelines = units_using(plan, PLAN_JUST_IN_TIME);
    result->persistent_pipelines = units_using(plan, PLAN_PERSISTENT);
    result->long_warm_up_pipelines = units_using(plan, PLAN_LONG_WARM_UP);
}

/**
 * Return WLB-LLM's imbalance degree: the largest forward seconds of a unit on the first virtual stage
 * over their mean.
 */
static double unit_imbalance(const struct plan *plan, const struct cost_setting *setting)
{
    double most_s = 0, sum_s = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            const struct plan_pipeline *pipeline = &plan->phases[i].pipelines[j];
            n += pipeline->partition[PASS_FORWARD].n_units;
            for (int32_t unit = 0; unit < pipeline->partition[PASS_FORWARD].n_units; unit++) {
                double pass_s = units_pass_s(pipeline, setting, PASS_FORWARD, unit);
                most_s = fmax(most_s, pass_s);
                sum_s += pass_s;
            }
        }
    return sum_s > 0 ? most_s * n / sum_s : 0;
}

/** Count tokens, samples and model FLOPs that ran: the batch without delayed samples, with carried ones. */
static void measure_samples(const struct plan *plan, const struct batch *batch, const struct model *model,
                            struct point_iteration *result)
{
    const struct flop_model of = flop_model_of(model);
    result->tokens = plan_tokens(plan, batch->n_tokens, batch->tokens);
    result->samples = batch->n_samples - plan->n_delayed + plan->n_carried;
    result->documents = batch->n_documents;
    result->delayed_tokens = plan->delayed_tokens;
    for (int32_t i = 0, k = 0; i < batch->n_samples; i++) {
        bool delayed = k < plan->n_delayed && plan->delayed[k] == i;
        k += delayed;
        result->model_flop += delayed ? 0 : flop_model_of_sample(&of, batch->tokens[i]);
    }
    for (int32_t i = 0; i < plan->n_carried; i++)
        result->model_flop += flop_model_of_sample(&of, plan->carried_tokens[i]);
}

/** Return the number of samples that groups of pipelines run together, each counted once. */
static int32_t merged_samples(const struct plan *plan, int32_t n_samples)
{
    bool *merged = check_calloc((size_t)n_samples, sizeof *merged);
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            const struct plan_partition *partition = &plan->phases[i].pipelines[j].partition[PASS_FORWARD];
            for (int32_t u = 0; u < partition->n_units; u++)
                for (int32_t s = 0; partition->units[u].group >= 0 && s < partition->units[u].n_slices; s++)
                    merged[partition->slices[partition->units[u].first_slice + s].sample] = true;
        }
    for (int32_t i = 0; i < n_samples; i++)
        n += merged[i];
    free(merged);
    return n;
}

/** Return whether SimGrid runs the iteration. */
static bool executes(const struct runner *runner)
{
    return runner->scenario->engine != SCENARIO_CRITICAL_PATH && runner->result->measured;
}

/** Return the times of SimGrid if it ran, otherwise those of the critical path. */
static const struct timeline *timeline_of(const struct runner *runner)
{
    return executes(runner) ? &runner->executed : &runner->evaluator.timeline;
}

static void fill_result(const struct runner *runner, struct point_iteration *result)
{
    const struct timeline *timeline = timeline_of(runner);
    const struct dag_rank *worst = &runner->evaluator.dag.ranks[runner->evaluator.memory.worst_rank];
    const struct batch *batch = &runner->batch;
    result->critical_path_s = runner->evaluator.timeline.makespan_s;
    result->simgrid_s = executes(runner) ? runner->executed.makespan_s : NAN;
    result->time_s = timeline->makespan_s;
    measure_samples(&runner->plan, batch, &runner->scenario->model, result);
    result->candidates = runner->plan.n_candidates;
    result->resolved = runner->plan.n_resolved;
    result->nodes = runner->plan.n_nodes;
    result->gap = runner->plan.gap;
    measure_work(runner, result);
    result->peak_bytes = runner->evaluator.memory.peak_bytes[runner->evaluator.memory.worst_rank];
    result->peak_stage = worst->stage;
    result->peak_pipeline = worst->pipeline;
    for (int i = 0; i < MEMORY_N_CLASSES; i++)
        result->at_peak[i] = runner->evaluator.memory.at_peak[runner->evaluator.memory.worst_rank][i];
    result->host = memory_host_of(&runner->plan, &runner->evaluator.dag, &runner->evaluator.memory,
                                  &runner->scenario->platform, 0);
    result->bubble = bubble_of(&runner->evaluator.dag, timeline);
    measure_units(runner, result);
    result->dp_imbalance = units_pipeline_imbalance(&runner->evaluator.dag);
    result->traffic = traffic_of(&runner->plan, &runner->evaluator.dag, &runner->setting);
    result->unit_imbalance = unit_imbalance(&runner->plan, &runner->setting);
    result->merged_samples = merged_samples(&runner->plan, batch->n_samples + runner->plan.n_carried);
}

static void runner_clear(struct runner *runner)
{
    batch_free(&runner->batch);
    plan_free(&runner->plan);
    memory_free(&runner->evaluator.memory);
    graph_free(runner->graph);
    runner->graph = NULL;
    free(runner->slack_s);
    runner->slack_s = NULL;
    free(runner->exposed);
    runner->exposed = NULL;
}

/** Reject a plan that loses samples or has an order that cannot run, so that no number comes from it. */
static bool check_plan(const struct runner *runner, struct error *err)
{
    struct error breach = {0};
    return plan_check(&runner->plan, runner->batch.n_samples, runner->batch.tokens, &breach) ||
           error_set_status(err, breach.status, "%s: its plan of iteration %" PRId64 " is wrong, a bug of %s: %.900s",
                            runner->system->entry->label, runner->result->iteration, runner->system->system->name,
                            breach.text);
}

/** Take the system's plan from the search, or make a new one and note its cost. */
static bool make_plan(struct runner *runner, struct error *err)
{
    struct point_iteration *result = runner->result;
    const struct search_result *search = runner->search;
    if (search != NULL && result->iteration < search->n_iterations && search->planned[result->iteration].n_phases > 0) {
        plan_copy(&search->planned[result->iteration], &runner->plan);
        return check_plan(runner, err);
    }
    struct plan_request request = plan_request_of(runner->scenario, &runner->setting, &runner->system->entry->plan,
                                                  &runner->batch, runner->knobs, result->iteration);
    double start_s = clock_cpu_s();
    struct error refusal = {0};
    bool ok = runner->system->system->plan(&request, runner->state, &runner->plan, &refusal);
    result->solve_s = clock_cpu_s() - start_s;
    if (!ok)
        return error_set_status(err, refusal.status, "%s: no plan for iteration %" PRId64 ": %.7000s",
                                runner->system->entry->label, result->iteration, refusal.text);
    return check_plan(runner, err);
}

/** Check that the plan has the scenario's TP degree, to which faults were folded. */
static bool check_fold(const struct runner *runner, struct error *err)
{
    for (int32_t i = 0; i < runner->plan.n_phases; i++)
        for (int32_t j = 0; j < runner->plan.phases[i].n_pipelines; j++)
            if (faults_any(&runner->faults) &&
                runner->plan.phases[i].pipelines[j].layout.tensor != runner->system->entry->plan.tp)
                return error_set(err, "faults: pipelines of other tp than the plan's are not modelled");
    return true;
}

/**
 * Check that SimGrid is not faster, since contention only adds time. The check is off if the user changes SimGrid's
 * models.
 */
static bool check_simgrid(const struct scenario *scenario, double simgrid_s, double path_s, struct error *err)
{
    return *scenario->simgrid_cfg != '\0' || simgrid_s >= path_s * (1 - 1e-9) ||
           error_set_status(err, ERROR_FAILED,
                            "an iteration takes %.12g s on SimGrid, less than its critical path of %.12g s: a bug of "
                            "slimsim",
                            simgrid_s, path_s);
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
              check_simgrid(scenario, timeline->makespan_s, path.makespan_s, err);
    timeline_free(&path);
    pthread_mutex_lock(&igraph_lock);
    graph_free(graph);
    pthread_mutex_unlock(&igraph_lock);
    return ok;
}

/** Build and resolve the plan, and start SimGrid. @param every_rank  of tensor-parallel groups, or one for each group
 */
static bool start_plan(struct runner *runner, bool every_rank, struct error *err)
{
    const struct scenario *scenario = runner->scenario;
    const struct cost_setting *setting = every_rank ? &runner->faulty : &runner->group_faulty;
    bool folds = !executes(runner) && scenario->trace != SCENARIO_TRACE_FULL && !runner->again;
    struct dag_options options = {.all_tensor_ranks = every_rank, .gradient_sync = true, .fold_equal = folds};
    if (!evaluate_time(&runner->evaluator, &runner->plan, setting, options, err))
        return false;
    if (folds) /* nobody sees its tasks */
        return true;
    runner->graph = graph_create(&runner->evaluator.dag, err);
    if (runner->graph == NULL)
        return false;
    if (runner->again) {
        runner->slack_s = check_malloc((size_t)runner->evaluator.dag.n_tasks * sizeof *runner->slack_s);
        critical_path_slack(&runner->evaluator.dag, runner->graph, &runner->evaluator.timeline, runner->slack_s);
    }
    if (!executes(runner))
        return true;
    runner->simgrid = (struct execute_options){.cfg = scenario->simgrid_cfg};
    runner->execution =
        execute_start(&runner->evaluator.dag, runner->graph, &scenario->platform, &runner->simgrid, err);
    return runner->execution != NULL;
}

/** Plan one iteration and start it. */
static bool begin_iteration(struct runner *runner, struct error *err)
{
    const struct scenario *scenario = runner->scenario;
    lengths_draw(runner->lengths, &scenario->data, scenario->seed, runner->result->iteration, &runner->batch);
    return make_plan(runner, err) && check_fold(runner, err) && start_plan(runner, scenario->all_tensor_ranks, err);
}

static bool await_simgrid(struct runner *runner, struct error *err)
{
    struct execution *execution = runner->execution;
    runner->execution = NULL;
    return execute_end(execution, &runner->executed, err);
}

/** Start the plan again with every rank of tensor-parallel groups. Each iteration decides this by itself. */
static bool run_every_rank(struct runner *runner, struct error *err)
{
    *err = (struct error){0};
    graph_free(runner->graph);
    runner->graph = NULL;
    free(runner->slack_s);
    runner->slack_s = NULL;
    runner->result->every_rank = true;
    return start_plan(runner, true, err) && await_simgrid(runner, err);
}

static bool end_simgrid(struct runner *runner, struct error *err)
{
    if (*runner->scenario->simgrid_cfg != '\0') /* a line before reports of plug-ins */
        fprintf(stderr, "%s, iteration %" PRId64 ":\n", runner->system->entry->label, runner->result->iteration);
    bool ok = await_simgrid(runner, err) || (err->status == ERROR_FOLDED && run_every_rank(runner, err));
    return ok &&
           check_simgrid(runner->scenario, runner->executed.makespan_s, runner->evaluator.timeline.makespan_s, err);
}

/** Await SimGrid and fill in the result. The runner keeps everything for the observer. */
static bool end_iteration(struct runner *runner, struct error *err)
{
    if (runner->execution != NULL && !end_simgrid(runner, err))
        return false;
    memory_of(&runner->plan, &runner->evaluator.dag, timeline_of(runner), &runner->setting, runner->again,
              &runner->evaluator.memory);
    fill_result(runner, runner->result);
    if (runner->result->measured)
        stage_peaks_add(&runner->system->stages, &runner->evaluator.dag, &runner->evaluator.memory,
                        runner->result->iteration);
    return true;
}

static bool observe(const struct runner *runner, const struct point_options *options, struct error *err)
{
    struct point_view view = {
        .scenario = runner->scenario,
        .system = runner->system,
        .system_index = runner->system_index,
        .iteration = runner->result,
        .batch = &runner->batch,
        .plan = &runner->plan,
        .dag = &runner->evaluator.dag,
        .graph = runner->graph,
        .timeline = timeline_of(runner),
        .slack_s = runner->slack_s,
        .exposed = runner->exposed,
        .memory = &runner->evaluator.memory,
    };
    return options->observer == NULL || options->observer(options->context, &view, err);
}

static void find_faults(struct runner *runner)
{
    const struct scenario *scenario = runner->scenario;
    runner->faults = faults_of(scenario->faults, scenario->n_faults, &scenario->platform);
    runner->group_faults = faults_of(scenario->faults, scenario->n_faults, &scenario->platform);
    runner->faulty = runner->group_faulty = runner->setting;
    if (scenario->n_faults == 0)
        return;
    faults_fold(&runner->group_faults, (int32_t)runner->system->entry->plan.tp);
    runner->faulty.faults = &runner->faults;
    runner->group_faulty.faults = &runner->group_faults;
}

/** Begin a system's iterations, numbered from 0. The caller closes the runner, also after a failure. */
static bool runner_open(struct runner *runner, struct cost_cache *costs, struct error *err)
{
    const struct training_system *training = runner->system->system;
    runner->setting.cache = costs;
    runner->knobs = check_calloc(1, training->knobs_size);
    runner->state = check_calloc(1, training->state_size);
    find_faults(runner);
    return system_read_knobs(training, runner->scenario, runner->system->entry, runner->knobs, err);
}

/** Free the arrays of one runner. */
static void runner_free(struct runner *runner)
{
    execute_abandon(runner->execution); /* after an error */
    runner_clear(runner);
    evaluator_free(&runner->evaluator);
    timeline_free(&runner->executed);
}

/** Free all that runners share. */
static void runner_close(struct runner *runner)
{
    const struct training_system *training = runner->system->system;
    if (training->close != NULL)
        training->close(runner->state);
    faults_free(&runner->faults);
    faults_free(&runner->group_faults);
    free(runner->knobs);
    free(runner->state);
    cost_cache_free(runner->setting.cache);
}

/** Await an iteration, let the observer see it, and empty its runner. */
static bool conclude(struct runner *runner, const struct point_options *options, struct error *err)
{
    const struct evaluation_limits limits =
        evaluation_limits_of(request_memory_bytes(runner->scenario), &runner->scenario->platform);
    const struct point_iteration *result = runner->result;
    bool ok = end_iteration(runner, err) && observe(runner, options, err);
    struct evaluation worst = {.peak_bytes = result->peak_bytes, .host_bytes = result->host.bytes};
    if (result->measured && evaluation_exceeds(&worst, &limits) != EXCEEDED_NONE)
        runner->system->fits = false;
    runner_clear(runner);
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
            ok = begin_iteration(&runners[i % n], err);
        }
        if (ok && i >= n - 1)
            ok = conclude(&runners[(i + 1) % n], options, err);
    }
    return ok;
}

static bool run_system(const struct runner *blank, const struct point_options *options, struct error *err)
{
    struct point_system *system = blank->system;
    const struct scenario *scenario = blank->scenario;
    int32_t most = options->n_children < MOST_CHILDREN ? options->n_children : MOST_CHILDREN;
    int32_t n = scenario->engine != SCENARIO_CRITICAL_PATH && most > 1 ? most : 1;
    struct runner *runners = check_calloc((size_t)n, sizeof *runners);
    struct cost_cache costs = {0};
    *runners = *blank;
    bool ok = runner_open(runners, &costs, err);
    system->fits = true;
    for (int32_t i = 0; i < system->n_iterations; i++)
        system->iterations[i] = (struct point_iteration){.iteration = i, .measured = i >= scenario->warm_up};
    for (int32_t i = 1; i < n; i++)
        runners[i] = *runners;
    ok = ok && run_iterations(runners, n, options, err);
    for (int32_t i = 0; i < n; i++)
        runner_free(&runners[i]);
    runner_close(runners);
    free(runners);
    return ok;
}

/** Run one iteration, note what each task exposes, and let the observer see it. */
static bool run_again(struct runner *runner, const struct point_options *options, struct error *err)
{
    if (!begin_iteration(runner, err) || !end_iteration(runner, err))
        return false;
    const struct dag *dag = &runner->evaluator.dag;
    runner->exposed = check_malloc((size_t)dag->n_tasks * sizeof *runner->exposed);
    work_exposed_of(&runner->plan, dag, &runner->group_faulty, runner->exposed);
    return observe(runner, options, err);
}

/** Plan the iterations before this one if the system holds a state, then run it. */
static bool run_system_again(struct runner *runner, int64_t iteration, const struct point_options *options,
                             struct error *err)
{
    struct cost_cache costs = {0};
    bool ok = runner_open(runner, &costs, err);
    runner->again = true;
    for (int64_t i = runner->system->system->state_size > 0 ? 0 : iteration; ok && i <= iteration; i++) {
        struct point_iteration result = {.iteration = i, .measured = i >= runner->scenario->warm_up};
        runner->result = &result;
        if (i == iteration) {
            ok = run_again(runner, options, err);
        } else {
            lengths_draw(runner->lengths, &runner->scenario->data, runner->scenario->seed, i, &runner->batch);
            ok = make_plan(runner, err);
        }
        runner_clear(runner);
    }
    runner_free(runner);
    runner_close(runner);
    return ok;
}

static struct runner runner_of(const struct scenario *scenario, const struct lengths *lengths,
                               const struct point_options *options, struct point_system *system)
{
    int32_t index = (int32_t)(system->entry - scenario->systems);
    return (struct runner){.scenario = scenario,
                           .lengths = lengths,
                           .search = options->searches == NULL ? NULL : &options->searches[index],
                           .system = system,
                           .system_index = index,
                           .setting = request_setting(scenario, &system->entry->plan)};
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
    }
    return ok;
}

/** Return how far from the mean an iteration's time is, relative to it, summed over systems. */
static double distance_to_mean(const struct scenario *scenario, const struct point *point, int64_t iteration)
{
    double distance = 0;
    for (int32_t s = 0; s < point->n_systems; s++) {
        const struct point_system *system = &point->systems[s];
        double sum_s = 0;
        for (int64_t i = scenario->warm_up; i < system->n_iterations; i++)
            sum_s += system->iterations[i].time_s;
        distance += fabs(system->iterations[iteration].time_s * (double)scenario->measured / sum_s - 1);
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
        stage_peaks_free(&system.stages);
    }
    return ok;
}

void point_free(struct point *point)
{
    for (int32_t i = 0; i < point->n_systems; i++) {
        free(point->systems[i].iterations);
        stage_peaks_free(&point->systems[i].stages);
    }
    free(point->systems);
    *point = (struct point){0};
}
