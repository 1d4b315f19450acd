/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module distributes the layers of a model to the stages of a pipeline. */
#ifndef SLIMSIM_SCENARIO_STAGES_H
#define SLIMSIM_SCENARIO_STAGES_H

#include <stdbool.h>
#include <stdint.h>

/** Keys of `plan:` about stages; {0}: equal stages. */
struct scenario_stages {
    int64_t first_layers, last_layers; /* layers of the first and last stage; 0: as many as a stage between them */
    bool count_embedding, count_head;  /* each counts as one layer, so its stage has one layer less */
    bool filler[6];                    /* leaves no gap, since settings are compared by their bytes (cost/setting.h) */
};

/**
 * Return the layers of one virtual stage, chunk x stages + stage. Megatron-Core splits them in this manner:
 *
 * 1. The layers that first and last stage leave are shared equally by the stages between them.
 * 2. A stage's layers are shared equally by its chunks.
 * 3. With count_embedding (count_head) the model has one more layer to share, and the first (last) virtual stage runs
 * one layer less.
 *
 * Source: Megatron-Core, options num_layers_in_first_pipeline_stage, num_layers_in_last_pipeline_stage,
 * account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split.
 *
 * @return -1: the layers cannot be shared in this manner
 */
int32_t scenario_stage_layers(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks,
                              int32_t virtual_stage);

/** Return whether every virtual stage has a whole number of layers, and all together have those of the model. */
bool scenario_stages_fit(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks);

#endif
