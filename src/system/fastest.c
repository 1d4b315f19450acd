/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/fastest.h"

static void add_counts(struct plan *plan, const struct plan *other)
{
    plan->n_candidates += other->n_candidates;
    plan->n_resolved += other->n_resolved;
}

bool fastest_add(const struct system_request *request, struct plan *candidate, struct fastest *fastest,
                 struct error *err)
{
    struct cost_setting setting = *request->setting;
    bool first = fastest->plan.n_phases == 0;
    setting.cache = setting.cache != NULL ? setting.cache : &fastest->costs;
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

struct plan fastest_take(struct fastest *fastest)
{
    struct plan plan = fastest->plan;
    dag_free(&fastest->dag);
    timeline_free(&fastest->timeline);
    cost_cache_free(&fastest->costs);
    *fastest = (struct fastest){0};
    return plan;
}

int32_t fastest_half(int64_t most, int32_t i)
{
    return i > FASTEST_N_HALVINGS ? 0 : (int32_t)(most >> i);
}
