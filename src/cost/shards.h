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
 * Where m groups hold the same shards (HSDP), r also has their all-reduce of a rank's shard of the gradients, of which
 * each of m ranks sends 2 (m - 1)/m, in every backward pass. Each takes from the kernels beside it what its own place
 * says (enum overlap_place): g and the reduce-scatter that of a group, the all-reduce that of all.
 *
 * Memory-bound kernels that count as computation (c too), with one launch for all of a layer and pass, bytes a
 * parameter, g of the reduction's precision; FSDP1 (`fsdp` 1):
 *   whole gradient  joined to the flat parameter's 2 + 2, converted (fp32: read 2, written 4), divided by a factor of
 *                   the ranks 2g, before each reduction
 *   rank's shard    zero3: fp32 weights converted to bf16 before each gather, 4 + 2; backward: divided by the other
 *                   factor 2g and added to what earlier units left 3g (counted in the first unit too)
 * FSDP2 has no flat parameter, and NCCL divides:
 *   whole tensor    zero3: copied out of the gathered buffer 2 + 2, after each gather; backward: gradients joined and
 *                   converted at once, 2 + g, before each reduction. Forward and backward 14, bf16 12 (FSDP1 18, 8)
 *   rank's shard    zero3: fp32 weights converted to bf16, 4 + 2, and copied into the buffer, 2 + 2, before each
 *                   gather; backward: converted to fp32 (bf16: 2 + 4) and added to what earlier units left, 3 x 4
 * Its order is the same: a gather is issued when the layer before has its parameters, forward by the host running
 * ahead, backward by name; a reduction waits for the one before. torchtitan's last layer keeps its parameters from
 * forward to backward (left out: one gather of all layers'), and its versions of 2025 take the embedding, and the last
 * norm with the head, as units of their own (left out: they are the root's here).
 * Source of FSDP2: PyTorch, torch/distributed/fsdp/_fully_shard: _fsdp_collectives.py (_get_param_all_gather_inputs,
 * all_gather_copy_in_cuda, foreach_all_gather_copy_out, foreach_reduce), _fsdp_param_group.py (wait_for_unshard,
 * _backward_prefetch, post_backward); torchtitan, torchtitan/parallelisms/parallelize_llama.py (apply_fsdp).
 *
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
