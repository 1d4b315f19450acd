/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/search.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/rng.h"
#include "bounds/bubble.h"
#include "bounds/work.h"
#include "cost/cache.h"
#include "cost/flop.h"
#include "search/space.h"

/* The batches of a search are not those of the run, whatever its seed. */
static const uint64_t seed_mark = 0x706c616e; /* "plan" */

/* One search and what its plans share. */
struct search {
    const struct scenario *scenario;
    const struct scenario_system *entry;
    const struct training_system *system;
    const struct lengths *lengths;
    const struct search_options *options;
    struct search_result *result;
    void *knobs;
    struct batch batches[SEARCH_DECIDING_ITERATIONS];
    struct batch *warm_up; /* [result->n_warm_up] */
    bool *relaxed;         /* of each plan: its bound knows the passes' end with its recompute and all else free */
    struct timeline path, executed;
    struct dag dag; /* its arrays are kept from plan to plan */
    struct cost_cache costs;
    struct error refused; /* the first refusal */
};

/* One iteration of one plan. */
struct outcome {
    bool planned;      /* else refused */
    double work_share; /* model FLOPs that ran over those of the batch; times are of what ran */
    double time_s, contention, passes_end_s;
    double peak_bytes, host_bytes;
    int32_t peak_stage, peak_class;
    bool given_up; /* planned, and left as of no use: no more of it is known */
    struct bubble bubble;
    double collective_s; /* inside passes, part of bubble.busy_s */
};

/** How a plan is resolved. */
struct trial {
    struct scenario_plan layout;
    const struct batch *batch;
    int64_t iteration, seed; /* of the batch */
    double memory_bytes;
    double limit_s; /* 0: none; else a plan that takes longer, or that does not fit, is of no use */
    bool engine;    /* on SimGrid, too */
    bool plan_only; /* no more is known than that it could be planned */
};

static void take_peak(const struct scenario *scenario, const struct plan *plan, const struct dag *dag,
                      const struct memory *memory, struct outcome *outcome)
{
    int32_t place = memory->worst_place;
    struct memory_host host = memory_host_of(plan, dag, memory, scenario->platform.gpus_per_node);
    outcome->host_bytes = fmax(outcome->host_bytes, host.bytes);
    if (memory->peak_bytes[place] <= outcome->peak_bytes)
        return;
    outcome->peak_bytes = memory->peak_bytes[place];
    outcome->peak_stage = dag->places[place].stage;
    outcome->peak_class = 0;
    for (int i = 1; i < MEMORY_N_CLASSES; i++)
        if (memory->at_peak[place][i] > memory->at_peak[place][outcome->peak_class])
            outcome->peak_class = i;
}

static double passes_end_s(const struct dag *dag, const struct timeline *timeline)
{
    double end_s = 0;
    for (int32_t i = 0; i < dag->n_tasks; i++)
        if (dag->tasks[i].kind == DAG_COMPUTE || dag->tasks[i].kind == DAG_ATTENTION)
            end_s = fmax(end_s, timeline->finish_s[i]);
    return end_s;
}

/** Times and memory of a plan that is at hand. */
static bool resolve(struct search *search, const struct trial *trial, const struct plan *plan,
                    const struct cost_setting *setting, struct outcome *outcome, struct error *err)
{
    const struct scenario *scenario = search->scenario;
    struct dag_options options = {.all_tensor_ranks = scenario->all_tensor_ranks, .gradient_sync = true};
    struct dag *dag = &search->dag;
    struct memory memory = {0};
    bool ok = dag_rebuild(plan, setting, options, dag, err);
    if (ok) {
        critical_path(dag, &search->path);
        memory_of(plan, dag, &search->path, setting, false, &memory);
        take_peak(scenario, plan, dag, &memory, outcome);
        outcome->time_s = search->path.makespan_s;
        outcome->passes_end_s = passes_end_s(dag, &search->path);
        outcome->bubble = bubble_of(dag, &search->path);
        struct work work = work_of(plan, dag, setting);
        outcome->collective_s = work.tensor_s + work.shard_s;
        memory_free(&memory);
    }
    if (ok && trial->engine && (ok = search->options->engine(dag, &scenario->platform, &search->executed, err))) {
        outcome->contention = search->executed.makespan_s / outcome->time_s - 1;
        memory_of(plan, dag, &search->executed, setting, false, &memory);
        take_peak(scenario, plan, dag, &memory, outcome);
        memory_free(&memory);
    }
    return ok;
}

