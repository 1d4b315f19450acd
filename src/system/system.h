/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Training systems: each decides a plan for a batch. One file a system, one line in systems.def.
 */
#ifndef SLIMSIM_SYSTEM_SYSTEM_H
#define SLIMSIM_SYSTEM_SYSTEM_H

#include "plan/request.h"

/** The data-parallel ranks [first_rank, first_rank + width) share a sample evenly. */
struct system_share {
    int32_t first_rank, width;
};

struct training_system {
    const char *name, *source, *meaning;
    const struct schema_key *knobs; /* offsets into a struct of knobs_size bytes */
    int32_t n_knobs;
    size_t knobs_size;
    size_t state_size; /* bytes that are kept from one iteration to the next, zeroed before the first. Above 0 a plan
                          may leave samples to later iterations, so a batch gives no bounds for it */
    bool uses_context; /* takes plan.cp > 1 */
    enum scenario_context context_type; /* plan.cp_type of the plans that a search tries */
    enum scenario_sharding sharding;    /* plan.sharding of these, where the plan space lists none */
    bool whole_model;                   /* every rank has all layers: takes plan.tp and plan.pp 1 only */
    bool uses_schedules; /* takes plan.schedule and plan.vpp > 1: gives each pipeline to schedule_pipeline */
    /*
     * What a plan search (search/search.h) may rely on; the contract test checks it.
     */
    bool keeps_samples;                    /* every sample runs whole, in one unit of one pipeline */
    bool switches_layouts;                 /* it runs phases in other layouts than the plan's */
    bool (*recomputes)(const void *knobs); /* whether with these knobs it decides itself what is computed again, and
                                              plan.recompute decides nothing; NULL: never */
    bool offloads;                         /* plan.offload is worth searching; false where the system decides itself */
    bool (*leaves_offload)(const void *knobs); /* offloads false: whether it leaves that to the plan with these knobs;
                                                  NULL: never */
    bool never_regrets; /* Take two requests that differ only in memory_bytes, recompute and offload. The one with more
                           memory and less of both gets a plan whose passes end no later (critical path). And a plan
                           that also fits less memory is the plan for less memory, too */
    bool (*shares)(const struct plan_request *request, int32_t variant, struct system_share *share);
    /* Which ranks share each sample, share[n_samples], in one variant, numbered from 0; false: there is no such
       variant. plan() takes the shares of one of the variants. Cheap: a search takes bounds from it. NULL: the shares
       are not known before plan() */
    bool (*plan)(const struct plan_request *request, void *state, struct plan *plan, struct error *err);
    void (*close)(void *state); /* NULL: nothing to free */
};

/** Whether it decides recomputation itself with these knobs. Of knobs that are not known (NULL): no. */
static inline bool system_recomputes(const struct training_system *system, const void *knobs)
{
    return knobs != NULL && system->recomputes != NULL && system->recomputes(knobs);
}

/** Whether plan.offload is worth searching with these knobs; NULL: they are not known. */
static inline bool system_offloads(const struct training_system *system, const void *knobs)
{
    return system->offloads || (knobs != NULL && system->leaves_offload != NULL && system->leaves_offload(knobs));
}

/** All rows, NULL-terminated, in the order of systems.def. */
extern const struct training_system *const training_systems[];

/** By name; an unknown one is an error with the nearest name. */
const struct training_system *system_find(const char *name, struct error *err);

/** Resolve the knobs of one entry of the scenario into `knobs` (knobs_size bytes); unknown keys and bad values with
 * file:line:column. */
bool system_read_knobs(const struct training_system *system, const struct scenario *scenario,
                       const struct scenario_system *entry, void *knobs, struct error *err);

/** Names, knobs, context degrees and chunks of all entries, before anything runs: every error with its
 * file:line:column. */
bool system_check_entries(const struct scenario *scenario, struct error *err);

#endif
