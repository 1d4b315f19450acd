/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/slimpack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "bounds/lower_bound.h"
#include "packing/memory_bound.h"
#include "packing/packing.h"
#include "plan/order.h"

enum { N_FACTORS = 14 };
static const int32_t factors[N_FACTORS] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};

/* With packer milp a boundary moves by this many tokens in each direction; a program has at most this many binaries. */
enum { MILP_WINDOW = 2, MILP_NODES = 50, MILP_BINARIES = 300 };

static const struct slimpack_knobs *knobs_of(const struct slimpack_rank_group *rank_group)
{
    return rank_group->request->knobs;
}

/* State while the MicroPacks of one phase are made. */
struct building {
    const struct slimpack_rank_group *rank_group;
    int32_t *group; /* of each outlier, -1: outside the rank group */
};

static bool holds(const struct slimpack_outlier *outlier, int32_t rank)
{
    return outlier->first_rank <= rank && rank < outlier->first_rank + outlier->width;
}

/* Return the work of an outlier: its FLOPs x DP, so that its share is a whole number. */
static fill_flop outlier_work(const struct slimpack_rank_group *rank_group, enum pass pass,
                              const struct slimpack_outlier *outlier)
{
    struct flop_curve curve = rank_group->split->curve[pass];
    fill_flop flop = flop_of_prefix(curve, rank_group->request->batch->tokens[outlier->sample]);
    return flop * (rank_group->split->n_ranks / outlier->width);
}

static fill_flop local_work(const struct slimpack_rank_group *rank_group, enum pass pass, int32_t rank)
{
    const struct slimpack_split *split = rank_group->split;
    struct flop_curve curve = rank_group->split->curve[pass];
    fill_flop sum = 0;
    for (int32_t i = split->local_first[rank]; i < split->local_first[rank + 1]; i++)
        sum += flop_of_prefix(curve, rank_group->request->batch->tokens[split->local[i]]);
    return sum * split->n_ranks;
}

/*
 * List the works of a rank: each outlier, and its other samples together. They share no MicroPack. @return number of
 * works
 */
static int32_t works_of(const struct slimpack_rank_group *rank_group, enum pass pass, int32_t rank, fill_flop *work)
{
    int32_t n = 0;
    for (int32_t i = 0; i < rank_group->split->n_outliers; i++)
        if (holds(&rank_group->split->outliers[i], rank))
            work[n++] = outlier_work(rank_group, pass, &rank_group->split->outliers[i]);
    work[n] = local_work(rank_group, pass, rank);
    return n + (work[n] > 0);
}

static int64_t packs_of(fill_flop work, fill_flop tau)
{
    return (int64_t)((work + tau - 1) / tau);
}

static bool suffices(const fill_flop *work, int32_t n, fill_flop tau, int64_t m)
{
    int64_t packs = 0;
    for (int32_t i = 0; i < n; i++)
        packs += packs_of(work[i], tau);
    return packs <= (m > n ? m : n);
}

/* Return the least work of a MicroPack for which m of them, or one for each of its works, suffice on a rank. */
static fill_flop tau_of_rank(const fill_flop *work, int32_t n, int64_t m)
{
    fill_flop least = 1, most = 1;
    for (int32_t i = 0; i < n; i++)
        most = work[i] > most ? work[i] : most;
    while (least < most) {
        fill_flop middle = least + (most - least) / 2;
        if (suffices(work, n, middle, m))
            most = middle;
        else
            least = middle + 1;
    }
    return most;
}

/* Return tau_of_rank for all ranks that blocks link, beginning with first_rank. */
static fill_flop tau_of(const struct slimpack_rank_group *rank_group, enum pass pass, int32_t first_rank, int64_t m)
{
    int32_t n_ranks = slimpack_linked_ranks(rank_group->split, first_rank);
    fill_flop *work = check_malloc(((size_t)rank_group->split->n_outliers + 1) * sizeof *work), tau = 1;
    for (int32_t rank = first_rank; rank < first_rank + n_ranks; rank++) {
        fill_flop own = tau_of_rank(work, works_of(rank_group, pass, rank, work), m);
        tau = own > tau ? own : tau;
    }
    free(work);
    return tau;
}

