/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/slimpack.h"

#include <stdlib.h>

#include "base/check.h"
#include "packing/packing.h"

/* What the cuts of one phase are made from. */
struct building {
    const struct plan_request *request;
    const struct slimpack_split *split;
    const struct slimpack_shape *shape;
    struct fill_search *search;
    int32_t *group;             /* of each outlier, -1: outside the range */
    fill_flop budget[N_PASSES]; /* of a unit, FLOPs x DP */
    struct plan_phase *phase;
};

static const struct slimpack_knobs *knobs_of(const struct building *building)
{
    return building->request->knobs;
}

static struct fill fill_of(const struct building *building, enum pass pass, const int32_t *sample, int32_t n_samples)
{
    return (struct fill){
        .pass = pass,
        .curve = flop_layer_curve(building->request->setting->model, pass),
        .tokens = building->request->batch->tokens,
        .sample = sample,
        .n_samples = n_samples,
        .n_units = 1,
        .min_slice = knobs_of(building)->min_slice,
        .max_tokens = knobs_of(building)->unit_tokens,
        .search = building->search,
    };
}

/* Units of at most the budget that hold this work [FLOPs x DP]. */
static int64_t units_in(const struct building *building, enum pass pass, fill_flop work)
{
    CHECK(building->budget[pass] > 0);
    return (int64_t)((work + building->budget[pass] - 1) / building->budget[pass]);
}

static int64_t outlier_units(const struct building *building, enum pass pass, const struct slimpack_outlier *outlier)
{
    int64_t tokens = building->request->batch->tokens[outlier->sample];
    int64_t n = units_in(building, pass, slimpack_outlier_flop(building->request, building->split, pass, outlier));
    return n > tokens ? tokens : n;
}

/* Units of the local samples of a rank, of m all that its outliers leave: at least 1, at most what can be told apart.
 */
static int64_t local_units(const struct building *building, enum pass pass, int32_t rank, int64_t left)
{
    const struct slimpack_split *split = building->split;
    int64_t most = 0, n = left;
    if (building->shape->even && split->n_outliers > 0)
        n = units_in(building, pass, slimpack_local_flop(building->request, split, pass, rank));
    for (int32_t i = split->local_first[rank]; i < split->local_first[rank + 1]; i++)
        most += building->shape->slicing ? building->request->batch->tokens[split->local[i]] : 1;
    n = n < left ? n : left;
    return n < 1 ? 1 : n < most ? n : most;
}

/* Slices of one sample; whole samples only; or both. */
static enum plan_formation formation_of(const struct building *building, const struct plan_cut *cut,
                                        const struct plan_unit *unit)
{
    for (int32_t i = 0; i < unit->n_slices; i++) {
        struct slice slice = cut->slices[unit->first_slice + i];
        if (slice_tokens(slice) < building->request->batch->tokens[slice.sample])
            return unit->n_slices == 1 ? PLAN_SLIM : PLAN_MIX;
    }
    return PLAN_PACK;
}

static void cut_chain(const struct building *building, struct fill *fill, int32_t context, struct plan_cut *cut)
{
    fill_flop *target = NULL;
    if (knobs_of(building)->balance == SLIMPACK_TIME && !fill->whole)
        fill->target = target = slimpack_time_targets(building->request, fill, context);
    fill_cut(fill, cut);
    free(target);
}

static int64_t units_of(const struct slimpack_shape *shape, enum pass pass)
{
    return pass == PASS_BACKWARD && shape->m_backward > 0 ? shape->m_backward : shape->m;
}

static void cut_rank(const struct building *building, enum pass pass, int32_t rank, struct plan_cut *cut)
{
    const struct slimpack_split *split = building->split;
    int64_t left = units_of(building->shape, pass);
    for (int32_t i = 0; i < split->n_outliers; i++) {
        const struct slimpack_outlier *outlier = &split->outliers[i];
        if (!slimpack_holds(outlier, rank))
            continue;
        struct fill fill = fill_of(building, pass, &outlier->sample, 1);
        fill.n_units = outlier_units(building, pass, outlier);
        left -= fill.n_units;
        fill.max_tokens *= outlier->width;
        int32_t first = cut->n_units;
        cut_chain(building, &fill, outlier->width, cut);
        for (int32_t unit = first; unit < cut->n_units; unit++) {
            cut->units[unit].context = outlier->width;
            cut->units[unit].group = building->group[i];
        }
    }
    const int32_t *local = split->local + split->local_first[rank];
    int32_t n_local = split->local_first[rank + 1] - split->local_first[rank];
    if (n_local > 0) {
        struct fill fill = fill_of(building, pass, local, n_local);
        fill.whole = !building->shape->slicing;
        fill.n_units = local_units(building, pass, rank, left);
        cut_chain(building, &fill, 1, cut);
    }
    for (int32_t i = 0; i < cut->n_units; i++) {
        struct plan_unit *unit = &cut->units[i];
        unit->formation = unit->group >= 0 ? PLAN_SLIM : formation_of(building, cut, unit);
        unit->recompute = (enum recompute)building->request->layout.recompute;
        request_offload(building->request, unit);
    }
}

