/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module describes the plan and knobs of a system in words, for a result's assumptions. */
#ifndef SLIMSIM_SIMULATE_PLAN_TEXT_H
#define SLIMSIM_SIMULATE_PLAN_TEXT_H

#include "simulate/point_runner.h"
#include "trace/table.h"

enum { PLAN_TEXT_LINES = 3, PLAN_TEXT_SIZE = 768, PLAN_TEXT_NAME_SIZE = 128 };

/** Print DP and the other degrees above 1: "TP4 PP2 VPP2 DP16". */
void plan_text_degrees(const struct scenario_plan *plan, char text[PLAN_TEXT_NAME_SIZE]);

/**
 * Print a plan's degrees and all that is not plain: "TP4 PP2 VPP2 DP16 zero3 full offload 80%".
 * Text that has no room is cut off.
 *
 * @param offloads  activations go to the host; without a share in the plan the system decides it: "DP16 offload"
 */
void plan_text_name(const struct scenario_plan *plan, bool offloads, char text[PLAN_TEXT_NAME_SIZE]);

/** Print micro-batches and knobs; stages and chunks; recomputation, sharding and precision. */
void plan_text_lines(const struct scenario *scenario, const struct point_system *system,
                     char lines[PLAN_TEXT_LINES][PLAN_TEXT_SIZE]);

/** Shares of the forward micro-batches of the measured iterations by their recomputation; the sum is 1. */
struct plan_text_recompute {
    double none, listed, full;
    bool as_planned; /* plan.recompute holds for all micro-batches, because the system decides none of it */
};

struct plan_text_recompute plan_text_recompute_of(const struct point_system *system);

#endif
