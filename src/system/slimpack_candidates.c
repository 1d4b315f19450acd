/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/slimpack_candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "system/alone.h"

static const int32_t factors[SLIMPACK_N_FACTORS] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
enum { MILP_MAX_BINARIES = 300 };

static const struct slimpack_knobs *knobs_of(const struct slimpack_choice *choice)
{
    return choice->part.request->knobs;
}

int64_t slimpack_milp_places(const struct system_request *request)
{
    const struct slimpack_knobs *knobs = request->knobs;
    int64_t places = 2 * knobs->milp_window + 1, tokens = request->batch->n_tokens;
    return knobs->milp_window == 0 || places > tokens ? tokens : places;
}

int64_t slimpack_milp_units(const struct system_request *request)
{
    const struct slimpack_knobs *knobs = request->knobs;
    return knobs->packer == SLIMPACK_MILP ? MILP_MAX_BINARIES / slimpack_milp_places(request) + 1 : INT64_MAX;
}

bool slimpack_is_better(const struct slimpack_outcome *a, const struct slimpack_outcome *b, double memory_bytes)
{
    bool a_fits = a->is.peak_bytes <= memory_bytes, b_fits = b->is.peak_bytes <= memory_bytes;
    if (a_fits != b_fits)
        return a_fits;
    if (!a_fits && a->is.peak_bytes != b->is.peak_bytes)
        return a->is.peak_bytes < b->is.peak_bytes;
    if (a->is.makespan_s != b->is.makespan_s)
        return a->is.makespan_s < b->is.makespan_s;
    return a->index < b->index || (a->index == b->index && a->refined);
}

/* Pipelines behind the first of a block, or 1: blocks are placed widest first. */
static int32_t linked_pipelines(const struct plan_phase *phase, int32_t first)
{
    for (int32_t i = 0; i < phase->n_groups; i++)
        if (phase->groups[i].pipelines[0] == first)
            return phase->groups[i].n_pipelines;
    return 1;
}

/* Pipelines that share units have one lead. */
static void order_warm_ups(struct plan_phase *phase)
{
    for (int32_t first = 0, end; first < phase->n_pipelines; first = end) {
        int32_t lead = 0;
        end = first + linked_pipelines(phase, first);
        for (int32_t i = first; i < end; i++)
            lead = order_lead(&phase->pipelines[i]) > lead ? order_lead(&phase->pipelines[i]) : lead;
        for (int32_t i = first; i < end; i++)
            order_long_warm_up(&phase->pipelines[i], lead);
    }
}

static void order_phase(struct plan_phase *phase, enum slimpack_injection policy)
{
    if (policy == SLIMPACK_NONE)
        order_warm_ups(phase);
    else
        for (int32_t i = 0; i < phase->n_pipelines; i++)
            order_one_f_one_b(&phase->pipelines[i],
                              policy == SLIMPACK_PERSISTENT ? ORDER_PERSISTENT : ORDER_JUST_IN_TIME);
}

/* The flags of what a candidate uses. */
static int32_t parts_of(const struct slimpack_candidate *candidate)
{
    static const int32_t order[] = {[SLIMPACK_JUST_IN_TIME] = PLAN_JUST_IN_TIME,
                                    [SLIMPACK_PERSISTENT] = PLAN_PERSISTENT,
                                    [SLIMPACK_NONE] = PLAN_LONG_WARM_UP};
    return (candidate->shape.slicing ? PLAN_SLICED : 0) | (candidate->shape.asymmetric ? PLAN_ASYMMETRIC : 0) |
           order[candidate->policy];
}

/* A plan that ends later is of no use. */
static double useful_s(const struct slimpack_choice *choice)
{
    bool fits = choice->n_resolved > 0 && choice->best.is.peak_bytes <= choice->part.request->memory_bytes;
    return fits ? fmin(choice->limit.makespan_s, choice->best.is.makespan_s) : choice->limit.makespan_s;
}

