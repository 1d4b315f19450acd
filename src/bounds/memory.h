/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module computes live bytes of every rank over time (SlimPack, section 4.3.3). */
#ifndef SLIMSIM_BOUNDS_MEMORY_H
#define SLIMSIM_BOUNDS_MEMORY_H

#include "bounds/critical_path.h"

enum memory_class {
    MEMORY_STATES, /* weights, optimizer, gradients while they exist, and cost_gathered_bytes */
    /*
     * from forward to backward, with cost_head_bytes on the last stage and cost_embedding_bytes on the first, without
     * MEMORY_KV of sliced samples
     */
    MEMORY_ACTIVATIONS,
    /*
     * kept for later slices: keys and values under full recompute and mla-up-proj, keys under alternate-gemms;
     * otherwise they are activations
     */
    MEMORY_KV,
    MEMORY_KV_GRADIENTS, /* of the prefix, while a sliced sample's backward is open */
    /* of the layer or the head that runs; zero2 and zero3: with tensors that are whole at that time */
    MEMORY_WORKSPACE,
    MEMORY_COMMUNICATION, /* buffers of attention by blocks (cost_block) */
    MEMORY_LIBRARIES,     /* device.workspace_bytes: memory that libraries keep once they have run */
    MEMORY_N_CLASSES
};

extern const char *const memory_class_name[MEMORY_N_CLASSES];

/** Live bytes by class from `time_s` on. */
struct memory_event {
    double time_s;
    int32_t dag_rank;
    double bytes[MEMORY_N_CLASSES];
};

/** Sum over the classes of a rank at one moment. */
struct memory_sum {
    double time_s, bytes;
};

/** Sums of some ranks, in order of time for each rank. */
struct memory_sums {
    int64_t n;
    struct memory_sum *all;
    int64_t *first; /* [n_ranks + 1] into all */
    size_t room;    /* capacity of all */
};

struct memory {
    int32_t n_ranks;
    double *peak_bytes;                  /* [n_ranks] largest sum over classes */
    double (*at_peak)[MEMORY_N_CLASSES]; /* classes at that moment */
    int32_t worst_rank;                  /* rank of the largest peak; ties: lowest index */
    double *host_peak_bytes;             /* [n_ranks] largest size of the rank's offloaded activations, and optimizer */
    int64_t n_events;                    /* by rank, then in order of time; 0 without with_events */
    struct memory_event *events;
    struct memory_sums sums; /* filled in by memory_above only */
};

/**
 * Compute the memory of all ranks. Times may be either engine's. docs/model/memory.md, "Memory over time" has the
 * details.
 *
 * 1. Tokens of a micro-batch with CP count 1/context on each rank. Only blocks of states are rounded
 * (cost_state_block_bytes). Reserved memory that the allocator does not use is not counted.
 * 2. ACTIVATIONS of a micro-batch last from the start of its forward to the end of the backward that consumes their
 * tokens.
 * 3. KV_GRADIENTS of a sample's prefix last from the start of its first backward slice. Gradients of an earlier slice
 *    go when its backward ends.
 * 4. WORKSPACE, and buffers of blocks, last as long as a pass on the compute stream.
 * 5. Offloaded activations go when a pass has waited for their copy out (plan_waits_for_copies). They come back into
 * two buffers of the rank, which take turns. From its first pass to its last both are as large as its largest copy. The
 *    host holds activations from the start of the copy out to the end of the copy in. If a micro-batch streams
 *    (plan_micro_batch.streams), only the host holds them.
 * 6. STATES last throughout. During a phase's re-sharding the layout before has its weights and gradients, too.
 * 7. Gradients that are not kept (plan.gradient_buffers) come in a virtual stage's first backward, layer by layer. They
 *    go when the optimizer ends.
 * 8. So memory follows the order of passes, and times matter for the host only.
 */
void memory_of(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
               const struct cost_setting *setting, bool with_events, struct memory *memory);

/**
 * Compute memory_of without events, but with the sums over time of ranks that need more than limit_bytes.
 * @param memory  {0}, or the result of another call, whose capacity is reused
 */
void memory_above(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
                  const struct cost_setting *setting, double limit_bytes, struct memory *memory);

/** The node with most offloaded bytes, of activations and of the optimizer. */
struct memory_host {
    /* sum of its GPUs' host_peak_bytes, because pinned buffers stay once they are made; 0: no offload */
    double bytes;
    int32_t node, phase; /* ties: the lowest */
    int32_t stage;       /* stage of the GPU with most bytes there */
};

/**
 * @param n_gpus  0, or the GPUs that train if the plan uses only some of them. A node's other training GPUs then count
 *                like those of the plan
 */
struct memory_host memory_host_of(const struct plan *plan, const struct dag *dag, const struct memory *memory,
                                  const struct platform *platform, int32_t n_gpus);

void memory_free(struct memory *memory);

#endif
