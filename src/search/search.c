/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/search.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/rng.h"
#include "search/ranking.h"
#include "search/score.h"
#include "search/space.h"

/* This mark makes the batches of a search differ from those of the run for any seed. */
static const uint64_t seed_mark = 0x706c616e; /* "plan" in ASCII */

struct search {
    struct plan_evaluator evaluations;
    const struct scenario_system *entry;
    const struct lengths *lengths;
    const struct search_options *options;
    struct search_result *result;
};

static bool fits(const struct search *search, const struct search_plan *plan)
{
    return evaluation_exceeds(&plan->score.worst, &search->result->limits) == EXCEEDED_NONE;
}

/**
 * Resolve a plan on the iteration that ranks. A plan that takes longer than limit_s, or does not fit, is rejected and
 * may get no score; 0: no plan is rejected.
 */
static bool rank_plan(struct search *search, struct search_plan *plan, double limit_s, struct error *err)
{
    struct plan_evaluation evaluation = plan_evaluation_of(&search->evaluations, &plan->layout, 0);
    struct plan_outcome outcome;
    evaluation.limit_s = limit_s;
    evaluation.tells_limit = true;
    if (!plan_evaluation_run_first(&search->evaluations, &evaluation, &outcome, err))
        return false;
    if (outcome.given_up) {
        plan->bound.time_s = fmax(plan->bound.time_s, outcome.least_s);
        plan->verdict = limit_s < INFINITY ? SEARCH_BOUND_PRUNED : SEARCH_TOO_LARGE;
        return true;
    }
    plan->verdict = SEARCH_REFUSED;
    if (!outcome.planned)
        return true;
    search->result->n_resolved++;
    plan->score = (struct search_score){0};
    score_add(search->result, &outcome, &plan->score);
    plan->ranking_s = ranking_expected_s(search->result, plan, plan->score.time_s);
    plan->verdict = fits(search, plan) ? SEARCH_SLOWER : SEARCH_TOO_LARGE;
    return true;
}

/**
 * Resolve a plan on the iterations that decide, until one does not fit. It stops once the times so far, with the bounds
 * of the rest, exceed the limit. Its time is then a lower bound.
 */
static bool score_plan(struct search *search, struct search_plan *plan, double limit_s, struct error *err)
{
    struct plan_evaluation evaluation = plan_evaluation_of(&search->evaluations, &plan->layout, 0);
    struct plan_outcome outcome;
    void *state;
    bool ok = plan_evaluation_open_state(&search->evaluations, &evaluation, &state, &outcome, err);
    if (search->evaluations.system->state_size > 0) /* otherwise the score of the iteration that ranked is kept */
        plan->score = (struct search_score){0};
    for (int32_t i = plan->score.n_iterations;
         ok && outcome.planned && i < SEARCH_DECIDING_ITERATIONS && fits(search, plan); i++) {
        evaluation = plan_evaluation_of(&search->evaluations, &plan->layout, i);
        if (limit_s < INFINITY)
            evaluation.limit_s = score_limit_s(search->result, plan, limit_s);
        outcome = (struct plan_outcome){.planned = true, .given_up = evaluation.limit_s < 0};
        ok = outcome.given_up || plan_evaluation_run(&search->evaluations, &evaluation, state, NULL, &outcome, err);
        if (ok && outcome.given_up) {
            plan->least_s[i] = fmax(plan->least_s[i], outcome.least_s);
            plan->score.time_s = score_least_s(search->result, plan);
            break;
        }
        if (ok && outcome.planned)
            score_add(search->result, &outcome, &plan->score);
    }
    plan->verdict = !outcome.planned ? SEARCH_REFUSED : fits(search, plan) ? SEARCH_RUNNER_UP : SEARCH_TOO_LARGE;
    plan_evaluation_close_state(&search->evaluations, state);
    return ok;
}

