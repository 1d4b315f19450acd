/* SPDX-License-Identifier: GPL-3.0-or-later */
/** SimGrid with a platform loaded: once a process. */
#ifndef SLIMSIM_EXECUTE_CLUSTER_H
#define SLIMSIM_EXECUTE_CLUSTER_H

#include <simgrid/forward.h>

#include "dag/dag.h"
#include "scenario/platform.h"

/** SimGrid sends whole numbers: of such parts of a byte. Its links have that many times their bandwidth. */
enum { CLUSTER_PARTS_OF_BYTE = 1 << 16 };

struct cluster {
    const struct platform *platform;
    sg_host_t *gpu; /* [n_nodes x gpus_per_node]; NULL: the graph has no use for it */
    sg_host_t *cpu; /* [n_nodes] behind them, likewise */
};

/**
 * Start SimGrid, load of the platform what the graph runs on (scenario/trim.h), and take from slow links what
 * they lack (dag->faults).
 * A platform that SimGrid does not read ends the process with one line on stderr and the status REPLAY_REFUSED; one
 * that lacks a host that is needed: that line, and false.
 */
bool cluster_open(const struct platform *platform, const struct dag *dag, struct cluster *cluster);

/** The host of a GPU, or (rank -1) the memory of the node of the other end's GPU. */
static inline sg_host_t cluster_host(const struct cluster *cluster, int32_t rank, int32_t other_rank)
{
    return rank >= 0 ? cluster->gpu[rank] : cluster->cpu[other_rank / cluster->platform->gpus_per_node];
}

void cluster_free(struct cluster *cluster);

#endif
