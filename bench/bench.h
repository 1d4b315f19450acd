/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What the parts of bench share. */
#ifndef SLIMSIM_BENCH_BENCH_H
#define SLIMSIM_BENCH_BENCH_H

#include "base/clock.h"
#include "simulate/point_runner.h"

enum { RUNS = 21 };

/** One system of a scenario on one batch. */
struct bench {
    struct scenario scenario;
    struct batch batch;
    struct point_system system;
    struct cost_setting setting;
    void *knobs, *state;
};

/** CPU and peak memory of the forked children so far. */
void children_usage(double *seconds, double *peak_bytes);

/** Sorts its values. */
double median(double *values, size_t n);

/** Critical path and memory timeline of a ready graph against a bare pull pass over the same arrays, in turns. */
void bench_timeline(const struct bench *bench, const struct plan *plan, const struct dag *dag);

/** Whole evaluations of slimpack's candidates a second: cuts and orders of all pipelines, graph, critical path, memory.
 * Of other systems nothing. */
bool bench_candidates(struct bench *bench, struct error *err);

#endif
