/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Inside dag/: pipelines, or context ranks, that differ in nothing but which samples and which GPUs are theirs. */
#ifndef SLIMSIM_DAG_ALIKE_H
#define SLIMSIM_DAG_ALIKE_H

#include "plan/plan.h"

/**
 * Pipelines are alike if they have the same layout but for the first rank, ranks on the same nodes counted from the
 * node of the first, the same slices of samples of the same lengths, the same units, orders and offload. Then each
 * task of one takes as long as the same task of the other, on sound GPUs and links.
 *
 * @param phase  without groups and exchanges
 * @return       [n_pipelines] the lowest pipeline that each is like, often itself. Caller frees.
 */
int32_t *alike_of(const struct plan_phase *phase, int32_t gpus_per_node);

/**
 * Whether the context ranks of a pipeline are alike: all share every unit, and whether a stage sends to the next inside
 * a node is the same for all. Then each task of one takes as long as the same task of the other; a ring takes as long
 * as its longest message.
 */
bool alike_contexts(const struct plan_pipeline *pipeline, int32_t gpus_per_node);

#endif
