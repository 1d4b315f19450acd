/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file has the declarations that the files of bench share. */
#ifndef SLIMSIM_BENCH_BENCH_H
#define SLIMSIM_BENCH_BENCH_H

#include "base/clock.h"
#include "simulate/point_runner.h"

enum { RUNS = 21 };

/** It is one system of a scenario on one batch. */
struct bench {
    struct scenario scenario;
    struct batch batch;
    struct point_system system;
    struct cost_setting setting;
    void *knobs, *state;
};

/** Return CPU and peak memory of all children that have ended. */
void children_usage(double *seconds, double *peak_bytes);

/** Return the median, and sort the values. */
double median(double *values, size_t n);

/** Time critical path and memory timeline of a complete graph, in turns with a bare pull pass over its arrays. */
void bench_timeline(const struct bench *bench, const struct plan *plan, const struct dag *dag);

/**
 * Print how many of slimpack's candidates are evaluated a second. This includes slices and orders of all pipelines,
 * graph, critical path and memory. For other systems nothing is printed.
 */
bool bench_candidates(struct bench *bench, struct error *err);

#endif