/* @param is  what it comes to; as it was, if it ends too late by its bound */
static bool try_rule(struct slimpack_choice *choice, const struct slimpack_candidate *candidate, struct adapt_rule rule,
                     struct adapt_outcome *is, struct error *err)
{
    const struct slimpack_part *part = &choice->part;
    struct plan plan = {.n_phases = 1, .shards = scenario_plan_shards(&part->request->layout)};
    double limit_s = useful_s(choice);
    struct slimpack_outcome outcome = {.index = candidate->index, .refined = part->search != NULL};
    plan.phases = check_calloc(1, sizeof *plan.phases);
    slimpack_build(part, &candidate->shape, plan.phases);
    order_phase(plan.phases, candidate->policy);
    for (int32_t i = 0; i < plan.phases->n_pipelines; i++)
        plan.phases->pipelines[i].parts = parts_of(candidate);
    bool bounded = !rule.recompute || part->request->layout.offload <= 0; /* else less may be copied than in plan */
    if (bounded && limit_s < INFINITY && alone_plan_s(&plan, part->request->setting) > limit_s * (1 + 1e-9)) {
        plan_free(&plan);
        return true;
    }
    rule.limit_s = limit_s < INFINITY ? limit_s : 0;
    rule.even_host = choice->even_host;
    bool first = choice->n_resolved == 0, ok = adapt_plan(part->request, rule, &plan, choice->arrays, &outcome.is, err);
    *is = outcome.is;
    choice->n_resolved++;
    if (ok && (first || slimpack_is_better(&outcome, &choice->best, part->request->memory_bytes))) {
        struct plan worse = choice->plan;
        choice->best = outcome;
        choice->candidate = *candidate;
        choice->plan = plan;
        plan = worse;
    }
    plan_free(&plan);
    return ok;
}

static bool try_candidate(struct slimpack_choice *choice, const struct slimpack_candidate *candidate,
                          struct error *err);

/* Whether a candidate may win by what it comes to on the heaviest component alone: all together end no earlier and,
 * where that does not fit, do not fit. */
static bool try_heaviest(const struct slimpack_choice *choice, const struct slimpack_candidate *candidate,
                         bool *may_win, struct error *err)
{
    const struct slimpack_limit limit = {useful_s(choice), choice->part.request->memory_bytes};
    *may_win = true;
    if (choice->heaviest == NULL)
        return true;
    struct slimpack_choice alone = {
        .part = *choice->heaviest, .limit = limit, .even_host = choice->even_host, .arrays = choice->arrays};
    bool ok = try_candidate(&alone, candidate, err);
    *may_win = alone.n_resolved > 0 && alone.best.is.peak_bytes <= limit.peak_bytes &&
               alone.best.is.makespan_s <= limit.makespan_s;
    plan_free(&alone.plan);
    return ok;
}

/* With `offload: auto` and `recompute: auto` both together, and each alone where that is not the same: copies may cost
 * more, or less, than what is computed again. */
static bool try_candidate(struct slimpack_choice *choice, const struct slimpack_candidate *candidate, struct error *err)
{
    const struct slimpack_knobs *knobs = knobs_of(choice);
    bool adapts = candidate->bound_bytes <= choice->part.request->memory_bytes; /* else nothing makes it fit */
    const struct adapt_rule both = {.offload = adapts && knobs->offload == SLIMPACK_BY_UNIT,
                                    .recompute = adapts && knobs->recompute == SLIMPACK_BY_UNIT};
    struct adapt_outcome is = {0};
    bool may_win;
    if (!try_heaviest(choice, candidate, &may_win, err))
        return false;
    if (!may_win)
        return true;
    if (!try_rule(choice, candidate, both, &is, err))
        return false;
    if (both.recompute && (is.offloads || is.host_ends) &&
        !try_rule(choice, candidate, (struct adapt_rule){.recompute = true}, &(struct adapt_outcome){0}, err))
        return false;
    return !both.offload || !is.recomputes ||
           try_rule(choice, candidate, (struct adapt_rule){.offload = true}, &(struct adapt_outcome){0}, err);
}

