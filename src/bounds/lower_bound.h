/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module bounds the time of a plan's passes from below without its graph. */
#ifndef SLIMSIM_BOUNDS_LOWER_BOUND_H
#define SLIMSIM_BOUNDS_LOWER_BOUND_H

#include "bounds/batch_bound.h"
#include "plan/plan.h"

/**
 * Return a lower bound of the time at which the passes of a plan end on the critical path [s].
 *
 * 1. Phases follow each other. Each takes as long as its slowest pipeline does without the others.
 * 2. A stage runs its steps in order. A forward begins once that of the previous virtual stage has ended. A backward
 *    begins once that of the next virtual stage has ended. Nothing is sent.
 * 3. Offloaded activations, except those that stream, go out one after the other, each once its forward has ended.
 * 4. They come back one after the other before their backward. Each copy back waits until the copy out has ended. It
 *    also waits until the backward before that one on the stage has begun.
 * 5. A pass waits for the copies out of plan_waits_for_copies.
 *
 * All of these are tasks and edges of the plan's graph (dag/dag.h). The graph has more, so its longest path is never
 * shorter. Pipelines that split backwards, and phases with blocks, have no bound. Copies are left out
 * with a table of offload. They are also left out if backward micro-batches differ from forward ones.
 */
double lower_bound_s(const struct plan *plan, const struct cost_setting *setting);

/** A time, and least seconds of a batch's passes, with which a plan above it is known early. */
struct lower_bound_limit {
    double seconds;
    const struct batch *batch;
    const struct batch_bound_pass *least; /* [N_PASSES] */
};

/**
 * Return the seconds of all passes and copies, from which lower_bound_at_prices_s returns the bound. They take most of
 * its time. Plans that differ in their orders only have the same ones.
 * @param limit  NULL: none
 * @return       NULL: the passes of some pipeline's last stage exceed the limit
 */
struct lower_bound_price *lower_bound_prices(const struct plan *plan, const struct cost_setting *setting,
                                             const struct lower_bound_limit *limit);
double lower_bound_at_prices_s(const struct plan *plan, const struct lower_bound_price *prices);
void lower_bound_free_prices(const struct plan *plan, struct lower_bound_price *prices);

#endif
