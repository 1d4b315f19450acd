/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The largest memory of each pipeline stage over several iterations. */
#ifndef SLIMSIM_SIMULATE_STAGE_PEAK_H
#define SLIMSIM_SIMULATE_STAGE_PEAK_H

#include "bounds/memory.h"

/** Of the rank of a stage that needs most, at that moment [bytes]. */
struct stage_peak {
    int64_t iteration;
    int32_t pipeline;
    double peak_bytes;
    double at_peak[MEMORY_N_CLASSES];
};

/** By stage; {0}: none yet. */
struct stage_peaks {
    int32_t n;
    struct stage_peak *at;
};

/** Take in an iteration. Ties: the earlier iteration, in it the lower dag_rank. Where phases have layouts of their own,
 * a stage is that of any. */
void stage_peaks_add(struct stage_peaks *peaks, const struct dag *dag, const struct memory *memory, int64_t iteration);

void stage_peaks_free(struct stage_peaks *peaks);

#endif
