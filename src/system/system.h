/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Training systems: each decides a plan for a batch. One file a system, one line in systems.def.
 */
#ifndef SLIMSIM_SYSTEM_SYSTEM_H
#define SLIMSIM_SYSTEM_SYSTEM_H

#include "plan/request.h"

/** Fields of a plan that a system may decide itself. */
enum system_decision { SYSTEM_RECOMPUTE = 1, SYSTEM_OFFLOAD = 2, SYSTEM_SCHEDULE = 4 };

/** Degrees of a plan that may be above 1. */
enum system_degree { SYSTEM_TP = 1, SYSTEM_PP = 2, SYSTEM_CP = 4 };

struct training_system {
    const char *name, *source, *meaning;
    const struct schema_key *knobs; /* offsets into a struct of knobs_size bytes */
    int32_t n_knobs;
    size_t knobs_size;
    size_t state_size; /* bytes that are kept from one iteration to the next, zeroed before the first. Above 0 a plan
                          may leave samples to later iterations */
    void (*close)(void *state); /* NULL: nothing to free */

    unsigned degrees;                       /* enum system_degree that it takes above 1; any DP */
    enum scenario_context context_type;     /* plan.cp_type of the plans that a search tries */
    enum scenario_sharding sharding;        /* plan.sharding of these, if the plan space lists none */
    bool whole_samples;                     /* every sample runs whole, in one unit of one pipeline */
    unsigned (*decides)(const void *knobs); /* enum system_decision: the plan is the same whatever the request says of
                                               these fields. SYSTEM_SCHEDULE: it takes plan.vpp 1 only. NULL: none */
    bool (*plan)(const struct plan_request *request, void *state, struct plan *plan, struct error *err);
    double (*lower_bound_s)(const struct plan_request *request);
    /* Seconds that the passes of no plan for the request can beat: critical path, without what follows them. If it
       keeps a state: of no plan that runs as many model FLOPs as the batch has. NULL: none is known */
};

/** enum system_decision of a system with these knobs. */
static inline unsigned system_decides(const struct training_system *system, const void *knobs)
{
    return system->decides != NULL ? system->decides(knobs) : 0;
}

/** `decides` of systems that decide the schedule alone. */
unsigned system_decides_schedule(const void *knobs);

/** All rows, NULL-terminated, in the order of systems.def. */
extern const struct training_system *const training_systems[];

/** By name; an unknown one is an error with the nearest name. */
const struct training_system *system_find(const char *name, struct error *err);

/** Resolve the knobs of one entry of the scenario into `knobs` (knobs_size bytes); unknown keys and bad values with
 * file:line:column. */
bool system_read_knobs(const struct training_system *system, const struct scenario *scenario,
                       const struct scenario_system *entry, void *knobs, struct error *err);

/** Names, knobs and plans of all entries, before anything runs: every error with its file:line:column. */
bool system_check_entries(const struct scenario *scenario, struct error *err);

#endif
