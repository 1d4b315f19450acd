/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module shows the progress of a sweep on stderr. A terminal has one changing line, other files have a line each
 * 10%.
 */
#ifndef SLIMSIM_SWEEP_PROGRESS_H
#define SLIMSIM_SWEEP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown, terminal;
    int32_t n_points, n_done, n_failed, n_here; /* all; finished; failed; finished by this process */
    int32_t tenths;                             /* printed so far */
    double begin_s, printed_s;                  /* clock_wall_s */
};

void progress_begin(struct progress *progress, bool shown, int32_t n_points, int32_t n_done, int32_t n_failed);

/** Count a point that is finished. */
void progress_count(struct progress *progress, bool failed);

/** Print the line again if a second has passed. */
void progress_report(struct progress *progress);

/** Clear the terminal's line. */
void progress_end(struct progress *progress);

#endif