/** Multiply the time of a plan by SimGrid's makespan over the critical path's on the first iteration that decides. */
static bool add_contention(struct search *search, struct search_plan *plan, struct error *err)
{
    struct plan_evaluation evaluation = plan_evaluation_of(&search->evaluations, &plan->layout, 0);
    struct plan_outcome outcome;
    evaluation.engine = ENGINE_ALWAYS;
    if (!plan_evaluation_run_first(&search->evaluations, &evaluation, &outcome, err))
        return false;
    plan->score.contention = outcome.contention;
    plan->score.executed = true;
    plan->score.time_s *= 1 + outcome.contention;
    evaluation_join(&plan->score.worst, &outcome.evaluation);
    if (!fits(search, plan))
        plan->verdict = SEARCH_TOO_LARGE;
    return true;
}

/**
 * Find the fastest plan that was decided on, NULL: none. SimGrid never takes less than the critical path, so it runs a
 * plan only if no other is faster. So does the search with the rest of a plan that stopped early. @param out  the plan
 * was rejected
 */
static bool find_fastest(struct search *search, struct search_plan **fastest, bool *out, struct error *err)
{
    *fastest = ranking_fastest(search->result);
    while (*fastest != NULL &&
           (!score_is_whole(&(*fastest)->score) || (search->options->engine != NULL && !(*fastest)->score.executed))) {
        bool whole = score_is_whole(&(*fastest)->score);
        if (!(whole ? add_contention(search, *fastest, err) : score_plan(search, *fastest, INFINITY, err)))
            return false;
        *out = (*fastest)->verdict != SEARCH_RUNNER_UP;
        *fastest = *out ? NULL : ranking_fastest(search->result);
    }
    return true;
}

/**
 * Run a plan over the iterations of the scenario until a measured one does not fit. The peak of that one becomes the
 * score's. The plans that the system made are kept.
 */
static bool confirm(struct search *search, struct search_plan *plan, bool *holds, struct error *err)
{
    const struct scenario *scenario = search->evaluations.scenario;
    struct search_result *result = search->result;
    void *state = check_calloc(1, search->evaluations.system->state_size);
    bool ok = true, keeps_state = search->evaluations.system->state_size > 0;
    *holds = true;
    search_result_free_planned(result);
    for (int64_t i = keeps_state ? 0 : scenario->warm_up; ok && *holds && i < scenario->warm_up + scenario->measured;
         i++) {
        struct batch batch;
        struct plan_outcome outcome;
        lengths_draw(search->lengths, &scenario->data, scenario->seed, i, &batch);
        struct plan_evaluation evaluation = {.layout = plan->layout,
                                             .batch = &batch,
                                             .iteration = i,
                                             .seed = scenario->seed,
                                             .memory_bytes = result->limits.gpu_bytes,
                                             .engine = ENGINE_IF_OFFLOADED,
                                             .plan_only = i < scenario->warm_up};
        ok = plan_evaluation_run(&search->evaluations, &evaluation, state, &result->planned[i], &outcome, err);
        *holds = ok && outcome.planned &&
                 (i < scenario->warm_up || evaluation_exceeds(&outcome.evaluation, &result->limits) == EXCEEDED_NONE);
        if (ok && !*holds)
            plan->score.worst = outcome.evaluation;
        batch_free(&batch);
    }
    plan_evaluation_close_state(&search->evaluations, state);
    return ok;
}

/**
 * Return the next open plan with n_demanded demanded features, -1: none. Until SEARCH_FEW layouts fit there is no time
 * to reach. Then the plan of least possible memory comes next (ties: the last, which recomputes most), because it is
 * planned quickly. After that the plan of the least bound comes next (ties: the first).
 */
