/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What context parallelism sends. Inside cost/. */
#ifndef SLIMSIM_COST_CONTEXT_H
#define SLIMSIM_COST_CONTEXT_H

#include "cost/cost.h"

/**
 * Add to `cost` what one of c context ranks sends in a pass of `setting->layers` layers. Slice [a, b), k the width of
 * keys, q of queries, both of a layer, over TP:
 *
 *   ring         Megatron-LM's p2p with zig-zag halves: the keys and values of the whole prefix [0, b) but its own part
 *                go round, (c - 1)/c b x 4k/TP bytes in c - 1 steps; backward twice that, with their gradients
 *   ring-        zhuzilin/ring-flash-attention@0fc25b46 (ring_flash_attn.py), as which plain ring attention is run:
 *   contiguous   forward as ring; backward keys and values as forward, and their gradients in fp32 in c steps, the last
 *                of which brings them home, b x 8k/TP bytes
 *   all-gather   Llama 3 (arXiv:2407.21783, section 3.3.2): the same tensor of b x 4k/TP bytes is gathered before
 *                attention; backward gathered again, and its gradients reduce-scattered
 *   ulysses      Jacobs et al. 2023 (arXiv:2309.14509): all-to-alls of queries, keys, values and attention's output, of
 *                (b - a)/c tokens on a rank, (2q + 2k) x 2/TP bytes each, of which (c - 1)/c leave it; backward the
 *                same. With more ranks (c TP) than key and value heads each of these goes to all ranks whose queries
 *                need it: k counts by as many copies. The prefix stays where its heads are: later slices send their
 *                own tokens only
 *
 * Padding is sent as a sample of its own would be, for its keys and values lie among the others; a slice of a padded
 * micro-batch counts its own padding alone.
 *
 * A sample cut in n equal slices so sends (n + 1)/2 times what it would whole with rings and all-gather, and as much
 * with ulysses.
 *
 * A ring's time is that of its transfers (dag/dag.h). All-gather and ulysses are exposed, context_s: collectives of
 * one tensor a layer for all slices (cost_rails_s), of cost_ranks_each ranks on a node. An all-to-all, four a layer: of
 * what a rank sends, (c - e)/(c - 1) by its NIC where e of the c ranks share its node, with its latency once, the rest
 * by NVLink at the same time. context_wire_bytes is what goes by NIC, all layers: dag/ makes transfers of it.
 */
void context_of_layers(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                       struct cost_pass *cost);

/** Attention kernels of a layer: one for every block of a ring, else one. */
int32_t context_kernels(const struct cost_setting *setting, int32_t context);

#endif
