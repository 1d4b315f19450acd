/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Time and memory that no plan of a layout can beat, known before the system plans. */
#ifndef SLIMSIM_SEARCH_BOUND_H
#define SLIMSIM_SEARCH_BOUND_H

#include "system/system.h"

struct bound {
    double time_s;     /* no plan's critical path is shorter */
    double peak_bytes; /* no plan's largest memory of a rank is smaller */
};

/**
 * What follows the last pass at least [s], for the stage of least parameters, all its chunks together:
 *
 * 1. Its gradients are reduced, unless dp_overlap lets passes hide that, or zero2 and zero3 have it inside passes.
 * 2. After the norm of all gradients comes an optimizer's step.
 * 3. Its parameters are gathered, with the same exceptions.
 *
 * Collectives have the links to themselves, with as many ranks on a node as is fastest.
 *
 * @param setting  of one virtual stage, as request_setting has it
 */
double bound_after_passes_s(const struct cost_setting *setting, const struct scenario_plan *layout);

/**
 * Bounds of the plans for a request, whose states all DP x CP ranks share.
 *
 * Time is the system's lower_bound_s and what follows the passes. A system with a state may leave samples to later
 * iterations and run others. Its time is that of as much work (model FLOPs) as the batch has: search/search.h.
 *
 * Memory of a rank, on the fullest stage:
 *
 * 1. States are there throughout. Gradients that are freed may be missing until the optimizer, so the larger counts of
 *    all states, and of the others with what follows.
 * 2. If samples run whole, the longest one's activations are there when its forward starts, with the workspace. If its
 *    activations stream, or run through several chunks, what goes to the host is left out.
 * 3. Otherwise a sample's backward starts when all its slices have run forward. Then its activations are there, over at
 *    most DP x CP ranks, except what is offloaded.
 * 4. If the system decides what is offloaded, that may be all. If it decides recomputation, the kind counts that needs
 *    least. If it keeps a state, no sample counts.
 *
 * @param most_work_share  of a system with a state: FLOPs of all samples so far over the batch's; otherwise 1
 */
struct bound bound_of(const struct training_system *system, const struct plan_request *request, double most_work_share);

#endif
