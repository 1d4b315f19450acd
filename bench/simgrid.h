/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module compares the cost of execute() with the simplest loop that does the same with SimGrid. */
#ifndef SLIMSIM_BENCH_SIMGRID_H
#define SLIMSIM_BENCH_SIMGRID_H

#include "dag/graph.h"

struct bench_rates {
    int32_t n_executions, n_transfers; /* of one run */
    double execute_s, bare_s;          /* CPU of one run, with fork and loading the platform; medians */
    double ratio;                      /* median over runs of bare / execute */
    double peak_bytes;                 /* of the largest process */
    /* largest difference between the two in the finish of a task, over the makespan */
    double difference;
};

/**
 * Run execute() and the bare loop in turns, RUNS times each. The bare loop forks, loads the platform and starts an
 * actor for each stream. Each actor has a flat list of the same executions, sleeps, transfers and semaphores.
 */
bool bench_simgrid_rates(const struct dag *dag, const struct graph *graph, const struct platform *platform,
                         struct bench_rates *rates, struct error *err);

#endif
