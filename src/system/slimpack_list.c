/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/slimpack_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static const int32_t factors[SLIMPACK_N_FACTORS] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
enum { MILP_MAX_BINARIES = 300 };

static const struct slimpack_knobs *knobs_of(const struct slimpack_choice *choice)
{
    return choice->part.request->knobs;
}

int64_t slimpack_milp_places(const struct plan_request *request)
{
    const struct slimpack_knobs *knobs = request->knobs;
    int64_t places = 2 * knobs->milp_window + 1, tokens = request->batch->n_tokens;
    return knobs->milp_window == 0 || places > tokens ? tokens : places;
}

int64_t slimpack_milp_units(const struct plan_request *request)
{
    const struct slimpack_knobs *knobs = request->knobs;
    return knobs->packer == SLIMPACK_MILP ? MILP_MAX_BINARIES / slimpack_milp_places(request) + 1 : INT64_MAX;
}

/* Pipelines behind the first of a block, or 1: blocks are placed widest first. */
static int32_t linked_pipelines(const struct plan_phase *phase, int32_t first)
{
    for (int32_t i = 0; i < phase->n_groups; i++)
        if (phase->groups[i].pipelines[0] == first)
            return phase->groups[i].n_pipelines;
    return 1;
}

/* How far each pipeline's long warm-up leads: pipelines that share units have one lead. Caller frees. */
static int32_t *warm_ups_of(const struct plan_phase *phase)
{
    int32_t *leads = check_malloc((size_t)phase->n_pipelines * sizeof *leads);
    for (int32_t first = 0, end; first < phase->n_pipelines; first = end) {
        int32_t most = 0;
        end = first + linked_pipelines(phase, first);
        for (int32_t i = first; i < end; i++) {
            int32_t lead = order_lead(&phase->pipelines[i]);
            most = lead > most ? lead : most;
        }
        for (int32_t i = first; i < end; i++)
            leads[i] = most;
    }
    return leads;
}

static enum order_injection injection_of(enum slimpack_injection policy)
{
    return policy == SLIMPACK_PERSISTENT ? ORDER_PERSISTENT : ORDER_JUST_IN_TIME;
}

void slimpack_order(struct plan_phase *phase, enum slimpack_injection policy)
{
    int32_t *warm_up = policy == SLIMPACK_NONE ? warm_ups_of(phase) : NULL;
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        if (policy == SLIMPACK_NONE)
            order_long_warm_up(&phase->pipelines[i], warm_up[i]);
        else
            order_one_f_one_b(&phase->pipelines[i], injection_of(policy));
    free(warm_up);
}

/* The order of each pipeline as order_leads has it, [n_pipelines]. Caller frees. */
static int32_t **orders_of(const struct plan_phase *phase, enum slimpack_injection policy)
{
    int32_t **leads = check_malloc((size_t)phase->n_pipelines * sizeof *leads);
    int32_t *warm_up = policy == SLIMPACK_NONE ? warm_ups_of(phase) : NULL;
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        leads[i] = policy == SLIMPACK_NONE ? order_long_leads(&phase->pipelines[i], warm_up[i])
                                           : order_leads(&phase->pipelines[i], injection_of(policy));
    free(warm_up);
    return leads;
}

double slimpack_useful_s(const struct slimpack_choice *choice)
{
    bool fits = choice->n_resolved > 0 && choice->best.is.peak_bytes <= choice->part.request->memory_bytes;
    return fits ? fmin(choice->limit.makespan_s, choice->best.is.makespan_s) : choice->limit.makespan_s;
}

/* A candidate whose bound exceeds this [s] cannot win any more. Sums in another order may differ in their last bits. */
static double hopeless_s(const struct slimpack_choice *choice)
{
    return slimpack_useful_s(choice) * (1 + 1e-9);
}

bool slimpack_is_hopeless(const struct slimpack_choice *choice, double bound_s, double bound_bytes)
{
    const double slack = 1 + 1e-9;
    double memory_bytes = choice->part.request->memory_bytes;
    if (slimpack_is_enough(choice) || bound_s > hopeless_s(choice) || bound_bytes > choice->limit.peak_bytes * slack)
        return true;
    if (choice->n_resolved == 0)
        return false;
    return bound_bytes > fmax(choice->best.is.peak_bytes, memory_bytes) * slack;
}

/* The least that any setting of the units can come to; where that does not fit, the least that the units as they are
 * come to, for as they are they are resolved.
 * @param phase  NULL: of any that runs a sample with so many tokens of a rank */