static struct system_request request_of(const struct search *search, const struct cost_setting *setting,
                                        const struct trial *trial)
{
    struct system_request request =
        system_request_of(search->scenario, setting, &trial->layout, trial->batch, search->knobs, trial->iteration);
    request.seed = trial->seed;
    request.memory_bytes = trial->memory_bytes;
    if (trial->limit_s > 0) { /* sums in another order may differ in their last bits */
        double passes_s = trial->limit_s * (1 + 1e-9) - bound_after_passes_s(setting, &trial->layout);
        request.limit_s = fmin(fmax(DBL_MIN, passes_s), DBL_MAX);
    }
    return request;
}

/** A plan on one of the iterations that decide. */
static struct trial trial_of(const struct search *search, const struct scenario_plan *layout, int32_t which)
{
    return (struct trial){.layout = *layout,
                          .batch = &search->batches[which],
                          .iteration = search->result->iterations[which].iteration,
                          .seed = search->result->seed,
                          .memory_bytes = search->result->memory_bytes};
}

/** Model FLOPs that a plan runs over those of its batch: samples wait, and others have waited. */
static double work_share(const struct model *model, const struct plan *plan, const struct batch *batch)
{
    double batch_flop = deciding_batch_flop(model, batch), flop = batch_flop;
    for (int32_t i = 0; i < plan->n_delayed; i++)
        flop -= flop_model_of_sample(model, batch->tokens[plan->delayed[i]]);
    for (int32_t i = 0; i < plan->n_carried; i++)
        flop += flop_model_of_sample(model, plan->carried_tokens[i]);
    return plan->n_delayed == 0 && plan->n_carried == 0 ? 1 : flop / batch_flop;
}

/** Plan one iteration and resolve it. A plan that the system refuses is an outcome, not an error.
 * @param keep  {0}, takes the plan; NULL: nobody does */
static bool run_trial(struct search *search, const struct trial *trial, void *state, struct plan *keep,
                      struct outcome *outcome, struct error *err)
{
    struct cost_setting setting = system_setting(search->scenario, &trial->layout);
    setting.cache = &search->costs;
    struct system_request request = request_of(search, &setting, trial);
    struct plan plan = {0};
    struct error refused = {0};
    *outcome = (struct outcome){.planned = search->system->plan(&request, state, &plan, &refused)};
    if (!outcome->planned && search->refused.status == ERROR_NONE)
        search->refused = refused;
    outcome->given_up = outcome->planned && plan.n_phases == 0;
    bool resolves = outcome->planned && !outcome->given_up && !trial->plan_only;
    bool ok = !resolves || resolve(search, trial, &plan, &setting, outcome, err);
    if (ok && resolves)
        outcome->work_share = work_share(&search->scenario->model, &plan, trial->batch);
    if (keep != NULL)
        *keep = plan;
    else
        plan_free(&plan);
    return ok;
}

/** Time of as much work as the batches have: the weighted sum of times, in proportion to that of the work that ran. */
static double score_time_s(const struct search_result *result, const struct search_score *score)
{
    double time_s = 0, weight = 0, batch_flop = 0, ran_flop = 0;
    for (int32_t i = 0; i < score->n_iterations; i++) {
        const struct search_iteration *iteration = &result->iterations[i];
        weight += iteration->weight;
        time_s += iteration->weight * score->iteration_s[i];
        batch_flop += iteration->weight * iteration->model_flop;
        ran_flop += iteration->weight * iteration->model_flop * score->work_share[i];
    }
    return time_s / weight * (batch_flop / ran_flop);
}

/** The outcome of the next of the iterations that decide. */
static void add_outcome(const struct search_result *result, const struct outcome *outcome, struct search_score *score)
{
    const struct bubble *bubble = &outcome->bubble;
    int32_t last = score->n_iterations++;
    double weight = 0;
    CHECK(last < SEARCH_DECIDING_ITERATIONS);
    for (int32_t i = 0; i <= last; i++)
        weight += result->iterations[i].weight;
    double part = result->iterations[last].weight / weight;
    score->iteration_s[last] = outcome->time_s;
    score->work_share[last] = outcome->work_share;
    score->time_s = score_time_s(result, score);
    score->compute += part * ((bubble->busy_s - outcome->collective_s) / bubble->total_s - score->compute);
    score->bubble += part * (bubble_fraction(bubble) - score->bubble);
    score->communication +=
        part * ((outcome->collective_s + bubble->ring_s + bubble->sync_s + bubble->reshard_s) / bubble->total_s -
                score->communication);
    score->host_bytes = fmax(score->host_bytes, outcome->host_bytes);
    if (outcome->peak_bytes > score->peak_bytes) {
        score->peak_bytes = outcome->peak_bytes;
        score->peak_stage = outcome->peak_stage;
        score->peak_class = outcome->peak_class;
    }
}

