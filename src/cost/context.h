/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file has the bytes and seconds of context parallelism. */
#ifndef SLIMSIM_COST_CONTEXT_H
#define SLIMSIM_COST_CONTEXT_H

#include "cost/micro_batch.h"
#include "cost/pass_cost.h"
#include "cost/setting.h"

/**
 * Add to `cost` what one of c context ranks sends in a pass of n layers of a kind. For a slice [a, b), widths over TP:
 * q of queries, o of attention's output, k of keys and of values. With latent attention k is the mean of these two.
 *
 * 1. ring: keys and values of the whole prefix go round, except the rank's own. They have (c - 1)/c b x 4k/TP bytes in
 *    c - 1 steps. Backward it is twice that, with their gradients.
 * 2. ring-contiguous: the same forward. Backward the gradients go round in fp32 in c steps, b x 8k/TP bytes. The last
 *    step brings them home.
 * 3. all-gather: b x 4k/TP bytes are gathered before attention. Backward they are gathered again, and their gradients
 *    are reduce-scattered.
 * 4. ulysses: queries, keys, values and attention's output go by all-to-alls. They have (b - a)/c x (q + 2k + o) x
 *    2/TP bytes, and (c - 1)/c of them leave the rank. Backward is the same. If c TP exceeds the number of key and
 *    value heads, k counts once for each copy of a head.
 * 5. Padding is sent like a sample of its own. A slice of a padded micro-batch counts its own padding only.
 * 6. A window changes none of it. A gather brings all keys, and a ring has no windows: Transformer Engine refuses them
 *    unless cp_comm_type is a2a or all_gather (attn_forward_func_with_cp in context_parallel.py of
 *    NVIDIA/TransformerEngine@015d22571b33).
 * 7. The time of a ring is that of its transfers (dag/dag.h).
 * 8. All-gather and ulysses are exposed, in context_s. An all-gather is one collective a layer for all slices
 *    (cost_rails_s), with cost_ranks_each ranks on an NVLink domain.
 * 9. There are four all-to-alls a layer. If e of the c ranks share a node, (c - e)/(c - 1) of a rank's bytes go by its
 *    NIC. They pay its latency once. The rest go by NVLink at the same time.
 * 10. context_wire_bytes are the bytes of all layers by NIC. dag/ makes transfers of them.
 *
 * 11. With balanced_context a rank sends nothing (simulate/context_bound.h), nor with SLICE_PLACED (cost/blocks.h).
 *
 * docs/model/costs.md, Context-parallel traffic, has the sources.
 */
void context_of_layers(const struct cost_setting *setting, const struct cost_run *run, enum pass pass,
                       const struct cost_micro_batch *micro_batch, struct cost_pass *cost);

/** Return the bytes of keys and values of one token and layer on one TP rank: 4k / TP. Their gradients are as large
 * [bytes]. */
double cost_kv_bytes(const struct cost_setting *setting, int32_t kind);

/** Return the number of copies of each head of keys and values with `ulysses`, on all TP and context ranks that attend.
 * It is 1 if there are no more ranks than heads. */
double context_kv_copies(const struct cost_setting *setting, int32_t kind, int32_t context);

/** Return the number of attention kernels of a layer: one for every block of a ring, otherwise one. */
int32_t context_kernels(const struct cost_setting *setting, int32_t context);

#endif
