/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Which transfers can meet others on their links. */
#ifndef SLIMSIM_EXECUTE_ROUTES_H
#define SLIMSIM_EXECUTE_ROUTES_H

#include "dag/dag.h"
#include "execute/cluster.h"

enum { ROUTES_SHARED = -1 };

/**
 * Seconds of every task that contention cannot change: work, what sends less than a byte, and the SENDs of a stream
 * that has all links of its route to itself (a stream sends one after the other). These take latency + bytes over the
 * route's bandwidth, exactly what SimGrid would find. ROUTES_SHARED: a SEND that may meet another stream's.
 * @return  [n_tasks], the caller frees
 */
double *routes_alone_s(const struct dag *dag, const struct cluster *cluster);

/**
 * Where one place stands for all ranks of a TP group, only one of them sends: on its own NIC that takes as long as all
 * do on theirs, on a link above the NICs it takes less than all do. So each such link that is shared must carry all
 * GPUs at once that send by it, or all that receive: then nobody waits there.
 * @return  whether that holds; else one line on stderr that names a link
 */
bool routes_fold_check(const struct dag *dag, const struct cluster *cluster);

#endif
