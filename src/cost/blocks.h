/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file has the seconds and bytes of attention that one rank computes for another one (plan_block). */
#ifndef SLIMSIM_COST_BLOCKS_H
#define SLIMSIM_COST_BLOCKS_H

#include "cost/micro_batch.h"
#include "cost/setting.h"

/** Bytes of a block. out_bytes and back_bytes are of all layers. taker_bytes and giver_bytes are what the rank that
 * computes it and the other one hold for it, of one layer. All are of one TP rank [bytes]. */
struct cost_block {
    double out_bytes, back_bytes;
    int32_t n_messages; /* messages in each direction: one a layer, two for layers that compute attention again */
    double taker_bytes, giver_bytes;
};

/**
 * Compute the bytes of a block with T queries, those of the micro-batch's slices, and S keys.
 *
 * A layer sends these over TP, for widths q of queries, o of outputs, k of keys and of values and n heads (bf16,
 * log-sum-exp in fp32):
 *
 *   forward   out 2q T + 4k S (queries; keys and values)     back 2o T + 4n T (output; log-sum-exp)
 *   backward  out (2q + 2o) T + 8n T + 4k S (queries, gradient of the output, log-sum-exp, its correction; keys and
 *             values), back 2q T + 4k S (gradients of queries, keys and values)
 *
 * 1. With share > 0, S is this share of the keys that the slices see. Without a window they are the sum of their ends.
 * 2. With share 0, S is `keys`. It does not depend on windows.
 * 3. A backward that computes attention again sends the forward's bytes again in these layers.
 * 4. Layers take turns, so one layer's messages are held at a time. docs/model/memory.md, Activations and working
 * memory, says what each rank holds.
 *
 * Source: SlimPipe (arXiv:2504.14519); DistCA (arXiv:2510.18121), which counts no log-sum-exp.
 */
struct cost_block cost_of_block(const struct cost_setting *setting, enum pass pass,
                                const struct cost_micro_batch *micro_batch, double share, double keys);

/** Return the seconds of a pass's attention in all layers, in one packed kernel a layer, with what it computes again
 * [s]. It equals attention_s of cost_of_pass. */
double cost_blocks_s(const struct cost_setting *setting, enum pass pass, const struct cost_micro_batch *micro_batch);

#endif
