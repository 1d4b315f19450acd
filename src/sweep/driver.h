/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module runs a sweep from its scenario to its files.
 *
 * 1. It resolves and numbers the points.
 * 2. A pool of workers computes the points that the journal lacks. Each result goes to the journal as soon as it is
 *    finished.
 * 3. In the end it writes the files from the journal.
 *
 * The same call continues from the end of an earlier one that stopped.
 */
#ifndef SLIMSIM_SWEEP_DRIVER_H
#define SLIMSIM_SWEEP_DRIVER_H

#include <signal.h>

#include "sweep/manifest.h"
#include "sweep/progress.h"
#include "sweep/shard.h"
#include "sweep/sweep_runner.h"

struct driver_options {
    const char *directory;
    int32_t jobs;
    struct shard shard;
    double time_limit_s;          /* of a point; 0: none */
    int64_t memory_bytes;         /* of a worker; 0: no limit */
    bool retry_failed, fail_fast; /* compute failed points again; stop at the first point that fails */
    /*
     * [manifest->n_points] where the results go; then no files are written, and journals of all shards are read. NULL:
     * nowhere. RESULT_KILLED: no process computed the point. A point without a result is then an error: its worker
     * died, or failed for a reason outside the scenario. The journal does not keep it.
     */
    struct point_result *results;
    struct journal *lock;              /* of the whole answer, which workers close; NULL: none */
    struct progress *progress;         /* of the whole answer */
    const volatile sig_atomic_t *stop; /* not 0: end; the journal keeps the finished points */
};

struct driver_outcome {
    /* of this shard: all; earlier in the journal; computed now; failed */
    int32_t n_points, n_kept, n_computed, n_failed;
    struct error failures; /* why points failed (sweep/finished_points.h); {0}: none did */
};

/**
 * Resolve every point and compute its id.
 * @param manifest  of this sweep, without name and ids; both are set here
 * @param stop      not 0: end; NULL: never
 * @return          false with err, or with err untouched if *stop ended it
 */
bool driver_resolve(struct sweep_runner *runner, struct manifest *manifest, const volatile sig_atomic_t *stop,
                    struct error *err);

/**
 * Compute the missing points. Unless this is one of several shards or results are asked for, also write the files
 * (sweep/sweep_output.h) below the directory. It must exist and hold no results of a single run with this name.
 * @return  false with err, or with err untouched if *stop ended it
 */
bool driver_run(struct sweep_runner *runner, const struct manifest *manifest, const struct driver_options *options,
                struct driver_outcome *outcome, struct error *err);

#endif