static int32_t next_plan(const struct search *search, int32_t n_demanded, double few_s)
{
    const struct search_plan *plans = search->result->plans;
    int32_t best = -1;
    for (int32_t i = 0; i < search->result->n_plans; i++) {
        if (plans[i].verdict != SEARCH_OPEN || plans[i].n_demanded != n_demanded)
            continue;
        if (best < 0 || (few_s < INFINITY ? plans[i].bound.time_s < plans[best].bound.time_s
                                          : plans[i].bound.peak_bytes <= plans[best].bound.peak_bytes))
            best = i;
    }
    return best;
}

static bool report_progress(const struct search *search, struct error *err)
{
    const struct search_result *result = search->result;
    const struct search_plan *best = NULL;
    int32_t n_settled = 0;
    for (int32_t i = 0; i < result->n_plans; i++) {
        const struct search_plan *plan = &result->plans[i];
        bool fitting = plan->verdict == SEARCH_SLOWER || plan->verdict == SEARCH_RUNNER_UP;
        n_settled += plan->verdict != SEARCH_OPEN;
        if (fitting && (best == NULL || plan->ranking_s < best->ranking_s))
            best = plan;
    }
    if (search->options->progress == NULL ||
        search->options->progress(search->options->context, search->entry, n_settled, result->n_plans, best))
        return true;
    return err->status != ERROR_NONE ? false : error_set_status(err, ERROR_FAILED, "the plan search was stopped");
}

/** Resolve plans with n_demanded demanded features that can be decided on, the least bound first. */
static bool rank(struct search *search, int32_t n_demanded, struct error *err)
{
    struct search_plan *plans = search->result->plans;
    for (;;) {
        double few_s = ranking_few_s(search->result);
        int32_t which = next_plan(search, n_demanded, few_s);
        if (which < 0)
            return true;
        if (!report_progress(search, err))
            return false;
        double limit_s = search->options->exhaustive ? INFINITY : ranking_limit_s(search->result, which, few_s);
        if (ranking_expected_s(search->result, &plans[which], plans[which].bound.time_s) > limit_s) {
            plans[which].verdict = SEARCH_BOUND_PRUNED;
            continue;
        }
        limit_s = ranking_time_within_s(search->result, &plans[which], limit_s);
        if (!rank_plan(search, &plans[which], search->options->exhaustive ? 0 : limit_s, err))
            return false;
    }
}

/** Return the time above which a plan needs no more iterations: that of the fastest plan so far, and its ties. */
static double decided_s(const struct search *search)
{
    double least_s = INFINITY;
    bool stops = search->evaluations.system->state_size == 0 && !search->options->exhaustive;
    for (int32_t i = 0; stops && i < search->result->n_plans; i++) {
        const struct search_plan *plan = &search->result->plans[i];
        if (plan->verdict == SEARCH_RUNNER_UP && score_is_whole(&plan->score))
            least_s = fmin(least_s, plan->score.time_s);
    }
    return (1 + SEARCH_TIE_PERCENT / 100.0) * least_s;
}

/** Resolve the best of the ranking on the iterations that decide. @param out  some plan was rejected */
static bool decide(struct search *search, bool *out, struct error *err)
{
    struct search_result *result = search->result;
    double few_s = ranking_few_s(result);
    *out = false;
    for (int32_t i = 0; i < result->n_ranked; i++) {
        struct search_plan *plan = &result->plans[result->ranked[i]];
        if (plan->verdict == SEARCH_RUNNER_UP || plan->ranking_s > ranking_near_s(result, &plan->layout, few_s))
            continue;
        if (!score_plan(search, plan, decided_s(search), err) || !report_progress(search, err))
            return false;
        *out = *out || plan->verdict != SEARCH_RUNNER_UP;
    }
    return true;
}

/**
 * Rank and decide among the plans with n_demanded demanded features. If a plan is rejected, in the deciding iterations
 * or in those of the scenario, others may be decided on. @param found  one fits
 */