static bool fits(const struct search *search, const struct search_plan *plan)
{
    return system_misfit_of(search->scenario, plan->score.peak_bytes, plan->score.host_bytes) == SYSTEM_FITS;
}

/** Systems keep a state from one iteration to the next: what it is after the warm-up. @param outcome  its last */
static bool open_state(struct search *search, const struct trial *first, void **state, struct outcome *outcome,
                       struct error *err)
{
    bool ok = true;
    *state = check_calloc(1, search->system->state_size);
    *outcome = (struct outcome){.planned = true};
    for (int32_t i = 0; ok && outcome->planned && i < search->result->n_warm_up; i++) {
        struct trial trial = *first;
        trial.batch = &search->warm_up[i];
        trial.iteration = SEARCH_CANDIDATES + i;
        trial.limit_s = 0;
        trial.plan_only = true;
        ok = run_trial(search, &trial, *state, NULL, outcome, err);
    }
    return ok;
}

static void close_state(const struct search *search, void *state)
{
    if (search->system->close != NULL)
        search->system->close(state);
    free(state);
}

/** Resolve a plan on the iteration that ranks. limit_s: a plan that takes longer, or that does not fit, is of no use
 * and may get no score; 0: all do. */
static bool rank_plan(struct search *search, struct search_plan *plan, double limit_s, struct error *err)
{
    struct trial trial = trial_of(search, &plan->layout, 0);
    struct outcome outcome;
    void *state;
    trial.limit_s = limit_s;
    bool ok = open_state(search, &trial, &state, &outcome, err) &&
              (!outcome.planned || run_trial(search, &trial, state, NULL, &outcome, err));
    close_state(search, state);
    if (!ok)
        return false;
    if (outcome.given_up) {
        plan->verdict = limit_s < INFINITY ? SEARCH_BOUND_PRUNED : SEARCH_TOO_LARGE;
        return true;
    }
    plan->verdict = SEARCH_REFUSED;
    if (!outcome.planned)
        return true;
    search->result->n_resolved++;
    plan->score = (struct search_score){0};
    add_outcome(search->result, &outcome, &plan->score);
    plan->ranking_s = plan->score.time_s;
    plan->verdict = fits(search, plan) ? SEARCH_SLOWER : SEARCH_TOO_LARGE;
    return true;
}

/** Resolve a plan on the iterations that decide, until one does not fit. */
static bool score_plan(struct search *search, struct search_plan *plan, struct error *err)
{
    bool engine = search->options->engine != NULL;
    struct trial trial = trial_of(search, &plan->layout, 0);
    struct outcome outcome;
    void *state;
    bool ok = open_state(search, &trial, &state, &outcome, err);
    if (engine || search->system->state_size > 0) /* else the one that ranked stands */
        plan->score = (struct search_score){0};
    for (int32_t i = plan->score.n_iterations;
         ok && outcome.planned && i < SEARCH_DECIDING_ITERATIONS && fits(search, plan); i++) {
        trial = trial_of(search, &plan->layout, i);
        trial.engine = engine && i == 0;
        ok = run_trial(search, &trial, state, NULL, &outcome, err);
        if (!ok || !outcome.planned)
            break;
        add_outcome(search->result, &outcome, &plan->score);
        if (trial.engine)
            plan->score.contention = outcome.contention;
    }
    plan->score.time_s *= 1 + plan->score.contention;
    plan->verdict = !outcome.planned ? SEARCH_REFUSED : fits(search, plan) ? SEARCH_RUNNER_UP : SEARCH_TOO_LARGE;
    close_state(search, state);
    return ok;
}

static void free_planned(struct search_result *result)
{
    for (int32_t i = 0; i < result->n_iterations; i++)
        plan_free(&result->planned[i]);
}

/** Run a plan over the iterations of the scenario until one that is measured does not fit. The peak of that one
 * becomes the score's. What the system planned is kept. */
