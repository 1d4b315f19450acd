/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module has the actors that run a graph in SimGrid. */
#ifndef SLIMSIM_EXECUTE_STREAMS_H
#define SLIMSIM_EXECUTE_STREAMS_H

#include "execute/cluster.h"

/** Return the GPU of a stream: the GPU of its rank, or the GPU that re-shards. */
static inline int32_t streams_rank(const struct dag *dag, int32_t stream)
{
    int32_t dag_rank = stream / DAG_N_STREAMS;
    return dag_rank < dag->n_ranks ? dag->ranks[dag_rank].rank : dag_rank - dag->n_ranks;
}

/**
 * Start one actor for each stream that has tasks, on its GPU's host, and run SimGrid until all have ended. An actor
 * takes the tasks of its stream one after the other:
 *
 * 1. It waits until the predecessors of the task on other streams have ended.
 * 2. It runs the task.
 *     - COMPUTE, ATTENTION, OPTIMIZER: an execution of the task's seconds times the host's speed in the file.
 *     - SEND: it sleeps for the latency, then sends the bytes from host to host. SimGrid sends whole bytes, so the time
 *       of the rest of a byte belongs to the sleep.
 *     - SYNC: it sleeps for the task's seconds, if it has any.
 * 3. It signals the actors that wait for the task. igraph's adjacency says who waits for whom.
 *
 * With a trace, each host has a state for each of its streams in SimGrid's file. Its values are the passes of work and
 * the kinds of other tasks, while these run. The file has no waiting, no shared links and no dependencies.
 *
 * @param start_s, finish_s  [n_tasks] times of SimGrid's clock; unchanged for a task that never ran
 */
void streams_run(const struct dag *dag, const struct graph *graph, const struct cluster *cluster, double *start_s,
                 double *finish_s);

#endif