/* Return the contents of a MicroPack: slices of one sample, whole samples only, or both. */
static enum plan_formation formation_of(const struct slimpack_rank_group *rank_group,
                                        const struct plan_partition *partition,
                                        const struct plan_micro_batch *micro_batch)
{
    for (int32_t i = 0; i < micro_batch->n_slices; i++) {
        struct slice slice = partition->slices[micro_batch->first_slice + i];
        if (slice_tokens(slice) < rank_group->request->batch->tokens[slice.sample])
            return micro_batch->n_slices == 1 ? PLAN_SLIM : PLAN_MIX;
    }
    return PLAN_PACK;
}

static struct fill fill_of(const struct slimpack_rank_group *rank_group, enum pass pass, const int32_t *sample,
                           int32_t n_samples)
{
    return (struct fill){.pass = pass,
                         .curve = rank_group->split->curve[pass],
                         .tokens = rank_group->request->batch->tokens,
                         .sample = sample,
                         .n_samples = n_samples,
                         .min_slice = knobs_of(rank_group)->min_slice,
                         .search = rank_group->search};
}

/* Divide samples into n MicroPacks of a context degree. */
static void cut_samples(const struct slimpack_rank_group *rank_group, struct fill *fill, int64_t n, int32_t context,
                        struct plan_partition *partition)
{
    fill_flop *target = NULL;
    fill->n_micro_batches = n;
    if (knobs_of(rank_group)->balance == SLIMPACK_TIME && !fill->whole)
        fill->target = target = slimpack_time_targets(rank_group->request, fill, context);
    fill_partition(fill, partition);
    free(target);
}

static void cut_outlier(const struct building *building, enum pass pass, int32_t outlier, int64_t n,
                        struct plan_partition *partition)
{
    const struct slimpack_outlier *of = &building->rank_group->split->outliers[outlier];
    struct fill fill = fill_of(building->rank_group, pass, &of->sample, 1);
    int32_t first = partition->n_micro_batches;
    cut_samples(building->rank_group, &fill, n, of->width, partition);
    for (int32_t micro_batch = first; micro_batch < partition->n_micro_batches; micro_batch++) {
        partition->micro_batches[micro_batch].context = of->width;
        partition->micro_batches[micro_batch].group = building->group[outlier];
    }
}

/* Return the MicroPacks of the other samples: those that outliers leave, but no more than tokens, or whole samples. */
static int64_t local_packs(const struct slimpack_rank_group *rank_group, int32_t rank, int64_t left)
{
    const struct slimpack_split *split = rank_group->split;
    int64_t most = 0;
    for (int32_t i = split->local_first[rank]; i < split->local_first[rank + 1]; i++)
        most += knobs_of(rank_group)->slicing ? rank_group->request->batch->tokens[split->local[i]] : 1;
    return left < 1 ? 1 : left < most ? left : most;
}

/* Run steps 8 and 9. */
static void cut_rank(const struct building *building, enum pass pass, int32_t rank, fill_flop tau, int64_t m,
                     struct plan_partition *partition)
{
    const struct slimpack_rank_group *rank_group = building->rank_group;
    const struct slimpack_split *split = rank_group->split;
    for (int32_t i = 0; i < split->n_outliers; i++) {
        if (!holds(&split->outliers[i], rank))
            continue;
        int64_t tokens = rank_group->request->batch->tokens[split->outliers[i].sample];
        int64_t n = packs_of(outlier_work(rank_group, pass, &split->outliers[i]), tau);
        n = n > tokens ? tokens : n;
        cut_outlier(building, pass, i, n, partition);
        m -= n;
    }
    int32_t first = split->local_first[rank], n_local = split->local_first[rank + 1] - first;
    if (n_local > 0) {
        struct fill fill = fill_of(rank_group, pass, split->local + first, n_local);
        fill.whole = !knobs_of(rank_group)->slicing;
        cut_samples(rank_group, &fill, local_packs(rank_group, rank, m), 1, partition);
    }
    for (int32_t i = 0; i < partition->n_micro_batches; i++) {
        struct plan_micro_batch *micro_batch = &partition->micro_batches[i];
        micro_batch->formation = micro_batch->group >= 0 ? PLAN_SLIM : formation_of(rank_group, partition, micro_batch);
        micro_batch->recompute = (enum recompute)rank_group->request->layout.recompute;
        request_offload(rank_group->request, micro_batch);
    }
}

/*
 * Return whether a forward MicroPack and the next hold slices of one sample. Only the last slice and the next
 * MicroPack's first one can be of one sample.
 */
static bool linked(const struct plan_partition *partition, int32_t micro_batch)
{
    const struct plan_micro_batch *next = &partition->micro_batches[micro_batch + 1];
    return partition->slices[next->first_slice].sample == partition->slices[next->first_slice - 1].sample;
}