static bool confirm(struct search *search, struct search_plan *plan, bool *holds, struct error *err)
{
    const struct scenario *scenario = search->scenario;
    struct search_result *result = search->result;
    void *state = check_calloc(1, search->system->state_size);
    bool ok = true, keeps_state = search->system->state_size > 0;
    *holds = true;
    free_planned(result);
    for (int64_t i = keeps_state ? 0 : scenario->warm_up; ok && *holds && i < scenario->warm_up + scenario->measured;
         i++) {
        struct batch batch;
        struct outcome outcome;
        lengths_draw(search->lengths, &scenario->data, scenario->seed, i, &batch);
        struct trial trial = {.layout = plan->layout,
                              .batch = &batch,
                              .iteration = i,
                              .seed = scenario->seed,
                              .memory_bytes = result->memory_bytes,
                              .engine = search->options->engine != NULL,
                              .plan_only = i < scenario->warm_up};
        ok = run_trial(search, &trial, state, &result->planned[i], &outcome, err);
        *holds = ok && outcome.planned &&
                 (i < scenario->warm_up ||
                  system_misfit_of(scenario, outcome.peak_bytes, outcome.host_bytes) == SYSTEM_FITS);
        if (ok && !*holds) {
            plan->score.peak_bytes = outcome.peak_bytes;
            plan->score.host_bytes = outcome.host_bytes;
            plan->score.peak_stage = outcome.peak_stage;
            plan->score.peak_class = outcome.peak_class;
        }
        batch_free(&batch);
    }
    close_state(search, state);
    return ok;
}

static bool same_layout(const struct scenario_plan *a, const struct scenario_plan *b)
{
    return a->tp == b->tp && a->pp == b->pp && a->cp == b->cp && a->dp == b->dp;
}

static bool same_recompute(const struct scenario_plan *a, const struct scenario_plan *b)
{
    return same_layout(a, b) && a->recompute == b->recompute;
}

/**
 * For systems that never regret (system/system.h): with memory without end and no offload, passes end no later than
 * those of any plan of the layout that recomputes as much or more. The optimizer follows: that raises their bounds. If
 * the plan fits after all, it is the one without offload.
 */
static bool relax(struct search *search, int32_t which, struct error *err)
{
    struct search_plan *plans = search->result->plans;
    struct trial trial = trial_of(search, &plans[which].layout, 0);
    struct cost_setting setting = system_setting(search->scenario, &trial.layout);
    void *state;
    struct outcome outcome;
    trial.layout.offload = 0;
    trial.memory_bytes = INFINITY;
    bool ok = open_state(search, &trial, &state, &outcome, err) &&
              (!outcome.planned || run_trial(search, &trial, state, NULL, &outcome, err));
    search->result->n_resolved += ok && outcome.planned;
    double bound_s = ok && outcome.planned ? outcome.passes_end_s + bound_after_passes_s(&setting, &trial.layout) : 0;
    for (int32_t i = 0; ok && i < search->result->n_plans; i++) {
        struct search_plan *plan = &plans[i];
        if (!same_layout(&plan->layout, &trial.layout) || plan->layout.recompute < trial.layout.recompute)
            continue;
        plan->bound.time_s = fmax(plan->bound.time_s, bound_s);
        if (plan->layout.recompute > trial.layout.recompute)
            continue;
        search->relaxed[i] = true;
        if (plan->verdict == SEARCH_OPEN && plan->layout.offload == 0 && outcome.planned &&
            system_misfit_of(search->scenario, outcome.peak_bytes, outcome.host_bytes) == SYSTEM_FITS) {
            add_outcome(search->result, &outcome, &plan->score);
            plan->ranking_s = plan->score.time_s;
            plan->verdict = SEARCH_SLOWER;
        }
    }
    close_state(search, state);
    return ok;
}

/** The least recomputation of the plan's layout that is not yet relaxed, up to its own; -1: none. */
static int32_t to_relax(const struct search *search, int32_t which)
{
    const struct search_plan *plans = search->result->plans;
    if (!search->system->never_regrets || search->options->exhaustive || search->relaxed[which])
        return -1;
    for (int32_t i = 0; i <= which; i++) /* recompute ascends inside a layout */
        if (same_layout(&plans[i].layout, &plans[which].layout)) {
            bool any = search->relaxed[i];
            return any ? which : i;
        }
    return which;
}

/** The iteration that ranked, or the iterations that decided. */
enum heat { HEAT_RANKING, HEAT_DECISION };

