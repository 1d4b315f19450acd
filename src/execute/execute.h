/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The DAG on SimGrid: transfers share links. One forked child a run, so that SimGrid's death becomes a message. */
#ifndef SLIMSIM_EXECUTE_EXECUTE_H
#define SLIMSIM_EXECUTE_EXECUTE_H

#include "bounds/critical_path.h"

/**
 * Replay the DAG. Transfers that share links start and finish by SimGrid's clock, all else by its own time.
 * Slow links (dag->faults) have less bandwidth than the platform's file says; slow GPUs are slow in durations.
 * A deadlock, a host that the platform lacks, a child that died: an error naming who waits, which host, or the signal.
 */
bool execute(const struct dag *dag, const struct platform *platform, struct timeline *timeline, struct error *err);

/** Version of SimGrid that runs, "3.32". */
const char *execute_simgrid_version(void);

#endif