/* Copy the MicroPacks: chains in order, the MicroPacks of each chain in reverse. */
static void reverse_chains(const struct plan_partition *forward, struct plan_partition *backward)
{
    for (int32_t begin = 0, end; begin < forward->n_micro_batches; begin = end) {
        end = begin + 1;
        while (end < forward->n_micro_batches && linked(forward, end - 1))
            end++;
        for (int32_t i = end - 1; i >= begin; i--) {
            const struct plan_micro_batch *micro_batch = &forward->micro_batches[i];
            for (int32_t k = 0; k < micro_batch->n_slices; k++)
                plan_add_slice(backward, forward->slices[micro_batch->first_slice + k]);
            struct plan_micro_batch *copy = plan_add_micro_batch(backward);
            int32_t first_slice = copy->first_slice;
            *copy = *micro_batch;
            copy->first_slice = first_slice;
        }
    }
}

/* Turn the blocks inside the rank group into groups. Caller frees. */
static int32_t *make_groups(const struct slimpack_rank_group *rank_group, struct plan_phase *phase)
{
    const struct slimpack_split *split = rank_group->split;
    int32_t *group = check_malloc((size_t)split->n_outliers * sizeof *group);
    for (int32_t i = 0; i < split->n_outliers; i++) {
        const struct slimpack_outlier *outlier = &split->outliers[i];
        int32_t first = outlier->first_rank - rank_group->first_rank;
        bool inside = 0 <= first && first + outlier->width <= rank_group->n_ranks;
        group[i] = inside ? packing_block(phase, first, outlier->width) : -1;
    }
    return group;
}

void slimpack_build(const struct slimpack_rank_group *rank_group, int64_t m, struct plan_phase *phase)
{
    int32_t n_ranks = rank_group->n_ranks, end = 0;
    fill_flop tau[N_PASSES];
    *phase = (struct plan_phase){.n_pipelines = n_ranks};
    phase->pipelines = check_calloc((size_t)n_ranks, sizeof *phase->pipelines);
    for (int32_t i = 0; i < n_ranks; i++)
        phase->pipelines[i].layout = request_pipeline_layout(rank_group->request, rank_group->first_rank + i);
    struct building building = {rank_group, make_groups(rank_group, phase)};
    for (int32_t i = 0; i < n_ranks; i++) {
        int32_t rank = rank_group->first_rank + i;
        struct plan_partition *partition = phase->pipelines[i].partition;
        if (i == end) { /* a component begins */
            end += slimpack_linked_ranks(rank_group->split, rank);
            for (int pass = 0; pass < N_PASSES; pass++)
                tau[pass] = tau_of(rank_group, (enum pass)pass, rank, m);
        }
        cut_rank(&building, PASS_FORWARD, rank, tau[PASS_FORWARD], m, &partition[PASS_FORWARD]);
        if (knobs_of(rank_group)->asymmetric)
            cut_rank(&building, PASS_BACKWARD, rank, tau[PASS_BACKWARD], m, &partition[PASS_BACKWARD]);
        else
            reverse_chains(&partition[PASS_FORWARD], &partition[PASS_BACKWARD]);
        plan_fill_need(&phase->pipelines[i]);
    }
    free(building.group);
}

/* Return the longest lead that a pipeline of the phase needs, because pipelines that share MicroPacks have one lead. */
static int32_t longest_lead(const struct plan_phase *phase)
{
    int32_t most = 0;
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        int32_t lead = order_lead(&phase->pipelines[i]);
        most = lead > most ? lead : most;
    }
    return most;
}

/* Run step 11. */
static void order_phase(struct plan_phase *phase, enum slimpack_injection policy)
{
    int32_t lead = longest_lead(phase);
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        if (policy == SLIMPACK_NONE)
            order_long_warm_up(&phase->pipelines[i], lead);
        else
            order_one_f_one_b(&phase->pipelines[i],
                              policy == SLIMPACK_PERSISTENT ? ORDER_PERSISTENT : ORDER_JUST_IN_TIME);
}

struct candidate {
    int64_t m;
    enum slimpack_injection policy;
    double least_s;      /* lower bound of the end of its passes */
    double least_excess; /* by memory_bound_excess */
};

