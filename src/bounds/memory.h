/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Live bytes of every dag_rank over time (SlimPack section 4.3.3). */
#ifndef SLIMSIM_BOUNDS_MEMORY_H
#define SLIMSIM_BOUNDS_MEMORY_H

#include "bounds/critical_path.h"

enum memory_class {
    MEMORY_STATES,      /* weights, optimizer, gradients as long as they exist, and cost_gathered_bytes */
    MEMORY_ACTIVATIONS, /* from forward to backward, with cost_head_bytes on the last stage and cost_embedding_bytes on
                           the first, without what MEMORY_KV has of sliced samples */
    MEMORY_KV,          /* kept for later slices: keys and values under full recompute, keys under alternate-gemms; else
                           part of activations */
    MEMORY_KV_GRADIENTS,  /* of the prefix, while a sliced sample's backward is open */
    MEMORY_WORKSPACE,     /* of the layer, or of the head, in work; zero2 and zero3: with what is whole meanwhile */
    MEMORY_COMMUNICATION, /* buffers of exchanged attention (cost_exchange) */
    MEMORY_LIBRARIES,     /* what libraries keep once they have run: device.workspace_bytes */
    MEMORY_N_CLASSES
};

extern const char *const memory_class_name[MEMORY_N_CLASSES];

/** Live bytes by class from `time_s` on. */
struct memory_event {
    double time_s;
    int32_t dag_rank;
    double bytes[MEMORY_N_CLASSES];
};

/** A moment of a dag_rank: the sum over its classes. */
struct memory_sum {
    double time_s, bytes;
};

/** Of some ranks, each one's in order of time. */
struct memory_sums {
    int64_t n;
    struct memory_sum *all;
    int64_t *first; /* [n_ranks + 1] into all */
    size_t room;    /* of all */
};

struct memory {
    int32_t n_ranks;
    double *peak_bytes;                  /* [n_ranks] largest sum over classes */
    double (*at_peak)[MEMORY_N_CLASSES]; /* the classes at that moment */
    int32_t worst_rank;                  /* of the largest peak; ties: lowest index */
    double *host_peak_bytes;             /* [n_ranks] most of the dag_rank's offloaded activations at a time */
    int64_t n_events;                    /* only where wanted; by dag_rank, then in order of time */
    struct memory_event *events;
    struct memory_sums sums; /* of memory_above alone */
};

/**
 * When each class is allocated and freed. Tokens of a unit with CP count 1/context on each rank. Only blocks of states
 * are rounded (cost_state_block_bytes); what the allocator holds unused is reserved memory and does not count.
 *
 * ACTIVATIONS of a unit: from the start of its forward to the end of the backward that consumes their tokens
 * (asymmetric cuts: token by token; padding with the backward unit that names it). Of a split backward, what
 * cost_weight_bytes counts stays as activations until the pass of the weights' gradients ends; that pass works on one
 * gathered input.
 *
 * KEY AND VALUE GRADIENTS of a sample's prefix: from the start of its first backward slice; those of each earlier slice
 * go when its backward ends.
 *
 * WORKSPACE, and with it the buffers of an exchange: as long as a pass on the compute stream. On the last stage it is
 * the larger of the head's and of a layer's; in a backward pass the head is over when a layer runs, and what it kept is
 * freed by then. With zero2 and zero3 the whole tensors of each moment are added (cost_moments_of), and what is gone at
 * that moment is taken off.
 *
 * OFFLOADED ACTIVATIONS: freed when the copy out ends, allocated when the copy in starts; the host holds them from the
 * start of the copy out to the end of the copy in. Of a unit that streams (plan_unit.streams) the GPU never holds what
 * is offloaded, the host does.
 *
 * STATES: throughout. While a phase's re-sharding brings the model from the layout before (first phase: from the last
 * phase's), that layout's weights and gradients are held, too; in the iteration's first switch there are no gradients.
 *
 * GRADIENTS that are not kept (plan.gradient_buffers) are missing until a virtual stage's first backward (split: its
 * first pass of the weights). In it the head's come when the loss is over (cost_head_backward_bytes stands beside);
 * then, while activations fall layer by layer, each layer's come when its backward starts, with all that this layer
 * holds and works on; the embedding's come at the end. So a peak is too high by at most a layer's gradients. The layers
 * share the time of the pass (of its last task) equally. Later phases have all gradients from their start. They go when
 * the optimizer ends; it has all of them, those of a stage without passes too.
 *
 * At equal times: the end of a copy out, then the compute stream in its order (a pass ends before the next starts),
 * then the start of a copy in. The timeline may be either engine's.
 */
void memory_of(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
               const struct cost_setting *setting, bool want_events, struct memory *memory);

/** memory_of without events, but with the sums at these moments of ranks that need more than limit_bytes.
 * @param memory  {0}, or of another call: then its room is used again */
void memory_above(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
                  const struct cost_setting *setting, double limit_bytes, struct memory *memory);

/** The node that holds most for its GPUs. */
struct memory_host {
    double bytes;        /* sum of its GPUs' host_peak_bytes: pinned buffers stay once they are made; 0: no offload */
    int32_t node, phase; /* ties: the lowest */
    int32_t stage;       /* of the GPU that has most there */
};

/** @param n_gpus  0, or the GPUs that train if the plan is of some of them: then a node counts as if its other GPUs
 *                 that train held as much each */
struct memory_host memory_host_of(const struct plan *plan, const struct dag *dag, const struct memory *memory,
                                  int32_t gpus_per_node, int32_t n_gpus);

void memory_free(struct memory *memory);

#endif
