/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "packing/token_cap_search.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/compare.h"
#include "bounds/critical_path.h"
#include "bounds/lower_bound.h"
#include "bounds/memory.h"
#include "cost/cache.h"
#include "dag/dag.h"

/* One of the halves. */
struct candidate {
    struct plan plan;
    int32_t number;
    double least_s; /* its passes take no less */
};

/* {0} at first. */
struct fastest {
    struct plan plan; /* of no phases: none yet */
    int32_t number;
    double end_s;   /* of its passes */
    double excess;  /* excess_of */
    struct dag dag; /* the room of these two is used again */
    struct timeline timeline;
    struct cost_cache costs; /* candidates have units in common; unused where the request brings one */
};

static void add_counts(struct plan *plan, const struct plan *other)
{
    plan->n_candidates += other->n_candidates;
    plan->n_resolved += other->n_resolved;
}

/* What a plan just resolved needs beyond the memory of a GPU or of a node's host, as a share of that; 0: it fits. */
static double excess_of(const struct plan_request *request, const struct plan *plan, const struct fastest *fastest)
{
    const struct platform *platform = request->setting->platform;
    struct memory memory = {0};
    memory_of(plan, &fastest->dag, &fastest->timeline, request->setting, false, &memory);
    double host_bytes = memory_host_of(plan, &fastest->dag, &memory, platform->gpus_per_node).bytes;
    double gpu = memory.peak_bytes[memory.worst_place] / request->memory_bytes - 1;
    memory_free(&memory);
    return fmax(0, fmax(gpu, host_bytes / platform->host_memory_bytes - 1));
}

/* Keep the candidate just resolved, or what was kept before; the other one is the candidate's. */
static void keep(const struct plan_request *request, struct candidate *candidate, struct fastest *fastest)
{
    double end_s = fastest->timeline.makespan_s;
    bool first = fastest->plan.n_phases == 0;
    bool sooner = end_s < fastest->end_s || (end_s == fastest->end_s && candidate->number < fastest->number);
    if (!first && fastest->excess == 0 && !sooner)
        return;
    double excess = excess_of(request, &candidate->plan, fastest);
    if (!first && (excess > fastest->excess || (excess == fastest->excess && !sooner)))
        return;
    struct plan other = fastest->plan;
    fastest->excess = excess;
    fastest->end_s = end_s;
    fastest->number = candidate->number;
    fastest->plan = candidate->plan;
    candidate->plan = other;
}

/* Resolve a candidate unless it is known to be slower than one that fits, and keep it or what was kept before. Its
 * counts are added to those of the plan, and it is freed. false with err: it cannot run. */
static bool resolve(const struct plan_request *request, const struct cost_setting *setting, struct candidate *candidate,
                    struct fastest *fastest, struct error *err)
{
    bool fits = fastest->plan.n_phases > 0 && fastest->excess == 0, ok = true;
    double useful_s = fmin(fits ? fastest->end_s : INFINITY, request->limit_s > 0 ? request->limit_s : INFINITY);
    if (candidate->least_s <= useful_s) {
        candidate->plan.n_resolved++;
        ok = dag_rebuild(&candidate->plan, setting, (struct dag_options){0}, &fastest->dag, err);
        if (ok) {
            critical_path(&fastest->dag, &fastest->timeline);
            keep(request, candidate, fastest);
        }
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

/* All candidates, by their bounds. @return how many */
static int32_t make_candidates(const struct plan_request *request, int32_t most, int32_t n_halvings,
                               token_cap_planner *with, const struct cost_setting *setting,
                               struct candidate *candidates)
{
    int32_t n = 0;
    for (int32_t i = 0; i <= n_halvings && most >> i > 0; i++)
        for (int32_t variant = 0; variant < TOKEN_CAP_N_VARIANTS; variant++) {
            if (!with(request, most >> i, variant, &candidates[n].plan))
                break;
            candidates[n].number = n;
            n++;
        }
    for (int32_t i = 0; n > 1 && i < n; i++) /* sums in another order */
        candidates[i].least_s = lower_bound_s(&candidates[i].plan, setting) * (1 - 1e-12);
    qsort(candidates, (size_t)n, sizeof *candidates, by_least_s);
    return n;
}

/* Resolve them, each freed or kept in `fastest`. */
static bool resolve_all(const struct plan_request *request, const struct cost_setting *setting,
                        struct candidate *candidates, int32_t n, struct fastest *fastest, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; i < n; i++) {
        if (ok)
            ok = resolve(request, setting, &candidates[i], fastest, err);
        else
            plan_free(&candidates[i].plan);
    }
    dag_free(&fastest->dag);
    timeline_free(&fastest->timeline);
    if (ok && request->limit_s > 0 && fastest->end_s > request->limit_s) { /* a faster one may have been left */
        struct plan none = {0};
        add_counts(&none, &fastest->plan);
        plan_free(&fastest->plan);
        fastest->plan = none;
    }
    return ok;
}

bool token_cap_search(const struct plan_request *request, int32_t most, int32_t n_halvings, token_cap_planner *with,
                      struct plan *plan, struct error *err)
{
    struct candidate candidates[(TOKEN_CAP_N_HALVINGS + 1) * TOKEN_CAP_N_VARIANTS] = {0};
    struct fastest fastest = {0};
    struct cost_setting setting = *request->setting;
    CHECK(n_halvings <= TOKEN_CAP_N_HALVINGS);
    setting.cache = setting.cache != NULL ? setting.cache : &fastest.costs;
    int32_t n = make_candidates(request, most, n_halvings, with, &setting, candidates);
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