/* The least that any setting of the units can come to; where that does not fit, the least that the units as they are
 * come to, for as they are they are resolved. */
static double least_bytes(const struct slimpack_choice *choice, const struct plan_phase *phase)
{
    const struct system_request *request = choice->part.request;
    struct slimpack_kind own = slimpack_kind_of(request, false, false), least = slimpack_kind_of(request, true, true);
    int32_t shards = scenario_plan_shards(&request->layout);
    if (knobs_of(choice)->offload == SLIMPACK_BY_UNIT)
        least.host_bytes = adapt_host_bytes(request, choice->part.n_ranks, choice->even_host);
    double bytes = slimpack_bound_bytes(request->setting, phase, &least, shards);
    if (bytes <= request->memory_bytes)
        return bytes;
    return fmax(bytes, slimpack_bound_bytes(request->setting, phase, &own, shards));
}

/* Orders of the last stages, by which those of the others go. */
struct orders {
    size_t n;
    struct plan_step *steps;
};

/* Caller frees the steps. */
static struct orders orders_of(const struct plan_phase *phase)
{
    struct orders orders = {0, check_malloc(0)};
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        const struct plan_pipeline *pipeline = &phase->pipelines[i];
        const int32_t *first = &pipeline->step_first[pipeline->layout.stages - 1];
        size_t n = (size_t)(first[1] - first[0]);
        orders.steps = check_realloc(orders.steps, (orders.n + n) * sizeof *orders.steps);
        memcpy(orders.steps + orders.n, pipeline->steps + first[0], n * sizeof *orders.steps);
        orders.n += n;
    }
    return orders;
}

/* Whether the last of n orders is among those before it: all run as many steps. */
static bool is_known(const struct orders *had, int32_t n)
{
    for (int32_t i = 0; i < n - 1; i++)
        if (memcmp(had[i].steps, had[n - 1].steps, had[i].n * sizeof *had[i].steps) == 0)
            return true;
    return false;
}

bool slimpack_is_enough(const struct slimpack_choice *choice)
{
    return choice->n_resolved > 0 &&
           choice->best.is.peak_bytes <= fmax(choice->enough.peak_bytes, choice->part.request->memory_bytes) &&
           choice->best.is.makespan_s <= choice->enough.makespan_s;
}

/* A candidate whose bound exceeds this [s] cannot win any more. Sums in another order may differ in their last bits. */
static double hopeless_s(const struct slimpack_choice *choice)
{
    return useful_s(choice) * (1 + 1e-9);
}

/* Whether the bounds rule a candidate out. */
static bool is_hopeless(const struct slimpack_choice *choice, double bound_s, double bound_bytes)
{
    const double slack = 1 + 1e-9;
    double memory_bytes = choice->part.request->memory_bytes;
    if (slimpack_is_enough(choice) || bound_s > hopeless_s(choice) || bound_bytes > choice->limit.peak_bytes * slack)
        return true;
    if (choice->n_resolved == 0)
        return false;
    return bound_bytes > fmax(choice->best.is.peak_bytes, memory_bytes) * slack;
}

/* List a shape under each injection policy the knob allows; one whose orders another one has had is left out. The lead
 * of each is at least that of the one before, and so is its memory: where that rules out the one, it does the others.
 * @return whether one may fit */
