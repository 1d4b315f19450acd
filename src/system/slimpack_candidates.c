/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/slimpack.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bounds/memory.h"

static const int32_t factors[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
enum { N_FACTORS = sizeof factors / sizeof *factors };

/* One way to run a component, and what it comes to. */
struct candidate {
    int64_t m;
    enum order_injection injection;
    double makespan_s, peak_bytes;
};

/* The ranks that choose together, and their choice so far. */
struct choice {
    const struct system_request *request;
    const struct slimpack_split *split;
    int32_t first_rank, n_ranks;
    int32_t shards;
    struct timeline timeline; /* arrays kept from candidate to candidate */
    int64_t n_candidates;
    struct candidate best; /* of n_candidates > 0 */
};

static bool is_better(const struct candidate *a, const struct candidate *b, double memory_bytes)
{
    bool a_fits = a->peak_bytes <= memory_bytes, b_fits = b->peak_bytes <= memory_bytes;
    if (a_fits != b_fits)
        return a_fits;
    if (!a_fits && a->peak_bytes != b->peak_bytes)
        return a->peak_bytes < b->peak_bytes;
    return a->makespan_s < b->makespan_s; /* candidates come by ascending m: ties stay */
}

static bool resolve(struct choice *choice, struct plan_phase *phase, struct candidate *candidate, struct error *err)
{
    struct plan plan = {.n_phases = 1, .phases = phase, .shards = choice->shards};
    struct dag dag = {0};
    struct memory memory = {0};
    if (!dag_build(&plan, choice->request->setting, (struct dag_options){.gradient_sync = false}, &dag, err))
        return false;
    critical_path(&dag, &choice->timeline);
    memory_of(&plan, &dag, &choice->timeline, choice->request->setting, false, &memory);
    candidate->makespan_s = choice->timeline.makespan_s;
    candidate->peak_bytes = memory.peak_bytes[memory.worst_place];
    memory_free(&memory);
    dag_free(&dag);
    if (choice->n_candidates == 0 || is_better(candidate, &choice->best, choice->request->memory_bytes))
        choice->best = *candidate;
    choice->n_candidates++;
    return true;
}

/* Order a pipeline anew. @return whether its steps changed */
static bool reorder(struct plan_pipeline *pipeline, enum order_injection injection)
{
    struct plan_step *before = pipeline->steps;
    pipeline->steps = NULL;
    order_one_f_one_b(pipeline, injection);
    int32_t n_steps = pipeline->step_first[pipeline->layout.stages];
    bool changed = before == NULL || memcmp(before, pipeline->steps, (size_t)n_steps * sizeof *before) != 0;
    free(before);
    return changed;
}

static bool order_phase(struct plan_phase *phase, enum order_injection injection)
{
    bool changed = false;
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        changed = reorder(&phase->pipelines[i], injection) || changed;
    return changed;
}

/* One m under each injection policy the knob allows; a policy that changes no order is not resolved again. */
static bool try_m(struct choice *choice, int64_t m, struct error *err)
{
    const struct slimpack_knobs *knobs = choice->request->knobs;
    struct plan_phase phase;
    bool ok = true;
    slimpack_build(choice->request, choice->split, choice->first_rank, choice->n_ranks, m, &phase);
    for (int injection = 0; ok && injection < ORDER_N_INJECTIONS; injection++) {
        struct candidate candidate = {.m = m, .injection = (enum order_injection)injection};
        bool allowed = knobs->injection == SLIMPACK_AUTO ||
                       (knobs->injection == SLIMPACK_PERSISTENT) == (injection == ORDER_PERSISTENT);
        if (allowed && order_phase(&phase, candidate.injection))
            ok = resolve(choice, &phase, &candidate, err);
    }
    plan_phase_free(&phase);
    return ok;
}

static bool is_idle(const struct choice *choice)
{
    const struct slimpack_split *split = choice->split;
    int32_t last = choice->first_rank + choice->n_ranks;
    for (int32_t rank = choice->first_rank; rank < last; rank++)
        if (split->load[rank] > 0)
            return false;
    return true;
}

static bool choose(struct choice *choice, struct error *err)
{
    const struct slimpack_knobs *knobs = choice->request->knobs;
    int64_t stages = choice->request->layout.pp;
    choice->best = (struct candidate){.m = stages};
    if (is_idle(choice))
        return true;
    if (knobs->units > 0)
        return try_m(choice, knobs->units, err);
    for (int32_t i = 0; i < N_FACTORS && factors[i] <= knobs->max_factor; i++)
        if (!try_m(choice, factors[i] * stages, err))
            return false;
    return true;
}

/* Ranks from `first` on that choose together: its widest block (placed first), or itself. */
static int32_t component_ranks(const struct system_request *request, const struct slimpack_split *split, int32_t first)
{
    const struct slimpack_knobs *knobs = request->knobs;
    if (!knobs->replica_units)
        return split->n_ranks;
    for (int32_t i = 0; i < split->n_outliers; i++)
        if (split->outliers[i].first_rank == first)
            return split->outliers[i].width;
    return 1;
}

/* Move the pipelines and groups of a component behind those of the phase. */
static void append(struct plan_phase *phase, struct plan_phase *component)
{
    for (int32_t i = 0; i < component->n_groups; i++) {
        struct plan_group *group = &component->groups[i];
        for (int32_t k = 0; k < group->n_pipelines; k++)
            group->pipelines[k] += phase->n_pipelines;
        phase->groups[phase->n_groups + i] = *group;
    }
    for (int32_t i = 0; i < component->n_pipelines; i++) {
        struct plan_pipeline *pipeline = &component->pipelines[i];
        for (int pass = 0; pass < N_PASSES; pass++)
            for (int32_t unit = 0; unit < pipeline->cut[pass].n_units; unit++)
                if (pipeline->cut[pass].units[unit].group >= 0)
                    pipeline->cut[pass].units[unit].group += phase->n_groups;
        phase->pipelines[phase->n_pipelines + i] = *pipeline;
    }
    phase->n_groups += component->n_groups;
    phase->n_pipelines += component->n_pipelines;
    free(component->groups);
    free(component->pipelines);
}

bool slimpack_choose(const struct system_request *request, const struct slimpack_split *split, struct plan *plan,
                     struct error *err)
{
    *plan = (struct plan){.n_phases = 1, .shards = scenario_plan_shards(&request->layout)};
    plan->phases = check_calloc(1, sizeof *plan->phases);
    plan->phases->pipelines = check_calloc((size_t)split->n_ranks, sizeof *plan->phases->pipelines);
    plan->phases->groups = check_calloc((size_t)split->n_outliers, sizeof *plan->phases->groups);
    struct choice choice = {.request = request, .split = split, .shards = plan->shards};
    bool ok = true;
    while (ok && choice.first_rank < split->n_ranks) {
        choice.n_ranks = component_ranks(request, split, choice.first_rank);
        choice.n_candidates = 0;
        ok = choose(&choice, err);
        struct plan_phase component;
        slimpack_build(request, split, choice.first_rank, choice.n_ranks, choice.best.m, &component);
        order_phase(&component, choice.best.injection);
        append(plan->phases, &component);
        plan->n_candidates += choice.n_candidates;
        choice.first_rank += choice.n_ranks;
    }
    timeline_free(&choice.timeline);
    return ok;
}
