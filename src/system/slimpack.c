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

enum { N_FACTORS = 14, N_EARLY = 6, MOST_EVEN = 3 };
static const int32_t factors[N_FACTORS] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};

/* The order with a warm-up so long that no forward is injected, in place of a cap of the lead. */
enum { LONG_WARM_UP = -1 };

enum { N_LEADS = 4, N_FORMS = 3, N_CUTS = N_FORMS * (N_FACTORS + 20) };

/* Plans this much later reach a target. */
#define TOLERANCE 0.001

/* With packer milp a boundary moves by this many tokens in each direction; a program has at most this many binaries. */
enum { MILP_WINDOW = 2, MILP_NODES = 50, MILP_BINARIES = 300 };

static const struct slimpack_knobs *knobs_of(const struct slimpack_rank_group *rank_group)
{
    return rank_group->request->knobs;
}

/* State while the MicroPacks of one phase are made. */
struct building {
    const struct slimpack_rank_group *rank_group;
    const struct slimpack_cut *cut;
    int32_t *group;          /* of each outlier, -1: outside the rank group */
    fill_flop tau[N_PASSES]; /* of the component */
};

/* Return FLOPs of a sample x DP / width, a whole number. */
static fill_flop work_of(const struct slimpack_rank_group *rank_group, enum pass pass, int32_t sample, int32_t width)
{
    fill_flop flop = flop_of_prefix(rank_group->split->curve[pass], rank_group->request->batch->tokens[sample]);
    return flop * (rank_group->split->n_ranks / width);
}

/* Works of a rank that share no MicroPack: its outliers, then its other samples. */
struct works {
    fill_flop *work;
    int32_t n, n_outliers;
};

/* List the works of a rank. Its other samples are one work, except that with SLIMPACK_CUT_LONG each is its own. */
static void list_works(const struct slimpack_rank_group *rank_group, enum slimpack_form form, enum pass pass,
                       int32_t rank, struct works *works)
{
    const struct slimpack_split *split = rank_group->split;
    works->n = 0;
    for (int32_t i = split->shared_first[rank]; i < split->shared_first[rank + 1]; i++) {
        const struct slimpack_outlier *outlier = &split->outliers[split->shared[i]];
        works->work[works->n++] = work_of(rank_group, pass, outlier->sample, outlier->width);
    }
    works->n_outliers = works->n;
    for (int32_t i = split->local_first[rank]; i < split->local_first[rank + 1]; i++) {
        fill_flop work = work_of(rank_group, pass, split->local[i], 1);
        if (form == SLIMPACK_CUT_LONG || works->n == works->n_outliers)
            works->work[works->n++] = work;
        else
            works->work[works->n - 1] += work;
    }
}

static int64_t packs_of(fill_flop work, fill_flop tau)
{
    return (int64_t)((work + tau - 1) / tau);
}

/* Return whether m MicroPacks, or one for each outlier and one more, suffice. Samples up to tau are packed together. */
static bool suffices(const struct works *works, enum slimpack_form form, fill_flop tau, int64_t m)
{
    int64_t packs = 0, least = works->n_outliers + (works->n > works->n_outliers);
    fill_flop rest = 0;
    for (int32_t i = 0; i < works->n; i++)
        if (form == SLIMPACK_CUT_LONG && i >= works->n_outliers && works->work[i] <= tau)
            rest += works->work[i];
        else
            packs += packs_of(works->work[i], tau);
    return packs + packs_of(rest, tau) <= (m > least ? m : least);
}

/* Return the least work of a MicroPack, at least the given one, for which m of them, or one for each outlier and one
 * more, suffice. */
static fill_flop tau_of_works(const struct works *works, enum slimpack_form form, int64_t m, fill_flop least)
{
    fill_flop most = least, local = 0;
    for (int32_t i = 0; i < works->n; i++) {
        local += i < works->n_outliers ? 0 : works->work[i];
        most = works->work[i] > most ? works->work[i] : most;
    }
    most = local > most ? local : most;
    if (suffices(works, form, least, m))
        return least;
    while (least < most) {
        fill_flop middle = least + (most - least) / 2;
        if (suffices(works, form, middle, m))
            most = middle;
        else
            least = middle + 1;
    }
    return most;
}