static bool search_tier(struct search *search, int32_t n_demanded, bool *found, struct error *err)
{
    struct search_result *result = search->result;
    *found = false;
    for (bool out = true; out;) {
        for (int32_t i = 0; i < result->n_plans; i++)
            if (result->plans[i].verdict == SEARCH_BOUND_PRUNED)
                result->plans[i].verdict = SEARCH_OPEN;
        if (!rank(search, n_demanded, err) || !decide(search, &out, err))
            return false;
        struct search_plan *best = NULL;
        if (!out && !find_fastest(search, &best, &out, err))
            return false;
        if (best == NULL)
            continue;
        if (!confirm(search, best, found, err) || !report_progress(search, err))
            return false;
        out = !*found;
        if (out)
            best->verdict = SEARCH_MISFIT;
    }
    return true;
}

/** Return whether memory rules a plan out, by an unknown excess. */
static bool is_unscored(const struct search_plan *plan)
{
    return plan->verdict == SEARCH_MEMORY_PRUNED ||
           (plan->verdict == SEARCH_TOO_LARGE && plan->score.n_iterations == 0);
}

static bool is_nearer(const struct search *search, const struct search_plan *plan, const struct search_plan *best)
{
    if ((plan->verdict != SEARCH_TOO_LARGE && plan->verdict != SEARCH_MISFIT) || is_unscored(plan))
        return false;
    const struct evaluation_limits *limits = &search->result->limits;
    double excess = evaluation_excess(&plan->score.worst, limits);
    double least = best == NULL ? INFINITY : evaluation_excess(&best->score.worst, limits);
    return excess < least || (excess == least && plan < best); /* ties: order of the space */
}

/**
 * Choose a plan if none fits. Plans without a score are resolved, the least possible peak first. The one with the least
 * excess is chosen.
 */
static bool choose_nearest(struct search *search, struct error *err)
{
    struct search_result *result = search->result;
    struct search_plan *best = NULL;
    for (int32_t i = 0; i < result->n_plans; i++)
        if (is_nearer(search, &result->plans[i], best))
            best = &result->plans[i];
    for (;;) {
        struct search_plan *next = NULL;
        for (int32_t i = 0; i < result->n_plans; i++) {
            struct search_plan *plan = &result->plans[i];
            if (is_unscored(plan) && (next == NULL || plan->bound.peak_bytes < next->bound.peak_bytes))
                next = plan;
        }
        if (next == NULL || (best != NULL && next->bound.peak_bytes / result->limits.gpu_bytes - 1 >
                                                 evaluation_excess(&best->score.worst, &result->limits)))
            break;
        if (!rank_plan(search, next, 0, err))
            return false;
        if (is_nearer(search, next, best))
            best = next;
    }
    if (best == NULL)
        return error_set(err, "%s: %s cannot run any plan of the space %s: %s", search->entry->label,
                         search->evaluations.system->name, search->entry->space.name, search->evaluations.refused.text);
    best->verdict = SEARCH_CHOSEN;
    return true;
}

/**
 * Return the FLOPs of all samples that a system with a state has had when it ranks, over those of the batch. No more
 * can run.
 */
static double most_work_share(const struct search *search)
{
    const struct search_result *result = search->result;
    double flop = result->iterations[0].model_flop;
    for (int32_t i = 0; i < result->n_warm_up; i++) {
        const struct batch *batch = &search->evaluations.warm_up[i];
        flop += flop_model_of_samples(&search->evaluations.scenario->model, batch->tokens, batch->n_samples);
    }
    return flop / result->iterations[0].model_flop;
}

