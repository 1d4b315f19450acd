/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "bounds/bubble.h"
#include "bounds/work.h"
#include "search/space.h"

/* The batches of a search are not those of the run, whatever its seed. */
static const uint64_t seed_mark = 0x706c616e; /* "plan" */

/* One search and what its plans share. */
struct search {
    const struct scenario *scenario;
    const struct scenario_system *entry;
    const struct training_system *system;
    const struct search_options *options;
    struct search_result *result;
    void *knobs;
    struct batch batches[SEARCH_DECIDING_ITERATIONS];
    bool *relaxed; /* of each plan: its bound knows the passes' end with its recompute and all else free */
    struct timeline path, executed;
    struct error refused; /* the first refusal */
};

/* One iteration of one plan. */
struct outcome {
    bool planned; /* else refused */
    double time_s, contention, passes_end_s;
    double peak_bytes;
    int32_t peak_stage, peak_class;
    struct bubble bubble;
    double collective_s; /* inside passes, part of bubble.busy_s */
};

/** How a plan is resolved. */
struct trial {
    struct scenario_plan layout;
    double memory_bytes;
    int32_t iteration;
    bool engine; /* on SimGrid, too */
};

static void take_peak(const struct dag *dag, const struct memory *memory, struct outcome *outcome)
{
    int32_t place = memory->worst_place;
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
    struct dag dag = {0};
    struct memory memory = {0};
    bool ok = dag_build(plan, setting, options, &dag, err);
    if (ok) {
        critical_path(&dag, &search->path);
        memory_of(plan, &dag, &search->path, setting, false, &memory);
        take_peak(&dag, &memory, outcome);
        outcome->time_s = search->path.makespan_s;
        outcome->passes_end_s = passes_end_s(&dag, &search->path);
        outcome->bubble = bubble_of(&dag, &search->path);
        struct work work = work_of(plan, setting, scenario->all_tensor_ranks);
        outcome->collective_s = work.tensor_s + work.shard_s;
        memory_free(&memory);
    }
    if (ok && trial->engine && (ok = search->options->engine(&dag, &scenario->platform, &search->executed, err))) {
        outcome->contention = search->executed.makespan_s / outcome->time_s - 1;
        memory_of(plan, &dag, &search->executed, setting, false, &memory);
        take_peak(&dag, &memory, outcome);
        memory_free(&memory);
    }
    dag_free(&dag);
    return ok;
}

static struct system_request request_of(const struct search *search, const struct cost_setting *setting,
                                        const struct scenario_plan *layout, int32_t iteration)
{
    struct system_request request =
        system_request_of(search->scenario, setting, layout, &search->batches[iteration], search->knobs, iteration);
    request.seed = search->result->seed;
    return request;
}

/** Its bounds on the iteration that ranks, with the knobs as they stand. */
static void bound_plan(const struct search *search, struct search_plan *plan)
{
    struct cost_setting setting = system_setting(search->scenario, &plan->layout);
    struct system_request request = request_of(search, &setting, &plan->layout, 0);
    plan->bound = bound_of(search->system, &request);
}

/** Plan one iteration and resolve it. A plan that the system refuses is an outcome, not an error. */
static bool run_trial(struct search *search, const struct trial *trial, void *state, struct outcome *outcome,
                      struct error *err)
{
    struct cost_setting setting = system_setting(search->scenario, &trial->layout);
    struct system_request request = request_of(search, &setting, &trial->layout, trial->iteration);
    struct plan plan = {0};
    struct error refused = {0};
    request.memory_bytes = trial->memory_bytes;
    *outcome = (struct outcome){.planned = search->system->plan(&request, state, &plan, &refused)};
    if (!outcome->planned && search->refused.status == ERROR_NONE)
        search->refused = refused;
    bool ok = !outcome->planned || resolve(search, trial, &plan, &setting, outcome, err);
    plan_free(&plan);
    search->result->n_resolved += outcome->planned && trial->iteration == 0;
    return ok;
}