static bool list_policies(struct slimpack_choice *choice, struct slimpack_shape shape, struct plan_phase *phase)
{
    const struct system_request *request = choice->part.request;
    struct orders had[SLIMPACK_N_POLICIES];
    int32_t n_had = 0, wanted = knobs_of(choice)->injection;
    bool may_fit = false;
    for (int policy = SLIMPACK_JUST_IN_TIME; policy <= SLIMPACK_NONE; policy++) {
        if (wanted != SLIMPACK_AUTO && wanted != policy)
            continue;
        order_phase(phase, (enum slimpack_injection)policy);
        had[n_had++] = orders_of(phase);
        if (is_known(had, n_had))
            continue;
        CHECK(choice->n_candidates < SLIMPACK_MAX_CANDIDATES);
        struct slimpack_candidate *candidate = &choice->candidates[choice->n_candidates];
        *candidate = (struct slimpack_candidate){.shape = shape, .policy = (enum slimpack_injection)policy};
        candidate->index = choice->n_candidates++;
        candidate->bound_bytes = least_bytes(choice, phase);
        may_fit = may_fit || candidate->bound_bytes <= request->memory_bytes;
        if (is_hopeless(choice, 0, candidate->bound_bytes))
            break;
    }
    for (int32_t i = 0; i < n_had; i++)
        free(had[i].steps);
    return may_fit;
}

/* Bound of the slowest pipeline, or some of it that rules the shape out; forward_s: of each, NAN where it is not known
 * yet. */
static double phase_bound_s(const struct slimpack_choice *choice, const struct plan_phase *phase, double *forward_s)
{
    const struct cost_setting *setting = choice->part.request->setting;
    double bound_s = 0, enough_s = hopeless_s(choice) * (1 + 1e-9); /* sums of two parts round */
    for (int32_t i = 0; i < phase->n_pipelines && bound_s <= enough_s; i++) {
        const struct plan_pipeline *pipeline = &phase->pipelines[i];
        if (isnan(forward_s[i]))
            forward_s[i] = slimpack_pass_s(pipeline, setting, PASS_FORWARD, enough_s);
        bound_s = fmax(bound_s, forward_s[i]);
        if (bound_s <= enough_s)
            bound_s = fmax(bound_s,
                           forward_s[i] + slimpack_pass_s(pipeline, setting, PASS_BACKWARD, enough_s - forward_s[i]));
    }
    return bound_s;
}

/* List a shape, built. What cannot fit needs no bound of seconds.
 * @param forward_s  [n_ranks] as phase_bound_s: shapes that differ in the backward cut alone share it */
static void list_shape(struct slimpack_choice *choice, const struct slimpack_shape *shape, struct plan_phase *phase,
                       double *forward_s)
{
    int32_t first = choice->n_candidates;
    if (list_policies(choice, *shape, phase)) {
        double bound_s = phase_bound_s(choice, phase, forward_s);
        for (int32_t i = first; i < choice->n_candidates; i++)
            choice->candidates[i].bound_s = bound_s;
    }
}

/* Of each rank, not known yet. Caller frees. */
static double *unknown_s(const struct slimpack_choice *choice)
{
    double *seconds = check_malloc((size_t)choice->part.n_ranks * sizeof *seconds);
    for (int32_t i = 0; i < choice->part.n_ranks; i++)
        seconds[i] = NAN;
    return seconds;
}

/* A shape, asymmetric where the knobs allow, and `both`: symmetric. */
static void list_shapes(struct slimpack_choice *choice, struct slimpack_shape shape, bool both)
{
    struct plan_phase phase;
    double *forward_s = unknown_s(choice);
    shape.asymmetric = knobs_of(choice)->asymmetric;
    slimpack_build(&choice->part, &shape, &phase);
    list_shape(choice, &shape, &phase, forward_s);
    if (both && shape.asymmetric) {
        shape.asymmetric = false;
        slimpack_make_symmetric(&phase);
        list_shape(choice, &shape, &phase, forward_s);
    }
    plan_phase_free(&phase);
    free(forward_s);
}

/* Of the samples that run on one rank of a part: the longest, and the most on one rank. */
struct local {
    int32_t tokens;
    int64_t n_samples;
};

static struct local local_of(const struct slimpack_part *part)
{
    const struct slimpack_split *split = part->split;
    struct local local = {0};
    for (int32_t rank = part->first_rank; rank < part->first_rank + part->n_ranks; rank++) {
        int32_t first = split->local_first[rank], n = split->local_first[rank + 1] - first;
        local.n_samples = n > local.n_samples ? n : local.n_samples;
        if (n > 0 && part->request->batch->tokens[split->local[first]] > local.tokens)
            local.tokens = part->request->batch->tokens[split->local[first]];
    }
    return local;
}

