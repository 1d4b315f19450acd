/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/space.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "scenario/layout.h"
#include "scenario/stages.h"

struct listing {
    const struct scenario *scenario;
    const struct plan_space *space;
    const struct training_system *system;
    unsigned decides;               /* system_decides of the system with the entry's knobs */
    struct schema_ints vpp;         /* of the space, default 1; these four lists are ascending, with each value once */
    struct schema_choices sharding; /* of the space, default the system's */
    struct schema_choices shard_communication; /* of the space, default the system's */
    struct schema_choices recompute;           /* of the space, default all */
    struct schema_reals offload;               /* of the space, default 0 */
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
        return layout->cp > 1 && layout->tp * layout->cp > platform_nvlink_domain(&listing->scenario->platform);
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

/** Values of the words of plan_space.recompute, in their order. */
static const int32_t recompute_words[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};

static void add_memory(struct listing *listing, struct scenario_plan layout)
{
    for (int32_t i = 0; i < listing->recompute.n; i++)
        for (int32_t j = 0; j < listing->offload.n; j++) {
            struct scenario_plan plan = layout;
            plan.recompute = recompute_words[listing->recompute.at[i]];
            plan.offload = listing->offload.at[j];
            layout_fit(listing->scenario, -1, &plan);
            if (layout_takes_ep_overlap(&plan, listing->scenario->communication.ep_overlap,
                                        listing->decides & SYSTEM_SCHEDULE))
                add_plan(listing, &plan);
        }
}

/** Return whether the chunks of a plan share the layers equally, or with a rest that is spread. */
static bool shares_chunks(const struct scenario_plan *plan, int64_t layers)
{
    return plan->stages.spread == SCENARIO_EQUAL
               ? layers % (plan->pp * plan->vpp) == 0
               : scenario_stages_fit(&plan->stages, layers, (int32_t)plan->pp, (int32_t)plan->vpp);
}

/**
 * Add the variants that layout_check allows: chunks need stages and whole layers; sharding inside
 * passes has neither, and no fp32 copies of gradients.
 */
static void add_layout(struct listing *listing, struct scenario_plan layout)
{
    bool copies = listing->scenario->gradient_accumulation == SCENARIO_ACCUMULATE_FP32_COPY;
    bool experts = model_has_experts(&listing->scenario->model);
    for (int32_t i = 0; i < listing->vpp.n; i++) {
        layout.vpp = listing->vpp.at[i];
        if (layout.vpp > 1 && (layout.pp == 1 || listing->decides & SYSTEM_SCHEDULE ||
                               !shares_chunks(&layout, listing->scenario->model.layers)))
            continue;
        if (!layout_stages_are_few(&listing->scenario->model, &layout))
            continue;
        for (int32_t j = 0; j < listing->sharding.n; j++) {
            layout.sharding = listing->sharding.at[j];
            bool zero3 = layout.sharding == SCENARIO_ZERO3;
            for (int32_t k = 0; k < (zero3 ? listing->shard_communication.n : 1); k++) {
                layout.shard_communication = zero3 ? listing->shard_communication.at[k] : SCENARIO_COLLECTIVE;
                bool shared =
                    !experts || scenario_expert_ranks(&layout) == layout.tp; /* by the ranks that share other states */
                if (layout.sharding == SCENARIO_ZERO1 || (layout.pp == 1 && !copies && shared))
                    add_memory(listing, layout);
            }
        }
    }
}

/** Add a layout with each degree of expert parallelism that it can have. */
static void add_experts(struct listing *listing, struct scenario_plan layout)
{
    const struct model *model = &listing->scenario->model;
    int64_t most = model_has_experts(model) ? layout.tp * layout.cp * layout.dp : 1;
    layout.etp = 1; /* a search splits no expert */
    for (layout.ep = 1; layout.ep <= most; layout.ep++)
        if (!model_has_experts(model) ||
            (allows(&listing->space->ep, layout.ep) && layout_shares_experts(model, &layout) &&
             system_takes_experts(listing->system, &layout)))
            add_layout(listing, layout);
}

static int compare_ints(const void *a, const void *b)
{
    return COMPARE(*(const int64_t *)a, *(const int64_t *)b);
}

/** Sort a list and drop duplicates, so that its order has no effect. @return number of values */
static int32_t sort_list(void *at, int32_t n, size_t size, int (*compare)(const void *, const void *))
{
    char *values = at;
    int32_t kept = 0;
    qsort(values, (size_t)n, size, compare);
    for (int32_t i = 0; i < n; i++)
        if (i == 0 || compare(values + (size_t)i * size, values + (size_t)(kept - 1) * size) != 0)
            memmove(values + (size_t)kept++ * size, values + (size_t)i * size, size);
    return kept;
}

#define SORT(list, compare) ((list)->n = sort_list((list)->at, (list)->n, sizeof *(list)->at, compare))

static void sort_lists(struct listing *listing)
{
    const struct plan_space *space = listing->space;
    const struct training_system *system = listing->system;
    listing->vpp = space->vpp.n > 0 ? space->vpp : (struct schema_ints){1, {1}};
    listing->sharding = space->sharding.n > 0 ? space->sharding : (struct schema_choices){1, {(int)system->sharding}};
    listing->shard_communication = space->shard_communication.n > 0
                                       ? space->shard_communication
                                       : (struct schema_choices){1, {(int)system->shard_communication}};
    listing->recompute = space->recompute.n > 0 ? space->recompute : (struct schema_choices){3, {0, 1, 2}};
    listing->offload = space->offload;
    if (space->offload.n == 0 || listing->decides & SYSTEM_OFFLOAD)
        listing->offload = (struct schema_reals){1, {0}};
    SORT(&listing->vpp, compare_ints);
    SORT(&listing->sharding, compare_int32s);
    SORT(&listing->shard_communication, compare_int32s);
    SORT(&listing->recompute, compare_int32s);
    SORT(&listing->offload, compare_doubles);
    if (listing->decides & SYSTEM_RECOMPUTE)
        listing->recompute.n = 1;
}

/** Return whether TP ranks share tokens out, as experts need. */
static bool takes_tokens(const struct model *model, const struct scenario_plan *plan)
{
    return plan->tp == 1 || plan->sequence_parallel || !model_has_experts(model);
}

/** Return the largest entry of the space's list, or without one the framework's spread. */
static int32_t spread_of(const struct plan_space *space, const struct scenario_plan *plan)
{
    int32_t spread = space->spread.n > 0 ? SCENARIO_EQUAL : plan->stages.spread;
    for (int32_t i = 0; i < space->spread.n; i++)
        spread = space->spread.at[i] > spread ? space->spread.at[i] : spread;
    return spread;
}

/**
 * Divide the layers among stages: equally, otherwise with the head counted as a layer, otherwise with the embedding,
 * too (scenario/stages.h), otherwise with a rest if it may be spread. So models such as Llama 3 405B with 126 layers
 * have more than two stages on powers of two of GPUs. First and last stage keep a layer.
 */
static bool split_layers(int64_t layers, int64_t pp, int32_t spread, struct scenario_stages *split)
{
    static const struct scenario_stages counted[] = {{.count_head = true},
                                                     {.count_embedding = true, .count_head = true}};
    bool found = layers % pp == 0;
    *split = (struct scenario_stages){0};
    for (int32_t i = 0; i < 2 && !found; i++) {
        found = (layers + i + 1) % pp == 0 && (layers + i + 1) / pp >= 2;
        *split = found ? counted[i] : *split;
    }
    split->spread = spread;
    return found || (spread == SCENARIO_EVEN && layers >= pp);
}

struct search_plan *space_plans(const struct scenario *scenario, const struct scenario_system *entry,
                                const struct training_system *system, const void *knobs, int32_t *n_plans)
{
    const struct model *model = &scenario->model;
    const struct plan_space *space = &entry->space;
    struct listing listing = {
        .scenario = scenario, .space = space, .system = system, .decides = system_decides(system, knobs, &entry->plan)};
    int64_t n_gpus = platform_n_gpus(&scenario->platform), n_domain = platform_nvlink_domain(&scenario->platform);
    int32_t spread = spread_of(space, &entry->plan);
    sort_lists(&listing);
    for (int64_t tp = 1; tp <= n_domain; tp++) {
        if (tp > 1 && !(system->degrees & SYSTEM_TP))
            break;
        if (n_domain % tp != 0 || !model_shares_heads(model, tp, entry->plan.kv_copies) ||
            !model_takes_tensor(model, tp) || !allows(&space->tp, tp))
            continue;
        for (int64_t pp = 1; tp * pp <= n_gpus; pp++) {
            struct scenario_stages split;
            if (!split_layers(model->layers, pp, spread, &split) || n_gpus % (tp * pp) != 0 ||
                !allows(&space->pp, pp) || (pp > 1 && !(system->degrees & SYSTEM_PP)))
                continue;
            for (int64_t cp = 1; cp <= (system->degrees & SYSTEM_CP ? n_gpus / (tp * pp) : 1); cp++) {
                int64_t dp = n_gpus / (tp * pp * cp);
                struct scenario_plan layout = entry->plan;
                layout.tp = tp;
                layout.pp = pp;
                layout.cp = cp;
                layout.dp = dp;
                layout.stages = split;
                layout.cp_type = (int32_t)system->context_type;
                if (scenario_is_ring(layout.cp_type) && model_has_windows(model)) /* a ring has no windows */
                    layout.cp_type = SCENARIO_ALL_GATHER;
                if (dp * tp * pp * cp == n_gpus && allows(&space->cp, cp) && allows(&space->dp, dp) &&
                    layout_takes_loss(scenario, &layout) && takes_tokens(model, &layout))
                    add_experts(&listing, layout);
            }
        }
    }
    *n_plans = listing.n;
    return listing.plans;
}