static double least_bytes(const struct slimpack_choice *choice, const struct plan_phase *phase,
                          const struct slimpack_walk *walks, double tokens)
{
    const struct plan_request *request = choice->part.request;
    struct slimpack_kind kinds[] = {slimpack_kind_of(request, true, true), slimpack_kind_of(request, false, false)};
    int32_t shards = scenario_plan_shards(&request->layout);
    double bytes = 0;
    if (knobs_of(choice)->offload == SLIMPACK_BY_UNIT)
        kinds[0].host_bytes = memory_fit_host_bytes(request, choice->part.n_ranks, choice->even_host);
    for (int i = 0; i < 2 && (i == 0 || bytes > request->memory_bytes); i++)
        bytes = fmax(bytes, phase != NULL ? slimpack_bound_bytes(request->setting, phase, walks, &kinds[i], shards)
                                          : slimpack_sample_bytes(request, tokens, &kinds[i]));
    return bytes;
}

/* Of the samples that run on a part, the most tokens that a rank has of one. */
static double longest_tokens(const struct slimpack_part *part)
{
    const struct slimpack_split *split = part->split;
    const int32_t *tokens = part->request->batch->tokens;
    double longest = 0;
    for (int32_t i = 0; i < split->n_outliers; i++)
        if (split->outliers[i].first_rank >= part->first_rank &&
            split->outliers[i].first_rank < part->first_rank + part->n_ranks)
            longest = fmax(longest, (double)tokens[split->outliers[i].sample] / split->outliers[i].width);
    for (int32_t rank = part->first_rank; rank < part->first_rank + part->n_ranks; rank++)
        if (split->local_first[rank] < split->local_first[rank + 1])
            longest = fmax(longest, tokens[split->local[split->local_first[rank]]]);
    return longest;
}

bool slimpack_longest_fits(const struct slimpack_choice *choice)
{
    double tokens = longest_tokens(&choice->part);
    return tokens <= 0 || !slimpack_is_hopeless(choice, 0, least_bytes(choice, NULL, NULL, tokens));
}

/* Whether two orders are the same: no stage runs more forwards than there are. */
static bool same_orders(const struct plan_phase *phase, int32_t *const *a, int32_t *const *b)
{
    bool same = true;
    for (int32_t i = 0; same && i < phase->n_pipelines; i++) {
        int32_t n = phase->pipelines[i].cut[PASS_FORWARD].n_units;
        for (int32_t k = 0; same && k < phase->pipelines[i].cut[PASS_BACKWARD].n_units; k++)
            same = a[i][k] == b[i][k] || (a[i][k] >= n && b[i][k] >= n);
    }
    return same;
}

/* Whether the last of n orders is among those before it. */
static bool is_known(const struct plan_phase *phase, int32_t **const *had, int32_t n)
{
    bool known = false;
    for (int32_t i = 0; i < n - 1; i++)
        known = known || same_orders(phase, had[i], had[n - 1]);
    return known;
}

static void free_orders(int32_t **orders, int32_t n_pipelines)
{
    for (int32_t i = 0; i < n_pipelines; i++)
        free(orders[i]);
    free(orders);
}

/* List a shape under each injection policy the knob allows; one whose orders another one has had is left out. The lead
 * of each is at least that of the one before, and so is its memory: where that rules out the one, it does the others.
 * @return whether one may fit */
