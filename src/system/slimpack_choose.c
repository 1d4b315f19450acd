/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "system/slimpack_candidates.h"

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
    double host_share; /* as adapt_outcome's */
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

/* How all components of a split are solved. */
struct how {
    bool even_host; /* as adapt_rule's, of each component */
    bool less;      /* parts are switched off: of use if it fits and is faster than what fits */
};

/* All components of a split, and the worst of them. */
struct solution {
    struct plan plan;
    struct how how;
    struct fill_search search; /* of packer milp */
    struct slimpack_outcome worst;
    bool given_up;   /* a component exceeds the limit */
    bool evened;     /* a component has taken more even units */
    bool host_binds; /* but for the memory of a node's host it would fit */
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
    component->host_share = choice->best.is.host_share;
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
                             struct component *components, int32_t n, struct solution *solution, struct error *err)
{
    struct adapt_arrays arrays = {0};
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

/* A component's even share times its GPUs of a node, over the GPUs there, is the most that it has of the node's host;
 * the components' sum, of the node where it is most. Components wait for nothing of each other, so beside others each
 * has on the host what it has alone. */
static double shared_host(const struct system_request *request, const struct component *components, int32_t n,
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
static bool weigh_host(const struct system_request *request, const struct component *components, int32_t n,
                       const struct adapt_outcome *worst, struct solution *solution, struct error *err)
{
    struct adapt_arrays arrays = {0};
    struct adapt_outcome all;
    double share = 0;
    solution->host_binds = false;
    solution->worst.is = *worst;
    for (int32_t i = 0; i < n; i++)
        share = fmax(share, components[i].host_share);
    if (share <= 1 || shared_host(request, components, n, solution->plan.phases) <= 1 - 1e-9)
        return true; /* sums in another order may differ in their last bits */
    bool ok = adapt_plan(request, (struct adapt_rule){0}, &solution->plan, &arrays, &all, err);
    if (ok && all.peak_bytes > worst->peak_bytes) {
        solution->host_binds = worst->peak_bytes <= request->memory_bytes && all.peak_bytes > request->memory_bytes;
        solution->worst.is.peak_bytes = all.peak_bytes;
    }
    adapt_arrays_free(&arrays);
    return ok;
}

/* The plan of all components: evened out, unless that does not fit the host. */
static bool join(const struct system_request *request, const struct slimpack_split *split, struct component *components,
                 int32_t n, struct solution *solution, struct error *err)
{
    struct adapt_outcome worst = solution->worst.is;
    join_components(split, components, n, &solution->plan);
    bool ok = weigh_host(request, components, n, &worst, solution, err);
    if (!ok || !solution->host_binds || !solution->evened)
        return ok;
    for (int32_t i = 0; i < n; i++)
        undo_even(solution->plan.phases, &components[i]);
    return weigh_host(request, components, n, &worst, solution, err);
}

static bool solve(const struct system_request *request, const struct slimpack_split *split, struct how how,
                  struct slimpack_limit limit, struct solution *solution, struct error *err)
{
    int32_t n;
    const struct slimpack_knobs *knobs = request->knobs;
    *solution = (struct solution){
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

static struct solution no_solution(const struct system_request *request)
{
    return (struct solution){.given_up = true, .plan = {.shards = scenario_plan_shards(&request->layout)}};
}

/* Keep the better of two solutions, with the work of both. */
static void keep_better(const struct system_request *request, struct solution *best, struct solution *other)
{
    bool wins =
        !other->given_up && (best->given_up || slimpack_is_better(&other->worst, &best->worst, request->memory_bytes));
    struct solution better = wins ? *other : *best, worse = wins ? *best : *other;
    better.plan.n_candidates += worse.plan.n_candidates;
    better.plan.n_resolved += worse.plan.n_resolved;
    better.plan.n_nodes += worse.plan.n_nodes;
    better.plan.gap = fmax(better.plan.gap, worse.plan.gap);
    plan_free(&worse.plan);
    *best = better;
}

/* What a solution must beat to be of use. */
static struct slimpack_limit limit_beside(const struct system_request *request, const struct solution *best)
{
    if (!best->given_up)
        return limit_of(&best->worst.is, request->memory_bytes);
    return request->limit_s > 0 ? (struct slimpack_limit){request->limit_s, request->memory_bytes}
                                : (struct slimpack_limit){INFINITY, INFINITY};
}

/* What a solution with less parts must come to, to be of use: to fit, and be faster than what fits. */
static struct slimpack_limit limit_of_less(const struct system_request *request, const struct solution *best)
{
    struct slimpack_limit limit = limit_beside(request, best);
    if (!best->given_up && limit.peak_bytes <= request->memory_bytes)
        limit.makespan_s = nextafter(limit.makespan_s, 0);
    limit.peak_bytes = request->memory_bytes;
    return limit;
}

/* Parts that are switched off where they are on, as one or another form. */
enum part {
    PART_REPLICA,
    PART_OFFLOAD,
    PART_RECOMPUTE,
    PART_JUST_IN_TIME,
    PART_PERSISTENT,
    PART_NONE,
    PART_SLICING,
    PART_ASYMMETRIC,
    N_PARTS
};

/* @return whether the part was on */
static bool switch_off(struct slimpack_knobs *knobs, enum part part)
{
    static const enum slimpack_injection policy[] = {[PART_JUST_IN_TIME] = SLIMPACK_JUST_IN_TIME,
                                                     [PART_PERSISTENT] = SLIMPACK_PERSISTENT,
                                                     [PART_NONE] = SLIMPACK_NONE};
    struct slimpack_knobs before = *knobs;
    switch (part) {
    case PART_REPLICA:
        knobs->replica_units = false;
        return before.replica_units;
    case PART_OFFLOAD:
        knobs->offload = SLIMPACK_OF_PLAN;
        return before.offload == SLIMPACK_BY_UNIT;
    case PART_RECOMPUTE:
        knobs->recompute = SLIMPACK_OF_PLAN;
        return before.recompute == SLIMPACK_BY_UNIT;
    case PART_SLICING:
        knobs->slicing = false;
        return before.slicing;
    case PART_ASYMMETRIC:
        knobs->asymmetric = false;
        return before.asymmetric;
    default:
        knobs->injection = (int32_t)policy[part];
        return before.injection == SLIMPACK_AUTO;
    }
}

/* @return whether the host binds what it comes to */
static bool try_how(const struct system_request *request, const struct slimpack_split *split, struct how how,
                    struct solution *best, bool *binds, struct error *err)
{
    struct solution other;
    struct slimpack_limit limit = how.less ? limit_of_less(request, best) : limit_beside(request, best);
    bool ok = solve(request, split, how, limit, &other, err);
    *binds = other.host_binds;
    keep_better(request, best, &other);
    return ok;
}

/* The knobs without a set of parts. @return whether all were on */
static bool switch_off_all(struct slimpack_knobs *knobs, int32_t off)
{
    bool on = true;
    for (int part = 0; part < N_PARTS; part++)
        if (off >> part & 1)
            on = switch_off(knobs, (enum part)part) && on;
    return on;
}

/* Whether the host binds without each set of parts that lacks one of these. */
static bool all_bind(const bool *binds, int32_t off)
{
    bool all = true;
    for (int part = 0; part < N_PARTS; part++)
        all = all && !((off >> part & 1) && !binds[off & ~(1 << part)]);
    return all;
}

/* With all parts, and with even shares where the host binds. @param binds  whether it does */
static bool try_split(const struct system_request *request, const struct slimpack_split *split, struct solution *best,
                      bool *binds, struct error *err)
{
    const struct slimpack_knobs *knobs = request->knobs;
    bool ok = try_how(request, split, (struct how){0}, best, binds, err);
    if (!ok || !*binds || knobs->offload != SLIMPACK_BY_UNIT)
        return ok;
    return try_how(request, split, (struct how){.even_host = true}, best, &(bool){false}, err);
}

/* Where the host binds with all parts: without each set of them that lacks none without which it does not bind. */
static bool try_less(const struct system_request *request, const struct slimpack_split *split, struct solution *best,
                     struct error *err)
{
    bool binds[1 << N_PARTS] = {true}, ok = true; /* sets by number: those of fewer parts come before */
    for (int32_t off = 1; ok && off < 1 << N_PARTS; off++) {
        struct slimpack_knobs without = *(const struct slimpack_knobs *)request->knobs;
        struct system_request own = *request;
        own.knobs = &without;
        if (all_bind(binds, off) && switch_off_all(&without, off))
            ok = try_how(&own, split, (struct how){.less = true}, best, &binds[off], err);
    }
    return ok;
}

/* A way to merge, and what it merges. */
struct way {
    enum slimpack_merge merge;
    struct slimpack_split split;
    bool binds; /* the host, with all parts */
};

static bool same_outliers(const struct slimpack_split *a, const struct slimpack_split *b)
{
    size_t size = (size_t)a->n_outliers * sizeof *a->outliers;
    return a->n_outliers == b->n_outliers && (size == 0 || memcmp(a->outliers, b->outliers, size) == 0);
}

/* The knobs that a split is made for. */
static struct slimpack_knobs knobs_of(const struct system_request *request, enum slimpack_merge merge)
{
    struct slimpack_knobs knobs = *(const struct slimpack_knobs *)request->knobs;
    if (slimpack_own_offload(merge))
        knobs.offload = SLIMPACK_OF_PLAN;
    if (slimpack_own_recompute(merge))
        knobs.recompute = SLIMPACK_OF_PLAN;
    return knobs;
}

/* Whether the candidates of one split are among those of another one. */
static bool is_part(const struct way *a, const struct way *b)
{
    return same_outliers(&a->split, &b->split) && slimpack_own_offload(a->merge) >= slimpack_own_offload(b->merge) &&
           slimpack_own_recompute(a->merge) >= slimpack_own_recompute(b->merge);
}

/* The n-th way, unless those before have its candidates. */
static bool try_way(const struct system_request *request, struct way *ways, int32_t n, struct solution *best,
                    struct error *err)
{
    struct slimpack_knobs knobs = knobs_of(request, ways[n].merge);
    struct system_request own = *request;
    own.knobs = &knobs;
    slimpack_split(request, ways[n].merge, &ways[n].split);
    ways[n].binds = false;
    for (int32_t i = 0; i < n; i++)
        if (is_part(&ways[n], &ways[i]))
            return true;
    return try_split(&own, &ways[n].split, best, &ways[n].binds, err);
}

static bool try_ways(const struct system_request *request, struct solution *best, struct error *err)
{
    struct way ways[SLIMPACK_N_MERGES];
    int32_t n = 0;
    bool ok = true;
    for (enum slimpack_merge merge; ok && slimpack_nth_merge(request->knobs, n, &merge); n++) {
        ways[n].merge = merge;
        ok = try_way(request, ways, n, best, err);
    }
    for (int32_t i = 0; i < n; i++) {
        struct slimpack_knobs knobs = knobs_of(request, ways[i].merge);
        struct system_request own = *request;
        own.knobs = &knobs;
        if (ok && ways[i].binds)
            ok = try_less(&own, &ways[i].split, best, err);
        slimpack_split_free(&ways[i].split);
    }
    return ok;
}

bool slimpack_choose(const struct system_request *request, struct plan *plan, struct error *err)
{
    struct solution best = no_solution(request);
    bool ok = try_ways(request, &best, err);
    *plan = best.plan;
    return ok;
}
