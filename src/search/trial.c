/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/trial.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "bounds/lower_bound.h"
#include "bounds/work.h"
#include "cost/flop.h"

void trials_draw(struct trials *trials, const struct lengths *lengths)
{
    struct search_result *result = trials->result;
    const struct scenario *scenario = trials->scenario;
    bool keeps_state = trials->system->state_size > 0;
    deciding_iterations(lengths, scenario, result->seed, keeps_state, result->iterations);
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++)
        lengths_draw(lengths, &scenario->data, result->seed, result->iterations[i].iteration, &trials->batches[i]);
    result->n_warm_up = keeps_state ? (int32_t)scenario->warm_up : 0;
    trials->warm_up = check_calloc((size_t)result->n_warm_up, sizeof *trials->warm_up);
    for (int32_t i = 0; i < result->n_warm_up; i++)
        lengths_draw(lengths, &scenario->data, result->seed, SEARCH_CANDIDATES + i, &trials->warm_up[i]);
}

/** Resolve time and memory of a plan that exists. */
static bool resolve(struct trials *trials, const struct trial *trial, const struct plan *plan,
                    const struct cost_setting *setting, struct trial_outcome *outcome, struct error *err)
{
    const struct scenario *scenario = trials->scenario;
    struct dag_options options = {
        .all_tensor_ranks = scenario->all_tensor_ranks, .gradient_sync = true, .fold_equal = !trial->engine};
    struct evaluator *evaluator = &trials->evaluator;
    struct dag *dag = &evaluator->dag;
    if (!evaluate(evaluator, plan, setting, options, &outcome->evaluation, err))
        return false;
    outcome->bubble = bubble_of(dag, &evaluator->timeline);
    struct work work = work_of(plan, dag, setting);
    outcome->collective_s = work.tensor_s + work.shard_s;
    if (!trial->engine)
        return true;
    if (!trials->engine(scenario, dag, &trials->executed, err))
        return false;
    double path_s = outcome->evaluation.makespan_s;
    struct evaluation executed = evaluate_memory(evaluator, plan, setting, &trials->executed);
    outcome->contention = executed.makespan_s / path_s - 1;
    evaluation_join(&outcome->evaluation, &executed);
    outcome->evaluation.makespan_s = path_s;
    return true;
}

struct plan_request trial_request(const struct trials *trials, const struct cost_setting *setting,
                                  const struct trial *trial)
{
    struct plan_request request =
        plan_request_of(trials->scenario, setting, &trial->layout, trial->batch, trials->knobs, trial->iteration);
    request.seed = trial->seed;
    request.memory_bytes = trial->memory_bytes;
    if (trial->limit_s > 0) { /* sums in another order may differ in their last bits */
        double passes_s = trial->limit_s * (1 + 1e-9) - bound_after_passes_s(setting, &trial->layout);
        request.limit_s = fmin(fmax(DBL_MIN, passes_s), DBL_MAX);
    }
    return request;
}

struct trial trial_of(const struct trials *trials, const struct scenario_plan *layout, int32_t which)
{
    return (struct trial){.layout = *layout,
                          .batch = &trials->batches[which],
                          .iteration = trials->result->iterations[which].iteration,
                          .seed = trials->result->seed,
                          .memory_bytes = trials->result->limits.gpu_bytes};
}

/** Return the model FLOPs that a plan runs over those of its batch. Samples wait, and others have waited. */
static double work_share(const struct model *model, const struct plan *plan, const struct batch *batch)
{
    double batch_flop = flop_model_of_samples(model, batch->tokens, batch->n_samples), flop = batch_flop;
    for (int32_t i = 0; i < plan->n_delayed; i++)
        flop -= flop_model_of_sample(model, batch->tokens[plan->delayed[i]]);
    for (int32_t i = 0; i < plan->n_carried; i++)
        flop += flop_model_of_sample(model, plan->carried_tokens[i]);
    return plan->n_delayed == 0 && plan->n_carried == 0 ? 1 : flop / batch_flop;
}

/** Resolve a plan, unless a lower bound of its time exceeds the limit. */
static bool measure(struct trials *trials, const struct trial *trial, const struct plan *plan,
                    const struct cost_setting *setting, struct trial_outcome *outcome, struct error *err)
{
    outcome->work_share = work_share(&trials->scenario->model, plan, trial->batch);
    if (trial->limit_s > 0 && trial->limit_s < INFINITY) {
        double least_s = lower_bound_s(plan, setting) + bound_after_passes_s(setting, &trial->layout);
        outcome->least_s = least_s / outcome->work_share;
        outcome->given_up = outcome->least_s > trial->limit_s * (1 + 1e-9); /* sums in another order may differ */
    }
    return outcome->given_up || resolve(trials, trial, plan, setting, outcome, err);
}

bool trial_run(struct trials *trials, const struct trial *trial, void *state, struct plan *keep,
               struct trial_outcome *outcome, struct error *err)
{
    struct cost_setting setting = request_setting(trials->scenario, &trial->layout);
    setting.cache = &trials->costs;
    struct plan_request request = trial_request(trials, &setting, trial);
    struct plan plan = {0};
    struct error refused = {0};
    bool ok = true;
    *outcome = (struct trial_outcome){.planned = trials->system->plan(&request, state, &plan, &refused)};
    if (!outcome->planned && trials->refused.status == ERROR_NONE)
        trials->refused = refused;
    outcome->given_up = outcome->planned && plan.n_phases == 0;
    if (outcome->planned && !outcome->given_up && !trial->plan_only)
        ok = measure(trials, trial, &plan, &setting, outcome, err);
    if (keep != NULL)
        *keep = plan;
    else
        plan_free(&plan);
    return ok;
}

bool trial_open_state(struct trials *trials, const struct trial *first, void **state, struct trial_outcome *outcome,
                      struct error *err)
{
    bool ok = true;
    *state = check_calloc(1, trials->system->state_size);
    *outcome = (struct trial_outcome){.planned = true};
    for (int32_t i = 0; ok && outcome->planned && i < trials->result->n_warm_up; i++) {
        struct trial trial = *first;
        trial.batch = &trials->warm_up[i];
        trial.iteration = SEARCH_CANDIDATES + i;
        trial.limit_s = 0;
        trial.plan_only = true;
        ok = trial_run(trials, &trial, *state, NULL, outcome, err);
    }
    return ok;
}

void trial_close_state(const struct trials *trials, void *state)
{
    if (trials->system->close != NULL)
        trials->system->close(state);
    free(state);
}

bool trial_run_alone(struct trials *trials, const struct trial *trial, struct trial_outcome *outcome, struct error *err)
{
    void *state;
    bool ok = trial_open_state(trials, trial, &state, outcome, err) &&
              (!outcome->planned || trial_run(trials, trial, state, NULL, outcome, err));
    trial_close_state(trials, state);
    return ok;
}

void trials_free(struct trials *trials)
{
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++)
        batch_free(&trials->batches[i]);
    for (int32_t i = 0; i < trials->result->n_warm_up; i++)
        batch_free(&trials->warm_up[i]);
    free(trials->warm_up);
    evaluator_free(&trials->evaluator);
    timeline_free(&trials->executed);
    cost_cache_free(&trials->costs);
    free(trials->knobs);
}
