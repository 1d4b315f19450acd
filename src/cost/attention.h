/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file lists the attention of one layer as kernels. */
#ifndef SLIMSIM_COST_ATTENTION_H
#define SLIMSIM_COST_ATTENTION_H

#include "cost/flop.h"
#include "cost/kernel.h"
#include "cost/micro_batch.h"
#include "cost/setting.h"

/**
 * Return the keys that a fused kernel computes for the queries [begin, end) of a sample, times two. Without a window
 * they are flop_twice_keys.
 *
 * 1. A tile of queries begins at the first key of its first query (n_block_min in flash_fwd_kernel.h of
 *    Dao-AILab/flash-attention). So a query with a full window masks half a tile of keys on average.
 * 2. The causal edge masks as many. The device's curves were measured with that edge, so they include it.
 */
static inline double attention_twice_keys(int64_t window, int64_t begin, int64_t end)
{
    int64_t full = begin > window ? begin : window;
    double masked = window > 0 && end > full ? (double)(end - full) * COST_ATTENTION_TILE : 0;
    return (double)flop_twice_keys(window, begin, end) + masked;
}

/**
 * Append the core attention of a micro-batch in a layer of a kind. All kernels are of family COST_ATTENTION.
 *
 * 1. Fused kernels (flash2, flash3, cuDNN, flash1) run all slices in one packed kernel (cost_of_pass).
 * 2. A zig-zag ring runs as in Transformer Engine. The seconds are those of the slower of the first and the last rank,
 *    including what it moves. Forward, its blocks run on two streams in turn, the own block first. They take its kernel
 *    and the others' work without their ends. They take at least the kernels of either stream. Backward they run one
 *    after the other.
 * 3. A contiguous ring takes as long as its last rank, c - 1, which skips no block. Its own block and c - 1 whole ones
 *    run one after the other. It has (2c - 1)/c^2 of a whole sample's FLOPs. FLOPs are the mean rank's.
 * 4. A ring adds copies and sums for each other block and once, at the rate of copies (ring_moves in attention.c).
 * 5. flash1 adds gathers and a scatter of samples without padding. They move 4(q + 2k) + 6q bytes a token forward and
 *    4q + 6(q + 2k) backward, over TP.
 * 6. Under a window, fused kernels compute attention_twice_keys. Rings have no windows, so there a kind has none.
 * 7. unfused has batched GEMMs for each slice, softmax, and dropout if the model has it. They cover all scores: the
 *    causal half and keys before a window are masked but computed. With CP every block of the ring is one such list. It
 * moves nothing beside the blocks.
 * 8. SLICE_PLACED takes 1/c of the time on one rank alone.
 * 9. With balanced_context each of c ranks takes 1/c of the time on one rank alone, but never longer than otherwise.
 *
 * docs/model/costs.md, Attention kernels, has derivations, bytes and sources.
 */
void attention_add_kernels(const struct cost_setting *setting, int32_t kind, enum pass pass,
                           const struct cost_micro_batch *micro_batch, struct cost_kernels *kernels);

/**
 * Return the least seconds of core attention in a layer and pass, for any micro-batch that holds a whole sample [s].
 * The seconds are those of one of the `context` ranks that share it, at the speed that training reaches.
 *
 * 1. It is the sample's work in one kernel.
 * 2. With a ring it is the work of its own block and of all others, of the shape that takes longer.
 * 3. The end of a kernel is left out, because tiles of other sequences may fill it.
 * 4. Copies and sums of a ring and of flash1 are left out.
 * 5. Unfused attention counts all its kernels, with this sample only.
 */
double cost_attention_least_s(const struct cost_setting *setting, int32_t kind, enum pass pass, int32_t tokens,
                              int32_t context);

#endif
