/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What modules of single PyTorch operations move beside the bytes of fused kernels (`kernels: eager`). */
#ifndef SLIMSIM_COST_EAGER_H
#define SLIMSIM_COST_EAGER_H

#include "cost/kernels.h"

/**
 * Append a layer's extra passes. Every operation reads its inputs and writes its output once; bytes a token, bf16
 * unless fp32 is said, h, heads, k, f over TP; what cost_of_pass counts for the fused kernel is taken off.
 *
 * SwiGLU models run Llama's modules:
 *   RMSNorm in fp32     forward 36h (to fp32 6, square 8, mean 4, times its root 8, to bf16 6, times weight 4), fused
 * 4h backward 68h (weight 4 + 8, to fp32 6, product 8 + 16, mean and square 8 + 12, to bf16 6), fused 6h; two of them a
 * layer rotation by halves  20 of each byte pair of queries and keys in both passes (times cosine 4, negated half 2,
 *                       halves joined 4, times sine 4, sum 6), fused 4
 *   SwiGLU              forward 10f (silu 4, product 6), fused 6f; backward 18f (product 12, silu 6), fused 10f
 * GELU models run LayerNorm and GELU, one kernel each in PyTorch too: nothing.
 */
void eager_add_layer(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass, double tokens);

/**
 * Append what FSDP does to the whole gradients of `parameters` parameters before it reduces them (zero2, zero3), bytes
 * a parameter: the backward of the views into the flat parameter joins them, 4; to the precision of the reduction, 6
 * (fp32 gradients); divided by the ranks before the sum, 8 (bf16: 4). It runs on a stream of its own, but takes the
 * memory's bandwidth from the kernels beside it. zero1: nothing.
 * Source: Zhao et al. 2023 (arXiv:2304.11277), section 4.1 and 4.4; PyTorch's FullyShardedDataParallel.
 */
void eager_add_gradients(struct cost_kernels *kernels, const struct cost_setting *setting, double parameters);

/**
 * Optimizer step of a parameter by single operations on fp32 tensors [bytes]: weight decay 8; first moment 8 + 12;
 * second 8 + 16; root, correction and epsilon 24; update 16; and the clipping of the gradient, norm 4 and product 8;
 * bf16 weight
 * 6. Source: PyTorch's AdamW without foreach or fused, which move the same or less.
 */
enum { EAGER_OPTIMIZER_BYTES = 110 };

#endif
