/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "packing/token_cap_search.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/compare.h"
#include "bounds/evaluate.h"
#include "bounds/lower_bound.h"
#include "cost/cache.h"
#include "packing/packing.h"

/* One candidate. */
struct candidate {
    struct plan plan;
    int32_t number;
    double least_s; /* lower bound of its passes' seconds */
};

/* The fastest candidate so far. {0} at first. */
struct fastest {
    struct plan plan; /* without phases: none yet */
    int32_t number;
    struct evaluation evaluation;
    struct evaluation_limits limits;
    struct evaluator evaluator;
    struct cost_cache costs; /* candidates have micro-batches in common; unused if the request has a cache */
};

static void add_counts(struct plan *plan, const struct plan *other)
{
    plan->n_candidates += other->n_candidates;
    plan->n_resolved += other->n_resolved;
}

/* Keep the candidate just evaluated or the one kept before. The other becomes the candidate's. */
static void keep(struct candidate *candidate, const struct evaluation *evaluation, struct fastest *fastest)
{
    int order = evaluation_compare(evaluation, &fastest->evaluation, &fastest->limits);
    if (fastest->plan.n_phases > 0 && (order > 0 || (order == 0 && candidate->number > fastest->number)))
        return;
    struct plan other = fastest->plan;
    fastest->evaluation = *evaluation;
    fastest->number = candidate->number;
    fastest->plan = candidate->plan;
    candidate->plan = other;
}

/*
 * Evaluate a candidate, unless it is known to be slower than one that fits. Keep it or the one kept before. Its counts
 * are added to the plan's, and it is freed.
 *
 * @return false with err if it cannot run
 */
static bool try_candidate(const struct plan_request *request, const struct cost_setting *setting,
                          struct candidate *candidate, struct fastest *fastest, struct error *err)
{
    bool fits = fastest->plan.n_phases > 0 && evaluation_excess(&fastest->evaluation, &fastest->limits) == 0, ok = true;
    double useful_s =
        fmin(fits ? fastest->evaluation.makespan_s : INFINITY, request->limit_s > 0 ? request->limit_s : INFINITY);
    struct evaluation evaluation;
    if (candidate->least_s <= useful_s) {
        candidate->plan.n_resolved++;
        ok = evaluate(&fastest->evaluator, &candidate->plan, setting, (struct dag_options){0}, &evaluation, err);
        if (ok)
            keep(candidate, &evaluation, fastest);
    }
    add_counts(&fastest->plan, &candidate->plan);
    plan_free(&candidate->plan);
    return ok;
}

static int by_least_s(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->least_s != y->least_s ? COMPARE(x->least_s, y->least_s) : COMPARE(x->number, y->number);
}

/*
 * Make all candidates, in the order of their bounds.
 *
 * @return their number
 */
static int32_t make_candidates(const struct plan_request *request, int32_t most, int32_t n_halvings,
                               token_cap_planner *planner, const struct cost_setting *setting,
                               struct candidate *candidates)
{
    int32_t n = 0;
    for (int32_t i = 0; i <= n_halvings && most >> i > 0; i++)
        for (int32_t variant = 0; variant < TOKEN_CAP_N_VARIANTS; variant++) {
            if (!planner(request, most >> i, variant, &candidates[n].plan))
                break;
            candidates[n].number = n;
            n++;
        }
    for (int32_t i = 0; n > 1 && i < n; i++) /* the bound sums in another order */
        candidates[i].least_s = lower_bound_s(&candidates[i].plan, setting) * (1 - 1e-12);
    qsort(candidates, (size_t)n, sizeof *candidates, by_least_s);
    return n;
}

/* Resolve candidates. Each is freed, or kept in `fastest`. */
static bool resolve_all(const struct plan_request *request, const struct cost_setting *setting,
                        struct candidate *candidates, int32_t n, struct fastest *fastest, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; i < n; i++) {
        if (ok)
            ok = try_candidate(request, setting, &candidates[i], fastest, err);
        else
            plan_free(&candidates[i].plan);
    }
    evaluator_free(&fastest->evaluator);
    if (ok && request->limit_s > 0 &&
        fastest->evaluation.makespan_s > request->limit_s) { /* a faster one may have been left out */
        struct plan none = {0};
        add_counts(&none, &fastest->plan);
        plan_free(&fastest->plan);
        fastest->plan = none;
    }
    return ok;
}

bool token_cap_search(const struct plan_request *request, int32_t most, int32_t n_halvings, token_cap_planner *planner,
                      struct plan *plan, struct error *err)
{
    struct candidate candidates[(TOKEN_CAP_N_HALVINGS + 1) * TOKEN_CAP_N_VARIANTS] = {0};
    struct fastest fastest = {.limits = evaluation_limits_of(request->memory_bytes, request->setting->platform)};
    struct cost_setting setting = *request->setting;
    CHECK(n_halvings <= TOKEN_CAP_N_HALVINGS);
    setting.cache = setting.cache != NULL ? setting.cache : &fastest.costs;
    int32_t n = make_candidates(request, most, n_halvings, planner, &setting, candidates);
    bool ok = true;
    if (n == 1)
        fastest.plan = candidates[0].plan;
    else
        ok = resolve_all(request, &setting, candidates, n, &fastest, err);
    cost_cache_free(&fastest.costs);
    if (ok)
        *plan = fastest.plan;
    else
        plan_free(&fastest.plan);
    return ok;
}

bool token_cap_search_given(const struct plan_request *request, int64_t given, token_cap_planner *planner,
                            struct plan *plan, struct error *err)
{
    int64_t most = given > 0 ? given : packing_memory_tokens(request);
    most = most < request->context ? most : request->context;
    return token_cap_search(request, (int32_t)(most > 1 ? most : 1), given > 0 ? 0 : TOKEN_CAP_N_HALVINGS, planner,
                            plan, err);
}