/* Whether a forward unit and the next hold slices of one sample: only its last and the next's first can be. */
static bool linked(const struct plan_cut *cut, int32_t unit)
{
    const struct plan_unit *next = &cut->units[unit + 1];
    return cut->slices[next->first_slice].sample == cut->slices[next->first_slice - 1].sample;
}

/* The same units, chains in order, the units of each chain in reverse. */
static void reverse_chains(const struct plan_cut *forward, struct plan_cut *backward)
{
    for (int32_t begin = 0, end; begin < forward->n_units; begin = end) {
        end = begin + 1;
        while (end < forward->n_units && linked(forward, end - 1))
            end++;
        for (int32_t i = end - 1; i >= begin; i--) {
            const struct plan_unit *unit = &forward->units[i];
            for (int32_t k = 0; k < unit->n_slices; k++)
                plan_add_slice(backward, forward->slices[unit->first_slice + k]);
            struct plan_unit *copy = plan_add_unit(backward);
            int32_t first_slice = copy->first_slice;
            *copy = *unit;
            copy->first_slice = first_slice;
        }
    }
}

static void make_groups(struct building *building, int32_t first_rank, int32_t n_ranks)
{
    const struct slimpack_split *split = building->split;
    building->group = check_malloc((size_t)split->n_outliers * sizeof *building->group);
    for (int32_t i = 0; i < split->n_outliers; i++) {
        const struct slimpack_outlier *outlier = &split->outliers[i];
        int32_t first = outlier->first_rank - first_rank;
        bool inside = 0 <= first && first + outlier->width <= n_ranks;
        building->group[i] = inside ? packing_block(building->phase, first, outlier->width) : -1;
    }
}

/* The shape of one of several components, as it would be among its own candidates: with its most even m, and even where
 * that is not the common one. */
static struct slimpack_shape shape_of(const struct slimpack_part *component, const struct slimpack_shape *all)
{
    struct slimpack_shape shape = *all;
    shape.above = 0;
    if (all->above == 0)
        return shape;
    shape.even = component->n_ranks > 1; /* without outliers all are even */
    if (!shape.even)
        return shape;
    double *uneven = check_malloc((size_t)all->m * sizeof *uneven);
    slimpack_unevenness(component, all->m, uneven);
    shape.m = slimpack_even_units(uneven, all->above, all->m);
    shape.even = shape.m < all->m;
    free(uneven);
    return shape;
}

static void build_component(struct building *building, const struct slimpack_part *component, int32_t first)
{
    struct slimpack_shape shape = shape_of(component, building->shape);
    struct building own = *building;
    own.shape = &shape;
    for (int pass = 0; pass < N_PASSES && component->split->n_outliers > 0; pass++) {
        int64_t m = units_of(&shape, (enum pass)pass);
        slimpack_budgets(component, (enum pass)pass, m, m, &own.budget[pass]);
    }
    for (int32_t i = 0; i < component->n_ranks; i++) {
        struct plan_pipeline *pipeline = &building->phase->pipelines[first + i];
        cut_rank(&own, PASS_FORWARD, component->first_rank + i, &pipeline->cut[PASS_FORWARD]);
        if (shape.asymmetric)
            cut_rank(&own, PASS_BACKWARD, component->first_rank + i, &pipeline->cut[PASS_BACKWARD]);
        else
            reverse_chains(&pipeline->cut[PASS_FORWARD], &pipeline->cut[PASS_BACKWARD]);
        plan_fill_need(pipeline);
    }
}

