/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module finds the largest memory of each pipeline stage over several iterations. */
#ifndef SLIMSIM_SIMULATE_STAGE_PEAK_H
#define SLIMSIM_SIMULATE_STAGE_PEAK_H

#include "bounds/evaluate.h"
#include "trace/table.h"

/** Rows of the rank of a stage with the highest peak, by stage; {0}: none yet. */
struct stage_peaks {
    int32_t n;
    struct trace_stage *at;
};

/**
 * Add an iteration. Ties: the earlier iteration, and in it the lower rank. If phases have layouts of their own, a stage
 * covers all of them.
 * @param evaluator  with the memory of the iteration
 */
void stage_peaks_add(struct stage_peaks *peaks, const struct trace_iteration *iteration,
                     const struct evaluator *evaluator);

void stage_peaks_free(struct stage_peaks *peaks);

#endif
