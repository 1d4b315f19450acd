/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file cuts micro-batches into slices, which pass through the pipeline one after the other. */
#ifndef SLIMSIM_PLAN_SLICING_H
#define SLIMSIM_PLAN_SLICING_H

#include "cost/setting.h"
#include "plan/plan.h"

/**
 * Replace every micro-batch of a pipeline by slices of its token sequence. The micro-batch is a micro-batch of whole
 * samples.
 *
 * 1. The sequence has the samples in order, then the padding.
 * 2. Each slice is a micro-batch of its own. Its other fields are those of the micro-batch.
 * 3. Backward the slices of a micro-batch are in reverse, micro-batches as before.
 * 4. equal_length makes n slices of equal tokens (SlimPipe, arXiv:2504.14519). Boundaries are at most k/n.
 * 5. equal_flop makes n slices of equal forward FLOPs of a layer, including padding's GEMMs (Seq1F1B,
 *    arXiv:2406.03488). Boundaries are the first token at which k/n is reached.
 * 6. Slices without tokens are left out.
 * 7. The caller makes need[] and the order.
 */
void slicing_equal_length(struct plan_pipeline *pipeline, int32_t n);
void slicing_equal_flop(struct plan_pipeline *pipeline, const struct model *model, int32_t n);

/**
 * Cut micro-batches into TeraPipe's slices. Boundaries are chosen among `grid` equal parts of each micro-batch. They
 * minimise
 *
 *     sum of t + (p - 1) max t,   t: seconds of a slice's forward and backward on a stage of `setting`
 *
 * over all slices of the pipeline. For each ceiling of t, dynamic programming runs over the parts. Ceilings ascend by
 * at least 0.1 ms.
 *
 * Source: Li et al. 2021 (arXiv:2102.07988), section 3.3, algorithm 1.
 */
void slicing_by_time(struct plan_pipeline *pipeline, const struct cost_setting *setting, int32_t grid);

/** Make the backward partition from the forward partition's micro-batches in reverse. */
void slicing_mirror(struct plan_pipeline *pipeline);

#endif
