/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "bounds/lower_bound.h"
#include "system/slimpack_list.h"

static const struct slimpack_knobs *knobs_of(const struct slimpack_choice *choice)
{
    return choice->part.request->knobs;
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

/* The flags of what a candidate uses. */
static int32_t parts_of(const struct slimpack_candidate *candidate)
{
    static const int32_t order[] = {[SLIMPACK_JUST_IN_TIME] = PLAN_JUST_IN_TIME,
                                    [SLIMPACK_PERSISTENT] = PLAN_PERSISTENT,
                                    [SLIMPACK_NONE] = PLAN_LONG_WARM_UP};
    return (candidate->shape.slicing ? PLAN_SLICED : 0) | (candidate->shape.asymmetric ? PLAN_ASYMMETRIC : 0) |
           order[candidate->policy];
}

/* A candidate's plan, its units as they are. */
static struct plan built(const struct slimpack_choice *choice, const struct slimpack_candidate *candidate)
{
    const struct slimpack_part *part = &choice->part;
    struct plan plan = {.n_phases = 1, .shards = scenario_plan_shards(&part->request->layout)};
    plan.phases = check_calloc(1, sizeof *plan.phases);
    slimpack_build(part, &candidate->shape, plan.phases);
    slimpack_order(plan.phases, candidate->policy);
    for (int32_t i = 0; i < plan.phases->n_pipelines; i++)
        plan.phases->pipelines[i].parts = parts_of(candidate);
    return plan;
}

/* Whether a plan's steps alone bound what a rule makes of it: else less may be copied than in the plan. */
static bool is_bounded(const struct slimpack_choice *choice, struct memory_fit_rule rule)
{
    return !rule.recompute || choice->part.request->layout.offload <= 0;
}

/* Whether its steps alone end too late for a plan to be of use, or for a hint not to wait. */
static bool is_late(struct slimpack_choice *choice, const struct slimpack_candidate *candidate, const struct plan *plan)
{
    double useful_s = slimpack_useful_s(choice), limit_s = choice->hint_s > 0 ? choice->hint_s : useful_s;
    double alone_s = candidate->alone_s;
    if (limit_s == INFINITY)
        return false;
    if (alone_s <= 0)
        alone_s = lower_bound_s(plan, choice->part.request->setting);
    bool waits = choice->hint_s > 0 && alone_s > choice->hint_s * (1 + 1e-9);
    choice->hint_waits = choice->hint_waits || waits;
    return waits || alone_s > useful_s * (1 + 1e-9);
}

/* @param is  what it comes to; as it was, if it ends too late by its bound */
static bool try_rule(struct slimpack_choice *choice, const struct slimpack_candidate *candidate,
                     struct memory_fit_rule rule, struct memory_fit_outcome *is, struct error *err)
{
    const struct slimpack_part *part = &choice->part;
    struct plan plan = choice->ready.phases != NULL ? choice->ready : built(choice, candidate);
    double limit_s = slimpack_useful_s(choice);
    struct slimpack_outcome outcome = {.index = candidate->index, .refined = part->search != NULL};
    choice->ready = (struct plan){0};
    if (is_bounded(choice, rule) && is_late(choice, candidate, &plan)) {
        plan_free(&plan);
        return true;
    }
    rule.limit_s = limit_s < INFINITY ? limit_s : 0;
    rule.even_host = choice->even_host;
    bool first = choice->n_resolved == 0, ok = memory_fit(part->request, rule, &plan, choice->arrays, &outcome.is, err);
    *is = outcome.is;
    choice->n_resolved++;
    if (ok && (first || slimpack_is_better(&outcome, &choice->best, part->request->memory_bytes))) {
        struct plan worse = choice->plan;
        choice->best = outcome;
        choice->candidate = *candidate;
        choice->candidate.alone_s = 0; /* another part's hint */
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
    const struct slimpack_limit limit = {slimpack_useful_s(choice), choice->part.request->memory_bytes};
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
    const struct memory_fit_rule both = {.offload = adapts && knobs->offload == SLIMPACK_BY_UNIT,
                                         .recompute = adapts && knobs->recompute == SLIMPACK_BY_UNIT};
    struct memory_fit_outcome is = {0};
    bool may_win;
    if (!try_heaviest(choice, candidate, &may_win, err))
        return false;
    if (!may_win)
        return true;
    if (!try_rule(choice, candidate, both, &is, err))
        return false;
    if (both.recompute && (is.offloads || is.host_ends) &&
        !try_rule(choice, candidate, (struct memory_fit_rule){.recompute = true}, &(struct memory_fit_outcome){0}, err))
        return false;
    return !both.offload || !is.recomputes ||
           try_rule(choice, candidate, (struct memory_fit_rule){.offload = true}, &(struct memory_fit_outcome){0}, err);
}

bool slimpack_is_enough(const struct slimpack_choice *choice)
{
    return choice->n_resolved > 0 &&
           choice->best.is.peak_bytes <= fmax(choice->enough.peak_bytes, choice->part.request->memory_bytes) &&
           choice->best.is.makespan_s <= choice->enough.makespan_s;
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

/* Bound the i-th candidate by its steps alone, too. Where that leaves it behind the next one it goes to its place: what
 * cannot be enough goes by the tighter bound. Else its plan is ready. @return whether it has gone */
static bool falls_back(struct slimpack_choice *choice, int32_t i)
{
    const struct slimpack_knobs *knobs = knobs_of(choice);
    struct slimpack_candidate *at = &choice->candidates[i], candidate = *at;
    struct memory_fit_rule rule = {.recompute = knobs->recompute == SLIMPACK_BY_UNIT};
    bool may_fit = candidate.bound_bytes <= choice->part.request->memory_bytes;
    if (!may_fit || candidate.alone_s > 0 || choice->heaviest != NULL || !is_bounded(choice, rule))
        return false;
    choice->ready = built(choice, &candidate);
    candidate.alone_s = lower_bound_s(&choice->ready, choice->part.request->setting);
    if (candidate.alone_s > choice->enough.makespan_s * (1 + 1e-9))
        candidate.bound_s = fmax(candidate.bound_s, candidate.alone_s);
    int32_t to = i;
    for (; to + 1 < choice->n_candidates && compare(choice, at + 1, &candidate) < 0; at++, to++)
        *at = at[1];
    *at = candidate;
    if (to > i)
        plan_free(&choice->ready);
    return to > i;
}

/* Resolve what of the candidates from `first` on can win. */
static bool try_candidates(struct slimpack_choice *choice, int32_t first, struct error *err)
{
    bool ok = true;
    qsort_r(choice->candidates + first, (size_t)(choice->n_candidates - first), sizeof *choice->candidates,
            compare_candidates, choice);
    for (int32_t i = first; ok && i < choice->n_candidates;) {
        const struct slimpack_candidate *candidate = &choice->candidates[i];
        bool hopeless = slimpack_is_hopeless(choice, candidate->bound_s, candidate->bound_bytes);
        if (!hopeless && falls_back(choice, i))
            continue;
        ok = hopeless || try_candidate(choice, candidate, err);
        i++;
    }
    return ok;
}

/* The factors' m first, then those between, whose bounds are cheap by then. Whole samples come last, where a sample is
 * not so long that it alone rules them out; more units than samples cut them no finer. */
static bool find_own(struct slimpack_choice *choice, struct error *err)
{
    if (knobs_of(choice)->unit_spread > 0) {
        slimpack_list_spread(choice);
        return try_candidates(choice, 0, err);
    }
    struct local local = local_of(&choice->part);
    int32_t n_factors = slimpack_n_factors(choice);
    if (!slimpack_longest_fits(choice))
        return true;
    for (int32_t i = 0; knobs_of(choice)->slicing && i < n_factors; i++)
        slimpack_list_shapes(choice, (struct slimpack_shape){.m = slimpack_units_of(choice, i), .slicing = true}, true);
    if (!try_candidates(choice, 0, err))
        return false;
    int32_t n_listed = choice->n_candidates;
    if (knobs_of(choice)->slicing && !slimpack_is_enough(choice))
        slimpack_list_between(choice);
    if (!try_candidates(choice, n_listed, err))
        return false;
    n_listed = choice->n_candidates;
    if (slimpack_is_hopeless(choice, slimpack_chain_s(choice->part.request, local.tokens), 0))
        return true;
    for (int32_t i = 0; i < n_factors; i++)
        if (i == 0 || choice->part.split->n_outliers > 0 || slimpack_units_of(choice, i - 1) < local.n_samples)
            slimpack_list_shapes(choice, (struct slimpack_shape){.m = slimpack_units_of(choice, i)}, true);
    return try_candidates(choice, n_listed, err);
}

/* A hint that cannot be enough waits until all others were tried, which mostly rule it out. */
bool slimpack_find(struct slimpack_choice *choice, const struct slimpack_candidate *hint, struct error *err)
{
    if (hint == NULL)
        return find_own(choice, err);
    choice->hint_s = choice->enough.makespan_s;
    bool ok = try_candidate(choice, hint, err);
    choice->hint_s = 0;
    if (!ok || slimpack_is_enough(choice))
        return ok;
    return find_own(choice, err) &&
           (!choice->hint_waits || slimpack_is_enough(choice) || try_candidate(choice, hint, err));
}

bool slimpack_find_even(struct slimpack_choice *choice, const struct slimpack_candidate *own, struct error *err)
{
    int64_t m[SLIMPACK_N_FACTORS];
    bool slicing = knobs_of(choice)->slicing;
    int32_t n = slimpack_even_steps(choice, own, m);
    for (int32_t i = 0; i < n && !slimpack_is_enough(choice); i++) {
        int32_t first = choice->n_candidates;
        slimpack_list_shapes(choice, (struct slimpack_shape){.m = m[i], .slicing = slicing, .even = true}, false);
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
