/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module bounds time and memory of any plan of a layout from below, before the system plans. */
#ifndef SLIMSIM_SEARCH_BOUND_H
#define SLIMSIM_SEARCH_BOUND_H

#include "system/system.h"

struct bound {
    double time_s;     /* no plan's critical path is shorter */
    double peak_bytes; /* no plan's largest memory of a rank is smaller */
};

/**
 * Return the least seconds after the last pass, for the stage of least parameters with all its chunks:
 *
 * 1. Its gradients are reduced, unless passes may hide that (dp_overlap) or include it (zero2 and zero3).
 * 2. After the norm of all gradients comes an optimizer's step.
 * 3. Its parameters are gathered, with the same exceptions.
 *
 * Collectives have the links to themselves, with the fastest number of ranks on a node.
 *
 * @param setting  of one virtual stage, as from request_setting
 */
double bound_after_passes_s(const struct cost_setting *setting, const struct scenario_plan *layout);

/**
 * Return bounds of the plans for a request whose states all DP x CP ranks share.
 *
 * Time is the system's lower_bound_s and bound_after_passes_s. A system with a state may leave samples to later
 * iterations and run others. Its time is that of as much work (model FLOPs) as the batch has: search/search.h.
 *
 * Memory is that of a rank on the fullest stage:
 *
 * 1. States are held throughout. Gradients that are freed may be missing until the optimizer. So the larger one counts
 *    of two sums: all states, and the other states with the bytes below.
 * 2. If samples run whole, the longest one's activations are held when its forward starts, with the workspace. If its
 *    activations stream, or run through several chunks, offloaded ones are left out.
 * 3. Otherwise a sample's backward starts when all its slices have run forward. Then its activations are held, over at
 *    most DP x CP ranks, except offloaded ones.
 * 4. If the system decides the offload, it may be all. If it decides recomputation, the kind that needs least counts.
 *    If it keeps a state, no sample counts.
 *
 * @param most_work_share  for a system with a state: FLOPs of all samples so far over the batch's; otherwise 1
 */
struct bound bound_of(const struct training_system *system, const struct plan_request *request, double most_work_share);

#endif
