/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/plan_evaluation.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "bounds/lower_bound.h"
#include "bounds/work.h"
#include "cost/flop.h"
#include "lengths/batch_memo.h"

void plan_evaluator_draw(struct plan_evaluator *evaluations, const struct lengths *lengths)
{
    struct search_result *result = evaluations->result;
    const struct scenario *scenario = evaluations->scenario;
    bool keeps_state = evaluations->system->state_size > 0;
    deciding_iterations(lengths, scenario, result->seed, keeps_state, result->iterations);
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++) {
        lengths_draw(lengths, &scenario->data, result->seed, result->iterations[i].iteration, &evaluations->batches[i]);
        evaluations->batches[i].memo = batch_memo_create();
    }
    result->n_warm_up = keeps_state ? (int32_t)scenario->warm_up : 0;
    evaluations->warm_up = check_calloc((size_t)result->n_warm_up, sizeof *evaluations->warm_up);
    for (int32_t i = 0; i < result->n_warm_up; i++)
        lengths_draw(lengths, &scenario->data, result->seed, SEARCH_CANDIDATES + i, &evaluations->warm_up[i]);
}

static bool offloads(const struct plan *plan)
{
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++)
            if (plan_offloads(&plan->phases[i].pipelines[j]))
                return true;
    return false;
}

/** Run the plan's graph on SimGrid, and build it with every tensor rank if one cannot represent the others. */
static bool run_engine(struct plan_evaluator *evaluations, const struct plan *plan, const struct cost_setting *setting,
                       struct dag_options options, struct error *err)
{
    const struct scenario *scenario = evaluations->scenario;
    struct evaluator *evaluator = &evaluations->evaluator;
    if (evaluations->engine(scenario, &evaluator->dag, &evaluations->executed, err))
        return true;
    if (err->status != ERROR_FOLDED)
        return false;
    *err = (struct error){0};
    options.all_tensor_ranks = true;
    return evaluate_time(evaluator, plan, setting, options, err) &&
           evaluations->engine(scenario, &evaluator->dag, &evaluations->executed, err);
}

/** Resolve time and memory of a plan that exists. */
static bool resolve(struct plan_evaluator *evaluations, const struct plan_evaluation *evaluation,
                    const struct plan *plan, const struct cost_setting *setting, struct plan_outcome *outcome,
                    struct error *err)
{
    const struct scenario *scenario = evaluations->scenario;
    bool engine = evaluations->engine != NULL && (evaluation->engine == ENGINE_ALWAYS ||
                                                  (evaluation->engine == ENGINE_IF_OFFLOADED && offloads(plan)));
    struct dag_options options = {
        .all_tensor_ranks = scenario->all_tensor_ranks, .gradient_sync = true, .fold_equal = !engine};
    struct evaluator *evaluator = &evaluations->evaluator;
    struct dag *dag = &evaluator->dag;
    if (!evaluate(evaluator, plan, setting, options, &outcome->evaluation, err))
        return false;
    outcome->bubble = bubble_of(dag, &evaluator->timeline);
    struct work work = work_of(plan, dag, setting);
    outcome->collective_s = work.tensor_s + work.shard_s + work.expert_s;
    if (!engine)
        return true;
    if (!run_engine(evaluations, plan, setting, options, err))
        return false;
    double path_s = outcome->evaluation.makespan_s;
    struct evaluation executed = evaluate_memory(evaluator, plan, setting, &evaluations->executed);
    outcome->contention = executed.makespan_s / path_s - 1;
    evaluation_join(&outcome->evaluation, &executed);
    outcome->evaluation.makespan_s = path_s;
    return true;
}

struct plan_request plan_evaluation_request(const struct plan_evaluator *evaluations,
                                            const struct cost_setting *setting,
                                            const struct plan_evaluation *evaluation)
{
    struct plan_request request = plan_request_of(evaluations->scenario, setting, &evaluation->layout,
                                                  evaluation->batch, evaluations->knobs, evaluation->iteration);
    request.seed = evaluation->seed;
    request.memory_bytes = evaluation->memory_bytes;
    if (evaluation->limit_s > 0 && evaluation->tells_limit) { /* sums in another order may differ in their last bits */
        double passes_s = evaluation->limit_s * (1 + 1e-9) - bound_after_passes_s(setting, &evaluation->layout);
        request.limit_s = fmin(fmax(DBL_MIN, passes_s), DBL_MAX);
    }
    return request;
}

struct plan_evaluation plan_evaluation_of(const struct plan_evaluator *evaluations, const struct scenario_plan *layout,
                                          int32_t which)
{
    return (struct plan_evaluation){.layout = *layout,
                                    .batch = &evaluations->batches[which],
                                    .iteration = evaluations->result->iterations[which].iteration,
                                    .seed = evaluations->result->seed,
                                    .memory_bytes = evaluations->result->limits.gpu_bytes};
}

