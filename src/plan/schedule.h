/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The schedule that `plan.schedule` names, for any system that makes micro-batches of whole samples. */
#ifndef SLIMSIM_PLAN_SCHEDULE_H
#define SLIMSIM_PLAN_SCHEDULE_H

#include "cost/cost.h"
#include "plan/plan.h"

/**
 * Give a pipeline its need[] and its order. Both cuts must hold the same micro-batches; schedules of slices cut them
 * further.
 *
 *   1f1b         order_one_f_one_b; with plan.vpp above 1 as interleaved
 *   interleaved  order_interleaved
 *   gpipe        slicing_mirror, order_gpipe
 *   zero-bubble  order_zero_bubble
 *   seq1f1b      slicing_equal_flop into plan.slices slices (0: 4), then 1F1B over slices: stage s of p runs n + p-1-s
 *                slices forward before its first backward and keeps that lead. With passes of f and b seconds a slice
 *                and a free network it takes (m n + p - 1)(f + b), bubbles of (p - 1)/(n m) of the work, and stage s
 *                holds at most (n + p-1-s)/n of a micro-batch (arXiv:2406.03488, figure 3)
 *   terapipe     slicing_by_time on a grid of plan.slices parts (0: 32), slicing_mirror, order_gpipe
 *
 * `setting`: of a virtual stage without the head. false: interleaving without whole groups of units.
 */
bool schedule_pipeline(struct plan_pipeline *pipeline, const struct scenario_plan *plan,
                       const struct cost_setting *setting, struct error *err);

#endif
