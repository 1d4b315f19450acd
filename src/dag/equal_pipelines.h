/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Inside dag/: which pipelines, or context ranks, differ only in which samples and which GPUs they have. */
#ifndef SLIMSIM_DAG_EQUAL_PIPELINES_H
#define SLIMSIM_DAG_EQUAL_PIPELINES_H

#include "plan/plan.h"

/**
 * Pipelines are alike if these are the same: the layout but for the first rank; the node of each rank, counted from the
 * first rank's node; the slices, where samples may be others of the same lengths; units, orders and offload. Then, on
 * sound GPUs and links, each task of one takes as long as the same task of the other.
 *
 * @param phase  without groups and exchanges
 * @return       [n_pipelines] for each the lowest pipeline that it is like, often itself. Caller frees.
 */
int32_t *equal_pipelines_of(const struct plan_phase *phase, int32_t gpus_per_node);

/**
 * Whether the context ranks of a pipeline are alike: all share every unit, and whether a stage sends to the next inside
 * a node is the same for all. Then each task of one takes as long as the same task of the other; a ring takes as long
 * as its longest message.
 */
bool equal_pipelines_contexts(const struct plan_pipeline *pipeline, int32_t gpus_per_node);

#endif