/** Return the model FLOPs that a plan runs over those of its batch. Samples wait, and others have waited. */
static double work_share(const struct model *model, const struct plan *plan, const struct batch *batch)
{
    const struct flop_model of = flop_model_of(model);
    double batch_flop = flop_model_of_samples(model, batch->tokens, batch->n_samples), flop = batch_flop;
    for (int32_t i = 0; i < plan->n_delayed; i++)
        flop -= flop_model_of_sample(&of, batch->tokens[plan->delayed[i]]);
    for (int32_t i = 0; i < plan->n_carried; i++)
        flop += flop_model_of_sample(&of, plan->carried_tokens[i]);
    return plan->n_delayed == 0 && plan->n_carried == 0 ? 1 : flop / batch_flop;
}

/** Resolve a plan, unless a lower bound of its time exceeds the limit. */
static bool measure(struct plan_evaluator *evaluations, const struct plan_evaluation *evaluation,
                    const struct plan *plan, const struct cost_setting *setting, struct plan_outcome *outcome,
                    struct error *err)
{
    outcome->work_share = work_share(&evaluations->scenario->model, plan, evaluation->batch);
    if (evaluation->limit_s > 0 && evaluation->limit_s < INFINITY) {
        double least_s = lower_bound_s(plan, setting) + bound_after_passes_s(setting, &evaluation->layout);
        outcome->least_s = least_s / outcome->work_share;
        outcome->given_up = outcome->least_s > evaluation->limit_s * (1 + 1e-9); /* sums in another order may differ */
    }
    return outcome->given_up || resolve(evaluations, evaluation, plan, setting, outcome, err);
}

bool plan_evaluation_run(struct plan_evaluator *evaluations, const struct plan_evaluation *evaluation, void *state,
                         struct plan *keep, struct plan_outcome *outcome, struct error *err)
{
    struct cost_setting setting = request_setting(evaluations->scenario, &evaluation->layout);
    setting.cache = &evaluations->costs;
    struct plan_request request = plan_evaluation_request(evaluations, &setting, evaluation);
    struct plan plan = {0};
    struct error refused = {0};
    bool ok = true;
    *outcome = (struct plan_outcome){.planned = evaluations->system->plan(&request, state, &plan, &refused)};
    if (!outcome->planned && evaluations->refused.status == ERROR_NONE)
        evaluations->refused = refused;
    outcome->given_up = outcome->planned && plan.n_phases == 0;
    if (outcome->planned && !outcome->given_up && !evaluation->plan_only)
        ok = measure(evaluations, evaluation, &plan, &setting, outcome, err);
    if (keep != NULL)
        *keep = plan;
    else
        plan_free(&plan);
    return ok;
}

bool plan_evaluation_open_state(struct plan_evaluator *evaluations, const struct plan_evaluation *first, void **state,
                                struct plan_outcome *outcome, struct error *err)
{
    bool ok = true;
    *state = check_calloc(1, evaluations->system->state_size);
    *outcome = (struct plan_outcome){.planned = true};
    for (int32_t i = 0; ok && outcome->planned && i < evaluations->result->n_warm_up; i++) {
        struct plan_evaluation evaluation = *first;
        evaluation.batch = &evaluations->warm_up[i];
        evaluation.iteration = SEARCH_CANDIDATES + i;
        evaluation.limit_s = 0;
        evaluation.plan_only = true;
        ok = plan_evaluation_run(evaluations, &evaluation, *state, NULL, outcome, err);
    }
    return ok;
}

void plan_evaluation_close_state(const struct plan_evaluator *evaluations, void *state)
{
    if (evaluations->system->close != NULL)
        evaluations->system->close(state);
    free(state);
}

bool plan_evaluation_run_first(struct plan_evaluator *evaluations, const struct plan_evaluation *evaluation,
                               struct plan_outcome *outcome, struct error *err)
{
    void *state;
    bool ok = plan_evaluation_open_state(evaluations, evaluation, &state, outcome, err) &&
              (!outcome->planned || plan_evaluation_run(evaluations, evaluation, state, NULL, outcome, err));
    plan_evaluation_close_state(evaluations, state);
    return ok;
}

void plan_evaluator_free(struct plan_evaluator *evaluations)
{
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++)
        batch_free(&evaluations->batches[i]);
    for (int32_t i = 0; i < evaluations->result->n_warm_up; i++)
        batch_free(&evaluations->warm_up[i]);
    free(evaluations->warm_up);
    evaluator_free(&evaluations->evaluator);
    timeline_free(&evaluations->executed);
    cost_cache_free(&evaluations->costs);
    free(evaluations->knobs);
}
