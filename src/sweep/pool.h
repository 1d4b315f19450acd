/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * A pool of forked workers, without exec: each takes one task after another and answers with bytes.
 *
 * Workers die with their parent, and are killed with all they forked. The parent must never have touched SimGrid.
 */
#ifndef SLIMSIM_SWEEP_POOL_H
#define SLIMSIM_SWEEP_POOL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum pool_ending {
    POOL_ANSWERED,
    POOL_DIED,      /* of a signal or with a status: `said` tells */
    POOL_KILLED,    /* of SIGKILL or SIGTERM, three times */
    POOL_TIME_LIMIT /* killed when the time was over */
};

struct pool_answer {
    int32_t task;
    enum pool_ending ending;
    const void *bytes; /* of an answer */
    size_t n_bytes;
    const char *said; /* why it died, a sentence */
};

struct pool {
    int32_t jobs;         /* workers at a time */
    double time_limit_s;  /* wall time of a task; 0: none */
    int64_t memory_bytes; /* data of a worker and of each process it forks; 0: no limit. Then each task has a fresh
                             worker. */
    void (*work)(void *context, int32_t task, FILE *answer);                          /* in a worker */
    bool (*take)(void *context, const struct pool_answer *answer, struct error *err); /* here; false: stop with err */
    void (*idle)(void *context);                                                      /* here, a few times a second */
    void *context;
    const volatile sig_atomic_t *stop; /* not 0: end at once */
};

/**
 * Do all tasks. A task whose worker somebody killed from outside is given to another worker, up to three times.
 * @return false with err when take() said so or workers cannot be made, and, err untouched, when *stop was set. No
 * worker is left in any case.
 */
bool pool_run(const struct pool *pool, int32_t n_tasks, const int32_t *tasks, struct error *err);

#endif
