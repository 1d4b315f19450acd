/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Gathers of parameters and reductions of gradients inside passes: zero2 and zero3. Inside cost/. */
#ifndef SLIMSIM_COST_SHARDS_H
#define SLIMSIM_COST_SHARDS_H

#include "cost/cost.h"

/**
 * Add what the layers of a pass gather and reduce, once the pass's kernels are in `cost`. With c the seconds of one of
 * L layers in this pass, alone, and overlap_beside_s for what runs beside (cost/overlap.h): zero3 forward    a layer's
 * bf16 parameters are gathered (g s) while the layer before computes, the first one before all: g + (L - 1) (beside(c,
 * g) - c) zero3 backward   gathered again, and a layer's gradients reduce-scattered (r s) while the next one computes;
 * both share links and channels: g + (L - 1) (beside(c, g + r) - c) + r zero2 backward   (L - 1) (beside(c, r) - c) + r
 * Before each reduction the whole gradient of the layer is converted to the reduction's precision (fp32: read 2,
 * written 4 bytes) and divided by a factor of the ranks (read and written), memory-bound kernels that count as
 * computation. Source: Zhao et al. 2023 (arXiv:2304.11277, section 3.3: one layer of prefetch); PyTorch 2,
 * torch/distributed/fsdp/_runtime_utils.py, _post_backward_hook, and its default communication hook.
 */
void shards_of_layers(const struct cost_setting *setting, enum pass pass, struct cost_pass *cost);

/** Embedding and head are units of their own: cost_of_head. */
void shards_of_tables(const struct cost_setting *setting, enum pass pass, struct cost_pass *cost);

#endif