/* Return tau for all ranks that blocks link, beginning with first_rank. */
static fill_flop tau_of(const struct slimpack_rank_group *rank_group, const struct slimpack_cut *cut, enum pass pass,
                        int32_t first_rank)
{
    const struct slimpack_split *split = rank_group->split;
    int32_t n_ranks = slimpack_linked_ranks(split, first_rank);
    struct works works = {.work = check_malloc((size_t)rank_group->request->batch->n_samples * sizeof *works.work)};
    fill_flop tau = 1;
    for (int32_t rank = first_rank; rank < first_rank + n_ranks; rank++) {
        list_works(rank_group, cut->form, pass, rank, &works);
        tau = tau_of_works(&works, cut->form, cut->m, tau);
    }
    free(works.work);
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

/* Return the pass whose FLOPs a pass is cut by. */
static enum pass flops_of(const struct slimpack_rank_group *rank_group, enum pass pass)
{
    return knobs_of(rank_group)->asymmetric ? pass : PASS_FORWARD;
}

/* Samples that share MicroPacks of a context degree. */
struct chain {
    const int32_t *sample;
    int32_t n_samples, context;
};

/* Divide a chain into n MicroPacks. */
static void cut_chain(const struct building *building, enum pass pass, const struct chain *chain, int64_t n,
                      struct plan_partition *partition)
{
    const struct slimpack_rank_group *rank_group = building->rank_group;
    struct fill fill = {.pass = pass,
                        .curve = rank_group->split->curve[flops_of(rank_group, pass)],
                        .tokens = rank_group->request->batch->tokens,
                        .sample = chain->sample,
                        .n_samples = chain->n_samples,
                        .n_micro_batches = n,
                        .min_slice = knobs_of(rank_group)->min_slice,
                        .search = rank_group->search};
    fill_flop *target = NULL;
    if (knobs_of(rank_group)->balance == SLIMPACK_TIME)
        fill.target = target = slimpack_time_targets(rank_group->request, &fill, chain->context);
    fill_partition(&fill, partition);
    free(target);
}

static void cut_outlier(const struct building *building, enum pass pass, int32_t outlier, int64_t n,
                        struct plan_partition *partition)
{
    const struct slimpack_outlier *of = &building->rank_group->split->outliers[outlier];
    int32_t first = partition->n_micro_batches;
    cut_chain(building, pass, &(struct chain){&of->sample, 1, of->width}, n, partition);
    for (int32_t micro_batch = first; micro_batch < partition->n_micro_batches; micro_batch++) {
        partition->micro_batches[micro_batch].context = of->width;
        partition->micro_batches[micro_batch].group = building->group[outlier];
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Run steps 9 and 10: samples share `left` MicroPacks, at least one, by the form of the cut. */
static void cut_local(const struct building *building, enum pass pass, int32_t rank, fill_flop tau, int64_t left,
                      struct plan_partition *partition)
{
    const struct slimpack_rank_group *rank_group = building->rank_group;
    const struct slimpack_split *split = rank_group->split;
    const int32_t *sample = split->local + split->local_first[rank], *tokens = rank_group->request->batch->tokens;
    int32_t n_samples = split->local_first[rank + 1] - split->local_first[rank];
    int64_t sum = 0;
    for (; n_samples > 0 && building->cut->form == SLIMPACK_CUT_LONG; sample++, n_samples--) {
        fill_flop work = work_of(rank_group, PASS_FORWARD, *sample, 1);
        if (work <= tau)
            break;
        int64_t n = smaller(packs_of(work, tau), tokens[*sample]);
        cut_chain(building, pass, &(struct chain){sample, 1, 1}, n, partition);
        left -= n;
    }
    left = left < 1 ? 1 : left;
    for (int32_t i = 0; i < n_samples; i++)
        sum += tokens[sample[i]];
    if (n_samples > 0 && building->cut->form == SLIMPACK_CUT_ANY)
        cut_chain(building, pass, &(struct chain){sample, n_samples, 1}, smaller(left, sum), partition);
    else if (n_samples > 0)
        slimpack_pack(rank_group, sample, n_samples, (int32_t)smaller(left, n_samples), partition);
}

/* Run steps 8 to 10. */
static void cut_rank(const struct building *building, enum pass pass, int32_t rank, struct plan_partition *partition)
{
    const struct slimpack_rank_group *rank_group = building->rank_group;
    const struct slimpack_split *split = rank_group->split;
    enum pass by = building->cut->form == SLIMPACK_CUT_ANY ? flops_of(rank_group, pass) : PASS_FORWARD;
    fill_flop tau = building->tau[by];
    int64_t m = building->cut->m;
    for (int32_t i = split->shared_first[rank]; i < split->shared_first[rank + 1]; i++) {
        const struct slimpack_outlier *outlier = &split->outliers[split->shared[i]];
        int64_t n = smaller(packs_of(work_of(rank_group, by, outlier->sample, outlier->width), tau),
                            rank_group->request->batch->tokens[outlier->sample]);
        cut_outlier(building, pass, split->shared[i], n, partition);
        m -= n;
    }
    cut_local(building, pass, rank, tau, m, partition);
    for (int32_t i = 0; i < partition->n_micro_batches; i++) {
        struct plan_micro_batch *micro_batch = &partition->micro_batches[i];
        micro_batch->formation = micro_batch->group >= 0 ? PLAN_SLIM : formation_of(rank_group, partition, micro_batch);
        micro_batch->recompute = (enum recompute)rank_group->request->layout.recompute;
        request_offload(rank_group->request, micro_batch);
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

void slimpack_build(const struct slimpack_rank_group *rank_group, const struct slimpack_cut *cut,
                    struct plan_phase *phase)
{
    int32_t n_ranks = rank_group->n_ranks, end = 0;
    *phase = (struct plan_phase){.n_pipelines = n_ranks};
    phase->pipelines = check_calloc((size_t)n_ranks, sizeof *phase->pipelines);
    for (int32_t i = 0; i < n_ranks; i++)
        phase->pipelines[i].layout = request_pipeline_layout(rank_group->request, rank_group->first_rank + i);
    struct building building = {.rank_group = rank_group, .cut = cut, .group = make_groups(rank_group, phase)};
    for (int32_t i = 0; i < n_ranks; i++) {
        int32_t rank = rank_group->first_rank + i;
        struct plan_partition *partition = phase->pipelines[i].partition;
        if (i == end) { /* a component begins */
            end += slimpack_linked_ranks(rank_group->split, rank);
            for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
                building.tau[pass] = tau_of(rank_group, cut, pass, rank);
        }
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
            cut_rank(&building, pass, rank, &partition[pass]);
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

/* Run step 12. */
static void order_phase(struct plan_phase *phase, int32_t lead)
{
    int32_t longest = longest_lead(phase);
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        if (lead == LONG_WARM_UP)
            order_long_warm_up(&phase->pipelines[i], longest);
        else
            order_one_f_one_b(&phase->pipelines[i], lead);
}

struct candidate {
    struct slimpack_cut cut;
    int32_t lead;        /* cap of order_one_f_one_b, or LONG_WARM_UP */
    double least_s;      /* lower bound of the end of its passes */
    double least_excess; /* by memory_bound_excess */
};

/* State of a component's choice among its candidates. */
struct choice {
    struct slimpack_rank_group rank_group;
    double limit_s;                       /* a plan that ends later, or does not fit, is rejected; INFINITY: none is */
    double target_s;                      /* the first candidate that fits and ends no later is taken */
    bool hopeless;                        /* another component does not fit: only its candidate is tried */
    const struct batch_bound_pass *least; /* [N_PASSES] */
    struct evaluator *evaluator;
    struct evaluation_limits limits;
    int32_t n_candidates, n_resolved, n_unlisted;
    struct slimpack_cut unlisted[N_CUTS]; /* cuts whose passes exceed the limit of the list */
    struct candidate candidates[N_LEADS * N_CUTS];
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
    return fits(choice) && choice->evaluation.makespan_s <= choice->target_s * (1 + TOLERANCE);
}

/* Return the time after which a plan whose passes end later cannot win. */
static double useful_s(const struct choice *choice)
{
    return fits(choice) ? fmin(choice->limit_s, choice->evaluation.makespan_s * (1 - TOLERANCE)) : choice->limit_s;
}

/* Return the flags of a candidate's plan. */
static int32_t features_of(const struct slimpack_rank_group *rank_group, const struct candidate *candidate)
{
    int32_t order = candidate->lead == LONG_WARM_UP         ? PLAN_LONG_WARM_UP
                    : candidate->lead == ORDER_JUST_IN_TIME ? PLAN_JUST_IN_TIME
                                                            : PLAN_PERSISTENT;
    return (candidate->cut.form == SLIMPACK_CUT_NONE ? 0 : PLAN_SLICED) |
           (knobs_of(rank_group)->asymmetric ? PLAN_ASYMMETRIC : 0) | order;
}

static struct plan built(const struct slimpack_rank_group *rank_group, const struct candidate *candidate)
{
    struct plan plan = {.n_phases = 1, .shards = scenario_plan_shards(&rank_group->request->layout)};
    plan.phases = check_calloc(1, sizeof *plan.phases);
    slimpack_build(rank_group, &candidate->cut, plan.phases);
    order_phase(plan.phases, candidate->lead);
    for (int32_t i = 0; i < plan.phases->n_pipelines; i++)
        plan.phases->pipelines[i].features = features_of(rank_group, candidate);
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

/* List the caps of the lead that a cut may have, each up to the longest lead. @return number of leads */
static int32_t leads_of(const struct slimpack_knobs *knobs, int32_t longest, int32_t *lead)
{
    int32_t n = 0;
    if (knobs->injection == SLIMPACK_NONE)
        lead[n++] = LONG_WARM_UP;
    if (knobs->injection == SLIMPACK_AUTO || knobs->injection == SLIMPACK_JUST_IN_TIME)
        lead[n++] = ORDER_JUST_IN_TIME;
    for (int32_t most = 2; knobs->injection == SLIMPACK_AUTO && n < N_LEADS - 1 && most < longest; most *= 4)
        lead[n++] = most;
    if (knobs->injection == SLIMPACK_PERSISTENT || (knobs->injection == SLIMPACK_AUTO && longest > 0))
        lead[n++] = ORDER_PERSISTENT;
    return n;
}

/*
 * List one cut with each lead, unless its passes exceed the limit. A cut whose first lead by itself exceeds memory has
 * only that one, because a longer lead holds more.
 */
static void list_cut(struct choice *choice, const struct slimpack_cut *cut, double limit_s)
{
    const struct plan_request *request = choice->rank_group.request;
    const struct lower_bound_limit limit = {limit_s, request->batch, choice->least};
    struct candidate candidate = {.cut = *cut};
    struct plan plan = built(&choice->rank_group, &candidate);
    int32_t leads[N_LEADS], n = leads_of(request->knobs, longest_lead(plan.phases), leads);
    struct lower_bound_price *prices = NULL;
    for (int32_t i = 0; i < n && (i == 0 || prices != NULL); i++) {
        candidate.lead = leads[i];
        order_phase(plan.phases, candidate.lead);
        candidate.least_excess = memory_bound_excess(request, rule_of(&choice->rank_group, 0), &plan);
        if (i == 0 && candidate.least_excess <= 0) {
            prices = lower_bound_prices(&plan, request->setting, &limit);
            if (prices == NULL) {
                choice->unlisted[choice->n_unlisted++] = *cut;
                break;
            }
        }
        candidate.least_s = prices == NULL ? 0 : lower_bound_at_prices_s(&plan, prices) * (1 - 1e-12); /* sums round */
        choice->candidates[choice->n_candidates++] = candidate;
    }
    if (prices != NULL)
        lower_bound_free_prices(&plan, prices);
    plan_free(&plan);
}

/* Compare two candidates by what they are. */
static int by_kind(const struct candidate *x, const struct candidate *y)
{
    if (x->cut.m != y->cut.m)
        return COMPARE(x->cut.m, y->cut.m);
    return x->cut.form != y->cut.form ? COMPARE(x->cut.form, y->cut.form) : COMPARE(x->lead, y->lead);
}

static int by_bounds(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->least_excess != y->least_excess)
        return COMPARE(x->least_excess, y->least_excess);
    if (x->least_s != y->least_s)
        return COMPARE(x->least_s, y->least_s);
    return by_kind(x, y);
}

/* List the cuts of up to m MicroPacks that are not listed yet, except those above the limit. Sort candidates from the
 * n-th on. */
static void list_candidates(struct choice *choice, int64_t m, double limit_s, int32_t n)
{
    struct slimpack_cut unlisted[N_CUTS];
    int32_t n_unlisted = choice->n_unlisted;
    memcpy(unlisted, choice->unlisted, sizeof unlisted);
    choice->n_unlisted = 0;
    for (int32_t i = 0; i < n_unlisted; i++)
        if (unlisted[i].m > m)
            choice->unlisted[choice->n_unlisted++] = unlisted[i];
        else
            list_cut(choice, &unlisted[i], limit_s);
    qsort(choice->candidates + n, (size_t)(choice->n_candidates - n), sizeof *choice->candidates, by_bounds);
}

/* Return the most samples of a rank that no other rank shares. */
static int32_t most_local(const struct slimpack_rank_group *rank_group)
{
    int32_t most = 0;
    for (int32_t rank = rank_group->first_rank; rank < rank_group->first_rank + rank_group->n_ranks; rank++) {
        int32_t n = rank_group->split->local_first[rank + 1] - rank_group->split->local_first[rank];
        most = n > most ? n : most;
    }
    return most;
}

/* Open the cuts of m MicroPacks. Whole samples are more than m / 2, as fewer have the same cuts with fewer MicroPacks.
 */
static void open_cuts(struct choice *choice, int64_t m)
{
    const struct slimpack_knobs *knobs = knobs_of(&choice->rank_group);
    bool whole = !knobs->slicing || m < 2 * most_local(&choice->rank_group);
    for (enum slimpack_form form = SLIMPACK_CUT_ANY; form <= SLIMPACK_CUT_NONE; form++)
        if (form == SLIMPACK_CUT_NONE ? whole : knobs->slicing)
            choice->unlisted[choice->n_unlisted++] = (struct slimpack_cut){m, form};
}

/* Return the MicroPacks of a rank with the largest factor; micro_packs: no more are tried. */
static int64_t largest_m(const struct choice *choice)
{
    const struct slimpack_knobs *knobs = knobs_of(&choice->rank_group);
    return knobs->micro_packs > 0 || knobs->packer == SLIMPACK_MILP
               ? INT32_MAX
               : knobs->max_factor * choice->rank_group.request->layout.pp;
}

static void open_candidates(struct choice *choice)
{
    const struct slimpack_knobs *knobs = knobs_of(&choice->rank_group);
    int64_t stages = choice->rank_group.request->layout.pp;
    if (knobs->micro_packs > 0)
        open_cuts(choice, knobs->micro_packs);
    for (int32_t i = 0; knobs->micro_packs == 0 && i < N_FACTORS && factors[i] <= knobs->max_factor; i++)
        if (factors[i] * stages <= most_packs(knobs))
            open_cuts(choice, factors[i] * stages);
}

/* Return whether a candidate may win or reach the target. One that by itself exceeds memory comes last. */
static bool is_promising(const struct choice *choice, const struct candidate *candidate, double limit_s)
{
    return candidate->least_s <= limit_s &&
           (candidate->least_excess <= 0 || (choice->n_resolved == 0 && choice->limit_s == INFINITY));
}

/* Resolve listed candidates from *next on while they are promising, until one reaches the target. */
static bool try_listed(struct choice *choice, const struct candidate *known, double limit_s, int32_t *next,
                       struct error *err)
{
    for (; *next < choice->n_candidates && !reaches_target(choice); ++*next) {
        const struct candidate *candidate = &choice->candidates[*next];
        bool is_known = known != NULL && by_kind(candidate, known) == 0;
        if (!is_promising(choice, candidate, fmin(limit_s, useful_s(choice))))
            break;
        if (!is_known && !try_candidate(choice, candidate, err))
            return false;
    }
    return true;
}

/*
 * Run steps 13 and 14. Only candidates whose bound is no later than the target can reach it, so the others are listed
 * only if none does. Few MicroPacks come first: their best limits the list of many. Both save most of the time of
 * bounds.
 * @param known  candidate of another component, tried first; NULL: none
 */
static bool choose(struct choice *choice, const struct candidate *known, struct error *err)
{
    const int64_t stages = choice->rank_group.request->layout.pp, most[] = {factors[N_EARLY - 1] * stages, INT64_MAX};
    int32_t next = 0;
    if (known != NULL && !try_candidate(choice, known, err))
        return false;
    if (choice->hopeless)
        return true;
    if (!reaches_target(choice))
        open_candidates(choice);
    for (int i = choice->target_s > 0 ? 0 : 2; i < 4 && !reaches_target(choice); i++) {
        double limit_s = i < 2 ? choice->target_s : INFINITY;
        list_candidates(choice, most[i % 2], fmin(limit_s, useful_s(choice)), next);
        if (!try_listed(choice, known, limit_s, &next, err))
            return false;
    }
    for (int64_t m = 2 * largest_m(choice); !fits(choice) && m / 2 < most_local(&choice->rank_group); m *= 2) {
        open_cuts(choice, m);
        list_candidates(choice, m, choice->limit_s, next);
        if (!try_listed(choice, known, INFINITY, &next, err))
            return false;
    }
    return true;
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
    const struct evaluation_limits limits = limits_of(request);
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
            .hopeless = i > 0 && evaluation_exceeds(&solution->worst, &limits) != EXCEEDED_NONE,
            .least = least,
            .evaluator = &evaluator,
            .limits = limits,
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

/* Run step 15. */
static bool solve_all(const struct plan_request *request, struct plan *plan, struct error *err)
{
    struct solution best = {.plan.shards = scenario_plan_shards(&request->layout)};
    const struct evaluation_limits limits = limits_of(request);
    struct batch_bound_pass least[N_PASSES];
    struct slimpack_split splits[SLIMPACK_LEVELS + SLIMPACK_N_LEVELS];
    int32_t n = 0, n_even = 0;
    bool ok = true;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        least[pass] = batch_bound_pass_of(request, pass);
    for (; ok && n_even < MOST_EVEN && slimpack_nth_split(request, n, &splits[n]); n++) {
        struct solution other = {0};
        bool has_fit = best.plan.n_phases > 0 && evaluation_exceeds(&best.worst, &limits) == EXCEEDED_NONE;
        double limit_s = has_fit                ? best.worst.makespan_s * (1 - TOLERANCE)
                         : request->limit_s > 0 ? request->limit_s
                                                : INFINITY;
        bool known = false;
        for (int32_t i = 0; i < n; i++)
            known = known || same_outliers(&splits[n], &splits[i]);
        n_even += !known && n >= SLIMPACK_LEVELS && slimpack_is_even(&splits[n]);
        if (known)
            continue;
        ok = solve(request, &splits[n], least, limit_s, &other, err);
        keep_better(request, &best, &other);
    }
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        free(least[pass].attention_s);
    while (n > 0)
        slimpack_split_free(&splits[--n]);
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
     "divide the backward pass by backward FLOPs; false: by forward FLOPs",
     offsetof(struct slimpack_knobs, asymmetric)},
    {"dp_merge", SCHEMA_BOOL, "-", 0, 0, "true", NULL, "let several DP ranks share an outlier by context parallelism",
     offsetof(struct slimpack_knobs, dp_merge)},
    {"merge_threshold", SCHEMA_REAL, "-", 0.001, 1000, "1", NULL,
     "a sample is an outlier if it has more than this many times the mean FLOPs of a rank",
     offsetof(struct slimpack_knobs, merge_threshold)},
    {"slicing", SCHEMA_BOOL, "-", 0, 0, "true", NULL,
     "slice the samples of a single rank where it pays; outliers are always sliced",
     offsetof(struct slimpack_knobs, slicing)},
    {"min_slice", SCHEMA_INT, "tokens", 0, 1073741824, "0", NULL, "a shorter slice joins its neighbour",
     offsetof(struct slimpack_knobs, min_slice)},
    {"injection", SCHEMA_CHOICE, "-", 0, 0, "auto", "auto|just-in-time|persistent|none",
     "after an injected forward the lead shrinks again, or stays; none: the warm-up is so long that no forward is "
     "injected; auto: the fastest of the first two and leads of at most 2 and 8",
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
    {"max_factor", SCHEMA_INT, "-", 1, 128, "64", NULL, "largest factor that the search tries if any plan fits",
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
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_EP_IN_PIPELINE,
    .decides = slimpack_decides,
    .plan = slimpack_plan,
    .lower_bound_s = batch_bound_shared_s,
};
