/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module finds the largest memory of each pipeline stage over several iterations. */
#ifndef SLIMSIM_SIMULATE_STAGE_PEAK_H
#define SLIMSIM_SIMULATE_STAGE_PEAK_H

#include "bounds/memory.h"

/** Memory of the rank of a stage with the highest peak, at that moment [bytes]. */
struct stage_peak {
    int64_t iteration;
    int32_t pipeline;
    double peak_bytes;
    double at_peak[MEMORY_N_CLASSES];
};

/** Peaks by stage; {0}: none yet. */
struct stage_peaks {
    int32_t n;
    struct stage_peak *at;
};

/**
 * Add an iteration. Ties: the earlier iteration, and in it the lower rank. If phases have layouts of their own, a stage
 * covers all of them.
 */
void stage_peaks_add(struct stage_peaks *peaks, const struct dag *dag, const struct memory *memory, int64_t iteration);

void stage_peaks_free(struct stage_peaks *peaks);

#endif