/** Bound all plans, and settle those that memory rules out. */
static void prune(struct search *search)
{
    struct search_result *result = search->result;
    double share = most_work_share(search);
    for (int32_t i = 0; i < result->n_plans; i++) {
        struct search_plan *plan = &result->plans[i];
        struct cost_setting setting = request_setting(search->evaluations.scenario, &plan->layout);
        struct plan_evaluation evaluation = plan_evaluation_of(&search->evaluations, &plan->layout, 0);
        struct plan_request request = plan_evaluation_request(&search->evaluations, &setting, &evaluation);
        plan->bound = bound_of(search->evaluations.system, &request, share);
        if (plan->bound.peak_bytes > result->limits.gpu_bytes && !search->options->exhaustive)
            plan->verdict = SEARCH_MEMORY_PRUNED;
        for (int32_t j = 1; j < SEARCH_DECIDING_ITERATIONS && search->evaluations.system->state_size == 0; j++) {
            evaluation = plan_evaluation_of(&search->evaluations, &plan->layout, j);
            request = plan_evaluation_request(&search->evaluations, &setting, &evaluation);
            plan->least_s[j] = bound_of(search->evaluations.system, &request, 1).time_s;
        }
    }
}

/** Begin again with the memory of plans that fit tightly. */
static void take_tight_limit(struct search *search)
{
    struct search_result *result = search->result;
    result->tight = true;
    result->limits.gpu_bytes = request_memory_bytes(search->evaluations.scenario);
    for (int32_t i = 0; i < result->n_plans; i++)
        result->plans[i] = (struct search_plan){
            .layout = result->plans[i].layout, .n_demanded = result->plans[i].n_demanded, .verdict = SEARCH_OPEN};
    prune(search);
}

/** Search the plans by their number of demanded features until some fit. */
static bool search_tiers(struct search *search, bool *found, struct error *err)
{
    *found = false;
    for (int32_t n_demanded = 0; !*found && n_demanded <= search->entry->space.on_demand.n; n_demanded++)
        if (!search_tier(search, n_demanded, found, err))
            return false;
    return true;
}

/** Resolve a plan that memory excluded, as far as it may be faster than `best`, and keep the faster one. */
static bool try_tight(struct search *search, const struct search_plan *plan, struct search_plan *best,
                      struct error *err)
{
    struct search_plan tight = *plan;
    tight.score = (struct search_score){0};
    if (!rank_plan(search, &tight, ranking_time_within_s(search->result, plan, best->ranking_s), err))
        return false;
    if (tight.verdict != SEARCH_SLOWER || tight.ranking_s >= best->ranking_s)
        return true;
    if (!score_plan(search, &tight, INFINITY, err))
        return false;
    if (tight.verdict == SEARCH_RUNNER_UP && search->options->engine != NULL && !add_contention(search, &tight, err))
        return false;
    if (tight.verdict == SEARCH_RUNNER_UP && tight.score.time_s < best->score.time_s)
        *best = tight;
    return true;
}

/** Find the fastest plan that fits tightly and is faster than the chosen one. */
static bool find_tight(struct search *search, struct error *err)
{
    struct search_result *result = search->result;
    const struct search_plan *chosen = ranking_fastest(result);
    const struct evaluation_limits sure = result->limits;
    struct search_plan best = *chosen;
    bool ok = true;
    result->limits.gpu_bytes = request_memory_bytes(search->evaluations.scenario);
    for (int32_t i = 0; ok && i < result->n_plans; i++) {
        struct search_plan *plan = &result->plans[i];
        bool excluded = is_unscored(plan) || plan->verdict == SEARCH_TOO_LARGE || plan->verdict == SEARCH_MISFIT;
        double before_s = best.score.time_s;
        if (!excluded || plan->n_demanded > chosen->n_demanded || plan->bound.peak_bytes > result->limits.gpu_bytes ||
            ranking_expected_s(result, plan, plan->bound.time_s) >= best.ranking_s)
            continue;
        ok = try_tight(search, plan, &best, err);
        if (best.score.time_s < before_s)
            result->faster = i;
    }
    result->limits = sure;
    result->faster_by = chosen->score.time_s / best.score.time_s - 1;
    if (result->faster_by <= SEARCH_TIE_PERCENT / 100.0)
        result->faster = -1;
    if (result->faster >= 0) {
        best.verdict = SEARCH_TIGHT;
        result->plans[result->faster] = best;
    }
    return ok;
}

