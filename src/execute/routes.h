/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The links of every transfer, and on which of them it can meet others. */
#ifndef SLIMSIM_EXECUTE_ROUTES_H
#define SLIMSIM_EXECUTE_ROUTES_H

#include "dag/dag.h"
#include "execute/cluster.h"
#include "execute/queues.h"

/** What one stream sends from one end to another. One transfer at a time: a stream sends one after the other. */
struct way {
    int32_t stream, from_rank, to_rank;
    int32_t n_gpus;              /* that send beside each other, this one for all of them */
    int32_t first_link, n_links; /* into routes.link; of its route those where it can meet other streams' transfers */
    double bytes_per_s;          /* alone: the route's narrowest link */
};

struct routes {
    int32_t n_ways, n_links; /* links: that any route uses */
    struct way *ways;
    int32_t *link; /* of way after way */
    int32_t *way;  /* [n_tasks] -1: no SEND, or of less than a byte */
};

/**
 * Ask SimGrid (while it runs) for the routes of all SENDs.
 *
 * Nothing is met on a link that only one stream uses, nor on one that is wide: all that enters it comes by other links
 * which together have no more bandwidth (or all that leaves it goes by such), so it never holds anything back.
 *
 * Where one place stands for all ranks of a TP group, only one of them sends: on its own NIC that takes as long as all
 * do on theirs, on a link above the NICs it takes less than all do. So each such link that is shared must carry all
 * GPUs at once that send by it, or all that receive: then nobody waits there.
 * @return  whether that holds; else one line on stderr that names a link, and routes is to be freed all the same
 */
bool routes_find(const struct dag *dag, const struct queues *queues, const struct cluster *cluster,
                 struct routes *routes);

/** Whether others' transfers can slow the task down. */
static inline bool routes_can_meet(const struct routes *routes, int32_t task)
{
    return routes->way[task] >= 0 && routes->ways[routes->way[task]].n_links > 0;
}

/** Seconds of a task that meets no other: of a SEND latency + bytes over the route's bandwidth, as SimGrid has it. */
static inline double routes_alone_s(const struct routes *routes, const struct dag *dag, int32_t task)
{
    const struct dag_task *send = &dag->tasks[task];
    int32_t way = routes->way[task];
    return way < 0 ? dag->duration_s[task] : send->latency_s + send->wire_bytes / routes->ways[way].bytes_per_s;
}

void routes_free(struct routes *routes);

#endif
