/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module computes the points of a sweep for a question, and keeps each in a journal.
 *
 * 1. The journals are DIRECTORY/NAME.shard-*-of-*.journal with the sweep's name. All of them are read.
 * 2. Points that no journal holds are computed, and go to the journal of this process's shard.
 * 3. So a question that stopped goes on, and another question about the same sizes computes nothing again.
 */
#ifndef SLIMSIM_CAPACITY_POINT_RESULTS_H
#define SLIMSIM_CAPACITY_POINT_RESULTS_H

#include "sweep/driver.h"

struct point_results {
    int32_t n;
    struct point_result *result; /* [n] of each point in order; RESULT_KILLED: no process computed it */
};

struct point_results_options {
    const char *directory;
    int32_t jobs;
    struct shard shard;                /* {0}: all points */
    bool progress;                     /* on stderr */
    const volatile sig_atomic_t *stop; /* not 0: end; the journal keeps the finished points */
};

/**
 * Compute the points of a document with `sweep:`, which is taken over. A point that fails is a result.
 * @return false with err, or with err untouched if *stop ended it; the caller frees in any case
 */
bool point_results_compute(struct document *document, const struct point_results_options *options,
                           struct point_results *results, struct error *err);

void point_results_free(struct point_results *results);

#endif
