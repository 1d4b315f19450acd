/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The least time of a plan's passes, known without its graph. */
#ifndef SLIMSIM_BOUNDS_LOWER_BOUND_H
#define SLIMSIM_BOUNDS_LOWER_BOUND_H

#include "cost/cost.h"
#include "plan/plan.h"

/**
 * A lower bound of when the passes of a plan end on the critical path [s].
 *
 * 1. Phases follow each other. Each takes as long as its slowest pipeline, which runs alone.
 * 2. A stage runs its steps in order. A forward begins once that of the virtual stage before has ended, a backward once
 *    that of the virtual stage behind has ended. Nothing is sent.
 * 3. Offloaded activations, except those that stream, go out one after the other, each once its forward has ended.
 * 4. They come back one after the other before their backward: each once it is out, the pass before that backward on
 *    the stage has begun, and the backward of the stage behind has begun.
 *
 * All of these are tasks and edges of the plan's graph (dag/dag.h), which has more, so its longest path is never
 * shorter. Nothing is known of pipelines that split backwards or exchange attention. Copies are left out with several
 * chunks a stage, with a table of offload, and where the backward units are not the forward ones.
 */
double lower_bound_s(const struct plan *plan, const struct cost_setting *setting);

#endif