void slimpack_build(const struct slimpack_part *part, const struct slimpack_shape *shape, struct plan_phase *phase)
{
    int32_t first_rank = part->first_rank, n_ranks = part->n_ranks;
    struct building building = {
        .request = part->request, .split = part->split, .shape = shape, .search = part->search, .phase = phase};
    *phase = (struct plan_phase){.n_pipelines = n_ranks};
    phase->pipelines = check_calloc((size_t)n_ranks, sizeof *phase->pipelines);
    for (int32_t i = 0; i < n_ranks; i++)
        phase->pipelines[i].layout = request_pipeline_layout(part->request, first_rank + i);
    make_groups(&building, first_rank, n_ranks);
    for (int32_t i = 0; i < n_ranks;) {
        struct slimpack_part component = *part;
        component.first_rank = first_rank + i;
        component.n_ranks = slimpack_linked_ranks(part->split, component.first_rank);
        build_component(&building, &component, i);
        i += component.n_ranks;
    }
    free(building.group);
}

void slimpack_make_symmetric(struct plan_phase *phase)
{
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        struct plan_pipeline *pipeline = &phase->pipelines[i];
        pipeline->cut[PASS_BACKWARD].n_units = pipeline->cut[PASS_BACKWARD].n_slices = 0;
        reverse_chains(&pipeline->cut[PASS_FORWARD], &pipeline->cut[PASS_BACKWARD]);
        plan_fill_need(pipeline);
    }
}

/* More units than the program of a rank can have: refuse, rather than take the fill instead. */
static bool check_milp(const struct plan_request *request, struct error *err)
{
    const struct slimpack_knobs *knobs = request->knobs;
    int64_t units = knobs->units > 0 ? knobs->units : request->layout.pp, most = slimpack_milp_units(request);
    if (units <= most)
        return true;
    return error_set(
        err,
        "slimpack: packer: milp can have %lld units of a rank with %lld places of each boundary, not %lld: "
        "set units or milp_window lower",
        (long long)most, (long long)slimpack_milp_places(request), (long long)units);
}

/* What makes units uneven whatever their number: refuse it, rather than the limit. */
static bool check_spread(const struct plan_request *request, struct error *err)
{
    const struct slimpack_knobs *knobs = request->knobs;
    if (knobs->unit_spread == 0)
        return true;
    if (knobs->slicing && knobs->asymmetric && knobs->replica_units && knobs->balance == SLIMPACK_FLOP &&
        knobs->min_slice == 0 && knobs->unit_tokens == 0)
        return true;
    return error_set(err, "slimpack: unit_spread needs slicing, asymmetric and replica_units, balance: flop, and "
                          "min_slice and unit_tokens 0");
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
    return check_milp(request, err) && check_spread(request, err) && slimpack_choose(request, plan, err);
}

/* The splits that slimpack_choose weighs. */
static bool slimpack_shares(const struct plan_request *request, int32_t variant, struct system_share *share)
{
    struct slimpack_split split;
    enum slimpack_merge merge;
    if (!slimpack_nth_merge(request->knobs, variant, &merge))
        return false;
    slimpack_split(request, merge, &split);
    for (int32_t rank = 0; rank < split.n_ranks; rank++)
        for (int32_t i = split.local_first[rank]; i < split.local_first[rank + 1]; i++)
            share[split.local[i]] = (struct system_share){rank, 1};
    for (int32_t i = 0; i < split.n_outliers; i++)
        share[split.outliers[i].sample] = (struct system_share){split.outliers[i].first_rank, split.outliers[i].width};
    slimpack_split_free(&split);
    return true;
}

