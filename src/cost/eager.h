/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file holds the bytes that modules of single PyTorch operations move in addition to fused kernels (`kernels:
 * eager`). */
#ifndef SLIMSIM_COST_EAGER_H
#define SLIMSIM_COST_EAGER_H

#include "cost/kernels.h"

/**
 * Append a layer's extra passes. Every operation reads its inputs and writes its output once. The bytes that
 * cost_of_pass counts for the fused kernel are subtracted.
 *
 * 1. SwiGLU models run Llama's modules. They have norms, rotations and SwiGLU of single operations. Their projections
 *    are modules of their own, whose inputs' gradients are added up.
 * 2. GELU models run a joint QKV, whose three gradients are joined in the backward. LayerNorm's gradients of weight and
 *    bias are a kernel of their own.
 * 3. Bytes are over TP. Norms without sequence parallelism and sums of projections are whole.
 *
 * docs/model.md, Eager operations, lists the bytes of each operation.
 */
void eager_add_layer(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass, double tokens);

/** Return whether a model runs Llama's modules of single operations. */
bool eager_is_llama(const struct cost_setting *setting);

/** Return whether SwiGLU is two operations, silu and the product. It is so in Llama's modules, and with `swiglu:
 * separate`. */
bool eager_splits_swiglu(const struct cost_setting *setting);

/** Append one of the extra passes of SwiGLU models, which a recomputation's list repeats. Other models and fused
 * kernels have none. */
void eager_add_norms(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass, int32_t n_norms,
                     double tokens);
void eager_add_rotations(struct cost_kernels *kernels, const struct cost_setting *setting, double tokens);
void eager_add_activation(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                          double tokens);

#endif
