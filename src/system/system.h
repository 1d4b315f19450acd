/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This file is the contract of training systems. Each decides a plan for a batch; it is one file, and one line in
 * systems.def.
 */
#ifndef SLIMSIM_SYSTEM_SYSTEM_H
#define SLIMSIM_SYSTEM_SYSTEM_H

#include "plan/request.h"

/** Fields of a plan that a system may decide itself. */
enum system_decision { SYSTEM_RECOMPUTE = 1, SYSTEM_OFFLOAD = 2, SYSTEM_SCHEDULE = 4 };

/**
 * Degrees of a plan that may be above 1. Ranks that share experts wait for each other in every layer. So they are ranks
 * of one pipeline, or of pipelines that run as many micro-batches in the same order (SYSTEM_EP).
 */
enum system_degree { SYSTEM_TP = 1, SYSTEM_PP = 2, SYSTEM_CP = 4, SYSTEM_EP_IN_PIPELINE = 8, SYSTEM_EP = 8 | 16 };

struct training_system {
    const char *name, *source, *meaning;
    const struct schema_key *knobs; /* offsets into a struct of knobs_size bytes */
    int32_t n_knobs;
    size_t knobs_size;
    /*
     * bytes that are kept between iterations, zeroed before the first; if > 0, a plan may leave samples to later
     * iterations
     */
    size_t state_size;
    void (*close)(void *state); /* NULL: nothing to free */

    unsigned degrees;                   /* bits of enum system_degree that it takes above 1; it takes any DP */
    enum scenario_context context_type; /* plan.cp_type of the plans that a search tries */
    enum scenario_sharding sharding;    /* plan.sharding of these plans, if the plan space lists none */
    /* plan.shard_communication of those of zero3 */
    enum scenario_shard_communication shard_communication;
    bool whole_samples; /* every sample runs whole, in one micro-batch of one pipeline */
    /*
     * bits of enum system_decision: the plan does not depend on these fields of the request. SYSTEM_SCHEDULE: it takes
     * plan.vpp 1 only. It reads no field of the layout except offload_mode. NULL: none
     */
    unsigned (*decides)(const void *knobs, const struct scenario_plan *layout);
    bool (*plan)(const struct plan_request *request, void *state, struct plan *plan, struct error *err);
    /*
     * lower bound of the seconds of passes of any plan for the request: on the critical path, without the end of the
     * iteration. If it keeps a state, it bounds plans that run as many model FLOPs as the batch has. NULL: none is
     * known
     */
    double (*lower_bound_s)(const struct plan_request *request);
};

/** Return the bits of enum system_decision of a system with these knobs and this layout's offload_mode. */
static inline unsigned system_decides(const struct training_system *system, const void *knobs,
                                      const struct scenario_plan *layout)
{
    return system->decides != NULL ? system->decides(knobs, layout) : 0;
}

/** This is `decides` of systems that decide only the schedule. */
unsigned system_decides_schedule(const void *knobs, const struct scenario_plan *layout);

/** All rows, NULL-terminated, in the order of systems.def. */
extern const struct training_system *const training_systems[];

/** Return a system by its name. An error for an unknown name suggests the nearest one. */
const struct training_system *system_find(const char *name, struct error *err);

/**
 * Resolve the knobs of one entry of the scenario into `knobs` (knobs_size bytes). Errors of unknown keys and bad values
 * have file:line:column.
 */
bool system_read_knobs(const struct training_system *system, const struct scenario *scenario,
                       const struct scenario_system *entry, void *knobs, struct error *err);

/** Return whether a system takes the plan's expert parallelism. */
bool system_takes_experts(const struct training_system *system, const struct scenario_plan *plan);

/** Check names, knobs and plans of all entries before anything runs. Every error has its file:line:column. */
bool system_check_entries(const struct scenario *scenario, struct error *err);

#endif
