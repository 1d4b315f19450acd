/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module is a pool of forked workers, without exec. Each takes one task after another and answers with bytes.
 *
 * Workers die with their parent, and all processes that they forked are killed. The parent must never have used
 * SimGrid.
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
    POOL_DIED,      /* of a signal or with a status; `said` is the reason */
    POOL_KILLED,    /* of SIGKILL or SIGTERM, three times */
    POOL_TIME_LIMIT /* killed when the time was over */
};

struct pool_answer {
    int32_t task;
    enum pool_ending ending;
    const void *bytes; /* of an answer */
    size_t n_bytes;
    const char *said; /* reason of its death, a sentence */
};

struct pool {
    int32_t jobs;        /* workers at the same time */
    double time_limit_s; /* wall time of a task; 0: none */
    /* data of a worker and of each process it forks; 0: no limit. With a limit each task has a fresh worker. */
    int64_t memory_bytes;
    void (*work)(void *context, int32_t task, FILE *answer); /* in a worker */
    /* in the parent; false: stop with err */
    bool (*take)(void *context, const struct pool_answer *answer, struct error *err);
    /* in the parent, a few times a second */
    void (*idle)(void *context);
    void *context;
    const volatile sig_atomic_t *stop; /* not 0: end at once */
};

/**
 * Do all tasks. If somebody killed a worker from outside, another worker gets its task, up to three times. No worker
 * remains in any case.
 * @return  false with err if take() failed or workers cannot start; false with err untouched if *stop was set
 */
bool pool_run(const struct pool *pool, int32_t n_tasks, const int32_t *tasks, struct error *err);

#endif