static bool goes_first(const struct search_plan *a, const struct search_plan *b, enum heat heat)
{
    double a_s = heat == HEAT_RANKING ? a->ranking_s : a->score.time_s;
    double b_s = heat == HEAT_RANKING ? b->ranking_s : b->score.time_s;
    return a_s != b_s ? a_s < b_s : a < b; /* ties: as in the space */
}

/** Append the plans of one of two verdicts to the ranking, by time. */
static void append_ranked(struct search_result *result, enum search_verdict verdict, enum search_verdict other,
                          enum heat heat)
{
    int32_t begin = result->n_ranked;
    for (int32_t i = 0; i < result->n_plans; i++) {
        if (result->plans[i].verdict != verdict && result->plans[i].verdict != other)
            continue;
        int32_t at = result->n_ranked++;
        for (; at > begin && goes_first(&result->plans[i], &result->plans[result->ranked[at - 1]], heat); at--)
            result->ranked[at] = result->ranked[at - 1];
        result->ranked[at] = i;
    }
}

/** Keep the fastest plan of each layout and recomputation in the ranking. @return the time of the SEARCH_FEW-th fastest
 * layout */
static double few_best_s(struct search_result *result)
{
    int32_t n = 0, n_layouts = 0;
    double few_s = INFINITY;
    result->n_ranked = 0;
    append_ranked(result, SEARCH_SLOWER, SEARCH_RUNNER_UP, HEAT_RANKING);
    for (int32_t i = 0; i < result->n_ranked; i++) {
        const struct search_plan *plan = &result->plans[result->ranked[i]];
        bool new_layout = true, new_recompute = true;
        for (int32_t j = 0; j < n && new_recompute; j++) {
            const struct scenario_plan *faster = &result->plans[result->ranked[j]].layout;
            new_layout = new_layout && !same_layout(&plan->layout, faster);
            new_recompute = !same_recompute(&plan->layout, faster);
        }
        if (new_layout && ++n_layouts == SEARCH_FEW)
            few_s = plan->ranking_s;
        if (new_recompute)
            result->ranked[n++] = result->ranked[i];
    }
    result->n_ranked = n;
    return few_s;
}

/** What time a plan of the layout must reach to be decided on: near that of the layout's fastest and of the
 * SEARCH_FEW-th fastest layout, few_s. Faster plans only lower it. */
static double near_s(const struct search_result *result, const struct scenario_plan *layout, double few_s)
{
    double best_s = few_s;
    for (int32_t i = 0; i < result->n_ranked; i++)
        if (same_layout(&result->plans[result->ranked[i]].layout, layout))
            best_s = fmin(best_s, result->plans[result->ranked[i]].ranking_s);
    return (1 + SEARCH_NEAR_PERCENT / 100.0) * best_s;
}

/** What time a plan must reach to be decided on, as the fastest of its layout and recomputation. */
static double limit_of(struct search_result *result, int32_t which)
{
    const struct scenario_plan *layout = &result->plans[which].layout;
    double few_s = few_best_s(result), limit_s = near_s(result, layout, few_s);
    for (int32_t i = 0; i < result->n_ranked; i++) {
        const struct search_plan *best = &result->plans[result->ranked[i]];
        if (same_recompute(&best->layout, layout)) /* a tie goes to the first, and bounds are rounded */
            limit_s = fmin(limit_s, best->ranking_s * (result->ranked[i] < which ? 1 - 1e-12 : 1));
    }
    return limit_s;
}

/** The open plan of so many demanded features to resolve next; -1: none. Until a few layouts fit, and so there is a
 * time to beat, the one of least possible memory (ties: the last, which recomputes most): it is planned quickly. Then
 * the one of the least bound (ties: the first). */
static int32_t next_plan(struct search *search, int32_t n_demanded)
{
    const struct search_plan *plans = search->result->plans;
    bool few = few_best_s(search->result) < INFINITY;
    int32_t best = -1;
    for (int32_t i = 0; i < search->result->n_plans; i++) {
        if (plans[i].verdict != SEARCH_OPEN || plans[i].n_demanded != n_demanded)
            continue;
        if (best < 0 || (few ? plans[i].bound.time_s < plans[best].bound.time_s
                             : plans[i].bound.peak_bytes <= plans[best].bound.peak_bytes))
            best = i;
    }
    return best;
}

