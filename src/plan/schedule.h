/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file applies the schedule that `plan.schedule` names, for any system that makes micro-batches of whole
 * samples. */
#ifndef SLIMSIM_PLAN_SCHEDULE_H
#define SLIMSIM_PLAN_SCHEDULE_H

#include "cost/setting.h"
#include "plan/plan.h"

/**
 * Give a pipeline its need[] and its order. Both partitions must hold the same micro-batches. Schedules of slices cut
 * them further.
 *
 * 1. 1f1b: order_one_f_one_b; if plan.vpp is above 1, interleaved
 * 2. interleaved: order_interleaved
 * 3. gpipe: slicing_mirror, order_gpipe
 * 4. zero-bubble: order_zero_bubble
 * 5. seq1f1b: slicing_equal_flop into plan.slices slices (0: 4), then 1F1B over slices. Stage s of p runs n + p-1-s
 *    slices forward before its first backward and keeps that lead. With passes of f and b seconds a slice and a free
 *    network it takes (m n + p - 1)(f + b). Bubbles are (p - 1)/(n m) of the work. Stage s holds at most (n + p-1-s)/n
 *    of a micro-batch (arXiv:2406.03488, figure 3).
 * 6. terapipe: slicing_by_time on a grid of plan.slices parts (0: 32), slicing_mirror, order_gpipe
 *
 * @param setting  of a virtual stage without the head
 * @return         false with err if micro-batches do not form whole groups for interleaving
 */
bool schedule_pipeline(struct plan_pipeline *pipeline, const struct scenario_plan *plan,
                       const struct cost_setting *setting, struct error *err);

#endif
