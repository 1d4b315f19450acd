/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/space.h"

#include <stdlib.h>

#include "base/check.h"

struct listing {
    const struct scenario *scenario;
    const struct plan_space *space;
    struct schema_choices recompute; /* of the space, all where it says nothing; ascending */
    struct schema_reals offload;     /* likewise, 0 */
    size_t capacity;
    int32_t n;
    struct search_plan *plans;
};

static bool allows(const struct schema_ints *list, int64_t value)
{
    for (int32_t i = 0; i < list->n; i++)
        if (list->at[i] == value)
            return true;
    return list->n == 0;
}

static bool has_feature(const struct listing *listing, const struct scenario_plan *layout, int32_t feature)
{
    switch ((enum plan_space_feature)feature) {
    case PLAN_SPACE_CP:
        return layout->cp > 1;
    case PLAN_SPACE_CP_ACROSS_NODES:
        return layout->cp > 1 && layout->tp * layout->cp > listing->scenario->platform.gpus_per_node;
    case PLAN_SPACE_FULL_RECOMPUTE:
        return layout->recompute == RECOMPUTE_FULL;
    case PLAN_SPACE_OFFLOAD:
        return layout->offload > 0;
    }
    return false;
}

static void add_plan(struct listing *listing, const struct scenario_plan *layout)
{
    const struct schema_choices *on_demand = &listing->space->on_demand;
    listing->plans = check_grow(listing->plans, (size_t)listing->n, &listing->capacity, sizeof *listing->plans);
    struct search_plan *plan = &listing->plans[listing->n++];
    *plan = (struct search_plan){.layout = *layout, .verdict = SEARCH_OPEN};
    for (int32_t i = 0; i < on_demand->n; i++)
        plan->n_demanded += has_feature(listing, layout, on_demand->at[i]);
}

/** What the words of plan_space.recompute mean, in their order. */
static const int32_t recompute_words[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};

static void add_layout(struct listing *listing, struct scenario_plan layout)
{
    for (int32_t i = 0; i < listing->recompute.n; i++)
        for (int32_t j = 0; j < listing->offload.n; j++) {
            layout.recompute = recompute_words[listing->recompute.at[i]];
            layout.offload = listing->offload.at[j];
            add_plan(listing, &layout);
        }
}

static int compare_choices(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** Recompute settings and ratios ascending, each once: so a list's order decides nothing. */
static void sort_lists(struct listing *listing, const struct training_system *system, const void *knobs)
{
    struct schema_choices *recompute = &listing->recompute;
    struct schema_reals *offload = &listing->offload;
    *recompute = listing->space->recompute;
    *offload = listing->space->offload;
    if (recompute->n == 0)
        *recompute = (struct schema_choices){3, {0, 1, 2}};
    if (offload->n == 0 || !system_offloads(system, knobs))
        *offload = (struct schema_reals){1, {0}};
    qsort(recompute->at, (size_t)recompute->n, sizeof *recompute->at, compare_choices);
    qsort(offload->at, (size_t)offload->n, sizeof *offload->at, compare_reals);
    int32_t n = 0;
    for (int32_t i = 0; i < recompute->n; i++)
        if (i == 0 || recompute->at[i] != recompute->at[i - 1])
            recompute->at[n++] = recompute->at[i];
    recompute->n = system_recomputes(system, knobs) ? 1 : n;
    n = 0;
    for (int32_t i = 0; i < offload->n; i++)
        if (i == 0 || offload->at[i] > offload->at[i - 1])
            offload->at[n++] = offload->at[i];
    offload->n = n;
}

struct search_plan *space_plans(const struct scenario *scenario, const struct scenario_system *entry,
                                const struct training_system *system, const void *knobs, int32_t *n_plans)
{
    const struct model *model = &scenario->model;
    const struct plan_space *space = &entry->space;
    struct listing listing = {.scenario = scenario, .space = space};
    int64_t n_gpus = platform_n_gpus(&scenario->platform), n_node = scenario->platform.gpus_per_node;
    sort_lists(&listing, system, knobs);
    for (int64_t tp = 1; tp <= n_node; tp++) {
        if (tp > 1 && system->whole_model)
            break;
        if (n_node % tp != 0 || model->heads % tp != 0 || model->kv_heads % tp != 0 || !allows(&space->tp, tp))
            continue;
        for (int64_t pp = 1; tp * pp <= n_gpus; pp++) {
            if (model->layers % pp != 0 || n_gpus % (tp * pp) != 0 || !allows(&space->pp, pp) ||
                (pp > 1 && system->whole_model))
                continue;
            for (int64_t cp = 1; cp <= (system->uses_context ? n_gpus / (tp * pp) : 1); cp++) {
                int64_t dp = n_gpus / (tp * pp * cp);
                if (dp * tp * pp * cp == n_gpus && allows(&space->cp, cp) && allows(&space->dp, dp))
                    add_layout(&listing, (struct scenario_plan){.tp = tp,
                                                                .pp = pp,
                                                                .cp = cp,
                                                                .dp = dp,
                                                                .cp_type = (int32_t)system->context_type,
                                                                .sharding = (int32_t)system->sharding,
                                                                .fsdp = 1,
                                                                .vpp = 1,
                                                                .sequence_parallel = true});
            }
        }
    }
    *n_plans = listing.n;
    return listing.plans;
}