/* State of a component's choice among its candidates. */
struct choice {
    struct slimpack_rank_group rank_group;
    double limit_s;                       /* a plan that ends later, or does not fit, is rejected; INFINITY: none is */
    double target_s;                      /* the first candidate that fits and ends no later is taken */
    const struct batch_bound_pass *least; /* [N_PASSES] */
    struct evaluator *evaluator;
    struct evaluation_limits limits;
    int32_t n_candidates, n_resolved, n_unlisted;
    int64_t unlisted[N_FACTORS]; /* numbers of MicroPacks whose passes exceed the limit of the list */
    struct candidate candidates[2 * N_FACTORS];
    struct candidate best; /* defined if n_resolved > 0 */
    struct evaluation evaluation;
    struct plan plan;
};

static struct evaluation_limits limits_of(const struct plan_request *request)
{
    return evaluation_limits_of(request->memory_bytes, request->setting->platform);
}

static bool fits(const struct choice *choice)
{
    return choice->n_resolved > 0 && evaluation_exceeds(&choice->evaluation, &choice->limits) == EXCEEDED_NONE;
}

static bool reaches_target(const struct choice *choice)
{
    return fits(choice) && choice->evaluation.makespan_s <= choice->target_s;
}

/* Return the time after which a plan whose passes end later cannot win. */
static double useful_s(const struct choice *choice)
{
    return fits(choice) ? fmin(choice->limit_s, choice->evaluation.makespan_s) : choice->limit_s;
}

static struct plan built(const struct slimpack_rank_group *rank_group, const struct candidate *candidate)
{
    static const int32_t order[] = {[SLIMPACK_JUST_IN_TIME] = PLAN_JUST_IN_TIME,
                                    [SLIMPACK_PERSISTENT] = PLAN_PERSISTENT,
                                    [SLIMPACK_NONE] = PLAN_LONG_WARM_UP};
    const struct slimpack_knobs *knobs = knobs_of(rank_group);
    struct plan plan = {.n_phases = 1, .shards = scenario_plan_shards(&rank_group->request->layout)};
    plan.phases = check_calloc(1, sizeof *plan.phases);
    slimpack_build(rank_group, candidate->m, plan.phases);
    order_phase(plan.phases, candidate->policy);
    for (int32_t i = 0; i < plan.phases->n_pipelines; i++)
        plan.phases->pipelines[i].features =
            (knobs->slicing ? PLAN_SLICED : 0) | (knobs->asymmetric ? PLAN_ASYMMETRIC : 0) | order[candidate->policy];
    return plan;
}

static struct memory_fit_rule rule_of(const struct slimpack_rank_group *rank_group, double limit_s)
{
    return (struct memory_fit_rule){.offload = rank_group->request->layout.offload_mode == SCENARIO_OFFLOAD_AUTO,
                                    .recompute = knobs_of(rank_group)->recompute == SLIMPACK_BY_UNIT,
                                    .limit_s = limit_s};
}

/* Resolve a candidate, offload and recompute its MicroPacks as the knobs allow, and keep it if it is better. */
static bool try_candidate(struct choice *choice, const struct candidate *candidate, struct error *err)
{
    double limit_s = useful_s(choice);
    struct memory_fit_rule rule = rule_of(&choice->rank_group, limit_s < INFINITY ? limit_s : 0);
    struct plan plan = built(&choice->rank_group, candidate);
    struct evaluation evaluation;
    bool ok = memory_fit(choice->rank_group.request, rule, &plan, choice->evaluator, &evaluation, err);
    bool better =
        ok && (choice->n_resolved == 0 || evaluation_compare(&evaluation, &choice->evaluation, &choice->limits) < 0);
    choice->n_resolved++;
    if (better) {
        struct plan worse = choice->plan;
        choice->best = *candidate;
        choice->evaluation = evaluation;
        choice->plan = plan;
        plan = worse;
    }
    plan_free(&plan);
    return ok;
}

/* Return the most MicroPacks of a rank that packer milp can make. */
static int64_t most_packs(const struct slimpack_knobs *knobs)
{
    return knobs->packer == SLIMPACK_MILP ? MILP_BINARIES / (2 * MILP_WINDOW + 1) + 1 : INT64_MAX;
}

/*
 * List one number of MicroPacks under each policy, unless its passes exceed the limit. If no forward is injected, all
 * policies give one order, and one is listed.
 */
