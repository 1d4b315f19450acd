/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module describes the plan and knobs of a system in words, for a result's assumptions. */
#ifndef SLIMSIM_SIMULATE_PLAN_TEXT_H
#define SLIMSIM_SIMULATE_PLAN_TEXT_H

#include "simulate/point_runner.h"

enum { PLAN_TEXT_LINES = 3, PLAN_TEXT_SIZE = 768, PLAN_TEXT_NAME_SIZE = 128 };

/**
 * Print a plan's degrees and all that is not plain: "TP4 PP2 VPP2 CP1 DP16, zero3, recompute full, offload 80%".
 * @param brief  without degrees of 1 and the words: "TP4 PP2 VPP2 DP16 zero3 full 80%"
 */
void plan_text_name(const struct scenario_plan *plan, bool brief, char text[PLAN_TEXT_NAME_SIZE]);

/** Print micro-batches and knobs; stages and chunks; recomputation, sharding and precision. */
void plan_text_lines(const struct scenario *scenario, const struct point_system *system,
                     char lines[PLAN_TEXT_LINES][PLAN_TEXT_SIZE]);

/** Shares of the forward units of the measured iterations by their recomputation; the sum is 1. */
struct plan_text_recompute {
    double none, listed, full;
    bool as_planned; /* plan.recompute holds for all units, because the system decides none of it */
};

struct plan_text_recompute plan_text_recompute_of(const struct point_system *system);

#endif
