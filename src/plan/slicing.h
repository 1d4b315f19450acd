/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Micro-batches cut into slices, which pass through the pipeline one after the other. */
#ifndef SLIMSIM_PLAN_SLICING_H
#define SLIMSIM_PLAN_SLICING_H

#include "cost/cost.h"
#include "plan/plan.h"

/**
 * Replace every unit of a pipeline, a micro-batch of whole samples, by slices of its token sequence: its samples in
 * order, then its padding. Each slice is a unit of its own with all else as in the micro-batch. Backward the slices of
 * a micro-batch stand in reverse, micro-batches as before. need[] and the order are the caller's to make.
 *
 *   equal_length   n slices of equal tokens                                             SlimPipe, arXiv:2504.14519
 *   equal_flop     n slices of equal forward FLOPs of a layer, padding's GEMMs among them  Seq1F1B, arXiv:2406.03488
 *
 * Boundaries are the first token at which k/n is reached (equal_length: at most k/n); slices without tokens are left
 * out.
 */
void slicing_equal_length(struct plan_pipeline *pipeline, int32_t n);
void slicing_equal_flop(struct plan_pipeline *pipeline, const struct model *model, int32_t n);

/**
 * TeraPipe's slices: boundaries among `grid` equal parts of each micro-batch that minimise
 *
 *     sum of t + (p - 1) max t,   t: seconds of a slice's forward and backward on a stage of `setting`
 *
 * over all slices of the pipeline. Dynamic programming over the parts for each ceiling of t, ceilings ascending by at
 * least 0.1 ms. Source: Li et al. 2021 (arXiv:2102.07988), section 3.3, algorithm 1.
 */
void slicing_by_time(struct plan_pipeline *pipeline, const struct cost_setting *setting, int32_t grid);

/** The backward cut as the forward cut's units in reverse. */
void slicing_mirror(struct plan_pipeline *pipeline);

#endif