static void list_policies(struct choice *choice, int64_t m, double limit_s)
{
    const struct plan_request *request = choice->rank_group.request;
    const struct lower_bound_limit limit = {limit_s, request->batch, choice->least};
    int32_t wanted = knobs_of(&choice->rank_group)->injection;
    int32_t first = wanted == SLIMPACK_AUTO ? SLIMPACK_JUST_IN_TIME : wanted, last = first;
    struct candidate candidate = {.m = m, .policy = (enum slimpack_injection)first};
    struct plan plan = built(&choice->rank_group, &candidate);
    struct lower_bound_price *prices = lower_bound_prices(&plan, request->setting, &limit);
    if (prices == NULL) {
        choice->unlisted[choice->n_unlisted++] = m;
        plan_free(&plan);
        return;
    }
    if (wanted == SLIMPACK_AUTO && longest_lead(plan.phases) > 0)
        last = SLIMPACK_PERSISTENT;
    for (int32_t policy = first; policy <= last; policy++) {
        order_phase(plan.phases, (enum slimpack_injection)policy);
        candidate.policy = (enum slimpack_injection)policy;
        candidate.least_s = lower_bound_at_prices_s(&plan, prices) * (1 - 1e-12); /* sums round */
        candidate.least_excess = memory_bound_excess(request, rule_of(&choice->rank_group, 0), &plan);
        choice->candidates[choice->n_candidates++] = candidate;
    }
    lower_bound_free_prices(&plan, prices);
    plan_free(&plan);
}

static int by_bounds(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->least_excess != y->least_excess)
        return COMPARE(x->least_excess, y->least_excess);
    if (x->least_s != y->least_s)
        return COMPARE(x->least_s, y->least_s);
    return x->m != y->m ? COMPARE(x->m, y->m) : COMPARE(x->policy, y->policy);
}

/* List the candidates that are not listed yet, except those above the limit, and sort all after the first n. */
static void list_candidates(struct choice *choice, double limit_s, int32_t n)
{
    int64_t unlisted[N_FACTORS];
    int32_t n_unlisted = choice->n_unlisted;
    memcpy(unlisted, choice->unlisted, sizeof unlisted);
    choice->n_unlisted = 0;
    for (int32_t i = 0; i < n_unlisted; i++)
        list_policies(choice, unlisted[i], limit_s);
    qsort(choice->candidates + n, (size_t)(choice->n_candidates - n), sizeof *choice->candidates, by_bounds);
}

static void open_candidates(struct choice *choice)
{
    const struct slimpack_knobs *knobs = knobs_of(&choice->rank_group);
    for (int32_t i = 0; i < N_FACTORS && factors[i] <= (knobs->micro_packs > 0 ? 1 : knobs->max_factor); i++) {
        int64_t m = knobs->micro_packs > 0 ? knobs->micro_packs : factors[i] * choice->rank_group.request->layout.pp;
        if (m <= most_packs(knobs))
            choice->unlisted[choice->n_unlisted++] = m;
    }
}

/* Return whether a candidate may win or reach the target. One that by itself exceeds memory comes last. */
static bool is_promising(const struct choice *choice, const struct candidate *candidate, double limit_s)
{
    return candidate->least_s <= limit_s &&
           (candidate->least_excess <= 0 || (choice->n_resolved == 0 && choice->limit_s == INFINITY));
}

/* Resolve listed candidates from *next on while they are promising, until one reaches the target. */
static bool try_candidates(struct choice *choice, const struct candidate *known, double limit_s, int32_t *next,
                           struct error *err)
{
    for (; *next < choice->n_candidates && !reaches_target(choice); ++*next) {
        const struct candidate *candidate = &choice->candidates[*next];
        bool is_known = known != NULL && candidate->m == known->m && candidate->policy == known->policy;
        if (!is_promising(choice, candidate, fmin(limit_s, useful_s(choice))))
            break;
        if (!is_known && !try_candidate(choice, candidate, err))
            return false;
    }
    return true;
}

/*
 * Run steps 12 and 13. Only candidates whose bound is no later than the target can reach it, so the others are listed
 * only if none does. This saves most of the time of bounds.
 * @param known  candidate of another component, tried first; NULL: none
 */
static bool choose(struct choice *choice, const struct candidate *known, struct error *err)
{
    int32_t next = 0;
    if (known != NULL && !try_candidate(choice, known, err))
        return false;
    if (reaches_target(choice))
        return true;
    open_candidates(choice);
    if (choice->target_s > 0) {
        list_candidates(choice, fmin(choice->target_s, useful_s(choice)), 0);
        if (!try_candidates(choice, known, choice->target_s, &next, err))
            return false;
    }
    if (reaches_target(choice))
        return true;
    list_candidates(choice, useful_s(choice), next);
    return try_candidates(choice, known, INFINITY, &next, err);
}