static int64_t units_of(const struct slimpack_choice *choice, int32_t i)
{
    const struct slimpack_knobs *knobs = knobs_of(choice);
    return knobs->units > 0 ? knobs->units : factors[i] * choice->part.request->layout.pp;
}

/* Factors that the knobs allow. */
static int32_t n_factors_of(const struct slimpack_choice *choice)
{
    const struct slimpack_knobs *knobs = knobs_of(choice);
    int32_t n = 0;
    while (n < SLIMPACK_N_FACTORS && factors[n] <= (knobs->units > 0 ? 1 : knobs->max_factor) &&
           units_of(choice, n) <= slimpack_milp_units(choice->part.request))
        n++;
    return n;
}

static bool has_outliers(const struct slimpack_part *part)
{
    bool has = false;
    for (int32_t i = 0; i < part->split->n_outliers; i++)
        has = has || slimpack_holds(&part->split->outliers[i], part->first_rank);
    return has;
}

/* slimpack_unevenness up to the last factor's m. Caller frees. */
static double *unevenness(const struct slimpack_choice *choice, int32_t n_factors)
{
    int64_t most = units_of(choice, n_factors - 1);
    double *uneven = check_malloc((size_t)most * sizeof *uneven);
    slimpack_unevenness(&choice->part, most, uneven);
    return uneven;
}

/* The most even m above that of the factor before, up to the factor's. */
static int64_t even_units(const struct slimpack_choice *choice, int32_t i, const double *uneven)
{
    int64_t m = units_of(choice, i);
    return slimpack_even_units(uneven, i > 0 ? units_of(choice, i - 1) : m - 1, m);
}

/* Between the factors' m, what is more even: of several components for each its own. */
static void list_between(struct slimpack_choice *choice, int32_t n_factors)
{
    const struct slimpack_part *part = &choice->part;
    bool several = slimpack_linked_ranks(part->split, part->first_rank) < part->n_ranks;
    if (n_factors == 0 || !has_outliers(part))
        return;
    double *uneven = unevenness(choice, n_factors);
    for (int32_t i = 0; i < n_factors; i++) {
        struct slimpack_shape shape = {.m = units_of(choice, i), .slicing = true, .even = true};
        int64_t m = several ? shape.m : even_units(choice, i, uneven);
        shape.above = several && i > 0 ? units_of(choice, i - 1) : 0;
        if (shape.above > 0 || m != shape.m) {
            shape.m = m;
            list_shapes(choice, shape, true);
        }
    }
    free(uneven);
}

