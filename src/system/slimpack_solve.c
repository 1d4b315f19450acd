/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/slimpack_solve.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/compare.h"

/* Number the groups that a component's units run in from here on. */
static void shift_groups(struct plan_phase *component, int32_t first_group)
{
    for (int32_t i = 0; i < component->n_pipelines; i++)
        for (int pass = 0; pass < N_PASSES; pass++) {
            const struct plan_cut *cut = &component->pipelines[i].cut[pass];
            for (int32_t unit = 0; unit < cut->n_units; unit++)
                if (cut->units[unit].group >= 0)
                    cut->units[unit].group += first_group;
        }
}

/* Move the pipelines and groups of a component behind those of the phase. */
static void append(struct plan_phase *phase, struct plan_phase *component)
{
    shift_groups(component, phase->n_groups);
    for (int32_t i = 0; i < component->n_groups; i++) {
        struct plan_group *group = &component->groups[i];
        for (int32_t k = 0; k < group->n_pipelines; k++)
            group->pipelines[k] += phase->n_pipelines;
        phase->groups[phase->n_groups + i] = *group;
    }
    for (int32_t i = 0; i < component->n_pipelines; i++)
        phase->pipelines[phase->n_pipelines + i] = component->pipelines[i];
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
    double host_share; /* as memory_fit_outcome's */
    struct plan plan;
    double uneven_share; /* the same of what it had before it was evened out, if it was */
    struct plan uneven;
};

/* Give a component of the phase back what it had before it was evened out. */
static void undo_even(struct plan_phase *phase, struct component *component)
{
    struct plan_phase *uneven = component->uneven.phases;
    int32_t first_group = 0;
    if (uneven == NULL)
        return;
    while (first_group < phase->n_groups && phase->groups[first_group].pipelines[0] < component->first_rank)
        first_group++;
    shift_groups(uneven, first_group);
    for (int32_t i = 0; i < uneven->n_pipelines; i++) {
        struct plan_pipeline *pipeline = &phase->pipelines[component->first_rank + i], even = *pipeline;
        *pipeline = uneven->pipelines[i];
        uneven->pipelines[i] = even;
    }
    component->host_share = component->uneven_share;
}

static int by_rank(const void *a, const void *b)
{
    const struct component *x = a, *y = b;
    return x->first_rank - y->first_rank;
}

static int by_load(const void *a, const void *b)
{
    const struct component *x = a, *y = b;
    return x->load != y->load ? COMPARE(y->load, x->load) : by_rank(a, b);
}

/* Components of a split, heaviest first (ties: by rank): all ranks, or those that blocks link and any other rank
 * `apart`. Caller frees. */