/* With packer milp, divide the best candidate anew, and keep the result if it is better. */
static bool refine(struct choice *choice, struct fill_search *search, struct error *err)
{
    struct candidate best = choice->best;
    if (knobs_of(&choice->rank_group)->packer != SLIMPACK_MILP || choice->n_resolved == 0)
        return true;
    choice->rank_group.search = search;
    return try_candidate(choice, &best, err);
}

struct component {
    int32_t first_rank, n_ranks;
    fill_flop load; /* of its fullest rank */
    struct plan plan;
};

static int by_load(const void *a, const void *b)
{
    const struct component *x = a, *y = b;
    return x->load != y->load ? COMPARE(y->load, x->load) : COMPARE(x->first_rank, y->first_rank);
}

static int by_rank(const void *a, const void *b)
{
    const struct component *x = a, *y = b;
    return COMPARE(x->first_rank, y->first_rank);
}

/* Find the components of step 5. Caller frees. */
static struct component *components_of(const struct slimpack_split *split, bool separate, int32_t *n)
{
    struct component *components = check_calloc((size_t)split->n_ranks, sizeof *components);
    *n = 0;
    for (int32_t rank = 0; rank < split->n_ranks; rank += components[(*n)++].n_ranks) {
        struct component *component = &components[*n];
        component->first_rank = rank;
        component->n_ranks = separate ? slimpack_linked_ranks(split, rank) : split->n_ranks;
        for (int32_t i = rank; i < rank + component->n_ranks; i++)
            component->load = split->load[i] > component->load ? split->load[i] : component->load;
    }
    qsort(components, (size_t)*n, sizeof *components, by_load);
    return components;
}

/* Move the pipelines and groups of a component behind those of the phase. */
static void append(struct plan_phase *phase, struct plan_phase *component)
{
    for (int32_t i = 0; i < component->n_pipelines; i++)
        for (int pass = 0; pass < N_PASSES; pass++) {
            const struct plan_partition *partition = &component->pipelines[i].partition[pass];
            for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++)
                if (partition->micro_batches[micro_batch].group >= 0)
                    partition->micro_batches[micro_batch].group += phase->n_groups;
        }
    for (int32_t i = 0; i < component->n_groups; i++) {
        struct plan_group *group = &component->groups[i];
        for (int32_t k = 0; k < group->n_pipelines; k++)
            group->pipelines[k] += phase->n_pipelines;
        phase->groups[phase->n_groups++] = *group;
    }
    for (int32_t i = 0; i < component->n_pipelines; i++)
        phase->pipelines[phase->n_pipelines++] = component->pipelines[i];
    free(component->groups);
    free(component->pipelines);
    *component = (struct plan_phase){0};
}

static void join(const struct slimpack_split *split, struct component *components, int32_t n, struct plan *plan)
{
    plan->n_phases = 1;
    plan->phases = check_calloc(1, sizeof *plan->phases);
    plan->phases->pipelines = check_calloc((size_t)split->n_ranks, sizeof *plan->phases->pipelines);
    plan->phases->groups = check_calloc((size_t)split->n_outliers, sizeof *plan->phases->groups);
    qsort(components, (size_t)n, sizeof *components, by_rank);
    for (int32_t i = 0; i < n; i++)
        append(plan->phases, components[i].plan.phases);
}

/* The plan of one merge rule, and the worst values of its components. */
struct solution {
    struct plan plan; /* without phases if a component exceeds the limit */
    struct evaluation worst;
};

static bool solve(const struct plan_request *request, const struct slimpack_split *split,
                  const struct batch_bound_pass *least, double limit_s, struct solution *solution, struct error *err)
{
    const struct slimpack_knobs *knobs = request->knobs;
    struct evaluator evaluator = {0};
    struct fill_search search = {.window = MILP_WINDOW, .node_limit = MILP_NODES};
    struct candidate slowest;
    int32_t n;
    struct component *components = components_of(split, knobs->replica_micro_packs, &n);
    bool ok = true, useful = true;
    *solution = (struct solution){.plan.shards = scenario_plan_shards(&request->layout)};
    for (int32_t i = 0; ok && useful && i < n; i++) {
        struct choice choice = {
            .rank_group = {request, split, components[i].first_rank, components[i].n_ranks, NULL},
            .limit_s = limit_s,
            .target_s = solution->worst.makespan_s,
            .least = least,
            .evaluator = &evaluator,
            .limits = limits_of(request),
        };
        ok = choose(&choice, i > 0 ? &slowest : NULL, err) && refine(&choice, &search, err);
        useful = choice.n_resolved > 0 &&
                 (limit_s == INFINITY || (fits(&choice) && choice.evaluation.makespan_s <= limit_s));
        if (i == 0 || choice.evaluation.makespan_s > solution->worst.makespan_s)
            slowest = choice.best;
        evaluation_join(&solution->worst, &choice.evaluation);
        solution->plan.n_candidates += choice.n_candidates + choice.n_unlisted + (i > 0);
        solution->plan.n_resolved += choice.n_resolved;
        components[i].plan = choice.plan;
    }
    if (ok && useful)
        join(split, components, n, &solution->plan);
    solution->plan.n_nodes = search.n_nodes;
    solution->plan.gap = search.gap;
    for (int32_t i = 0; i < n; i++)
        plan_free(&components[i].plan);
    free(components);
    evaluator_free(&evaluator);
    return ok;
}

