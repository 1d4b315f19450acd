/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/fastest.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "bounds/critical_path.h"
#include "cost/cache.h"
#include "dag/dag.h"

/* {0} at first. */
struct fastest {
    struct plan plan;
    double end_s;   /* of its passes */
    struct dag dag; /* the room of these two is used again */
    struct timeline timeline;
    struct cost_cache costs; /* candidates have units in common; unused where the request brings one */
};

static void add_counts(struct plan *plan, const struct plan *other)
{
    plan->n_candidates += other->n_candidates;
    plan->n_resolved += other->n_resolved;
}

/* Seconds of passes of the busiest rank, on its last stage. */
static double busiest_s(const struct plan *plan, const struct cost_setting *setting)
{
    int32_t n_ranks = plan->phases[0].n_pipelines;
    double *busy_s = check_calloc((size_t)n_ranks, sizeof *busy_s), most_s = 0;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t rank = 0; rank < n_ranks; rank++) {
            const struct plan_pipeline *pipeline = &plan->phases[i].pipelines[rank];
            for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
                for (int32_t unit = 0; unit < pipeline->cut[pass].n_units; unit++) {
                    struct cost_pass cost = dag_pass_cost(pipeline, setting, pass, unit, pipeline->layout.stages - 1);
                    busy_s[rank] += cost_pass_s(&cost);
                }
            most_s = fmax(most_s, busy_s[rank]);
        }
    free(busy_s);
    return most_s;
}

/* The plan, to the caller; all else is freed. */
static struct plan fastest_take(struct fastest *fastest)
{
    struct plan plan = fastest->plan;
    dag_free(&fastest->dag);
    timeline_free(&fastest->timeline);
    cost_cache_free(&fastest->costs);
    *fastest = (struct fastest){0};
    return plan;
}

/* One more candidate, which is taken over. false with err: it cannot run, and nothing is left. */
static bool fastest_add(const struct system_request *request, struct plan *candidate, struct fastest *fastest,
                        struct error *err)
{
    struct cost_setting setting = *request->setting;
    bool first = fastest->plan.n_phases == 0;
    setting.cache = setting.cache != NULL ? setting.cache : &fastest->costs;
    double least_s = busiest_s(candidate, &setting) * (1 - 1e-12); /* sums in another order */
    if ((!first && least_s > fastest->end_s) || (request->limit_s > 0 && least_s > request->limit_s)) {
        add_counts(&fastest->plan, candidate);
        plan_free(candidate);
        return true;
    }
    candidate->n_resolved++;
    if (!dag_rebuild(candidate, &setting, (struct dag_options){0}, &fastest->dag, err)) {
        plan_free(candidate);
        struct plan plan = fastest_take(fastest);
        plan_free(&plan);
        return false;
    }
    critical_path(&fastest->dag, &fastest->timeline);
    if (first || fastest->timeline.makespan_s < fastest->end_s) {
        struct plan slower = fastest->plan;
        fastest->end_s = fastest->timeline.makespan_s;
        fastest->plan = *candidate;
        *candidate = slower;
    }
    add_counts(&fastest->plan, candidate);
    plan_free(candidate);
    return true;
}

bool fastest_of_halves(const struct system_request *request, int32_t most, fastest_with *with, struct plan *plan,
                       struct error *err)
{
    struct fastest fastest = {0};
    for (int32_t i = 0; i <= FASTEST_N_HALVINGS && most >> i > 0; i++) {
        with(request, most >> i, plan);
        if (!fastest_add(request, plan, &fastest, err))
            return false;
    }
    *plan = fastest_take(&fastest);
    return true;
}
