/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The journals of all shards of a sweep made into the files of the whole sweep. */
#ifndef SLIMSIM_SWEEP_MERGE_H
#define SLIMSIM_SWEEP_MERGE_H

#include <signal.h>
#include <stdint.h>

#include "base/error.h"

struct merge_outcome {
    char name[256]; /* of the files written */
    int32_t n_points, n_failed;
};

/**
 * Check and copy. A journal that is truncated or damaged, shards of different sweeps or of another build of slimsim,
 * points that are missing or stand in two shards: an error that names them, and nothing is written.
 * @param stop  as of driver_run
 */
bool merge_journals(int32_t n, const char *const *paths, const char *directory, const volatile sig_atomic_t *stop,
                    struct merge_outcome *outcome, struct error *err);

#endif