/* The least seconds and bytes first, as slimpack_choose says. */
static int compare(const struct slimpack_choice *choice, const struct slimpack_candidate *a,
                   const struct slimpack_candidate *b)
{
    double memory_bytes = choice->part.request->memory_bytes;
    bool a_fits = a->bound_bytes <= memory_bytes, b_fits = b->bound_bytes <= memory_bytes;
    if (a_fits != b_fits)
        return a_fits ? -1 : 1;
    double x = a_fits ? a->bound_s : a->bound_bytes, y = a_fits ? b->bound_s : b->bound_bytes;
    if (x != y)
        return x < y ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

static int compare_candidates(const void *a, const void *b, void *choice)
{
    return compare(choice, a, b);
}

/* Resolve what of the candidates from `first` on can win. */
static bool try_candidates(struct slimpack_choice *choice, int32_t first, struct error *err)
{
    qsort_r(choice->candidates + first, (size_t)(choice->n_candidates - first), sizeof *choice->candidates,
            compare_candidates, choice);
    for (int32_t i = first; i < choice->n_candidates; i++) {
        const struct slimpack_candidate *candidate = &choice->candidates[i];
        if (!is_hopeless(choice, candidate->bound_s, candidate->bound_bytes) && !try_candidate(choice, candidate, err))
            return false;
    }
    return true;
}

/* The factors' m first, then those between, whose bounds are cheap by then. Whole samples come last, where a sample is
 * not so long that it alone rules them out; more units than samples cut them no finer. */
bool slimpack_find(struct slimpack_choice *choice, const struct slimpack_candidate *hint, struct error *err)
{
    struct local local = local_of(&choice->part);
    if (hint != NULL && !try_candidate(choice, hint, err))
        return false;
    if (slimpack_is_enough(choice))
        return true;
    int32_t n_factors = n_factors_of(choice);
    for (int32_t i = 0; knobs_of(choice)->slicing && i < n_factors; i++)
        list_shapes(choice, (struct slimpack_shape){.m = units_of(choice, i), .slicing = true}, true);
    if (!try_candidates(choice, 0, err))
        return false;
    int32_t n_listed = choice->n_candidates;
    if (knobs_of(choice)->slicing && !slimpack_is_enough(choice))
        list_between(choice, n_factors);
    if (!try_candidates(choice, n_listed, err))
        return false;
    n_listed = choice->n_candidates;
    if (is_hopeless(choice, slimpack_chain_s(choice->part.request, local.tokens), 0))
        return true;
    for (int32_t i = 0; i < n_factors; i++)
        if (i == 0 || choice->part.split->n_outliers > 0 || units_of(choice, i - 1) < local.n_samples)
            list_shapes(choice, (struct slimpack_shape){.m = units_of(choice, i)}, true);
    return try_candidates(choice, n_listed, err);
}

/* A factor's most even units. */
struct step {
    int64_t m;
    double uneven;
    int64_t away; /* from the m that was chosen */
    int32_t index;
};

static int by_unevenness(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    if (x->uneven != y->uneven)
        return x->uneven < y->uneven ? -1 : 1;
    if (x->away != y->away)
        return x->away < y->away ? -1 : 1;
    return x->index - y->index;
}

/* The steps of no more units than the candidate and more even ones, most even first (ties: the nearest to its m, the
 * lower). @return steps */
static int32_t even_steps(const struct slimpack_choice *choice, const struct slimpack_candidate *own,
                          struct step *steps)
{
    const struct slimpack_knobs *knobs = knobs_of(choice);
    int32_t n_factors = n_factors_of(choice), n = 0;
    bool whole = own->shape.asymmetric == knobs->asymmetric && own->shape.slicing == knobs->slicing;
    if (n_factors == 0 || (whole && !has_outliers(&choice->part)))
        return 0;
    double *uneven = unevenness(choice, n_factors);
    for (int32_t i = 0; i < n_factors; i++) {
        int64_t m = has_outliers(&choice->part) ? even_units(choice, i, uneven) : units_of(choice, i);
        if (m <= own->shape.m && (!whole || uneven[m - 1] < uneven[own->shape.m - 1]))
            steps[n++] = (struct step){m, uneven[m - 1], llabs(m - own->shape.m), i};
    }
    free(uneven);
    qsort(steps, (size_t)n, sizeof *steps, by_unevenness);
    return n;
}

bool slimpack_find_even(struct slimpack_choice *choice, const struct slimpack_candidate *own, struct error *err)
{
    struct step steps[SLIMPACK_N_FACTORS];
    bool slicing = knobs_of(choice)->slicing;
    int32_t n = even_steps(choice, own, steps);
    for (int32_t i = 0; i < n && !slimpack_is_enough(choice); i++) {
        int32_t first = choice->n_candidates;
        list_shapes(choice, (struct slimpack_shape){.m = steps[i].m, .slicing = slicing, .even = true}, false);
        if (!try_candidates(choice, first, err))
            return false;
    }
    return true;
}

bool slimpack_refine(struct slimpack_choice *choice, struct fill_search *search, struct error *err)
{
    if (knobs_of(choice)->packer != SLIMPACK_MILP || choice->n_resolved == 0)
        return true;
    choice->part.search = search;
    return try_candidate(choice, &choice->candidate, err);
}
