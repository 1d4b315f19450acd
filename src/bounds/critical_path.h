/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module computes start, finish and slack of every task without contention (SlimPack, Algorithm 1). */
#ifndef SLIMSIM_BOUNDS_CRITICAL_PATH_H
#define SLIMSIM_BOUNDS_CRITICAL_PATH_H

#include "dag/graph.h"

/** Start and finish of each task [s]. */
struct timeline {
    double *start_s, *finish_s; /* [n_tasks] */
    double makespan_s;
    int32_t capacity; /* tasks that the arrays have room for */
};

/** Make room for n_tasks. If the arrays must grow, their contents are lost. */
void timeline_reserve(struct timeline *timeline, int32_t n_tasks);

/** Pull over in-edges in task order; O(V + E). It reuses timeline's arrays if they are large enough ({0} at first). */
void critical_path(const struct dag *dag, struct timeline *timeline);

/**
 * Compute how much later each task could finish without moving the makespan [s], slack_s[n_tasks], at least 0. The walk
 * follows igraph's order from the end. A task of the critical path may have a rounding of sums, under 1e-12 of the
 * makespan, instead of 0.
 */
void critical_path_slack(const struct dag *dag, const struct graph *graph, const struct timeline *timeline,
                         double *slack_s);

void timeline_free(struct timeline *timeline);

#endif
