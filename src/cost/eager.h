/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What modules of single PyTorch operations move beside the bytes of fused kernels (`kernels: eager`). */
#ifndef SLIMSIM_COST_EAGER_H
#define SLIMSIM_COST_EAGER_H

#include "cost/kernels.h"

/**
 * Append a layer's extra passes. Every operation reads its inputs and writes its output once; bytes a token, bf16
 * unless fp32 is said, over TP (norms without sequence parallelism and sums of projections whole); what cost_of_pass
 * counts for the fused kernel is taken off.
 *
 * SwiGLU models run Llama's modules:
 *   RMSNorm in fp32, two of them a layer, one before the head
 *       forward 36h (to fp32 6, square 8, mean 4, times its root 8, to bf16 6, times weight 4), fused 4h
 *       backward 68h (weight 4 + 8, to fp32 6, product 8 + 16, mean and square 8 + 12, to bf16 6), fused 6h
 *   rotation by halves
 *       20 of each byte pair of queries and keys in both passes (times cosine 4, negated half 2, halves joined 4, times
 *       sine 4, sum 6), fused 4
 *   SwiGLU
 *       forward 10f (silu 4, product 6), fused 6f; backward 18f (product 12, silu 6), fused 10f
 *   projections
 *       backward 18h: QKV, gate and up are modules of their own, whose inputs' gradients autograd adds up, 6h each
 *       time, on every rank those of all tokens, which TP reduces once they are added
 * GELU models run a joint QKV, whose three gradients are joined in the backward, 4(q + 2k) (torch.chunk's), and
 * LayerNorm and GELU, one kernel each in PyTorch too, but for LayerNorm's backward: the gradients of its
 * weight and bias are a kernel of their own, which reads the gradient and the input again, 4h, two norms a layer (that
 * before the head is left out).
 * Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (LayerNormBackwardKernelImplInternal).
 */
void eager_add_layer(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass, double tokens);

/** Whether a model runs Llama's modules of single operations. */
bool eager_is_llama(const struct cost_setting *setting);

/** Whether SwiGLU is two operations, silu and the product: in Llama's modules, and with `swiglu: separate`. */
bool eager_splits_swiglu(const struct cost_setting *setting);

/** Parts of it for SwiGLU models, which a recomputation's list repeats; nothing for others and with fused kernels. */
void eager_add_norms(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass, int32_t n_norms,
                     double tokens);
void eager_add_rotations(struct cost_kernels *kernels, const struct cost_setting *setting, double tokens);
void eager_add_activation(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                          double tokens);

#endif
