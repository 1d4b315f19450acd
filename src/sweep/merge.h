/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module merges the journals of all shards of a sweep into the files of the whole sweep. */
#ifndef SLIMSIM_SWEEP_MERGE_H
#define SLIMSIM_SWEEP_MERGE_H

#include <signal.h>
#include <stdint.h>

#include "base/error.h"

struct merge_outcome {
    char name[256]; /* of the files written */
    int32_t n_points, n_failed;
    struct error failures; /* as in driver_outcome */
};

/**
 * Check the journals and write the files of the sweep. After an error, which names its cause, nothing is written.
 * Errors:
 *
 *  - a journal that is truncated or damaged;
 *  - shards of different sweeps, or of another build of slimsim;
 *  - points that are missing, or are in two shards.
 * @param stop  as in driver_run
 */
bool merge_journals(int32_t n, const char *const *paths, const char *directory, const volatile sig_atomic_t *stop,
                    struct merge_outcome *outcome, struct error *err);

#endif
