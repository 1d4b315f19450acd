/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Where the compute streams stand idle. */
#ifndef SLIMSIM_BOUNDS_BUBBLE_H
#define SLIMSIM_BOUNDS_BUBBLE_H

#include "bounds/critical_path.h"

/**
 * Idle seconds of the compute streams, summed over places, and what they are shares of.
 *
 * Of a place: warm-up is idle time before its first backward starts; cool-down idle time after its last forward ends,
 * until its pipeline's last pass ends; imbalance the idle time between those two moments (and, before a first backward
 * that waits for forwards only, none); dp_wait from its pipeline's end to the end of the slowest pipeline of the phase.
 * What follows (gradients, optimizer, parameters) is sync. busy: passes and optimizer. busy + warm_up + imbalance +
 * cool_down + dp_wait + sync = places x makespan.
 */
struct bubble {
    double busy_s, warm_up_s, imbalance_s, cool_down_s, dp_wait_s, sync_s;
    double total_s; /* places x makespan */
};

struct bubble bubble_of(const struct dag *dag, const struct timeline *timeline);

/** (warm_up + imbalance + cool_down + dp_wait) / total. */
double bubble_fraction(const struct bubble *bubble);

#endif