static bool tell(const struct search *search, struct error *err)
{
    const struct search_result *result = search->result;
    int32_t n_settled = 0;
    for (int32_t i = 0; i < result->n_plans; i++)
        n_settled += result->plans[i].verdict != SEARCH_OPEN;
    if (search->options->progress == NULL ||
        search->options->progress(search->options->context, search->entry, n_settled, result->n_plans))
        return true;
    return err->status != ERROR_NONE ? false : error_set_status(err, ERROR_FAILED, "the plan search was stopped");
}

/** Resolve plans of so many demanded features, the least bound first, those that can be decided on. */
static bool rank(struct search *search, int32_t n_demanded, struct error *err)
{
    struct search_plan *plans = search->result->plans;
    for (int32_t which; (which = next_plan(search, n_demanded)) >= 0;) {
        if (!tell(search, err))
            return false;
        double limit_s = search->options->exhaustive ? INFINITY : limit_of(search->result, which);
        if (plans[which].bound.time_s > limit_s) {
            plans[which].verdict = SEARCH_BOUND_PRUNED;
            continue;
        }
        int32_t freed = to_relax(search, which);
        if (!(freed >= 0 ? relax(search, freed, err)
                         : rank_plan(search, &plans[which], search->options->exhaustive ? 0 : limit_s, err)))
            return false;
    }
    return true;
}

/** Resolve the best of the ranking on the iterations that decide. @param out  some plan is out */
static bool decide(struct search *search, bool *out, struct error *err)
{
    struct search_result *result = search->result;
    double few_s = few_best_s(result);
    *out = false;
    for (int32_t i = 0; i < result->n_ranked; i++) {
        struct search_plan *plan = &result->plans[result->ranked[i]];
        if (plan->verdict == SEARCH_RUNNER_UP || plan->ranking_s > near_s(result, &plan->layout, few_s))
            continue;
        if (!score_plan(search, plan, err) || !tell(search, err))
            return false;
        *out = *out || plan->verdict != SEARCH_RUNNER_UP;
    }
    return true;
}

/** The fastest plan of those that were decided on; NULL: there is none. */
static struct search_plan *fastest(struct search_result *result)
{
    struct search_plan *best = NULL;
    for (int32_t i = 0; i < result->n_plans; i++)
        if (result->plans[i].verdict == SEARCH_RUNNER_UP &&
            (best == NULL || goes_first(&result->plans[i], best, HEAT_DECISION)))
            best = &result->plans[i];
    return best;
}

/** Rank and decide among the plans of so many demanded features. A plan that is out, in the deciding iterations or in
 * those of the scenario, clears the way for others. @param found  one fits */
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
        struct search_plan *best = out ? NULL : fastest(result);
        if (best == NULL)
            continue;
        if (!confirm(search, best, found, err) || !tell(search, err))
            return false;
        out = !*found;
        if (out)
            best->verdict = SEARCH_MISFIT;
    }
    return true;
}

/** How much of a memory a plan needs at least, of GPU or host: above 1 it does not fit. */
static double need_of(const struct search *search, double peak_bytes, double host_bytes)
{
    return fmax(peak_bytes / search->result->memory_bytes, host_bytes / search->scenario->platform.host_memory_bytes);
}

/** Ruled out by memory, how much of it unknown. */
static bool is_unscored(const struct search_plan *plan)
{
    return plan->verdict == SEARCH_MEMORY_PRUNED ||
           (plan->verdict == SEARCH_TOO_LARGE && plan->score.n_iterations == 0);
}

static bool is_nearer(const struct search *search, const struct search_plan *plan, const struct search_plan *best)
{
    if ((plan->verdict != SEARCH_TOO_LARGE && plan->verdict != SEARCH_MISFIT) || is_unscored(plan))
        return false;
    return best == NULL || need_of(search, plan->score.peak_bytes, plan->score.host_bytes) <
                               need_of(search, best->score.peak_bytes, best->score.host_bytes);
}

/** Nothing fits: resolve what has no score, the least possible peak first, and choose what comes nearest. */
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
        if (next == NULL || (best != NULL && need_of(search, next->bound.peak_bytes, 0) >=
                                                 need_of(search, best->score.peak_bytes, best->score.host_bytes)))
            break;
        if (!rank_plan(search, next, 0, err))
            return false;
        if (is_nearer(search, next, best))
            best = next;
    }
    if (best == NULL)
        return error_set(err, "%s: %s cannot run any plan of the space %s: %s", search->entry->label,
                         search->system->name, search->entry->space.name, search->refused.text);
    best->verdict = SEARCH_CHOSEN;
    return true;
}

