/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/slimpack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "system/adapt.h"

static const int32_t factors[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
enum { MILP_MAX_BINARIES = 300 };
enum { N_FACTORS = sizeof factors / sizeof *factors };
enum { N_POLICIES = SLIMPACK_NONE, MAX_CANDIDATES = N_FACTORS * 4 * N_POLICIES }; /* asymmetric or not, sliced or not */

/* One way to run a part, and the least it can take. */
struct candidate {
    struct slimpack_shape shape;
    enum slimpack_injection policy;
    double bound_s, bound_bytes;
    int32_t index; /* as listed */
};

/* What a candidate comes to. */
struct outcome {
    struct adapt_outcome is;
    int32_t index; /* of the candidate */
    bool refined;  /* by packer milp */
};

/* A part that takes longer or needs more is of no use. INFINITY: none is. */
struct limit {
    double makespan_s, peak_bytes;
};

/* A part's candidates and the choice among them so far. */
struct choice {
    struct slimpack_part part;
    struct adapt_outcome enough; /* another part comes to it: to be better is of no use */
    struct limit limit;
    struct adapt_arrays *arrays; /* kept from candidate to candidate */
    int32_t n_candidates;
    struct candidate candidates[MAX_CANDIDATES];
    int64_t n_resolved;
    struct outcome best;        /* of n_resolved > 0 */
    struct candidate candidate; /* the best */
    struct plan plan;           /* of the best: one phase */
};

static const struct slimpack_knobs *knobs_of(const struct choice *choice)
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

static bool is_better(const struct outcome *a, const struct outcome *b, double memory_bytes)
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
static int32_t parts_of(const struct candidate *candidate)
{
    static const int32_t order[] = {[SLIMPACK_JUST_IN_TIME] = PLAN_JUST_IN_TIME,
                                    [SLIMPACK_PERSISTENT] = PLAN_PERSISTENT,
                                    [SLIMPACK_NONE] = PLAN_LONG_WARM_UP};
    return (candidate->shape.slicing ? PLAN_SLICED : 0) | (candidate->shape.asymmetric ? PLAN_ASYMMETRIC : 0) |
           order[candidate->policy];
}

static bool try_rule(struct choice *choice, const struct candidate *candidate, struct adapt_rule rule,
                     struct error *err)
{
    const struct slimpack_part *part = &choice->part;
    struct plan plan = {.n_phases = 1, .shards = scenario_plan_shards(&part->request->layout)};
    struct outcome outcome = {.index = candidate->index, .refined = part->search != NULL};
    plan.phases = check_calloc(1, sizeof *plan.phases);
    slimpack_build(part, &candidate->shape, plan.phases);
    order_phase(plan.phases, candidate->policy);
    for (int32_t i = 0; i < plan.phases->n_pipelines; i++)
        plan.phases->pipelines[i].parts = parts_of(candidate);
    bool first = choice->n_resolved == 0, ok = adapt_plan(part->request, rule, &plan, choice->arrays, &outcome.is, err);
    choice->n_resolved++;
    if (ok && (first || is_better(&outcome, &choice->best, part->request->memory_bytes))) {
        struct plan worse = choice->plan;
        choice->best = outcome;
        choice->candidate = *candidate;
        choice->plan = plan;
        plan = worse;
    }
    plan_free(&plan);
    return ok;
}

/* With `offload: auto` and `recompute: auto` both together, and recomputation alone: the copies may cost more. */
static bool try_candidate(struct choice *choice, const struct candidate *candidate, struct error *err)
{
    const struct slimpack_knobs *knobs = knobs_of(choice);
    double memory_bytes = choice->part.request->memory_bytes, limit_s = choice->limit.makespan_s;
    if (choice->n_resolved > 0 && choice->best.is.peak_bytes <= memory_bytes)
        limit_s = fmin(limit_s, choice->best.is.makespan_s);
    struct adapt_rule rule = {.offload = knobs->offload == SLIMPACK_BY_UNIT,
                              .recompute = knobs->recompute == SLIMPACK_BY_UNIT,
                              .limit_s = limit_s < INFINITY ? limit_s : 0};
    if (candidate->bound_bytes > memory_bytes)
        rule = (struct adapt_rule){0}; /* nothing makes it fit */
    return try_rule(choice, candidate, rule, err) &&
           (!(rule.offload && rule.recompute) ||
            try_rule(choice, candidate, (struct adapt_rule){.recompute = true}, err));
}

/* The least that any setting of the units can come to; where that does not fit, the least that the units as they are
 * come to, for as they are they are resolved. */
static double least_bytes(const struct choice *choice, const struct plan_phase *phase)
{
    const struct system_request *request = choice->part.request;
    struct slimpack_kind own = slimpack_kind_of(request), weakest = slimpack_weakest(request);
    int32_t shards = scenario_plan_shards(&request->layout);
    double bytes = slimpack_bound_bytes(request->setting, phase, &weakest, shards);
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

/* List a shape under each injection policy the knob allows; one whose orders another one has had is left out.
 * @return whether one may fit */
static bool list_policies(struct choice *choice, struct slimpack_shape shape, struct plan_phase *phase)
{
    const struct system_request *request = choice->part.request;
    struct orders had[N_POLICIES];
    int32_t n_had = 0, wanted = knobs_of(choice)->injection;
    bool may_fit = false;
    for (int policy = SLIMPACK_JUST_IN_TIME; policy <= SLIMPACK_NONE; policy++) {
        if (wanted != SLIMPACK_AUTO && wanted != policy)
            continue;
        order_phase(phase, (enum slimpack_injection)policy);
        had[n_had++] = orders_of(phase);
        if (is_known(had, n_had))
            continue;
        CHECK(choice->n_candidates < MAX_CANDIDATES);
        struct candidate *candidate = &choice->candidates[choice->n_candidates];
        *candidate = (struct candidate){.shape = shape, .policy = (enum slimpack_injection)policy};
        candidate->index = choice->n_candidates++;
        candidate->bound_bytes = least_bytes(choice, phase);
        may_fit = may_fit || candidate->bound_bytes <= request->memory_bytes;
    }
    for (int32_t i = 0; i < n_had; i++)
        free(had[i].steps);
    return may_fit;
}

static bool is_enough(const struct choice *choice)
{
    return choice->n_resolved > 0 &&
           choice->best.is.peak_bytes <= fmax(choice->enough.peak_bytes, choice->part.request->memory_bytes) &&
           choice->best.is.makespan_s <= choice->enough.makespan_s;
}

/* A candidate whose bound exceeds this [s] cannot win any more. Sums in another order may differ in their last bits. */
static double hopeless_s(const struct choice *choice)
{
    const double slack = 1 + 1e-9;
    bool fits = choice->n_resolved > 0 && choice->best.is.peak_bytes <= choice->part.request->memory_bytes;
    double limit_s = choice->limit.makespan_s;
    return slack * (fits ? fmin(limit_s, choice->best.is.makespan_s) : limit_s);
}

/* Whether the bounds rule a candidate out. */
static bool is_hopeless(const struct choice *choice, double bound_s, double bound_bytes)
{
    const double slack = 1 + 1e-9;
    double memory_bytes = choice->part.request->memory_bytes;
    if (is_enough(choice) || bound_s > hopeless_s(choice) || bound_bytes > choice->limit.peak_bytes * slack)
        return true;
    if (choice->n_resolved == 0)
        return false;
    return bound_bytes > fmax(choice->best.is.peak_bytes, memory_bytes) * slack;
}

/* Bound of the slowest pipeline, or some of it that rules the shape out; forward_s: of each, NAN where it is not known
 * yet. */
static double phase_bound_s(const struct choice *choice, const struct plan_phase *phase, double *forward_s)
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

/* Shapes of m units, asymmetric and not: their forward cuts are the same. What cannot fit needs no bound of seconds. */
static void list_shapes(struct choice *choice, int64_t m, bool slicing)
{
    double *forward_s = check_malloc((size_t)choice->part.n_ranks * sizeof *forward_s);
    for (int32_t i = 0; i < choice->part.n_ranks; i++)
        forward_s[i] = NAN;
    for (int asymmetric = knobs_of(choice)->asymmetric; asymmetric >= 0; asymmetric--) {
        struct slimpack_shape shape = {.m = m, .asymmetric = asymmetric > 0, .slicing = slicing};
        struct plan_phase phase;
        int32_t first = choice->n_candidates;
        slimpack_build(&choice->part, &shape, &phase);
        if (list_policies(choice, shape, &phase)) {
            double bound_s = phase_bound_s(choice, &phase, forward_s);
            for (int32_t i = first; i < choice->n_candidates; i++)
                choice->candidates[i].bound_s = bound_s;
        }
        plan_phase_free(&phase);
    }
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

static int64_t units_of(const struct choice *choice, int32_t i)
{
    const struct slimpack_knobs *knobs = knobs_of(choice);
    return knobs->units > 0 ? knobs->units : factors[i] * choice->part.request->layout.pp;
}

/* The least seconds and bytes first, as slimpack_choose says. */
static int compare(const struct choice *choice, const struct candidate *a, const struct candidate *b)
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
static bool try_candidates(struct choice *choice, int32_t first, struct error *err)
{
    qsort_r(choice->candidates + first, (size_t)(choice->n_candidates - first), sizeof *choice->candidates,
            compare_candidates, choice);
    for (int32_t i = first; i < choice->n_candidates; i++) {
        const struct candidate *candidate = &choice->candidates[i];
        if (!is_hopeless(choice, candidate->bound_s, candidate->bound_bytes) && !try_candidate(choice, candidate, err))
            return false;
    }
    return true;
}

/* Choose for a part. Nothing is resolved if all bounds exceed the limit. Whole samples come second, where a sample is
 * not so long that it alone rules them out; more units than samples cut them no finer.
 * @param hint  what another part chose, tried first; NULL: nothing */
static bool choose(struct choice *choice, const struct candidate *hint, struct error *err)
{
    const struct slimpack_knobs *knobs = knobs_of(choice);
    struct local local = local_of(&choice->part);
    int32_t n_factors = 0;
    if (hint != NULL && !try_candidate(choice, hint, err))
        return false;
    if (is_enough(choice))
        return true;
    while (n_factors < N_FACTORS && factors[n_factors] <= (knobs->units > 0 ? 1 : knobs->max_factor) &&
           units_of(choice, n_factors) <= slimpack_milp_units(choice->part.request))
        n_factors++;
    for (int32_t i = 0; knobs->slicing && i < n_factors; i++)
        list_shapes(choice, units_of(choice, i), true);
    if (!try_candidates(choice, 0, err))
        return false;
    int32_t n_sliced = choice->n_candidates;
    if (is_hopeless(choice, slimpack_chain_s(choice->part.request, local.tokens), 0))
        return true;
    for (int32_t i = 0; i < n_factors; i++)
        if (i == 0 || choice->part.split->n_outliers > 0 || units_of(choice, i - 1) < local.n_samples)
            list_shapes(choice, units_of(choice, i), false);
    return try_candidates(choice, n_sliced, err);
}

/* Ranks from `first` on that choose together: its widest block (placed first), or itself. */
static int32_t component_ranks(const struct system_request *request, const struct slimpack_split *split, int32_t first)
{
    const struct slimpack_knobs *knobs = request->knobs;
    if (!knobs->replica_units)
        return split->n_ranks;
    for (int32_t i = 0; i < split->n_outliers; i++)
        if (split->outliers[i].first_rank == first)
            return split->outliers[i].width;
    return 1;
}

/* Move the pipelines and groups of a component behind those of the phase. */
static void append(struct plan_phase *phase, struct plan_phase *component)
{
    for (int32_t i = 0; i < component->n_groups; i++) {
        struct plan_group *group = &component->groups[i];
        for (int32_t k = 0; k < group->n_pipelines; k++)
            group->pipelines[k] += phase->n_pipelines;
        phase->groups[phase->n_groups + i] = *group;
    }
    for (int32_t i = 0; i < component->n_pipelines; i++) {
        struct plan_pipeline *pipeline = &component->pipelines[i];
        for (int pass = 0; pass < N_PASSES; pass++)
            for (int32_t unit = 0; unit < pipeline->cut[pass].n_units; unit++)
                if (pipeline->cut[pass].units[unit].group >= 0)
                    pipeline->cut[pass].units[unit].group += phase->n_groups;
        phase->pipelines[phase->n_pipelines + i] = *pipeline;
    }
    phase->n_groups += component->n_groups;
    phase->n_pipelines += component->n_pipelines;
    free(component->groups);
    free(component->pipelines);
    component->groups = NULL;
    component->pipelines = NULL;
    component->n_groups = component->n_pipelines = 0;
}

/* A component of a split: ranks that choose together, and what they chose. */
struct component {
    int32_t first_rank, n_ranks;
    fill_flop load; /* of its fullest rank */
    struct plan plan;
};

/* All components of a split, and the worst of them. */
struct solution {
    struct plan plan;
    struct fill_search search; /* of packer milp */
    struct outcome worst;
    bool merges;   /* the split has outliers */
    bool given_up; /* a component exceeds the limit */
};

static int by_rank(const void *a, const void *b)
{
    const struct component *x = a, *y = b;
    return x->first_rank - y->first_rank;
}

static int by_load(const void *a, const void *b)
{
    const struct component *x = a, *y = b;
    return x->load != y->load ? (x->load < y->load) - (x->load > y->load) : by_rank(a, b);
}

/* Components of a split, heaviest first (ties: by rank). Caller frees. */
static struct component *components_of(const struct system_request *request, const struct slimpack_split *split,
                                       int32_t *n)
{
    struct component *components = check_calloc((size_t)split->n_ranks, sizeof *components);
    *n = 0;
    for (int32_t first = 0; first < split->n_ranks;) {
        struct component component = {.first_rank = first, .n_ranks = component_ranks(request, split, first)};
        for (int32_t rank = first; rank < first + component.n_ranks; rank++)
            component.load = split->load[rank] > component.load ? split->load[rank] : component.load;
        components[(*n)++] = component;
        first += component.n_ranks;
    }
    qsort(components, (size_t)*n, sizeof *components, by_load);
    return components;
}

static void join_components(const struct slimpack_split *split, struct component *components, int32_t n,
                            struct plan *plan)
{
    plan->phases = check_calloc(1, sizeof *plan->phases);
    plan->phases->pipelines = check_calloc((size_t)split->n_ranks, sizeof *plan->phases->pipelines);
    plan->phases->groups = check_calloc((size_t)split->n_outliers, sizeof *plan->phases->groups);
    qsort(components, (size_t)n, sizeof *components, by_rank);
    for (int32_t i = 0; i < n; i++)
        append(plan->phases, components[i].plan.phases);
}

/* Count in what a component came to, and keep its plan. */
static void take_component(struct solution *solution, const struct choice *choice, struct component *component)
{
    solution->given_up = choice->n_resolved == 0 || choice->best.is.makespan_s > choice->limit.makespan_s ||
                         choice->best.is.peak_bytes > choice->limit.peak_bytes;
    solution->worst.is.makespan_s = fmax(solution->worst.is.makespan_s, choice->best.is.makespan_s);
    solution->worst.is.peak_bytes = fmax(solution->worst.is.peak_bytes, choice->best.is.peak_bytes);
    solution->plan.n_candidates += choice->n_candidates;
    solution->plan.n_resolved += choice->n_resolved;
    component->plan = choice->plan;
}

/* With packer milp what was chosen is cut anew. */
static bool refine(struct choice *choice, struct fill_search *search, struct error *err)
{
    if (knobs_of(choice)->packer != SLIMPACK_MILP || choice->n_resolved == 0)
        return true;
    choice->part.search = search;
    return try_candidate(choice, &choice->candidate, err);
}

static bool solve_components(const struct slimpack_part *whole, struct limit limit, struct component *components,
                             int32_t n, struct solution *solution, struct error *err)
{
    struct adapt_arrays arrays = {0};
    struct candidate hint;
    bool ok = true;
    for (int32_t i = 0; ok && i < n && !solution->given_up; i++) {
        struct choice choice = {
            .part = {whole->request, whole->split, components[i].first_rank, components[i].n_ranks, NULL},
            .enough = solution->worst.is,
            .limit = limit,
            .arrays = &arrays,
        };
        ok = choose(&choice, i > 0 ? &hint : NULL, err) && refine(&choice, &solution->search, err);
        if (i == 0 || choice.best.is.makespan_s > solution->worst.is.makespan_s)
            hint = choice.candidate;
        take_component(solution, &choice, &components[i]);
        solution->plan.n_candidates += i > 0; /* the hint */
    }
    adapt_arrays_free(&arrays);
    return ok;
}

static bool solve(const struct system_request *request, bool merge, struct limit limit, struct solution *solution,
                  struct error *err)
{
    struct slimpack_split split;
    int32_t n;
    slimpack_split(request, merge, &split);
    const struct slimpack_knobs *knobs = request->knobs;
    *solution = (struct solution){
        .plan = {.n_phases = 1, .shards = scenario_plan_shards(&request->layout)},
        .merges = split.n_outliers > 0,
        .search = {.window = knobs->milp_window, .node_limit = knobs->milp_nodes},
    };
    struct slimpack_part whole = {request, &split, 0, split.n_ranks, NULL};
    struct component *components = components_of(request, &split, &n);
    bool ok = solve_components(&whole, limit, components, n, solution, err);
    if (ok && !solution->given_up)
        join_components(&split, components, n, &solution->plan);
    else
        solution->plan.n_phases = 0;
    solution->plan.n_nodes = solution->search.n_nodes;
    solution->plan.gap = solution->search.gap;
    for (int32_t i = 0; i < n; i++)
        plan_free(&components[i].plan);
    free(components);
    slimpack_split_free(&split);
    return ok;
}

/* What is not better than an outcome: slower or not fitting where it fits, else in need of more memory. */
static struct limit limit_of(const struct adapt_outcome *outcome, double memory_bytes)
{
    if (outcome->peak_bytes <= memory_bytes)
        return (struct limit){outcome->makespan_s, memory_bytes};
    return (struct limit){INFINITY, outcome->peak_bytes};
}

bool slimpack_choose(const struct system_request *request, struct plan *plan, struct error *err)
{
    const struct slimpack_knobs *knobs = request->knobs;
    struct solution merged, apart;
    struct limit limit = {INFINITY, INFINITY};
    if (request->limit_s > 0)
        limit = (struct limit){request->limit_s, request->memory_bytes};
    if (!solve(request, knobs->dp_merge, limit, &merged, err)) {
        plan_free(&merged.plan);
        return false;
    }
    *plan = merged.plan;
    if (!merged.merges)
        return true;
    if (!merged.given_up)
        limit = limit_of(&merged.worst.is, request->memory_bytes);
    bool ok = solve(request, false, limit, &apart, err);
    bool wins =
        ok && !apart.given_up && (merged.given_up || is_better(&apart.worst, &merged.worst, request->memory_bytes));
    int64_t n_candidates = merged.plan.n_candidates + apart.plan.n_candidates;
    int64_t n_resolved = merged.plan.n_resolved + apart.plan.n_resolved;
    int64_t n_nodes = merged.plan.n_nodes + apart.plan.n_nodes;
    double gap = fmax(merged.plan.gap, apart.plan.gap);
    if (wins)
        *plan = apart.plan;
    plan->n_nodes = n_nodes;
    plan->gap = gap;
    plan->n_candidates = n_candidates;
    plan->n_resolved = n_resolved;
    plan_free(wins ? &merged.plan : &apart.plan);
    return ok;
}
