/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module runs the task graph on SimGrid, in which transfers share links. Each run forks a child, so a death of
 * SimGrid becomes a message.
 */
#ifndef SLIMSIM_EXECUTE_EXECUTE_H
#define SLIMSIM_EXECUTE_EXECUTE_H

#include "bounds/critical_path.h"
#include "execute/options.h"

/** A run of SimGrid that has started and has not ended. */
struct execution;

/**
 * Start to run every task in SimGrid, one actor for each stream (execute/streams.h). Several runs may go on side by
 * side, each in a child of its own. `dag`, `graph`, `platform` and `options` stay until execute_end or execute_abandon.
 *
 * @return NULL with err: a GPU that the platform lacks, or no memory to share with the child
 */
struct execution *execute_start(const struct dag *dag, const struct graph *graph, const struct platform *platform,
                                const struct execute_options *options, struct error *err);

/**
 * Wait for a run and free it. Start and finish are times of SimGrid's clock.
 *
 * With options->cfg SimGrid's log, such as the report of a plug-in, goes to stderr.
 *
 * Errors:
 *
 *  - a host or a route that the platform lacks;
 *  - an option that SimGrid refuses;
 *  - tasks that never ran;
 *  - one rank that cannot represent its tensor-parallel group on this platform (execute/routes.h). Then the status is
 *    ERROR_FOLDED, and the graph with dag_options.all_tensor_ranks can run.
 *  - a child that died. A child that was killed, has no memory or cannot be forked is tried once more. Then the status
 *    is ERROR_INTERRUPTED.
 */
bool execute_end(struct execution *execution, struct timeline *timeline, struct error *err);

/** Kill the child of a run and free it. @param execution  NULL: nothing happens */
void execute_abandon(struct execution *execution);

/** Call execute_start, then execute_end. */
bool execute(const struct dag *dag, const struct graph *graph, const struct platform *platform,
             const struct execute_options *options, struct timeline *timeline, struct error *err);

/** Return the version of SimGrid that runs, for example "3.32". */
const char *execute_simgrid_version(void);

#endif