/**
 * How far a runner-up is behind the chosen plan: the ratio q of their weighted means of times less 1, and the standard
 * error of that ratio from what it leaves of each batch, r_i = a_i - q b_i of the runner-up's and the chosen plan's
 * time, relative to the mean of b:
 *
 *     error^2 = n / (n - 1) sum_i w_i^2 r_i^2 / (sum_i w_i b_i)^2
 *
 * as if the batches had been drawn at random, with these weights; that they were chosen by their work makes it smaller.
 */
static void compare(const struct search_result *result, const struct search_score *chosen, struct search_score *score)
{
    double ratio = score->time_s / chosen->time_s, squares = 0, n = score->n_iterations, mean_s = 0, chosen_mean_s = 0;
    for (int32_t i = 0; i < score->n_iterations; i++) {
        mean_s += result->iterations[i].weight * score->iteration_s[i];
        chosen_mean_s += result->iterations[i].weight * chosen->iteration_s[i];
    }
    for (int32_t i = 0; i < score->n_iterations; i++) { /* relative to the means: in proportion to the work that ran */
        double rest = score->iteration_s[i] / mean_s - chosen->iteration_s[i] / chosen_mean_s;
        squares += pow(result->iterations[i].weight * rest * ratio, 2);
    }
    score->slower = ratio - 1;
    score->slower_error = sqrt(squares * n / (n - 1));
}

/** Verdicts of the plans that were decided on, the ranking and the counts. */
static void conclude(struct search_result *result)
{
    result->n_ranked = 0;
    append_ranked(result, SEARCH_RUNNER_UP, SEARCH_RUNNER_UP, HEAT_DECISION);
    if (result->n_ranked > 0) {
        struct search_plan *chosen = &result->plans[result->ranked[0]];
        chosen->verdict = SEARCH_CHOSEN;
        result->fits = true;
        for (int32_t i = 1; i < result->n_ranked; i++)
            compare(result, &chosen->score, &result->plans[result->ranked[i]].score);
    } else {
        append_ranked(result, SEARCH_CHOSEN, SEARCH_CHOSEN, HEAT_DECISION);
    }
    append_ranked(result, SEARCH_SLOWER, SEARCH_SLOWER, HEAT_RANKING);
    append_ranked(result, SEARCH_MISFIT, SEARCH_MISFIT, HEAT_DECISION);
    for (int32_t i = 0; i < result->n_plans; i++)
        result->count[result->plans[i].verdict]++;
}

/** FLOPs of all samples that a system with a state has had when it ranks, over those of the batch: no more can run. */
static double most_work_share(const struct search *search)
{
    const struct search_result *result = search->result;
    double flop = result->iterations[0].model_flop;
    for (int32_t i = 0; i < result->n_warm_up; i++)
        flop += deciding_batch_flop(&search->scenario->model, &search->warm_up[i]);
    return flop / result->iterations[0].model_flop;
}

/** Bounds of all plans; those that memory rules out are settled. */
static void prune(struct search *search)
{
    struct search_result *result = search->result;
    double share = most_work_share(search);
    for (int32_t i = 0; i < result->n_plans; i++) {
        struct search_plan *plan = &result->plans[i];
        struct cost_setting setting = system_setting(search->scenario, &plan->layout);
        struct trial trial = trial_of(search, &plan->layout, 0);
        struct system_request request = request_of(search, &setting, &trial);
        plan->bound = bound_of(search->system, &request, share);
        if (plan->bound.peak_bytes > result->memory_bytes && !search->options->exhaustive)
            plan->verdict = SEARCH_MEMORY_PRUNED;
    }
}

/** Take the plans by their number of demanded features, until some fit. */
static bool decide_in_order(struct search *search, struct error *err)
{
    struct search_result *result = search->result;
    bool found = false;
    for (int32_t n_demanded = 0; !found && n_demanded <= search->entry->space.on_demand.n; n_demanded++)
        if (!search_tier(search, n_demanded, &found, err))
            return false;
    for (int32_t i = 0; i < result->n_plans; i++)
        if (result->plans[i].verdict == SEARCH_OPEN)
            result->plans[i].verdict = SEARCH_NOT_DEMANDED;
    if (!found) {
        free_planned(result);
        if (!choose_nearest(search, err))
            return false;
    }
    conclude(result);
    return true;
}

