/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The least time of a plan's passes, for systems that weigh many plans. */
#ifndef SLIMSIM_SYSTEM_ALONE_H
#define SLIMSIM_SYSTEM_ALONE_H

#include "cost/cost.h"
#include "plan/plan.h"

/**
 * When the passes of a plan end if each pipeline runs alone and stages need not send [s]: phase after phase its slowest
 * pipeline, of which every stage runs its steps in order, a forward after that of the stage before, a backward after
 * that of the stage behind. Offloaded activations, but for those that stream, leave one after the other once their
 * forward has ended; they come back one after the other, before their backward, once they have left, the pass before
 * on the stage has begun and so has the backward of the stage behind.
 *
 * These are tasks and edges of the plan's graph (dag/dag.h), some of them: the longest path through all is never
 * shorter, so this is a lower bound of the critical path's passes.
 *
 * Copies are left out where backward units are not the forward ones. Chunks are 1, backwards are not split.
 */
double alone_plan_s(const struct plan *plan, const struct cost_setting *setting);

#endif
