/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The cost of execute() beside the plainest loop that has SimGrid do the same. */
#ifndef SLIMSIM_BENCH_SIMGRID_H
#define SLIMSIM_BENCH_SIMGRID_H

#include "dag/graph.h"

struct bench_rates {
    int32_t n_executions, n_transfers; /* of one run */
    double execute_s, bare_s;          /* CPU of one run each, fork and loading the platform included; medians */
    double ratio;                      /* median of bare / execute, run by run */
    double peak_bytes;                 /* of the largest process */
    double apart;                      /* largest difference of a finish between the two, over the makespan */
};

/**
 * execute() and the bare loop in turns, RUNS times each. The bare loop forks, loads the platform and starts an actor a
 * stream with a flat list of the same executions, sleeps, transfers and semaphores.
 */
bool bench_simgrid_rates(const struct dag *dag, const struct graph *graph, const struct platform *platform,
                         struct bench_rates *rates, struct error *err);

#endif
