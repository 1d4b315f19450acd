/* SPDX-License-Identifier: GPL-3.0-or-later */
/** SimGrid with a platform loaded: once a process. */
#ifndef SLIMSIM_EXECUTE_CLUSTER_H
#define SLIMSIM_EXECUTE_CLUSTER_H

#include <simgrid/forward.h>

#include "bounds/critical_path.h"
#include "execute/options.h"

struct cluster {
    const struct platform *platform;
    sg_host_t *gpu; /* [n_nodes x gpus_per_node] */
    sg_host_t *cpu; /* [n_nodes] behind them, the memory of each node */
    bool traces;    /* SimGrid writes a trace */
};

/** Exit status of a process whose input is wrong. The reason is the last line on its stderr. */
enum { CLUSTER_REFUSED = 2 };

/**
 * Start SimGrid with the options, load the platform and slow its links down as the faults say (NULL: none).
 * A file or option that SimGrid refuses, or a host that is missing, ends the process with CLUSTER_REFUSED.
 */
void cluster_open(const struct platform *platform, const struct faults *faults, const struct execute_options *options,
                  struct cluster *cluster);

/** End the process with CLUSTER_REFUSED and a reason. */
_Noreturn void cluster_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** From cluster_open on an abort of SimGrid refuses the platform, with this reason beside SimGrid's; "": none. The text
 * must stay where it is. */
void cluster_refusal(const char *reason);

/** From now on an abort of SimGrid kills the process, as a bug does. */
void cluster_accept(void);

/** The host of a GPU. A rank of -1 is the memory of the node of the other end's GPU. */
static inline sg_host_t cluster_host(const struct cluster *cluster, int32_t rank, int32_t other_rank)
{
    return rank >= 0 ? cluster->gpu[rank] : cluster->cpu[other_rank / cluster->platform->gpus_per_node];
}

void cluster_free(struct cluster *cluster);

#endif
