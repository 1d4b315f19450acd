/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module is SimGrid with a platform loaded, once in a process. */
#ifndef SLIMSIM_EXECUTE_CLUSTER_H
#define SLIMSIM_EXECUTE_CLUSTER_H

#include <simgrid/forward.h>

#include "bounds/critical_path.h"
#include "execute/options.h"

struct cluster {
    const struct platform *platform;
    sg_host_t *gpu; /* [n_nodes x gpus_per_node]; NULL: this host is not loaded */
    sg_host_t *cpu; /* memory of each node: the [n_nodes] hosts after the GPUs */
    bool traces;    /* SimGrid writes a trace */
};

/**
 * Exit status of a process whose input is wrong, and of one whose graph needs every rank of tensor-parallel groups.
 * The last line on stderr is the reason.
 */
enum { CLUSTER_REFUSED = 2, CLUSTER_FOLDED = 3 };

/**
 * Start SimGrid with the options, load the platform and slow its links down by the factors of the faults (NULL:
 * none). The process ends with CLUSTER_REFUSED if SimGrid refuses a file or an option, or if a host is missing.
 * @param used  [GPUs] hosts that are loaded; NULL: all, as a platform's file demands
 */
void cluster_open(const struct platform *platform, const struct faults *faults, const struct execute_options *options,
                  const bool *used, struct cluster *cluster);

/** End the process with CLUSTER_REFUSED and a reason. */
_Noreturn void cluster_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Do the same with CLUSTER_FOLDED. */
_Noreturn void cluster_refuse_folded(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * Set the reason that an abort of SimGrid gives beside SimGrid's own; "": none. After cluster_open such an abort
 * refuses the platform. The text must stay in memory.
 */
void cluster_refusal(const char *reason);

/** Let an abort of SimGrid kill the process from now on, as a bug does. */
void cluster_accept(void);

/** Return the host of a GPU. Rank -1 is the memory of the node of the other end's GPU. */
static inline sg_host_t cluster_host(const struct cluster *cluster, int32_t rank, int32_t other_rank)
{
    return rank >= 0 ? cluster->gpu[rank] : cluster->cpu[platform_node_of(cluster->platform, other_rank)];
}

void cluster_free(struct cluster *cluster);

#endif
