/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file lists the attention of one layer as kernels. */
#ifndef SLIMSIM_COST_ATTENTION_H
#define SLIMSIM_COST_ATTENTION_H

#include "cost/kernels.h"

/**
 * Append a layer's core attention of a unit. All kernels are of family COST_ATTENTION.
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
 * 6. unfused has batched GEMMs for each slice, softmax, and dropout if the model has it. They cover all scores: the
 *    causal half is masked but computed. With CP every block of the ring is one such list. It moves nothing beside the
 *    blocks.
 *
 * docs/model.md, Attention kernels, has derivations, bytes and sources.
 */
void attention_add_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                           struct cost_kernels *kernels);

#endif