static bool list_policies(struct slimpack_choice *choice, struct slimpack_shape shape, const struct plan_phase *phase)
{
    const struct plan_request *request = choice->part.request;
    struct slimpack_walk *walks = slimpack_walks(phase);
    int32_t **had[SLIMPACK_N_POLICIES], n_had = 0, wanted = knobs_of(choice)->injection;
    bool may_fit = false;
    for (int policy = SLIMPACK_JUST_IN_TIME; policy <= SLIMPACK_NONE; policy++) {
        if (wanted != SLIMPACK_AUTO && wanted != policy)
            continue;
        had[n_had++] = orders_of(phase, (enum slimpack_injection)policy);
        if (is_known(phase, had, n_had))
            continue;
        for (int32_t i = 0; i < phase->n_pipelines; i++)
            walks[i].lead = had[n_had - 1][i];
        CHECK(choice->n_candidates < SLIMPACK_MAX_CANDIDATES);
        struct slimpack_candidate *candidate = &choice->candidates[choice->n_candidates];
        *candidate = (struct slimpack_candidate){.shape = shape, .policy = (enum slimpack_injection)policy};
        candidate->index = choice->n_candidates++;
        candidate->bound_bytes = least_bytes(choice, phase, walks, 0);
        may_fit = may_fit || candidate->bound_bytes <= request->memory_bytes;
        if (slimpack_is_hopeless(choice, 0, candidate->bound_bytes))
            break;
    }
    for (int32_t i = 0; i < n_had; i++)
        free_orders(had[i], phase->n_pipelines);
    slimpack_walks_free(walks, phase->n_pipelines);
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

void slimpack_list_shapes(struct slimpack_choice *choice, struct slimpack_shape shape, bool both)
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

int64_t slimpack_units_of(const struct slimpack_choice *choice, int32_t i)
{
    const struct slimpack_knobs *knobs = knobs_of(choice);
    return knobs->units > 0 ? knobs->units : factors[i] * choice->part.request->layout.pp;
}

int32_t slimpack_n_factors(const struct slimpack_choice *choice)
{
    const struct slimpack_knobs *knobs = knobs_of(choice);
    int32_t n = 0;
    while (n < SLIMPACK_N_FACTORS && factors[n] <= (knobs->units > 0 ? 1 : knobs->max_factor) &&
           slimpack_units_of(choice, n) <= slimpack_milp_units(choice->part.request))
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
    int64_t most = slimpack_units_of(choice, n_factors - 1);
    double *uneven = check_malloc((size_t)most * sizeof *uneven);
    slimpack_unevenness(&choice->part, most, uneven);
    return uneven;
}

/* The most even m above that of the factor before, up to the factor's. */
static int64_t even_units(const struct slimpack_choice *choice, int32_t i, const double *uneven)
{
    int64_t m = slimpack_units_of(choice, i);
    return slimpack_even_units(uneven, i > 0 ? slimpack_units_of(choice, i - 1) : m - 1, m);
}

void slimpack_list_between(struct slimpack_choice *choice)
{
    int32_t n_factors = slimpack_n_factors(choice);
    const struct slimpack_part *part = &choice->part;
    bool several = slimpack_linked_ranks(part->split, part->first_rank) < part->n_ranks;
    if (n_factors == 0 || !has_outliers(part))
        return;
    double *uneven = unevenness(choice, n_factors);
    for (int32_t i = 0; i < n_factors; i++) {
        struct slimpack_shape shape = {.m = slimpack_units_of(choice, i), .slicing = true, .even = true};
        int64_t m = several ? shape.m : even_units(choice, i, uneven);
        shape.above = several && i > 0 ? slimpack_units_of(choice, i - 1) : 0;
        if (shape.above > 0 || m != shape.m) {
            shape.m = m;
            slimpack_list_shapes(choice, shape, true);
        }
    }
    free(uneven);
}

/* The lowest number from `least` to `most` whose units spread no more than the limit; 0: there is none. */
static int64_t within(const double *spread, double limit, int64_t least, int64_t most)
{
    for (int64_t m = least; m <= most; m++)
        if (spread[m - 1] <= limit)
            return m;
    return 0;
}

void slimpack_list_spread(struct slimpack_choice *choice)
{
    int32_t n_factors = slimpack_n_factors(choice);
    int64_t least = slimpack_units_of(choice, 0), most = slimpack_units_of(choice, n_factors - 1);
    int64_t listed[SLIMPACK_N_FACTORS][N_PASSES] = {{0}};
    double *spread = check_malloc((size_t)most * sizeof *spread);
    for (int pass = 0; pass < N_PASSES; pass++) {
        slimpack_spreads(&choice->part, (enum pass)pass, most, spread);
        for (int32_t i = 0; i < n_factors; i++) {
            int64_t above = i > 0 ? slimpack_units_of(choice, i - 1) : least - 1;
            listed[i][pass] = within(spread, fmax(1, knobs_of(choice)->unit_spread), above + 1, most);
            if (listed[i][pass] == 0)
                listed[i][pass] = i > 0 ? listed[i - 1][pass] : slimpack_even_units(spread, above, most);
        }
    }
    for (int32_t i = 0; i < n_factors; i++) {
        const int64_t *m = listed[i];
        if (i == 0 || memcmp(m, listed[i - 1], sizeof listed[i]) != 0)
            slimpack_list_shapes(
                choice,
                (struct slimpack_shape){
                    .m = m[PASS_FORWARD], .m_backward = m[PASS_BACKWARD], .slicing = true, .even = true},
                false);
    }
    free(spread);
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

int32_t slimpack_even_steps(const struct slimpack_choice *choice, const struct slimpack_candidate *own, int64_t *m)
{
    struct step steps[SLIMPACK_N_FACTORS];
    const struct slimpack_knobs *knobs = knobs_of(choice);
    int32_t n_factors = slimpack_n_factors(choice), n = 0;
    bool whole = own->shape.asymmetric == knobs->asymmetric && own->shape.slicing == knobs->slicing;
    if (n_factors == 0 || (whole && !has_outliers(&choice->part)))
        return 0;
    double *uneven = unevenness(choice, n_factors);
    for (int32_t i = 0; i < n_factors; i++) {
        int64_t even = has_outliers(&choice->part) ? even_units(choice, i, uneven) : slimpack_units_of(choice, i);
        if (even <= own->shape.m && (!whole || uneven[even - 1] < uneven[own->shape.m - 1]))
            steps[n++] = (struct step){even, uneven[even - 1], llabs(even - own->shape.m), i};
    }
    free(uneven);
    qsort(steps, (size_t)n, sizeof *steps, by_unevenness);
    for (int32_t i = 0; i < n; i++)
        m[i] = steps[i].m;
    return n;
}