static const struct schema_key knobs[] = {
    {"asymmetric", SCHEMA_BOOL, "-", 0, 0, "true", NULL, "cut the backward pass anew, by backward FLOPs",
     offsetof(struct slimpack_knobs, asymmetric)},
    {"dp_merge", SCHEMA_BOOL, "-", 0, 0, "true", NULL, "let several DP ranks share an outlier by context parallelism",
     offsetof(struct slimpack_knobs, dp_merge)},
    {"merge_threshold", SCHEMA_REAL, "-", 0.001, 1000, "1", NULL,
     "a sample is an outlier above this many times the mean FLOPs of a rank",
     offsetof(struct slimpack_knobs, merge_threshold)},
    {"merge_memory", SCHEMA_REAL, "-", 0, 1000, "1", NULL,
     "a sample is an outlier too above this many times the tokens that a rank has memory for; 0: memory merges nothing",
     offsetof(struct slimpack_knobs, merge_memory)},
    {"merge_even", SCHEMA_BOOL, "-", 0, 0, "true", NULL,
     "where a rank has over 1.1 times the mean FLOPs, weigh sharing more samples, by more ranks, until none has",
     offsetof(struct slimpack_knobs, merge_even)},
    {"slicing", SCHEMA_BOOL, "-", 0, 0, "true", NULL, "cut the samples of a single rank; outliers always are",
     offsetof(struct slimpack_knobs, slicing)},
    {"min_slice", SCHEMA_INT, "tokens", 0, 1073741824, "0", NULL, "a shorter slice joins its neighbour",
     offsetof(struct slimpack_knobs, min_slice)},
    {"injection", SCHEMA_CHOICE, "-", 0, 0, "auto", "auto|just-in-time|persistent|none",
     "what follows an injected forward: the lead shrinks again, or stays; none: a warm-up so long that none is; auto: "
     "the fastest",
     offsetof(struct slimpack_knobs, injection)},
    {"unit_tokens", SCHEMA_INT, "tokens", 0, 1073741824, "0", NULL,
     "a unit of more tokens on a rank is divided evenly into units of no more; 0: no cap",
     offsetof(struct slimpack_knobs, unit_tokens)},
    {"balance", SCHEMA_CHOICE, "-", 0, 0, "flop", "flop|time",
     "what units are made equal in: FLOPs, or the cost model's seconds on the last stage",
     offsetof(struct slimpack_knobs, balance)},
    {"offload", SCHEMA_CHOICE, "-", 0, 0, "auto", "plan|auto",
     "share that goes to the host: plan.offload for all units, or from there on per unit so that the plan just fits",
     offsetof(struct slimpack_knobs, offload)},
    {"recompute", SCHEMA_CHOICE, "-", 0, 0, "plan", "plan|auto",
     "plan.recompute for all units, or from there on more of it per unit so that the plan just fits",
     offsetof(struct slimpack_knobs, recompute)},
    {"packer", SCHEMA_CHOICE, "-", 0, 0, "fill", "fill|milp",
     "boundaries by the exact fill, or by a mixed-integer program that starts from it (small cases)",
     offsetof(struct slimpack_knobs, packer)},
    {"milp_window", SCHEMA_INT, "tokens", 0, 1073741824, "2", NULL,
     "how far packer milp moves a boundary of the exact fill, each way; 0: anywhere",
     offsetof(struct slimpack_knobs, milp_window)},
    {"milp_nodes", SCHEMA_INT, "-", 1, 1000000, "50", NULL,
     "branch-and-bound nodes of packer milp for each rank and pass; one more where the last branching adds two",
     offsetof(struct slimpack_knobs, milp_nodes)},
    {"units", SCHEMA_INT, "-", 0, 1 << 20, "0", NULL, "MicroPacks of a rank; 0: search among factors x stages",
     offsetof(struct slimpack_knobs, units)},
    {"max_factor", SCHEMA_INT, "-", 1, 128, "64", NULL, "largest factor that the search tries",
     offsetof(struct slimpack_knobs, max_factor)},
    {"replica_units", SCHEMA_BOOL, "-", 0, 0, "true", NULL, "each DP rank (or merged ranks) has its own factor",
     offsetof(struct slimpack_knobs, replica_units)},
    {"unit_spread", SCHEMA_REAL, "-", 0, 1000, "0", NULL,
     "largest p95/p5 of a rank's units in FLOPs (below 1: as 1); where no number of units has it, the least; 0: no "
     "limit",
     offsetof(struct slimpack_knobs, unit_spread)},
};

static bool leaves_offload(const void *values)
{
    return ((const struct slimpack_knobs *)values)->offload == SLIMPACK_OF_PLAN;
}

const struct training_system system_slimpack = {
    .name = "slimpack",
    .source = "SlimPack: Fine-Grained Asymmetric Packing for Balanced and Efficient Variable-Length LLM Training",
    .meaning = "slices of equal FLOPs in MicroPacks, cut anew for the backward pass; outliers shared by DP ranks",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct slimpack_knobs),
    .uses_context = false,
    .leaves_offload = leaves_offload,
    .shares = slimpack_shares,
    .plan = slimpack_plan,
};
