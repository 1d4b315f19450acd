/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Whether a platform's routes can carry a graph's transfers. */
#ifndef SLIMSIM_EXECUTE_ROUTES_H
#define SLIMSIM_EXECUTE_ROUTES_H

#include "execute/cluster.h"

/** Whether SimGrid sends it: it sends whole bytes. A smaller transfer only takes its time. */
static inline bool routes_sends(const struct dag_task *task)
{
    return task->kind == DAG_SEND && task->wire_bytes >= 1;
}

/**
 * Look up the route of every transfer, and end the process with CLUSTER_REFUSED unless
 *   1. there is one,
 *   2. a transfer alone on it takes no less time than in the graph: otherwise a link is missing in it,
 *   3. where one rank stands for its tensor-parallel group, each link above the NICs is wide enough for all GPUs that
 *      send by it, or for all that receive. One rank sends by its own NIC as long as all do by theirs, but shares such
 * a link with too few. To be called by an actor, since SimGrid knows routes only while it runs.
 */
void routes_check(const struct dag *dag, const struct cluster *cluster);

#endif