static struct component *components_of(const struct slimpack_split *split, bool apart, int32_t *n)
{
    struct component *components = check_calloc((size_t)split->n_ranks, sizeof *components);
    *n = 0;
    for (int32_t first = 0; first < split->n_ranks;) {
        struct component component = {.first_rank = first, .n_ranks = split->n_ranks};
        if (apart)
            component.n_ranks = slimpack_linked_ranks(split, first);
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
static void take_component(struct slimpack_solution *solution, const struct slimpack_choice *choice,
                           struct component *component)
{
    solution->given_up = choice->n_resolved == 0 || choice->best.is.makespan_s > choice->limit.makespan_s ||
                         choice->best.is.peak_bytes > choice->limit.peak_bytes;
    solution->worst.is.makespan_s = fmax(solution->worst.is.makespan_s, choice->best.is.makespan_s);
    solution->worst.is.peak_bytes = fmax(solution->worst.is.peak_bytes, choice->best.is.peak_bytes);
    solution->plan.n_candidates += choice->n_candidates;
    solution->plan.n_resolved += choice->n_resolved;
    component->candidate = choice->candidate;
    component->makespan_s = choice->best.is.makespan_s;
    component->host_share = choice->best.is.host_share;
    component->plan = choice->plan;
}

struct slimpack_limit slimpack_limit_of(const struct memory_fit_outcome *outcome, double memory_bytes)
{
    if (outcome->peak_bytes <= memory_bytes)
        return (struct slimpack_limit){outcome->makespan_s, memory_bytes};
    return (struct slimpack_limit){INFINITY, outcome->peak_bytes};
}

/* Give a component that does not decide the most even units that end no later than the slowest. */
static bool even_out(const struct slimpack_part *whole, struct component *component, struct memory_fit_arrays *arrays,
                     struct slimpack_solution *solution, struct error *err)
{
    struct slimpack_choice choice = {
        .part = {whole->request, whole->split, component->first_rank, component->n_ranks, NULL},
        .enough = solution->worst.is,
        .limit = slimpack_limit_of(&solution->worst.is, whole->request->memory_bytes),
        .even_host = solution->how.even_host,
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
    component->uneven_share = component->host_share;
    component->uneven = component->plan;
    component->host_share = choice.best.is.host_share;
    component->plan = choice.plan;
    solution->evened = true;
    return true;
}

static bool even_out_all(const struct slimpack_part *whole, struct component *components, int32_t n,
                         struct memory_fit_arrays *arrays, struct slimpack_solution *solution, struct error *err)
{
    const struct slimpack_knobs *knobs = whole->request->knobs;
    bool ok = true;
    if (knobs->unit_spread > 0 || solution->given_up || solution->worst.is.peak_bytes > whole->request->memory_bytes)
        return true;
    for (int32_t i = 0; ok && i < n; i++)
        if (components[i].makespan_s < solution->worst.is.makespan_s)
            ok = even_out(whole, &components[i], arrays, solution, err);
    return ok;
}

/* The component of most load. */
static struct slimpack_part heaviest_of(const struct slimpack_part *whole)
{
    int32_t n;
    struct component *components = components_of(whole->split, true, &n);
    struct slimpack_part heaviest = *whole;
    heaviest.first_rank = components[0].first_rank;
    heaviest.n_ranks = components[0].n_ranks;
    free(components);
    return heaviest;
}

static bool solve_components(const struct slimpack_part *whole, struct slimpack_limit limit,
                             struct component *components, int32_t n, struct slimpack_solution *solution,
                             struct error *err)
{
    struct memory_fit_arrays arrays = {0};
    struct slimpack_candidate hint;
    const struct slimpack_knobs *knobs = whole->request->knobs;
    struct slimpack_part heaviest = heaviest_of(whole);
    bool tries_heaviest = solution->how.less && !knobs->replica_units && heaviest.n_ranks < whole->n_ranks;
    bool ok = true;
    for (int32_t i = 0; ok && i < n && !solution->given_up; i++) {
        struct slimpack_choice choice = {
            .part = {whole->request, whole->split, components[i].first_rank, components[i].n_ranks, NULL},
            .enough = solution->worst.is,
            .heaviest = tries_heaviest ? &heaviest : NULL,
            .limit = limit,
            .even_host = solution->how.even_host,
            .arrays = &arrays,
        };
        bool hinted = i > 0 && knobs->unit_spread <= 0;
        ok = slimpack_find(&choice, hinted ? &hint : NULL, err) && slimpack_refine(&choice, &solution->search, err);
        if (i == 0 || choice.best.is.makespan_s > solution->worst.is.makespan_s)
            hint = choice.candidate;
        take_component(solution, &choice, &components[i]);
        solution->plan.n_candidates += hinted;
    }
    ok = ok && even_out_all(whole, components, n, &arrays, solution, err);
    memory_fit_arrays_free(&arrays);
    return ok;
}

/* A component's even share times its GPUs of a node, over the GPUs there, is the most that it has of the node's host;
 * the components' sum, of the node where it is most. Components wait for nothing of each other, so beside others each
 * has on the host what it has alone. */
static double shared_host(const struct plan_request *request, const struct component *components, int32_t n,
                          const struct plan_phase *phase)
{
    int64_t n_node = request->setting->platform->gpus_per_node;
    int64_t n_all = phase->n_pipelines * request->layout.tp * request->layout.pp,
            n_nodes = (n_all + n_node - 1) / n_node;
    double *share = check_calloc((size_t)n_nodes, sizeof *share), most = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t rank = components[i].first_rank; rank < components[i].first_rank + components[i].n_ranks; rank++)
            for (int32_t stage = 0; stage < request->layout.pp; stage++) {
                const struct plan_layout *layout = &phase->pipelines[rank].layout;
                int64_t node = plan_rank(layout, stage, 0, 0) / n_node;
                int64_t in_use = node < n_nodes - 1 ? n_node : n_all - node * n_node;
                share[node] += components[i].host_share * layout->tensor / (double)in_use;
            }
    for (int64_t node = 0; node < n_nodes; node++)
        most = fmax(most, share[node]);
    free(share);
    return most;
}

/* Components may each fit a host that they share, and not fit it together. That is looked at where their shares leave
 * it open.
 * @param worst  of the components */
static bool weigh_host(const struct plan_request *request, const struct component *components, int32_t n,
                       const struct memory_fit_outcome *worst, struct slimpack_solution *solution, struct error *err)
{
    struct memory_fit_arrays arrays = {0};
    struct memory_fit_outcome all;
    double share = 0;
    solution->host_binds = false;
    solution->worst.is = *worst;
    for (int32_t i = 0; i < n; i++)
        share = fmax(share, components[i].host_share);
    if (share <= 1 || shared_host(request, components, n, solution->plan.phases) <= 1 - 1e-9)
        return true; /* sums in another order may differ in their last bits */
    bool ok = memory_fit(request, (struct memory_fit_rule){0}, &solution->plan, &arrays, &all, err);
    if (ok && all.peak_bytes > worst->peak_bytes) {
        solution->host_binds = worst->peak_bytes <= request->memory_bytes && all.peak_bytes > request->memory_bytes;
        solution->worst.is.peak_bytes = all.peak_bytes;
    }
    memory_fit_arrays_free(&arrays);
    return ok;
}

/* The plan of all components: evened out, unless that does not fit the host. */
static bool join(const struct plan_request *request, const struct slimpack_split *split, struct component *components,
                 int32_t n, struct slimpack_solution *solution, struct error *err)
{
    struct memory_fit_outcome worst = solution->worst.is;
    join_components(split, components, n, &solution->plan);
    bool ok = weigh_host(request, components, n, &worst, solution, err);
    if (!ok || !solution->host_binds || !solution->evened)
        return ok;
    for (int32_t i = 0; i < n; i++)
        undo_even(solution->plan.phases, &components[i]);
    return weigh_host(request, components, n, &worst, solution, err);
}

bool slimpack_solve(const struct plan_request *request, const struct slimpack_split *split, struct slimpack_how how,
                    struct slimpack_limit limit, struct slimpack_solution *solution, struct error *err)
{
    int32_t n;
    const struct slimpack_knobs *knobs = request->knobs;
    *solution = (struct slimpack_solution){
        .how = how,
        .plan = {.n_phases = 1, .shards = scenario_plan_shards(&request->layout)},
        .search = {.window = knobs->milp_window, .node_limit = knobs->milp_nodes},
    };
    struct slimpack_part whole = {request, split, 0, split->n_ranks, NULL};
    struct component *components = components_of(split, knobs->replica_units, &n);
    bool ok = solve_components(&whole, limit, components, n, solution, err);
    if (!ok || solution->given_up)
        solution->plan.n_phases = 0;
    else
        ok = join(request, split, components, n, solution, err);
    solution->plan.n_nodes = solution->search.n_nodes;
    solution->plan.gap = solution->search.gap;
    for (int32_t i = 0; i < n; i++) {
        plan_free(&components[i].plan);
        plan_free(&components[i].uneven);
    }
    free(components);
    return ok;
}