static void add_outcome(struct search_score *score, const struct outcome *outcome)
{
    const struct bubble *bubble = &outcome->bubble;
    double n = score->n_iterations++;
    score->time_s += (outcome->time_s - score->time_s) / (n + 1);
    score->compute += ((bubble->busy_s - outcome->collective_s) / bubble->total_s - score->compute) / (n + 1);
    score->bubble += (bubble_fraction(bubble) - score->bubble) / (n + 1);
    score->communication +=
        ((outcome->collective_s + bubble->ring_s + bubble->sync_s) / bubble->total_s - score->communication) / (n + 1);
    if (outcome->peak_bytes > score->peak_bytes) {
        score->peak_bytes = outcome->peak_bytes;
        score->peak_stage = outcome->peak_stage;
        score->peak_class = outcome->peak_class;
    }
}

static bool fits(const struct search *search, const struct search_plan *plan)
{
    return plan->score.peak_bytes <= search->result->memory_bytes;
}

/** Resolve a plan on the first n iterations, which go over from one to the next in the system's state. Without a state
 * an iteration that was resolved is not resolved again. */
static bool score_plan(struct search *search, struct search_plan *plan, int32_t n_iterations, bool engine,
                       struct error *err)
{
    void *state = check_calloc(1, search->system->state_size);
    struct trial trial = {.layout = plan->layout, .memory_bytes = search->result->memory_bytes};
    bool ok = true;
    if (engine || search->system->state_size > 0)
        plan->score = (struct search_score){0};
    for (trial.iteration = plan->score.n_iterations; ok && trial.iteration < n_iterations; trial.iteration++) {
        struct outcome outcome;
        trial.engine = engine && trial.iteration == 0;
        ok = run_trial(search, &trial, state, &outcome, err);
        if (!ok || !outcome.planned)
            break;
        add_outcome(&plan->score, &outcome);
        if (trial.engine)
            plan->score.contention = outcome.contention;
    }
    if (n_iterations == 1)
        plan->ranking_s = plan->score.time_s;
    plan->score.time_s *= 1 + plan->score.contention;
    bool planned = plan->score.n_iterations == n_iterations;
    plan->verdict = !planned ? SEARCH_REFUSED : fits(search, plan) ? SEARCH_SLOWER : SEARCH_TOO_LARGE;
    if (search->system->close != NULL)
        search->system->close(state);
    free(state);
    return ok;
}

static bool same_layout(const struct scenario_plan *a, const struct scenario_plan *b)
{
    return a->tp == b->tp && a->pp == b->pp && a->cp == b->cp && a->dp == b->dp;
}

/**
 * For systems that never regret (system/system.h): with memory without end and no offload, passes end no later than
 * those of any plan of the layout that recomputes as much or more. The optimizer follows: that raises their bounds. If
 * the plan fits after all, it is the one without offload.
 */
static bool relax(struct search *search, int32_t which, struct error *err)
{
    struct search_plan *plans = search->result->plans;
    struct trial trial = {.layout = plans[which].layout, .memory_bytes = INFINITY};
    struct cost_setting setting = system_setting(search->scenario, &trial.layout);
    void *state = check_calloc(1, search->system->state_size);
    struct outcome outcome;
    trial.layout.offload = 0;
    bool ok = run_trial(search, &trial, state, &outcome, err);
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
            outcome.peak_bytes <= search->result->memory_bytes) {
            add_outcome(&plan->score, &outcome);
            plan->ranking_s = outcome.time_s;
            plan->verdict = SEARCH_SLOWER;
        }
    }
    if (search->system->close != NULL)
        search->system->close(state);
    free(state);
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

