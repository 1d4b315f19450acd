/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Inside dag/: this module finds equal pipelines and equal context ranks. Only the first of equals is built.
 *
 * The reason is a plan search on 4,096 GPUs with fixed lengths (70B, best-fit, 4,096 samples of 4,096 tokens). It takes
 * 20 s of CPU with both, and 142 s without equal context ranks. Without equal pipelines it took 7 GB.
 */
#ifndef SLIMSIM_DAG_EQUAL_PIPELINES_H
#define SLIMSIM_DAG_EQUAL_PIPELINES_H

#include "dag/dag.h"

/**
 * Return whether dag_build folds. It does if the options ask for it, and if all pipelines take the same times on the
 * same work.
 */
bool equal_pipelines_fold(const struct plan *plan, const struct cost_setting *setting, struct dag_options options);

/**
 * Find equal pipelines. Two pipelines are equal if these are the same:
 *
 *  - the layout, except for the first rank;
 *  - the node and the NVLink domain of each rank, counted from those of the first rank;
 *  - the slices, although samples may be others of the same lengths;
 *  - micro-batches, orders and offload.
 *
 * On sound GPUs and links each task of one then takes as long as the same task of the other.
 *
 * @param phase  without groups and blocks
 * @return       [n_pipelines] for each the lowest pipeline that equals it, often itself. Caller frees. NULL: pipelines
 *               that share experts are not all equal, so each is built
 */
int32_t *equal_pipelines_of(const struct plan_phase *phase, const struct cost_setting *setting);

/**
 * Return whether the context ranks of a pipeline are equal. All of them must share every micro-batch. All of them, or
 * none, must send to the next stage inside an NVLink domain. Each task of one then takes as long as the same task of
 * the other. A ring takes as long as its longest message.
 */
bool equal_pipelines_contexts(const struct plan_pipeline *pipeline, const struct platform *platform);

#endif
