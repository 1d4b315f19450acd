/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The least time of a plan's passes, for systems that weigh many plans. */
#ifndef SLIMSIM_BOUNDS_LOWER_BOUND_H
#define SLIMSIM_BOUNDS_LOWER_BOUND_H

#include "cost/cost.h"
#include "plan/plan.h"

/**
 * When the passes of a plan end if each pipeline runs alone and nothing is sent between stages [s]. Phases follow each
 * other, and each takes as long as its slowest pipeline. A stage runs its steps in order: a forward once that of the
 * stage before has ended, a backward once that of the stage behind has ended.
 *
 * Offloaded activations, except those that stream, go out one after the other, each once its forward has ended. They
 * come back one after the other before their backward: each once it is out, the pass before that backward on the stage
 * has begun, and the backward of the stage behind has begun.
 *
 * All of these are tasks and edges of the plan's graph (dag/dag.h), which has more: its longest path is never shorter,
 * so this is a lower bound of when the passes end on the critical path.
 *
 * Needs one chunk a stage and backwards that are not split. Copies are left out where the backward units are not the
 * forward ones.
 */
double lower_bound_s(const struct plan *plan, const struct cost_setting *setting);

#endif
