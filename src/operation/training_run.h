/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module simulates a whole training of weeks: failures, restarts, spare servers and repairs. It jumps from failure
 * to failure, and computes the checkpoints between them.
 *
 * 1. Each cause of failures is a renewal process of the whole cluster, with a Weibull law of the times between failures
 *    (weibull_shape 1: exponential). The first of them starts with the training, which begins with running.
 * 2. Failures strike at all times, also during a restart and while the training waits. Each takes one server away
 *    for the time of its repair.
 * 3. Training runs `interval_s` and then blocks `blocked_s` for a checkpoint, over and over. A checkpoint counts once
 *    `save_s` have passed behind it. No checkpoint follows the end.
 * 4. A failure throws away the work since the last checkpoint that counts, and starts a restart. This detects, waits
 *    until no more servers are in repair than there are spares, replaces, starts and loads. A failure during
 *    the restart starts it again.
 * 5. Slow GPUs count on average: the share slow_share of the running time advances 1/slow_factor as fast.
 */
#ifndef SLIMSIM_OPERATION_TRAINING_RUN_H
#define SLIMSIM_OPERATION_TRAINING_RUN_H

#include "operation/goodput.h"

/** Runs that give p5 and p95 of the finish within 2% over seeds. */
enum { TRAINING_RUNS_DEFAULT = 1000 };

/** A run gives up if work that counts fills less than 1/100 of its time up to a failure, and this many came before. */
enum { TRAINING_RUN_LEAST_FAILURES = 10000 };

struct training_run {
    double finish_s;                   /* from the start; INFINITY: the run gave up */
    double lost_s[GOODPUT_N_LOSSES];   /* with the work they add up to finish_s */
    double without_spares_s;           /* time in which every spare is used, so the next failure has to wait */
    double failures[FAILURE_N_CAUSES]; /* number by cause */
};

/**
 * Simulate one training.
 * @param work_s  time that it would take without failures, checkpoints and slow GPUs [s], above 0
 * @param seed    equal seeds give equal failures of a cause, whatever the other causes and settings are
 * @param run     number of the run, from 0; each has failures of its own
 */
struct training_run training_run(const struct goodput_setting *setting, double work_s, int64_t seed, int32_t run);

/** Add 1/n of a run to the mean of n runs, which starts as {0}. */
void training_run_add_to_mean(struct training_run *mean, const struct training_run *run, int32_t n);

/** Percentiles over runs, by linear interpolation, and means. */
struct training_runs {
    int32_t n;
    double p5_s, p50_s, p95_s; /* of finish_s */
    struct training_run mean;
};

/** Simulate runs 0 to n_runs - 1. n_runs is at least 1. */
struct training_runs training_runs(const struct goodput_setting *setting, double work_s, int64_t seed, int32_t n_runs);

#endif
