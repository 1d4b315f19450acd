/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module shows how far an answer of many runs is: what runs, how many of how many, and the time that is left of
 * the whole answer.
 */
#ifndef SLIMSIM_SWEEP_PROGRESS_H
#define SLIMSIM_SWEEP_PROGRESS_H

#include <stdint.h>

#include "base/status_line.h"

struct progress {
    struct status_line status;
    const char *what;         /* "capacity"; borrowed */
    int32_t n, n_done;        /* runs of the stages so far; those that are finished, also by an earlier process */
    int32_t n_failed, n_kept; /* of n_done; kept: finished by an earlier process */
    double weight;            /* what a run of the stage at hand takes, in ordinary runs */
    double work, work_done;   /* of the runs that this process computes, in ordinary runs */
    double later, later_work; /* runs that later stages will probably need; the same in ordinary runs */
};

/** Begin an answer. @param shown  false: nothing is printed */
void progress_begin(struct progress *progress, bool shown, const char *what);

/**
 * Say before a stage what follows it, and what its runs take.
 * @param weight      of each of its runs, in ordinary runs: 0.5 if only one of two systems runs
 * @param later       runs of later stages, an estimate
 * @param later_work  the same in ordinary runs
 */
void progress_expect(struct progress *progress, double weight, double later, double later_work);

/** Add a stage of runs. Some of them are finished already, and some of these failed. */
void progress_stage(struct progress *progress, int32_t n, int32_t n_kept, int32_t n_failed);

/** Count a run that is finished now. */
void progress_count(struct progress *progress, bool failed);

/** Show the runs at work. @param share  what they have done, in runs of the stage @param names  "NIC x0.5, NIC x2" */
void progress_show(struct progress *progress, double share, const char *names);

/** Clear the terminal's line. */
void progress_end(struct progress *progress);

#endif
