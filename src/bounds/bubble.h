/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Where the compute streams stand idle. */
#ifndef SLIMSIM_BOUNDS_BUBBLE_H
#define SLIMSIM_BOUNDS_BUBBLE_H

#include "bounds/critical_path.h"

/**
 * Seconds of the compute streams, summed over GPUs: those of a dag_rank count for each GPU that it stands for. A
 * dag_rank lives from the end of the phase before its own (0 in the first) to the end of its own; with one phase that
 * is the makespan.
 *
 * busy       passes (tensor-parallel collectives among them) and optimizer
 * ring       a dag_rank waits for the context-parallel ring of its own pass, from when all members are there
 * warm_up    other idle time before its first backward starts
 * imbalance  ... after that, until its last forward ends; none when all its forwards come first
 * cool_down  ... after both, until the last pass of its pipeline ends on any stage
 * dp_wait    ... from there to the end of the slowest pipeline of the phase
 * sync       ... what follows: gradients, optimizer, parameters
 * reshard    parameters and gradients move before the phase
 *
 * A pass lasts until its attention and its ring have ended. busy + ring + warm_up + imbalance + cool_down + dp_wait +
 * sync + reshard = total.
 */
struct bubble {
    double busy_s, ring_s, warm_up_s, imbalance_s, cool_down_s, dp_wait_s, sync_s, reshard_s;
    double total_s; /* GPUs x life; where each phase has all of them: GPUs x makespan */
};

struct bubble bubble_of(const struct dag *dag, const struct timeline *timeline);

/** (warm_up + imbalance + cool_down + dp_wait) / total. */
double bubble_fraction(const struct bubble *bubble);

#endif
