/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module models the bytes that a rank of a stage holds, and those that each token of a micro-batch adds. Other
 * modules only combine them.
 */
#ifndef SLIMSIM_BOUNDS_STAGE_MEMORY_H
#define SLIMSIM_BOUNDS_STAGE_MEMORY_H

#include "cost/gathered.h"
#include "dag/dag.h"

enum { STAGE_MEMORY_MAX_MOMENTS = COST_N_MOMENTS + COST_N_FORWARD_MOMENTS };

/** Work on a micro-batch with n tokens takes fixed + n token bytes beside its activations. */
struct stage_memory_moment {
    double fixed_bytes, token_bytes;
};

/** Bytes that a token of a micro-batch takes on one virtual stage. Scores of unfused attention are left out. */
struct stage_token {
    double held;           /* activations of the layers, from forward to backward */
    double kept;           /* share of held that a sliced sample never sends to the host: keys and values */
    double kv;             /* of a sliced sample in addition: keys and values that recomputation would drop */
    double kv_gradient;    /* of a sliced sample, while its backward is open */
    double workspace;      /* of the layer that runs */
    double embedding;      /* on the first stage, from forward to backward */
    double head;           /* on the last stage, from forward to backward */
    double head_workspace; /* on the last stage, while the head runs */
};

struct stage_memory {
    double states_bytes; /* weights, gradients, their buckets and optimizer of all chunks, as the allocator rounds */
    /* share of states_bytes that comes and goes with `gradient_buffers: freed`; 0: gradients stay */
    double gradients_bytes;
    double gathered_bytes;  /* cost_gathered_bytes */
    double libraries_bytes; /* device.workspace_bytes */
    struct stage_token token;
    int32_t n_moments;
    /* of the micro-batch that runs, with token.head; any may be the largest */
    struct stage_memory_moment moments[STAGE_MEMORY_MAX_MOMENTS];
};

/** The form in which micro-batches hold their activations. */
struct stage_memory_micro_batch {
    enum recompute recompute;
    double
        streamed; /* share of the activations that streams to the host (plan_micro_batch.streams) and is never held */
};

/** @param stage_setting dag_setting of the virtual stage
 * @param first    the stage has the embedding
 * @param last     the stage has the head
 * @param context  CP degree of the micro-batch */
struct stage_token stage_token_of(const struct cost_setting *stage_setting, bool first, bool last, int32_t context,
                                  enum recompute recompute);

/**
 * @param setting  as request_setting has it
 * @param stage    virtual stage: chunk x stages + stage. Embedding and head are those of its rank
 * @param shards   DP x CP ranks that share the states
 */
struct stage_memory stage_memory_of(const struct cost_setting *setting, const struct plan_layout *layout, int32_t stage,
                                    int32_t shards, const struct stage_memory_micro_batch *micro_batch);

/** Return the bytes of states, of tensors gathered from them, and of libraries [bytes]. */
double stage_memory_standing_bytes(const struct stage_memory *memory);

/** Return the largest moment of a micro-batch of `tokens` tokens on a rank [bytes]. */
double stage_memory_work_bytes(const struct stage_memory *memory, double tokens);

/**
 * Return the tokens n of a micro-batch for which n `token_bytes` and its largest moment fill `room_bytes`; negative:
 * there is no room.
 */
double stage_memory_tokens(const struct stage_memory *memory, double room_bytes, double token_bytes);

#endif
