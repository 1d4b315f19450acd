/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file has the whole weights and gradients that zero2 and zero3 hold in addition to the shards. It also has
 * the moments of a pass that they cause. cost/shards.h has the time of these gathers and how far ahead they are
 * issued. */
#ifndef SLIMSIM_COST_GATHERED_H
#define SLIMSIM_COST_GATHERED_H

#include "cost/setting.h"
#include "cost/slice.h"

/**
 * Return the bytes of whole tensors that last as long as passes do, beside the states [bytes].
 *
 * 1. zero3 has the bf16 weights of embedding, last norm and head from the first forward to the last backward, as FSDP's
 *    root unit. If no forward frees what it gathered, it has those of the layers, too.
 * 2. zero3 with stages has the bf16 gradients of the largest layer, which are added to the whole ones behind it. Its
 *    gathered weights are states.
 * 3. On demand zero3 has the bf16 gradients of the largest layer, too, which are on their way to the owners (ODC).
 * 4. zero2, whose weights are states, zero1 and none have 0.
 */
double cost_gathered_bytes(const struct cost_setting *setting);

/** Moments of a backward pass, in their order. Each of them may be the largest of the pass. */
enum cost_moment {
    COST_AT_LOSS,  /* the logits' gradient is made */
    COST_AT_HEAD,  /* that gradient is there in bf16, and the head's gradient too */
    COST_IN_LAYER, /* first layer: its widest gradients, and the gradient of the down GEMM's weights */
    COST_IN_NORM, /* its first norm's backward: its gradients are there, its activations have gone except this norm's */
    COST_BEHIND_LAYER, /* its end: its gradients are joined */
    COST_IN_NEXT,      /* the same three moments of the layers behind it */
    COST_IN_NEXT_NORM,
    COST_BEHIND_NEXT,
    COST_AT_ENDS, /* the root's gradients are joined, all activations have gone */
    COST_N_MOMENTS
};

/** Memory that a micro-batch's backward works on, on one rank [bytes], as bounds/memory.h counts it. */
struct cost_work {
    double tokens;               /* [tokens] */
    double workspace;            /* workspace of a layer: cost_workspace_bytes */
    double layer, layers;        /* activations held of one layer (of several kinds: of the mean one), and of all */
    double head, head_workspace; /* cost_head_bytes, cost_head_workspace_bytes */
};

/**
 * Fill in the bytes of zero2 and zero3 at each moment. They are in addition to the states, cost_gathered_bytes and the
 * activations at the start of the backward.
 *
 * 1. The activations that have gone by then are subtracted, so results may be negative.
 * 2. Weights that are whole at the moment count, with zero3 only: 2 bytes a parameter. FSDP1 with backward-post has
 *    those of one layer, with backward-pre of two, FSDP2 of two.
 * 3. Gradients that are whole count 2 bytes a parameter, and 2 more while FSDP1 joins them. While they are reduced they
 *    have the precision of the reduction.
 * 4. The head's gradient waits for the embedding's. With fsdp_ends own it is reduced in the first layer.
 * 5. The working memory of the moment is added.
 * 6. With one layer there is none behind it. Layers of MTP count as others do.
 * 7. With several kinds of layers the one with most parameters counts.
 *
 * docs/model/memory.md, Whole tensors under sharding, has the table of moments, the order of events and the sources.
 */
void cost_moments_of(const struct cost_setting *setting, const struct cost_work *work, double bytes[COST_N_MOMENTS]);

/** Moments of a forward pass. */
enum cost_forward_moment { COST_FORWARD_HEAD, COST_FORWARD_LOSS, COST_FORWARD_LAYER, COST_N_FORWARD_MOMENTS };

/**
 * Fill in the bytes of a forward pass at each moment, in addition to the activations that it leaves [bytes].
 *
 * 1. At the head the loss has kept nothing yet. The bf16 logits are there.
 * 2. At the loss the head's workspace counts without the logits' gradient. A fused linear loss has all of it at both
 *    moments, and the gradient of the head's weights.
 * 3. In a layer no more counts than its backward works on.
 * 4. FSDP1 frees a layer's weights behind its forward. FSDP2 has a layer's weights and the buffer that they were
 *    gathered in. The last buffer stays until the model's forward is over.
 *
 * docs/model/memory.md, Whole tensors under sharding, has the table of moments and the sources.
 */
void cost_forward_moments_of(const struct cost_setting *setting, const struct cost_work *work,
                             double bytes[COST_N_FORWARD_MOMENTS]);

/** Return the largest moment of the pass [bytes]. */
double cost_moments_most(const struct cost_setting *setting, enum pass pass, const struct cost_work *work);

#endif
