/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * A sweep from its scenario to its files: points are resolved and numbered, those that the journal lacks are computed
 * by a pool of workers, each is in the journal as soon as it is finished, and at the end the files are written from
 * there. The same call goes on where an earlier one stopped.
 */
#ifndef SLIMSIM_SWEEP_DRIVER_H
#define SLIMSIM_SWEEP_DRIVER_H

#include <signal.h>

#include "sweep/manifest.h"
#include "sweep/shard.h"
#include "sweep/sweep_runner.h"

struct driver_options {
    const char *directory;
    int32_t jobs;
    struct shard shard;
    double time_limit_s;               /* of a point; 0: none */
    int64_t memory_bytes;              /* of a worker; 0: no limit */
    bool retry_failed, fail_fast;      /* compute failed points again; stop at the first that fails */
    bool progress;                     /* on stderr */
    const volatile sig_atomic_t *stop; /* not 0: end; the journal keeps what is finished */
};

struct driver_outcome {
    int32_t n_points, n_kept, n_computed, n_failed; /* of this shard: all; in the journal before; now; of all */
};

/** Resolve every point and take its id. @param manifest  of this sweep, without name and ids; its name is set here
 * @param stop  not 0: end; NULL: never. @return false with err, or with err untouched when *stop ended it */
bool driver_resolve(struct sweep_runner *runner, struct manifest *manifest, const volatile sig_atomic_t *stop,
                    struct error *err);

/**
 * Compute what is missing and, unless this is one of several shards, write the files (sweep/sweep_output.h) below the
 * directory, which exists and holds no results of a single run of this name. @return false with err, or with err
 * untouched when *stop ended it
 */
bool driver_run(struct sweep_runner *runner, const struct manifest *manifest, const struct driver_options *options,
                struct driver_outcome *outcome, struct error *err);

#endif
