/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file holds the bytes and seconds of context parallelism. It is used in cost/ only. */
#ifndef SLIMSIM_COST_CONTEXT_H
#define SLIMSIM_COST_CONTEXT_H

#include "cost/cost.h"

/**
 * Add to `cost` what one of c context ranks sends in a pass of `setting->layers` layers. For a slice [a, b), widths
 * over TP:
 *
 * 1. ring: keys and values of the whole prefix go round, except the rank's own. They have (c - 1)/c b x 4k/TP bytes in
 *    c - 1 steps. Backward it is twice that, with their gradients.
 * 2. ring-contiguous: the same forward. Backward the gradients go round in fp32 in c steps, b x 8k/TP bytes. The last
 *    step brings them home.
 * 3. all-gather: b x 4k/TP bytes are gathered before attention. Backward they are gathered again, and their gradients
 *    are reduce-scattered.
 * 4. ulysses: queries, keys, values and attention's output go by all-to-alls. They have (b - a)/c x (2q + 2k) x 2/TP
 *    bytes, and (c - 1)/c of them leave the rank. Backward is the same. If c TP exceeds the number of key and value
 *    heads, k counts once for each copy of a head.
 * 5. Padding is sent like a sample of its own. A slice of a padded micro-batch counts its own padding only.
 * 6. The time of a ring is that of its transfers (dag/dag.h).
 * 7. All-gather and ulysses are exposed, in context_s. An all-gather is one collective a layer for all slices
 *    (cost_rails_s), with cost_ranks_each ranks on a node.
 * 8. There are four all-to-alls a layer. If e of the c ranks share a node, (c - e)/(c - 1) of a rank's bytes go by its
 *    NIC. They pay its latency once. The rest go by NVLink at the same time.
 * 9. context_wire_bytes are the bytes of all layers by NIC. dag/ makes transfers of them.
 *
 * docs/model.md, Context-parallel traffic, has the sources.
 */
void context_of_layers(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                       struct cost_pass *cost);

/** Return the number of attention kernels of a layer: one for every block of a ring, otherwise one. */
int32_t context_kernels(const struct cost_setting *setting, int32_t context);

#endif
