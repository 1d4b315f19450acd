/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What SimGrid costs: our replay of a graph beside the plainest one. */
#ifndef SLIMSIM_BENCH_SIMGRID_H
#define SLIMSIM_BENCH_SIMGRID_H

#include "dag/dag.h"

struct bench_rates {
    double load_s;     /* CPU of SimGrid's start with the platform */
    double replay_s;   /* CPU of one replay on the open cluster, median */
    double bare_s;     /* the same of a bare loop */
    double peak_bytes; /* of the process */
    double apart;      /* largest difference of a finish between the two, over the makespan */
};

/**
 * In a child of its own, replay and bare loop in turns, RUNS times each. The bare loop is an actor a stream, each
 * with a flat list of operations: wait for a semaphore, execute (sleep), send, release a semaphore; one semaphore for
 * each edge between streams. @return false when the child failed
 */
bool bench_simgrid_rates(const struct dag *dag, const struct platform *platform, struct bench_rates *rates);

#endif
