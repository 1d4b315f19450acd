/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/iteration_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "cost/cache.h"
#include "plan/check.h"

static void find_faults(struct iteration_run *run)
{
    const struct scenario *scenario = run->scenario;
    run->faults = faults_of(scenario->faults, scenario->n_faults, &scenario->platform);
    run->group_faults = faults_of(scenario->faults, scenario->n_faults, &scenario->platform);
    run->faulty = run->group_faulty = run->setting;
    if (scenario->n_faults == 0)
        return;
    faults_fold(&run->group_faults, (int32_t)run->entry->plan.tp);
    run->faulty.faults = &run->faults;
    run->group_faulty.faults = &run->group_faults;
}

bool iteration_run_open(struct iteration_run *run, struct cost_cache *costs, struct error *err)
{
    run->setting = request_setting(run->scenario, &run->entry->plan);
    run->setting.cache = costs;
    run->knobs = check_calloc(1, run->system->knobs_size);
    run->state = check_calloc(1, run->system->state_size);
    find_faults(run);
    return system_read_knobs(run->system, run->scenario, run->entry, run->knobs, err);
}

bool iteration_run_executes(const struct iteration_run *run)
{
    return run->scenario->engine != SCENARIO_CRITICAL_PATH && run->iteration >= run->scenario->warm_up;
}

const struct timeline *iteration_run_timeline(const struct iteration_run *run)
{
    return iteration_run_executes(run) ? &run->executed : &run->evaluator.timeline;
}

/** Reject a plan that loses samples or has an order that cannot run, so that no number comes from it. */
static bool check_plan(const struct iteration_run *run, struct error *err)
{
    struct error breach = {0};
    return plan_check(&run->plan, run->batch.n_samples, run->batch.tokens, &breach) ||
           error_set_status(err, breach.status, "%s: its plan of iteration %" PRId64 " is wrong, a bug of %s: %.900s",
                            run->entry->label, run->iteration, run->system->name, breach.text);
}

bool iteration_run_plan(struct iteration_run *run, int64_t iteration, struct error *err)
{
    const struct search_result *search = run->search;
    run->iteration = iteration;
    run->solve_s = 0;
    run->every_rank = false;
    lengths_draw(run->lengths, &run->scenario->data, run->scenario->seed, iteration, &run->batch);
    if (search != NULL && iteration < search->n_iterations && search->planned[iteration].n_phases > 0) {
        plan_copy(&search->planned[iteration], &run->plan);
        return check_plan(run, err);
    }
    struct plan_request request =
        plan_request_of(run->scenario, &run->setting, &run->entry->plan, &run->batch, run->knobs, iteration);
    double start_s = clock_cpu_s();
    struct error refusal = {0};
    bool ok = run->system->plan(&request, run->state, &run->plan, &refusal);
    run->solve_s = clock_cpu_s() - start_s;
    if (!ok)
        return error_set_status(err, refusal.status, "%s: no plan for iteration %" PRId64 ": %.7000s",
                                run->entry->label, iteration, refusal.text);
    return check_plan(run, err);
}

/** Check that the plan has the scenario's TP degree, to which faults were folded. */
static bool check_fold(const struct iteration_run *run, struct error *err)
{
    for (int32_t i = 0; i < run->plan.n_phases; i++)
        for (int32_t j = 0; j < run->plan.phases[i].n_pipelines; j++)
            if (faults_any(&run->faults) && run->plan.phases[i].pipelines[j].layout.tensor != run->entry->plan.tp)
                return error_set(err, "faults: pipelines of other tp than the plan's are not modelled");
    return true;
}

/** Return whether a plan has the passes of a replayed step: all that differs is which samples they have. */
static bool has_passes(const struct plan *plan, const struct replay_step *step)
{
    const struct plan_phase *phase = &plan->phases[0];
    bool has =
        plan->n_phases == 1 && phase->n_groups == 0 && phase->n_attentions == 0 && phase->n_pipelines == step->ranks;
    for (int32_t i = 0; has && i < phase->n_pipelines; i++) {
        const struct plan_pipeline *pipeline = &phase->pipelines[i];
        const struct plan_layout *layout = &pipeline->layout;
        has = layout->first_rank == i * layout->context * layout->tensor &&
              layout->stages * layout->chunks == step->stages && !pipeline->splits_backward;
        for (int pass = 0; pass < N_PASSES; pass++)
            has = has && pipeline->partition[pass].n_micro_batches == step->micro_batches;
    }
    return has;
}

/** Draw the jitter of the iteration's passes. */
static void take_jitter(struct iteration_run *run)
{
    const struct jitter *shares = &run->scenario->jitter;
    if (shares->forward <= 0 && shares->backward <= 0)
        return;
    run->jitter = jitter_of(*shares, run->scenario->seed, run->iteration);
    run->faulty.jitter = run->group_faulty.jitter = &run->jitter;
}