/** Search the plans that fit surely, then those that fit tightly. */
static bool decide_in_order(struct search *search, struct error *err)
{
    struct search_result *result = search->result;
    bool found = false, sure = search->entry->plan.fits != SCENARIO_FITS_TIGHT;
    if (!search_tiers(search, &found, err))
        return false;
    if (found && sure && !find_tight(search, err))
        return false;
    if (!found && sure) {
        take_tight_limit(search);
        if (!search_tiers(search, &found, err))
            return false;
    }
    for (int32_t i = 0; i < result->n_plans; i++)
        if (result->plans[i].verdict == SEARCH_OPEN)
            result->plans[i].verdict = SEARCH_NOT_DEMANDED;
    if (!found) {
        search_result_free_planned(result);
        if (!choose_nearest(search, err))
            return false;
    }
    ranking_conclude(result);
    return true;
}

bool search_system(const struct scenario *scenario, const struct lengths *lengths, int32_t system,
                   const struct search_options *options, struct search_result *result, struct error *err)
{
    const struct scenario_system *entry = &scenario->systems[system];
    const struct training_system *training = system_find(entry->name, err);
    if (training == NULL)
        return false;
    *result = (struct search_result){
        .limits = evaluation_limits_of(request_planned_bytes(scenario, &entry->plan), &scenario->platform),
        .faster = -1,
        .seed = (int64_t)(rng_mix(rng_mix((uint64_t)scenario->seed) ^ seed_mark) >> 11),
        .engine = options->engine != NULL,
        .n_iterations = (int32_t)(scenario->warm_up + scenario->measured)};
    result->planned = check_calloc((size_t)result->n_iterations, sizeof *result->planned);
    struct search search = {
        .evaluations = {.scenario = scenario, .system = training, .engine = options->engine, .result = result},
        .entry = entry,
        .lengths = lengths,
        .options = options,
        .result = result,
    };
    struct plan_evaluator *evaluations = &search.evaluations;
    evaluations->knobs = check_calloc(1, training->knobs_size);
    plan_evaluator_draw(evaluations, lengths);
    bool ok = system_read_knobs(training, scenario, entry, evaluations->knobs, err);
    result->plans = space_plans(scenario, entry, training, evaluations->knobs, &result->n_plans);
    result->ranked = check_calloc((size_t)result->n_plans, sizeof *result->ranked);
    if (ok)
        prune(&search);
    ok = ok && decide_in_order(&search, err);
    plan_evaluator_free(evaluations);
    return ok;
}

/** Store the chosen plan as the entry's own. */
static void take_plan(struct scenario_system *entry, const struct search_result *result)
{
    entry->plan = result->plans[result->ranked[0]].layout;
    if (result->tight)
        entry->plan.fits = SCENARIO_FITS_TIGHT;
    if (result->faster >= 0)
        entry->tight = (struct scenario_tight){result->plans[result->faster].layout, result->faster_by};
    entry->auto_plan = false;
}

/** Searches of one scenario, which threads take one after the other. */
struct searches {
    const struct scenario *scenario;
    const struct lengths *lengths;
    struct search_options options; /* with progress_locked */
    const struct search_options *asked;
    struct search_result *results;
    struct error *errors; /* [n_systems] */
    bool *ok;             /* [n_systems] */
    int32_t next;
    pthread_mutex_t lock; /* of `next` and of the caller's progress */
};

static bool progress_locked(void *context, const struct scenario_system *entry, int32_t n_settled, int32_t n_plans,
                            const struct search_plan *best)
{
    struct searches *searches = context;
    pthread_mutex_lock(&searches->lock);
    bool go_on = searches->asked->progress(searches->asked->context, entry, n_settled, n_plans, best);
    pthread_mutex_unlock(&searches->lock);
    return go_on;
}

