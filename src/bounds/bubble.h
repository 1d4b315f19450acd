/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module accounts for the time in which compute streams are idle. */
#ifndef SLIMSIM_BOUNDS_BUBBLE_H
#define SLIMSIM_BOUNDS_BUBBLE_H

#include "bounds/critical_path.h"

/**
 * Seconds of the compute streams, summed over GPUs. Seconds of a rank count for each GPU that it represents. A rank's
 * time runs from the end of the phase before (0 in the first) to the end of its phase. With one phase that is the
 * makespan.
 *
 * busy       passes (with their tensor-parallel collectives) and optimizer ring       a rank waits for the
 * context-parallel ring of its own pass, once all participants have come warm_up    other idle time before its first
 * backward starts imbalance  after that, until its last forward ends; none if all its forwards come first cool_down
 * after both, until the last pass of its pipeline ends on any stage dp_wait    after that, to the end of the slowest
 * pipeline of the phase; with zero2 and zero3 also behind each pass that other ranks' passes outlast sync       after
 * that: gradients, optimizer, parameters; and behind such a pass, collectives that contention makes longer than it
 * expert_wait  behind a pass, tokens to experts that contention makes longer than it
 * reshard    parameters and gradients move before the phase
 *
 * A pass lasts until its attention and its ring have ended. busy + ring + warm_up + imbalance + cool_down + dp_wait +
 * sync + expert_wait + reshard = total.
 */
struct bubble {
    double busy_s, ring_s, warm_up_s, imbalance_s, cool_down_s, dp_wait_s, sync_s, expert_wait_s, reshard_s;
    double total_s; /* GPUs x their time; GPUs x makespan if each phase has all GPUs */
};

struct bubble bubble_of(const struct dag *dag, const struct timeline *timeline);

/** Return (warm_up + imbalance + cool_down + dp_wait) / total. */
double bubble_fraction(const struct bubble *bubble);

#endif