/** Choose the iterations, and draw them. */
static void draw_batches(struct search *search)
{
    struct search_result *result = search->result;
    const struct scenario *scenario = search->scenario;
    bool keeps_state = search->system->state_size > 0;
    deciding_iterations(search->lengths, scenario, result->seed, keeps_state, result->iterations);
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++)
        lengths_draw(search->lengths, &scenario->data, result->seed, result->iterations[i].iteration,
                     &search->batches[i]);
    result->n_warm_up = keeps_state ? (int32_t)scenario->warm_up : 0;
    search->warm_up = check_calloc((size_t)result->n_warm_up, sizeof *search->warm_up);
    for (int32_t i = 0; i < result->n_warm_up; i++)
        lengths_draw(search->lengths, &scenario->data, result->seed, SEARCH_CANDIDATES + i, &search->warm_up[i]);
}

static void free_batches(struct search *search)
{
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++)
        batch_free(&search->batches[i]);
    for (int32_t i = 0; i < search->result->n_warm_up; i++)
        batch_free(&search->warm_up[i]);
    free(search->warm_up);
}

bool search_system(const struct scenario *scenario, const struct lengths *lengths, int32_t system,
                   const struct search_options *options, struct search_result *result, struct error *err)
{
    const struct scenario_system *entry = &scenario->systems[system];
    struct search search = {
        .scenario = scenario,
        .entry = entry,
        .lengths = lengths,
        .system = system_find(entry->name, err),
        .options = options,
        .result = result,
    };
    if (search.system == NULL)
        return false;
    *result = (struct search_result){.memory_bytes = system_memory_bytes(&scenario->device),
                                     .seed = (int64_t)(rng_mix(rng_mix((uint64_t)scenario->seed) ^ seed_mark) >> 11),
                                     .engine = options->engine != NULL,
                                     .n_iterations = (int32_t)(scenario->warm_up + scenario->measured)};
    result->planned = check_calloc((size_t)result->n_iterations, sizeof *result->planned);
    search.knobs = check_calloc(1, search.system->knobs_size);
    draw_batches(&search);
    bool ok = system_read_knobs(search.system, scenario, entry, search.knobs, err);
    result->plans = space_plans(scenario, entry, search.system, search.knobs, &result->n_plans);
    result->ranked = check_calloc((size_t)result->n_plans, sizeof *result->ranked);
    search.relaxed = check_calloc((size_t)result->n_plans, sizeof *search.relaxed);
    if (ok)
        prune(&search);
    ok = ok && decide_in_order(&search, err);
    free_batches(&search);
    timeline_free(&search.path);
    timeline_free(&search.executed);
    dag_free(&search.dag);
    cost_cache_free(&search.costs);
    free(search.relaxed);
    free(search.knobs);
    return ok;
}

/** Make the chosen plan the entry's own. */
static void take_plan(struct scenario_system *entry, const struct search_result *result)
{
    entry->plan = result->plans[result->ranked[0]].layout;
    entry->auto_plan = false;
}

bool search_scenario(struct scenario *scenario, const struct lengths *lengths, const struct search_options *options,
                     struct search_result *results, struct error *err)
{
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        if (!scenario->systems[i].auto_plan)
            continue;
        if (!search_system(scenario, lengths, i, options, &results[i], err))
            return false;
        take_plan(&scenario->systems[i], &results[i]);
    }
    return true;
}

bool search_check(const struct scenario *scenario, struct error *err)
{
    const struct document *document = &scenario->document;
    bool ok = true;
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        const struct scenario_system *entry = &scenario->systems[i];
        struct error unknown = {0};
        const struct training_system *system = system_find(entry->name, &unknown);
        if (!entry->auto_plan || system == NULL) /* the latter is said elsewhere */
            continue;
        int32_t n_plans;
        free(space_plans(scenario, entry, system, NULL, &n_plans));
        if (n_plans == 0)
            ok = document_error(
                document, document_find(document, entry->node, "plan"), err,
                "plan: the plan space %s holds no plan of %s for %s on the %d GPUs of %s; tp divides the "
                "%d GPUs of a node, heads and kv_heads, pp the %d layers, tp x pp x cp x dp is all GPUs",
                entry->space.name, system->name, scenario->model.name, platform_n_gpus(&scenario->platform),
                scenario->platform.name, (int)scenario->platform.gpus_per_node, (int)scenario->model.layers);
    }
    return ok;
}

void search_result_free(struct search_result *result)
{
    free_planned(result);
    free(result->planned);
    free(result->plans);
    free(result->ranked);
    *result = (struct search_result){0};
}
