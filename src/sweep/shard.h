/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module chooses the points of a sweep that this process computes: every n-th. */
#ifndef SLIMSIM_SWEEP_SHARD_H
#define SLIMSIM_SWEEP_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { SHARD_MAX = 1000000 };

/** A shard is part k of n, 1 <= k <= n. {0} has all points. */
struct shard {
    int32_t k, n;
};

/**
 * Parse "k/n" or "auto". "auto" reads the scheduler's variables. If there are several levels, their numbers are
 * multiplied:
 *
 * 1. the task of a Slurm job array (SLURM_ARRAY_TASK_ID, _MIN, _COUNT);
 * 2. in it the process of srun (SLURM_PROCID, SLURM_NTASKS), otherwise of Open MPI's mpirun (OMPI_COMM_WORLD_RANK,
 *    _SIZE).
 */
bool shard_parse(const char *text, struct shard *shard, struct error *err);

/** Name a file of a shard: DIRECTORY/NAME.END, or DIRECTORY/NAME.shard-K-of-N.END. The caller frees it. */
char *shard_path(const struct shard *shard, const char *directory, const char *name, const char *end);

/** Return whether the shard computes a point. */
static inline bool shard_has(const struct shard *shard, int32_t point)
{
    return shard->n == 0 || point % shard->n == shard->k - 1;
}

#endif
