/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Gathers of parameters and reductions of gradients inside passes: zero2 and zero3. Inside cost/. */
#ifndef SLIMSIM_COST_SHARDS_H
#define SLIMSIM_COST_SHARDS_H

#include "cost/cost.h"

/**
 * Add what the layers of a pass gather and reduce, once the pass's kernels are in `cost`. With c the seconds of one of
 * L layers in this pass, alone, and beside of overlap_beside_s (cost/overlap.h), each layer a unit of its own:
 *
 *   zero3 forward    a layer's bf16 parameters are gathered (g s) while the layer before computes, the first one before
 *                    all:  g + (L - 1) (beside(c, g) - c)
 *   zero3 backward   gathered again, the first one beside the head's backward (shards_of_tables), and a layer's
 *                    gradients reduce-scattered (r s) while the next one computes; both share one stream of NCCL:
 *                    (L - 1) (beside(c, g + r) - c) + r
 *   zero2 backward   (L - 1) (beside(c, r) - c) + r, with dp_overlap none (DeepSpeed's default) L r
 *
 * Where m groups hold the same shards (HSDP), r also has their all-reduce of a rank's shard of the gradients, 2 (m
 * - 1)/m of it sent by each of m ranks, in every backward pass.
 *
 * Memory-bound kernels that count as computation, bytes a parameter, g of the reduction's precision:
 *   whole gradient  joined to the flat parameter's 2 + 2, converted (fp32: read 2, written 4), divided by a factor of
 *                   the ranks 2g, before each reduction
 *   rank's shard    zero3: fp32 weights converted to bf16 before each gather, 4 + 2; backward: divided by the other
 *                   factor 2g and added to what earlier units left 3g (counted in the first unit too)
 * Source: Zhao et al. 2023 (arXiv:2304.11277, section 3.3: one layer of prefetch); PyTorch 2, torch/distributed/fsdp:
 * _runtime_utils.py (_unshard, whose rate limiter lets the host issue a gather once the layer before the one in work
 * has ended; _pre_backward_hook and _post_backward_hook, which with BACKWARD_PRE and with BACKWARD_POST issue gathers
 * and reductions in the same order, and with the rate limiter once the same layer has ended; _reduce_grad),
 * _flat_param.py (views by torch.split, whose backward joins their gradients; _use_low_precision_shard), and its
 * default communication hook; api.py (BackwardPrefetch: the collectives of a process group share NCCL's stream). As
 * MosaicML's Composer and fms-fsdp do, every pass reduces (no no_sync).
 */
void shards_of_layers(const struct cost_setting *setting, enum pass pass, struct cost_pass *cost);

/** Embedding, last norm and head are FSDP's root unit: cost_of_head. */
void shards_of_tables(const struct cost_setting *setting, enum pass pass, struct cost_pass *cost);

#endif
