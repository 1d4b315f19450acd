/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Whole weights and gradients that zero2 and zero3 hold beside the shards, and the moments of a pass they make. The
 * time of these gathers, and how far ahead they are issued, is in cost/shards.h. */
#ifndef SLIMSIM_COST_GATHERED_H
#define SLIMSIM_COST_GATHERED_H

#include "cost/cost.h"

/** bf16 weights of embedding, last norm and head: zero3 has them from the first forward to the last backward, as
 * FSDP's root unit. zero2 (whose weights are states), zero1, none: 0 [bytes]. */
double cost_gathered_bytes(const struct cost_setting *setting);

/** Moments of a backward pass, in their order; any may be its largest. */
enum cost_moment {
    COST_AT_LOSS,  /* the logits' gradient is made */
    COST_AT_HEAD,  /* that is there in bf16, and the head's gradient with it */
    COST_IN_LAYER, /* first layer: its widest gradients, and the down GEMM's of the weights */
    COST_IN_NORM,  /* its first norm's backward: its gradients are there, its activations gone but for this norm's */
    COST_BEHIND_LAYER, /* its end: its gradients are joined */
    COST_IN_NEXT,      /* the same of the layers behind it */
    COST_IN_NEXT_NORM,
    COST_BEHIND_NEXT,
    COST_AT_ENDS, /* the root's gradients are joined, all activations gone */
    COST_N_MOMENTS
};

/** What a unit's backward works on, on one rank [bytes], as bounds/memory.h counts it. */
struct cost_work {
    double tokens;               /* [tokens] */
    double workspace;            /* of a layer: cost_workspace_bytes */
    double layer, layers;        /* activations held of one layer, and of all */
    double head, head_workspace; /* cost_head_bytes, cost_head_workspace_bytes */
};

/**
 * Bytes beside the states, cost_gathered_bytes and the activations that stand when the backward starts, at each moment,
 * of zero2 and zero3; less what of these activations is gone by then, so some may be negative. What counts is what is
 * allocated in the order in which the host issues it: PyTorch's allocator counts a tensor as freed when its last
 * reference goes, whatever streams still do. With P, P_t parameters of a layer and of the root, D of the down GEMM, T
 * tokens, V, h, g (bytes of a gradient as it is reduced), w bytes of a gathered weight (zero3 2, zero2 0):
 *
 *                FSDP1, backward-post  backward-pre          FSDP2                   and
 *   at loss      -                     wP                    wP                      the head's workspace
 *   at head      -                     wP                    wP                      2Vh + 2(V + h)T - logits kept
 *   in a layer   wP + 2D               2wP + 2D              2wP + 2D (next: + gP)   2Vh + its workspace - 2fT
 *   in its norm  (w + 2)P              (2w + 2)P             (2w + 2)P (next: + gP)  2Vh + cost_norm_backward_bytes
 *   behind it    (w + 2 + 2)P          (2w + 2 + 2)P         -                       2Vh + 2hT
 *     or, then   (w + 2 + g)P, fp32    (w + 2 + g)P, fp32    (w + 2 + g)P            2Vh + 2hT
 *   at the ends  (2 + 2)P_t            (2 + 2)P_t            2P_t + gP               2hT
 *     or, then   (2 + g - w)P_t, fp32  (2 + g - w)P_t, fp32  (2 + g - w)P_t          2hT
 *
 * FSDP1: a layer's weights are one flat tensor of views; the views' gradients, 2P, are joined to the flat tensor's, 2P,
 * while all are there. Then the weights go, with backward-post those of the layer behind it come (with backward-pre
 * they are there since its start), and a gradient that is reduced in fp32 is copied, g = 4, before the reduce-scatter.
 * The root's views have their gradients joined last, so the head's, 2Vh, waits for the embedding's.
 * FSDP2: the weights of the layer in work, copied out of the gathered buffer, which goes, and the buffer of the layer
 * behind it; gradients stay tensors of their own, 2P, until the weights have gone and they are copied into what is
 * reduce-scattered, gP, which stays until the layer behind it is reduced. The last layer's weights are there at the
 * loss: torchtitan does not free them, others prefetch them.
 * In a layer the input of the down GEMM, 2fT of its workspace, has gone when the widest gradients are there.
 * With sequence parallelism the 2hT behind a layer are 2hT/TP; at the head there are 2hT more, its input gathered for
 * its weights' gradient (cost_head_workspace_bytes), as its input's gradient is whole until it is reduce-scattered; the
 * embedding's backward has the gathered 2hT at the ends.
 * Own ends (fsdp_ends; no cost_gathered_bytes): the head's weights, w Vh, are there at the loss and at the head; in the
 * first layer its gradient is being reduced, gVh in place of 2Vh, then gone; at the ends (w + 2) and (2 + g) of the
 * embedding alone.
 * With one layer there is none behind it.
 *
 * Source: PyTorch 2, torch/distributed/fsdp/_runtime_utils.py (_pre_backward_hook, _post_backward_hook,
 * _post_backward_reshard, _reduce_grad, _prefetch_handle), _flat_param.py (views by torch.split, whose backward joins
 * their gradients); _fully_shard/_fsdp_param_group.py (pre_backward, post_backward, wait_for_unshard) and
 * _fsdp_collectives.py (foreach_reduce); c10/cuda/CUDACachingAllocator.cpp (free). The loss, in a layer and behind it
 * (with FSDP2 of few tokens in the norm) are the peaks in traces of the allocator (analysis/measure_sharding.py); the
 * head and the ends are in none.
 */
void cost_moments_of(const struct cost_setting *setting, const struct cost_work *work, double bytes[COST_N_MOMENTS]);

/** Moments of a forward pass. */
enum cost_forward_moment { COST_FORWARD_HEAD, COST_FORWARD_LOSS, COST_FORWARD_LAYER, COST_N_FORWARD_MOMENTS };

/**
 * The same of a forward pass and the activations that it leaves, with P and Vh parameters of a layer and of the head:
 *
 *                  FSDP1   FSDP2   own ends    and
 *   at the head    -       2wP     wP + 2wVh   the bf16 logits; what the loss keeps is not there yet
 *   at the loss    -       wP      wP + wVh    the head's workspace without the logits' gradient
 *   in a layer     wP      2wP     2wP         no more than its backward works on
 *
 * FSDP1 frees a layer's weights behind its forward, those of the last one too. FSDP2 has a layer's weights and the
 * buffer they were gathered in, the last one's (with own ends the head's) until the model's forward is over: the loss
 * comes then [bytes]. Source: PyTorch 2, torch/distributed/fsdp/_runtime_utils.py (_post_forward_reshard) and
 * _fully_shard/_fsdp_state.py (_post_forward, which sets all_gather_state to none).
 */
void cost_forward_moments_of(const struct cost_setting *setting, const struct cost_work *work,
                             double bytes[COST_N_FORWARD_MOMENTS]);

/** The largest of either pass [bytes]. */
double cost_moments_most(const struct cost_setting *setting, enum pass pass, const struct cost_work *work);

#endif