/** Replay the iteration's step, if there is one. */
static bool take_replay(struct iteration_run *run, struct error *err)
{
    const struct document *document = &run->scenario->document;
    const struct scenario_replay *replay = &run->scenario->replay;
    if (replay->n_steps == 0)
        return true;
    const struct replay_step *step = &replay->steps[run->iteration];
    const struct plan_pipeline *first = &run->plan.phases[0].pipelines[0];
    run->faulty.replay = run->group_faulty.replay = step;
    return has_passes(&run->plan, step) ||
           document_error(
               document, document_find(document, 0, "replay.file"), err,
               "replay.file: step %" PRId64 " has %d dp_ranks x %d stages x %d microbatches, and %s plans %d "
               "x %d x %d; allowed: a plan of as many in one phase, whose backward is not split and whose "
               "micro-batches are those of the forward and shared by no ranks",
               step->number, (int)step->ranks, (int)step->stages, (int)step->micro_batches, run->entry->label,
               (int)run->plan.phases[0].n_pipelines, (int)(first->layout.stages * first->layout.chunks),
               (int)first->partition[PASS_FORWARD].n_micro_batches);
}

bool iteration_run_check_simgrid(const struct scenario *scenario, double simgrid_s, double path_s, struct error *err)
{
    return *scenario->simgrid_cfg != '\0' || simgrid_s >= path_s * (1 - 1e-9) ||
           error_set_status(err, ERROR_FAILED,
                            "an iteration takes %.12g s on SimGrid, less than its critical path of %.12g s: a bug of "
                            "slimsim",
                            simgrid_s, path_s);
}

/** Build and resolve the plan, and start SimGrid. @param every_rank  of tensor-parallel groups, or one for each group
 */
static bool start_plan(struct iteration_run *run, bool every_rank, struct error *err)
{
    const struct scenario *scenario = run->scenario;
    struct evaluator *evaluator = &run->evaluator;
    const struct cost_setting *setting = every_rank ? &run->faulty : &run->group_faulty;
    bool executes = iteration_run_executes(run),
         folds = !executes && scenario->trace != SCENARIO_TRACE_FULL && !run->again;
    struct dag_options options = {.all_tensor_ranks = every_rank,
                                  .gradient_sync = setting->replay == NULL || setting->replay->modelled,
                                  .fold_equal = folds};
    if (!evaluate_time(evaluator, &run->plan, setting, options, err))
        return false;
    if (folds) /* nobody sees its tasks */
        return true;
    run->graph = graph_create(&evaluator->dag, err);
    if (run->graph == NULL)
        return false;
    if (run->again) {
        run->slack_s = check_malloc((size_t)evaluator->dag.n_tasks * sizeof *run->slack_s);
        critical_path_slack(&evaluator->dag, run->graph, &evaluator->timeline, run->slack_s);
    }
    if (!executes)
        return true;
    run->simgrid = (struct execute_options){.cfg = scenario->simgrid_cfg};
    run->execution = execute_start(&evaluator->dag, run->graph, &scenario->platform, &run->simgrid, err);
    return run->execution != NULL;
}

bool iteration_run_begin(struct iteration_run *run, int64_t iteration, struct error *err)
{
    if (!iteration_run_plan(run, iteration, err) || !check_fold(run, err) || !take_replay(run, err))
        return false;
    take_jitter(run);
    return start_plan(run, run->scenario->all_tensor_ranks, err);
}

static bool await_simgrid(struct iteration_run *run, struct error *err)
{
    struct execution *execution = run->execution;
    run->execution = NULL;
    return execute_end(execution, &run->executed, err);
}

/** Free what belongs to the graph. */
static void clear_graph(struct iteration_run *run)
{
    graph_free(run->graph);
    run->graph = NULL;
    free(run->slack_s);
    run->slack_s = NULL;
}

/** Start the plan again with every rank of tensor-parallel groups. Each iteration decides this by itself. */
static bool run_every_rank(struct iteration_run *run, struct error *err)
{
    *err = (struct error){0};
    clear_graph(run);
    run->every_rank = true;
    return start_plan(run, true, err) && await_simgrid(run, err);
}

static bool end_simgrid(struct iteration_run *run, struct error *err)
{
    if (*run->scenario->simgrid_cfg != '\0') /* a line before reports of plug-ins */
        fprintf(stderr, "%s, iteration %" PRId64 ":\n", run->entry->label, run->iteration);
    bool ok = await_simgrid(run, err) || (err->status == ERROR_FOLDED && run_every_rank(run, err));
    return ok && iteration_run_check_simgrid(run->scenario, run->executed.makespan_s,
                                             run->evaluator.timeline.makespan_s, err);
}

bool iteration_run_end(struct iteration_run *run, struct error *err)
{
    if (run->execution != NULL && !end_simgrid(run, err))
        return false;
    memory_of(&run->plan, &run->evaluator.dag, iteration_run_timeline(run), &run->setting, run->again,
              &run->evaluator.memory);
    return true;
}

void iteration_run_clear(struct iteration_run *run)
{
    batch_free(&run->batch);
    plan_free(&run->plan);
    memory_free(&run->evaluator.memory);
    clear_graph(run);
}

void iteration_run_free(struct iteration_run *run)
{
    execute_abandon(run->execution); /* after an error */
    iteration_run_clear(run);
    evaluator_free(&run->evaluator);
    timeline_free(&run->executed);
}

void iteration_run_close(struct iteration_run *run)
{
    if (run->system->close != NULL)
        run->system->close(run->state);
    faults_free(&run->faults);
    faults_free(&run->group_faults);
    free(run->knobs);
    free(run->state);
    cost_cache_free(run->setting.cache);
}
