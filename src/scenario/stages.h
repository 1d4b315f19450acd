/* SPDX-License-Identifier: GPL-3.0-or-later */
/** How the layers of a model fall on the stages of a pipeline. */
#ifndef SLIMSIM_SCENARIO_STAGES_H
#define SLIMSIM_SCENARIO_STAGES_H

#include <stdbool.h>
#include <stdint.h>

/** What `plan:` says of it; {0}: equal stages. */
struct scenario_stages {
    int64_t first_layers, last_layers; /* of the first and last stage; 0: as many as a stage between them */
    bool count_embedding, count_head;  /* as one layer each, so the stage that holds it has one layer less */
};

/**
 * Layers of one virtual stage, chunk x stages + stage.
 *
 * As Megatron-Core splits them: what the first and last stage leave is shared equally by the stages between, and a
 * stage's layers equally by its chunks. With count_embedding (count_head) the model has a layer more to share, and the
 * first (last) virtual stage runs one less. Source: Megatron-Core, options num_layers_in_first_pipeline_stage,
 * num_layers_in_last_pipeline_stage, account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split.
 *
 * @return -1: the layers cannot be shared so
 */
int32_t scenario_stage_layers(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks,
                              int32_t virtual_stage);

/** Whether every virtual stage has a whole number of layers, and all together those of the model. */
bool scenario_stages_fit(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks);

#endif
