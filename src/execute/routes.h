/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module checks whether a platform's routes can carry a graph's transfers. */
#ifndef SLIMSIM_EXECUTE_ROUTES_H
#define SLIMSIM_EXECUTE_ROUTES_H

#include "execute/cluster.h"

/** Return whether SimGrid sends a transfer. It sends whole bytes, so a smaller transfer only takes its time. */
static inline bool routes_sends(const struct dag_task *task)
{
    return task->kind == DAG_SEND && task->wire_bytes >= 1;
}

/**
 * Look up the route of every transfer. An actor calls it, since SimGrid knows routes only while it runs. The process
 * ends with CLUSTER_REFUSED, or by the third condition with CLUSTER_FOLDED, unless:
 *
 * 1. Every transfer has a route.
 * 2. No transfer without others on its route takes less time than in the graph. A missing link makes a route too fast.
 * 3. If one rank represents its tensor-parallel group, a link above the NICs carries all GPUs that send, or all that
 *    receive. The one rank would share such a link with too few.
 */
void routes_check(const struct dag *dag, const struct cluster *cluster);

#endif
