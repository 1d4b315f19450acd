/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module distributes the layers of a model to the stages of a pipeline. */
#ifndef SLIMSIM_SCENARIO_STAGES_H
#define SLIMSIM_SCENARIO_STAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "document/schema_key.h"

/** Choices of plan.spread, for layers that the stages cannot share equally: none allowed, or the rest spread evenly. */
enum scenario_spread { SCENARIO_EQUAL, SCENARIO_EVEN };
#define SCENARIO_SPREAD "equal|even"

/** Virtual stages between the first and the last one hold at most so many different sequences of layers. */
enum { SCENARIO_MOST_STAGE_KINDS = 30 };

/** Keys of `plan:` about stages; {0}: equal stages. It has no gap, since settings are compared by their bytes
 * (cost/setting.h). */
struct scenario_stages {
    struct schema_option first_layers, last_layers; /* layers of the first and last stage, if they are given */
    struct schema_counts layers; /* layers of each virtual stage, in the order of the model; empty: they are shared */
    int32_t spread;              /* enum scenario_spread */
    bool count_embedding, count_head; /* each counts as one layer, so its stage has one layer less */
    bool filler[2];
};
_Static_assert(sizeof(struct scenario_stages) == 2 * sizeof(struct schema_option) + sizeof(struct schema_counts) + 8,
               "struct scenario_stages has no gap");

/**
 * Return the layers of one virtual stage, chunk x stages + stage. `layers` names them. Otherwise:
 *
 * 1. A first or last stage whose layers are given shares them equally among its chunks.
 * 2. The virtual stages of the other stages share the layers that are left equally.
 * 3. With spread even a rest of r layers is spread: the first r of these virtual stages have one layer more.
 * 4. With count_embedding (count_head) the model has one more layer to share, and the first (last) virtual stage runs
 * one layer less.
 *
 * Sources: 1, 2 and 4 are Megatron-Core's options num_layers_in_first_pipeline_stage,
 * num_layers_in_last_pipeline_stage, account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split;
 * `layers` is its pipeline_model_parallel_layout. 3 is partition_uniform of DeepSpeed (runtime/utils.py), and with 4
 * generate_llm_fqn_per_model_part of torchtitan (distributed/pipeline_parallel.py).
 *
 * @return -1: the layers cannot be shared in this manner
 */
int32_t scenario_stage_layers(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks,
                              int32_t virtual_stage);

/** Return the layers of all chunks of a stage, which must fit. */
int32_t scenario_rank_layers(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks,
                             int32_t stage);

/** Return whether every virtual stage has a whole number of layers, and all together have those of the model. */
bool scenario_stages_fit(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks);

#endif