static void *search_next(void *argument)
{
    struct searches *searches = argument;
    for (;;) {
        pthread_mutex_lock(&searches->lock);
        int32_t i = searches->next++;
        pthread_mutex_unlock(&searches->lock);
        if (i >= searches->scenario->n_systems)
            return NULL;
        searches->ok[i] = !searches->scenario->systems[i].auto_plan ||
                          search_system(searches->scenario, searches->lengths, i, &searches->options,
                                        &searches->results[i], &searches->errors[i]);
    }
}

/** Run all searches, in as many threads as the caller allows. */
static void search_all(struct searches *searches)
{
    int32_t n = searches->asked->n_threads < searches->scenario->n_systems ? searches->asked->n_threads
                                                                           : searches->scenario->n_systems;
    pthread_t *threads = check_calloc((size_t)(n > 0 ? n : 1), sizeof *threads);
    int32_t n_started = 0;
    while (n_started < n - 1 && pthread_create(&threads[n_started], NULL, search_next, searches) == 0)
        n_started++;
    search_next(searches);
    for (int32_t i = 0; i < n_started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

bool search_scenario(struct scenario *scenario, const struct lengths *lengths, const struct search_options *options,
                     struct search_result *results, struct error *err)
{
    bool ok = true;
    struct searches searches = {
        .scenario = scenario,
        .lengths = lengths,
        .options = *options,
        .asked = options,
        .results = results,
        .errors = check_calloc((size_t)scenario->n_systems, sizeof *searches.errors),
        .ok = check_calloc((size_t)scenario->n_systems, sizeof *searches.ok),
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    searches.options.context = &searches;
    if (options->progress != NULL)
        searches.options.progress = progress_locked;
    search_all(&searches);
    for (int32_t i = 0; ok && i < scenario->n_systems; i++) {
        ok = searches.ok[i];
        if (!ok)
            *err = searches.errors[i];
        else if (scenario->systems[i].auto_plan)
            take_plan(&scenario->systems[i], &results[i]);
    }
    free(searches.errors);
    free(searches.ok);
    return ok;
}

bool search_check(const struct scenario *scenario, struct error *err)
{
    const struct document *document = &scenario->document;
    bool ok = true;
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        const struct scenario_system *entry = &scenario->systems[i];
        struct error unknown = {0};
        const struct training_system *system = system_find(entry->name, &unknown);
        if (entry->auto_plan && scenario->replay.n_steps > 0) {
            ok = document_error(document, document_find(document, entry->node, "plan"), err,
                                "plan: 'auto' is not allowed with replay, whose file was measured with one plan; "
                                "allowed: its degrees, {tp: 4, pp: 4}");
            continue;
        }
        if (!entry->auto_plan || system == NULL) /* system_check_entries reports errors of name and knobs */
            continue;
        int32_t n_plans = 1;
        void *knobs = check_calloc(1, system->knobs_size);
        if (system_read_knobs(system, scenario, entry, knobs, &unknown))
            free(space_plans(scenario, entry, system, knobs, &n_plans));
        free(knobs);
        if (n_plans == 0)
            ok = document_error(
                document, document_find(document, entry->node, "plan"), err,
                "plan: the plan space %s holds no plan of %s for %s on the %d GPUs of %s; tp divides the "
                "%d GPUs of %s and the heads, and kv_heads or is a multiple of them, pp the %d layers (or those "
                "with the head, or embedding and "
                "head, as one more each; plan_space.spread: even allows a rest), tp x pp x cp x dp is all GPUs; vpp "
                "above "
                "1 needs pp above 1, layers that pp x vpp shares alike and a system that interleaves; zero2 and zero3 "
                "with pp 1 and without gradient_accumulation fp32-copy; loss fused-linear with tp 1 and pp 1",
                entry->space.name, system->name, scenario->model.name, platform_n_gpus(&scenario->platform),
                scenario->platform.name, platform_nvlink_domain(&scenario->platform),
                platform_domain_name(&scenario->platform), (int)scenario->model.layers);
    }
    return ok;
}
