/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "system/slimpack_candidates.h"

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
    struct slimpack_candidate candidate;
    double makespan_s;
    struct plan plan;
};

/* All components of a split, and the worst of them. */
struct solution {
    struct plan plan;
    struct fill_search search; /* of packer milp */
    struct slimpack_outcome worst;
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
static void take_component(struct solution *solution, const struct slimpack_choice *choice, struct component *component)
{
    solution->given_up = choice->n_resolved == 0 || choice->best.is.makespan_s > choice->limit.makespan_s ||
                         choice->best.is.peak_bytes > choice->limit.peak_bytes;
    solution->worst.is.makespan_s = fmax(solution->worst.is.makespan_s, choice->best.is.makespan_s);
    solution->worst.is.peak_bytes = fmax(solution->worst.is.peak_bytes, choice->best.is.peak_bytes);
    solution->plan.n_candidates += choice->n_candidates;
    solution->plan.n_resolved += choice->n_resolved;
    component->candidate = choice->candidate;
    component->makespan_s = choice->best.is.makespan_s;
    component->plan = choice->plan;
}

/* What is not better than an outcome: slower or not fitting where it fits, else in need of more memory. */
static struct slimpack_limit limit_of(const struct adapt_outcome *outcome, double memory_bytes)
{
    if (outcome->peak_bytes <= memory_bytes)
        return (struct slimpack_limit){outcome->makespan_s, memory_bytes};
    return (struct slimpack_limit){INFINITY, outcome->peak_bytes};
}

/* Give a component that does not decide the most even units that end no later than the slowest. */
static bool even_out(const struct slimpack_part *whole, struct component *component, struct adapt_arrays *arrays,
                     struct solution *solution, struct error *err)
{
    struct slimpack_choice choice = {
        .part = {whole->request, whole->split, component->first_rank, component->n_ranks, NULL},
        .enough = solution->worst.is,
        .limit = limit_of(&solution->worst.is, whole->request->memory_bytes),
        .arrays = arrays,
    };
    bool ok =
        slimpack_find_even(&choice, &component->candidate, err) && slimpack_refine(&choice, &solution->search, err);
    solution->plan.n_candidates += choice.n_candidates;
    solution->plan.n_resolved += choice.n_resolved;
    if (!ok || !slimpack_is_enough(&choice)) {
        plan_free(&choice.plan);
        return ok;
    }
    plan_free(&component->plan);
    component->plan = choice.plan;
    return true;
}

static bool even_out_all(const struct slimpack_part *whole, struct component *components, int32_t n,
                         struct adapt_arrays *arrays, struct solution *solution, struct error *err)
{
    bool ok = true;
    if (solution->given_up || solution->worst.is.peak_bytes > whole->request->memory_bytes)
        return true;
    for (int32_t i = 0; ok && i < n; i++)
        if (components[i].makespan_s < solution->worst.is.makespan_s)
            ok = even_out(whole, &components[i], arrays, solution, err);
    return ok;
}

static bool solve_components(const struct slimpack_part *whole, struct slimpack_limit limit,
                             struct component *components, int32_t n, struct solution *solution, struct error *err)
{
    struct adapt_arrays arrays = {0};
    struct slimpack_candidate hint;
    bool ok = true;
    for (int32_t i = 0; ok && i < n && !solution->given_up; i++) {
        struct slimpack_choice choice = {
            .part = {whole->request, whole->split, components[i].first_rank, components[i].n_ranks, NULL},
            .enough = solution->worst.is,
            .limit = limit,
            .arrays = &arrays,
        };
        ok = slimpack_find(&choice, i > 0 ? &hint : NULL, err) && slimpack_refine(&choice, &solution->search, err);
        if (i == 0 || choice.best.is.makespan_s > solution->worst.is.makespan_s)
            hint = choice.candidate;
        take_component(solution, &choice, &components[i]);
        solution->plan.n_candidates += i > 0; /* the hint */
    }
    ok = ok && even_out_all(whole, components, n, &arrays, solution, err);
    adapt_arrays_free(&arrays);
    return ok;
}

static bool solve(const struct system_request *request, bool merge, struct slimpack_limit limit,
                  struct solution *solution, struct error *err)
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

bool slimpack_choose(const struct system_request *request, struct plan *plan, struct error *err)
{
    const struct slimpack_knobs *knobs = request->knobs;
    struct solution merged, apart;
    struct slimpack_limit limit = {INFINITY, INFINITY};
    if (request->limit_s > 0)
        limit = (struct slimpack_limit){request->limit_s, request->memory_bytes};
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
    bool wins = ok && !apart.given_up &&
                (merged.given_up || slimpack_is_better(&apart.worst, &merged.worst, request->memory_bytes));
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