/* Keep the better of two solutions, with the work of both. */
static void keep_better(const struct plan_request *request, struct solution *best, struct solution *other)
{
    const struct evaluation_limits limits = limits_of(request);
    bool wins = other->plan.n_phases > 0 &&
                (best->plan.n_phases == 0 || evaluation_compare(&other->worst, &best->worst, &limits) < 0);
    struct solution worse = wins ? *best : *other;
    if (wins)
        *best = *other;
    best->plan.n_candidates += worse.plan.n_candidates;
    best->plan.n_resolved += worse.plan.n_resolved;
    best->plan.n_nodes += worse.plan.n_nodes;
    best->plan.gap = fmax(best->plan.gap, worse.plan.gap);
    plan_free(&worse.plan);
}

static bool same_outliers(const struct slimpack_split *a, const struct slimpack_split *b)
{
    size_t size = (size_t)a->n_outliers * sizeof *a->outliers;
    return a->n_outliers == b->n_outliers && (size == 0 || memcmp(a->outliers, b->outliers, size) == 0);
}

/* Keep the best plan of all merge rules. memory_bytes: memory of a rank that decides outliers. */
static bool solve_merges(const struct plan_request *request, const struct batch_bound_pass *least, double memory_bytes,
                         struct solution *best, struct error *err)
{
    struct plan_request tighter = *request;
    struct slimpack_split before = {0};
    const struct evaluation_limits limits = limits_of(request);
    enum slimpack_merge merge;
    bool ok = true;
    tighter.memory_bytes = memory_bytes;
    for (int32_t i = 0; ok && slimpack_nth_merge(request, i, &merge); i++) {
        struct slimpack_split split;
        struct solution other = {0};
        bool has_fit = best->plan.n_phases > 0 && evaluation_exceeds(&best->worst, &limits) == EXCEEDED_NONE;
        double limit_s = has_fit ? best->worst.makespan_s : request->limit_s > 0 ? request->limit_s : INFINITY;
        slimpack_split(&tighter, merge, &split);
        if (i == 0 || !same_outliers(&split, &before)) {
            ok = solve(request, &split, least, limit_s, &other, err);
            keep_better(request, best, &other);
        }
        slimpack_split_free(&before);
        before = split;
    }
    slimpack_split_free(&before);
    return ok;
}

/* Run step 14. */
static bool solve_all(const struct plan_request *request, struct plan *plan, struct error *err)
{
    struct solution best = {.plan.shards = scenario_plan_shards(&request->layout)};
    const struct evaluation_limits limits = limits_of(request);
    struct batch_bound_pass least[N_PASSES];
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        least[pass] = batch_bound_pass_of(request, pass);
    bool ok = solve_merges(request, least, request->memory_bytes, &best, err);
    double excess = ok && best.plan.n_phases > 0 ? evaluation_excess(&best.worst, &limits) : 0;
    if (excess > 0 && excess < SLIMPACK_SMALL_EXCESS)
        ok = solve_merges(request, least, (1 - SLIMPACK_SMALL_EXCESS) * request->memory_bytes, &best, err);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        free(least[pass].attention_s);
    if (ok)
        *plan = best.plan;
    else
        plan_free(&best.plan);
    return ok;
}

/* Check that packer milp has no more MicroPacks than its program has room for. */
static bool check_milp(const struct plan_request *request, struct error *err)
{
    const struct slimpack_knobs *knobs = request->knobs;
    int64_t m = knobs->micro_packs > 0 ? knobs->micro_packs : request->layout.pp;
    return m <= most_packs(knobs) || error_set(err,
                                               "slimpack: packer: milp can make at most %lld MicroPacks of a rank, not "
                                               "%lld; allowed: fewer MicroPacks, or "
                                               "packer: fill",
                                               (long long)most_packs(knobs), (long long)m);
}