/** The open plan of so many demanded features with the least bound; ties: the first; -1: none. */
static int32_t next_plan(const struct search *search, int32_t n_demanded)
{
    const struct search_plan *plans = search->result->plans;
    int32_t best = -1;
    for (int32_t i = 0; i < search->result->n_plans; i++)
        if (plans[i].verdict == SEARCH_OPEN && plans[i].n_demanded == n_demanded &&
            (best < 0 || plans[i].bound.time_s < plans[best].bound.time_s))
            best = i;
    return best;
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

/** Keep the fastest plan of each layout in the ranking, and say what time a plan must reach to be among the few. */
static double few_best_s(struct search_result *result)
{
    int32_t n = 0;
    result->n_ranked = 0;
    append_ranked(result, SEARCH_SLOWER, SEARCH_RUNNER_UP, HEAT_RANKING);
    for (int32_t i = 0; i < result->n_ranked; i++) {
        const struct scenario_plan *layout = &result->plans[result->ranked[i]].layout;
        bool first = true;
        for (int32_t j = 0; j < n && first; j++)
            first = !same_layout(layout, &result->plans[result->ranked[j]].layout);
        if (first)
            result->ranked[n++] = result->ranked[i];
    }
    result->n_ranked = n;
    return n < SEARCH_FEW ? INFINITY : result->plans[result->ranked[SEARCH_FEW - 1]].ranking_s;
}

/** Whether a plan can be the fastest of its layout, and among the few. */
static bool can_matter(struct search_result *result, int32_t which)
{
    const struct search_plan *plan = &result->plans[which];
    double limit_s = few_best_s(result);
    for (int32_t i = 0; i < result->n_ranked; i++) {
        const struct search_plan *best = &result->plans[result->ranked[i]];
        if (same_layout(&best->layout, &plan->layout)) /* a tie goes to the first, and bounds are rounded */
            limit_s = fmin(limit_s, best->ranking_s * (result->ranked[i] < which ? 1 - 1e-12 : 1));
    }
    return plan->bound.time_s <= limit_s;
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

/** Resolve plans of so many demanded features, the least bound first, those that can be among the few best. */
static bool rank(struct search *search, int32_t n_demanded, struct error *err)
{
    struct search_plan *plans = search->result->plans;
    for (int32_t which; (which = next_plan(search, n_demanded)) >= 0;) {
        if (!tell(search, err))
            return false;
        if (!search->options->exhaustive && !can_matter(search->result, which)) {
            plans[which].verdict = SEARCH_BOUND_PRUNED;
            continue;
        }
        int32_t freed = to_relax(search, which);
        if (!(freed >= 0 ? relax(search, freed, err) : score_plan(search, &plans[which], 1, false, err)))
            return false;
    }
    few_best_s(search->result);
    return true;
}

/** Resolve the few best of the ranking on all iterations. One that does not fit in each clears the way for others. */
static bool decide(struct search *search, bool *cleared, struct error *err)
{
    struct search_result *result = search->result;
    *cleared = false;
    for (int32_t i = 0; i < result->n_ranked && i < SEARCH_FEW; i++) {
        struct search_plan *plan = &result->plans[result->ranked[i]];
        if (plan->verdict == SEARCH_RUNNER_UP)
            continue;
        if (!score_plan(search, plan, SEARCH_DECIDING_ITERATIONS, search->options->engine != NULL, err) ||
            !tell(search, err))
            return false;
        *cleared = *cleared || plan->verdict != SEARCH_SLOWER;
        plan->verdict = plan->verdict == SEARCH_SLOWER ? SEARCH_RUNNER_UP : plan->verdict;
    }
    return true;
}

/** Rank and decide among the plans of so many demanded features. @param n_decided  that fit */
static bool search_tier(struct search *search, int32_t n_demanded, int32_t *n_decided, struct error *err)
{
    struct search_result *result = search->result;
    bool cleared = true;
    while (cleared) {
        for (int32_t i = 0; i < result->n_plans; i++)
            if (result->plans[i].verdict == SEARCH_BOUND_PRUNED)
                result->plans[i].verdict = SEARCH_OPEN;
        if (!rank(search, n_demanded, err) || !decide(search, &cleared, err))
            return false;
    }
    *n_decided = 0;
    for (int32_t i = 0; i < result->n_plans; i++)
        *n_decided += result->plans[i].verdict == SEARCH_RUNNER_UP;
    return true;
}

/** The switch of a part in the knobs; NULL: the entry names it itself, or it is off. */
static bool *switch_of(const struct search *search, const char *part)
{
    const struct training_system *system = search->system;
    if (document_find(&search->scenario->document, search->entry->knobs, part) >= 0)
        return NULL;
    for (int32_t i = 0; i < system->n_knobs; i++)
        if (strcmp(system->knobs[i].name, part) == 0) {
            CHECK(system->knobs[i].type == SCHEMA_BOOL);
            bool *on = (bool *)((char *)search->knobs + system->knobs[i].offset);
            return *on ? on : NULL;
        }
    CHECK(false); /* a part without a knob */
    return NULL;
}

/** Try the fastest plan of those that were decided on without each part of the system. */
static bool try_parts(struct search *search, struct error *err)
{
    struct search_result *result = search->result;
    int32_t best = -1;
    for (int32_t i = 0; i < result->n_plans; i++)
        if (result->plans[i].verdict == SEARCH_RUNNER_UP &&
            (best < 0 || goes_first(&result->plans[i], &result->plans[best], HEAT_DECISION)))
            best = i;
    for (const char *const *part = search->system->parts; best >= 0 && part != NULL && *part != NULL; part++) {
        bool *on = switch_of(search, *part);
        if (on == NULL)
            continue;
        struct search_plan *plan = &result->plans[result->n_plans++];
        *plan = (struct search_plan){
            .layout = result->plans[best].layout, .n_demanded = result->plans[best].n_demanded, .off = *part};
        *on = false;
        bound_plan(search, plan);
        bool ok = score_plan(search, plan, SEARCH_DECIDING_ITERATIONS, search->options->engine != NULL, err);
        *on = true;
        if (!ok || !tell(search, err))
            return false;
        if (plan->verdict == SEARCH_SLOWER)
            plan->verdict = SEARCH_RUNNER_UP;
    }
    return true;
}

/** Nothing fits: resolve what memory pruned, the least possible peak first, and choose the least peak. */
static bool choose_nearest(struct search *search, struct error *err)
{
    struct search_result *result = search->result;
    struct search_plan *best = NULL;
    for (int32_t i = 0; i < result->n_plans; i++) {
        struct search_plan *plan = &result->plans[i];
        if (plan->verdict == SEARCH_TOO_LARGE && (best == NULL || plan->score.peak_bytes < best->score.peak_bytes))
            best = plan;
    }
    for (;;) {
        struct search_plan *next = NULL;
        for (int32_t i = 0; i < result->n_plans; i++) {
            struct search_plan *plan = &result->plans[i];
            if (plan->verdict == SEARCH_MEMORY_PRUNED &&
                (next == NULL || plan->bound.peak_bytes < next->bound.peak_bytes))
                next = plan;
        }
        if (next == NULL || (best != NULL && next->bound.peak_bytes >= best->score.peak_bytes))
            break;
        if (!score_plan(search, next, 1, false, err))
            return false;
        if (next->verdict == SEARCH_TOO_LARGE && (best == NULL || next->score.peak_bytes < best->score.peak_bytes))
            best = next;
    }
    if (best == NULL)
        return error_set(err, "%s: %s cannot run any plan of the space %s: %s", search->entry->label,
                         search->system->name, search->entry->space.name, search->refused.text);
    best->verdict = SEARCH_CHOSEN;
    return true;
}

/** Verdicts of the plans that were decided on, the ranking and the counts. */
static void conclude(struct search_result *result)
{
    result->n_ranked = 0;
    append_ranked(result, SEARCH_RUNNER_UP, SEARCH_RUNNER_UP, HEAT_DECISION);
    if (result->n_ranked > 0) {
        result->plans[result->ranked[0]].verdict = SEARCH_CHOSEN;
        result->fits = true;
    } else {
        append_ranked(result, SEARCH_CHOSEN, SEARCH_CHOSEN, HEAT_DECISION);
    }
    append_ranked(result, SEARCH_SLOWER, SEARCH_SLOWER, HEAT_RANKING);
    for (int32_t i = 0; i < result->n_plans; i++)
        result->count[result->plans[i].verdict]++;
}

/** Bounds of all plans; those that memory rules out are settled. */
static void prune(struct search *search)
{
    struct search_result *result = search->result;
    for (int32_t i = 0; i < result->n_plans; i++) {
        struct search_plan *plan = &result->plans[i];
        bound_plan(search, plan);
        if (plan->bound.peak_bytes > result->memory_bytes && !search->options->exhaustive)
            plan->verdict = SEARCH_MEMORY_PRUNED;
    }
}

/** Take the plans by their number of demanded features, until some fit. */
static bool decide_in_order(struct search *search, struct error *err)
{
    struct search_result *result = search->result;
    int32_t n_decided = 0;
    for (int32_t n_demanded = 0; n_decided == 0 && n_demanded <= search->entry->space.on_demand.n; n_demanded++)
        if (!search_tier(search, n_demanded, &n_decided, err))
            return false;
    for (int32_t i = 0; i < result->n_plans; i++)
        if (result->plans[i].verdict == SEARCH_OPEN)
            result->plans[i].verdict = SEARCH_NOT_DEMANDED;
    if (n_decided == 0 ? !choose_nearest(search, err) : !try_parts(search, err))
        return false;
    conclude(result);
    return true;
}

static size_t n_parts(const struct training_system *system)
{
    size_t n = 0;
    while (system->parts != NULL && system->parts[n] != NULL)
        n++;
    return n;
}

bool search_system(const struct scenario *scenario, const struct lengths *lengths, int32_t system,
                   const struct search_options *options, struct search_result *result, struct error *err)
{
    const struct scenario_system *entry = &scenario->systems[system];
    struct search search = {
        .scenario = scenario,
        .entry = entry,
        .system = system_find(entry->name, err),
        .options = options,
        .result = result,
    };
    if (search.system == NULL)
        return false;
    *result = (struct search_result){.memory_bytes = system_memory_bytes(&scenario->device),
                                     .seed = (int64_t)(rng_mix(rng_mix((uint64_t)scenario->seed) ^ seed_mark) >> 11),
                                     .engine = options->engine != NULL};
    search.knobs = check_calloc(1, search.system->knobs_size);
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++)
        lengths_draw(lengths, &scenario->data, result->seed, i, &search.batches[i]);
    result->plans = space_plans(scenario, entry, search.system, &result->n_plans);
    size_t n_most = (size_t)result->n_plans + n_parts(search.system);
    result->plans = check_realloc(result->plans, n_most * sizeof *result->plans);
    result->ranked = check_calloc(n_most, sizeof *result->ranked);
    search.relaxed = check_calloc((size_t)result->n_plans, sizeof *search.relaxed);
    bool ok = system_read_knobs(search.system, scenario, entry, search.knobs, err);
    if (ok)
        prune(&search);
    ok = ok && decide_in_order(&search, err);
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++)
        batch_free(&search.batches[i]);
    timeline_free(&search.path);
    timeline_free(&search.executed);
    free(search.relaxed);
    free(search.knobs);
    return ok;
}

/** Make the chosen plan the entry's own. */
static bool take_plan(struct scenario *scenario, int32_t system, const struct search_plan *plan, struct error *err)
{
    struct scenario_system *entry = &scenario->systems[system];
    char assignment[128];
    entry->plan = plan->layout;
    entry->auto_plan = false;
    if (plan->off == NULL)
        return true;
    snprintf(assignment, sizeof assignment, "systems.%d.knobs.%s=false", (int)system, plan->off);
    bool ok = document_set(&scenario->document, assignment, err);
    entry->knobs = document_find(&scenario->document, entry->node, "knobs");
    return ok;
}

bool search_scenario(struct scenario *scenario, const struct lengths *lengths, const struct search_options *options,
                     struct search_result *results, struct error *err)
{
    for (int32_t i = 0; i < scenario->n_systems; i++)
        if (scenario->systems[i].auto_plan && (!search_system(scenario, lengths, i, options, &results[i], err) ||
                                               !take_plan(scenario, i, &results[i].plans[results[i].ranked[0]], err)))
            return false;
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
        free(space_plans(scenario, entry, system, &n_plans));
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
    free(result->plans);
    free(result->ranked);
    *result = (struct search_result){0};
}
