/* SPDX-License-Identifier: GPL-3.0-or-later */
/** How far a sweep is, on stderr: one line that changes on a terminal, elsewhere a line each 10%. */
#ifndef SLIMSIM_SWEEP_PROGRESS_H
#define SLIMSIM_SWEEP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown, terminal;
    int32_t n_points, n_done, n_failed, n_here; /* all, finished, of them failed, finished by this process */
    int32_t tenths;                             /* printed so far */
    double begin_s, printed_s;                  /* clock_wall_s */
};

void progress_begin(struct progress *progress, bool shown, int32_t n_points, int32_t n_done, int32_t n_failed);

/** A point is finished. */
void progress_count(struct progress *progress, bool failed);

/** Print the line again if a second has gone by. */
void progress_report(struct progress *progress);

/** Leave the terminal's line empty. */
void progress_end(struct progress *progress);

#endif