static bool slimpack_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    if (request->layout.vpp != 1)
        return error_set(err, "slimpack: plan.vpp must be 1, is %lld: interleaved 1F1B has no order for MicroPacks",
                         (long long)request->layout.vpp);
    if (request->layout.cp != 1)
        return error_set(err,
                         "slimpack: plan.cp must be 1, is %lld: DP-Merge decides the context degree of each sample",
                         (long long)request->layout.cp);
    const struct slimpack_knobs *knobs = request->knobs;
    if (knobs->dp_merge && !request_check_windows(request, "slimpack", err))
        return false;
    struct plan_request own = slimpack_request(request);
    return check_milp(&own, err) && solve_all(&own, plan, err);
}

static const struct schema_key knobs[] = {
    {"asymmetric", SCHEMA_BOOL, "-", 0, 0, "true", NULL,
     "divide the backward pass into MicroPacks of its own, by backward FLOPs",
     offsetof(struct slimpack_knobs, asymmetric)},
    {"dp_merge", SCHEMA_BOOL, "-", 0, 0, "true", NULL, "let several DP ranks share an outlier by context parallelism",
     offsetof(struct slimpack_knobs, dp_merge)},
    {"merge_threshold", SCHEMA_REAL, "-", 0.001, 1000, "1", NULL,
     "a sample is an outlier if it has more than this many times the mean FLOPs of a rank",
     offsetof(struct slimpack_knobs, merge_threshold)},
    {"slicing", SCHEMA_BOOL, "-", 0, 0, "true", NULL, "slice the samples of a single rank; outliers are always sliced",
     offsetof(struct slimpack_knobs, slicing)},
    {"min_slice", SCHEMA_INT, "tokens", 0, 1073741824, "0", NULL, "a shorter slice joins its neighbour",
     offsetof(struct slimpack_knobs, min_slice)},
    {"injection", SCHEMA_CHOICE, "-", 0, 0, "auto", "auto|just-in-time|persistent|none",
     "after an injected forward the lead shrinks again, or stays; none: the warm-up is so long that no forward is "
     "injected; auto: the faster of the first two",
     offsetof(struct slimpack_knobs, injection)},
    {"balance", SCHEMA_CHOICE, "-", 0, 0, "flop", "flop|time",
     "quantity that is equal in all MicroPacks: FLOPs, or the cost model's seconds on the last stage",
     offsetof(struct slimpack_knobs, balance)},
    {"recompute", SCHEMA_CHOICE, "-", 0, 0, "plan", "plan|auto",
     "plan.recompute for all MicroPacks, or at least that for each so that the plan just fits",
     offsetof(struct slimpack_knobs, recompute)},
    {"packer", SCHEMA_CHOICE, "-", 0, 0, "fill", "fill|milp",
     "boundaries come from the exact fill, or from a mixed-integer program that starts from it (small cases)",
     offsetof(struct slimpack_knobs, packer)},
    {"micro_packs", SCHEMA_INT, "-", 0, 1 << 20, "0", NULL, "MicroPacks of a rank; 0: search among factors x stages",
     offsetof(struct slimpack_knobs, micro_packs)},
    {"max_factor", SCHEMA_INT, "-", 1, 128, "64", NULL, "largest factor that the search tries",
     offsetof(struct slimpack_knobs, max_factor)},
    {"replica_micro_packs", SCHEMA_BOOL, "-", 0, 0, "true", NULL,
     "each DP rank (or block of merged ranks) has its own factor",
     offsetof(struct slimpack_knobs, replica_micro_packs)},
};

static unsigned slimpack_decides(const void *values, const struct scenario_plan *layout)
{
    (void)values;
    return SYSTEM_SCHEDULE | (layout->offload_mode == SCENARIO_OFFLOAD_AUTO ? SYSTEM_OFFLOAD : 0);
}

const struct training_system system_slimpack = {
    .name = "slimpack",
    .source = "SlimPack: Fine-Grained Asymmetric Packing for Balanced and Efficient Variable-Length LLM Training",
    .meaning = "slices of equal FLOPs in MicroPacks, cut anew for the backward pass; outliers shared by DP ranks",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct slimpack_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP,
    .decides = slimpack_decides,
    .plan = slimpack_plan,
    .lower_bound_s = slimpack_lower_bound_s,
};
