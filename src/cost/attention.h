/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Attention of one layer as a list of kernels. */
#ifndef SLIMSIM_COST_ATTENTION_H
#define SLIMSIM_COST_ATTENTION_H

#include "cost/kernels.h"

/**
 * Append a layer's core attention of a unit, all of family COST_ATTENTION.
 *
 * Fused kernels (flash2, flash3, cuDNN, flash1): one packed kernel of all slices, cost_of_pass says how.
 *
 * A ring, as Transformer Engine runs it (AttnFuncWithCPAndKVP2P in context_parallel.py of
 * NVIDIA/TransformerEngine@015d22571b33; causal). Rank r has r blocks in which all its queries see half of the keys,
 * and c - 1 - r in which half of them see all. The first and the last rank so have one shape alone, whatever the step;
 * they wait for no other rank's kernels, and all wait for them in the next layer at the latest. So the seconds are
 * those of the slower of these two, what it moves included.
 *
 * Forward the blocks run on two streams in turn, the own one first. Tiles of one stream fill what those of the other
 * leave idle, so the seconds are the own block's kernel and the others' work without their ends; but no less than the
 * kernels of either stream one after the other. Backward there is one stream: the sum of all kernels.
 *
 * Memory-bound beside them, the statistics of the softmax left out; q, k widths of a layer's queries and keys, bytes a
 * token of the rank (padding too) over TP, of each of the c - 1 others and once, at the rate of copies; in brackets how
 * many kernels. Packed: slices that are not alike, in one tensor, whose halves are copied.
 *                               all queries, half the keys          half the queries, all keys         once
 *   forward                     6q [1]                              3q [1]                             4q + 8k [2]
 *   forward, packed             6q + 4k [3]                         5q [2]                             8q + 8k [3]
 *   backward                    6q + 6k [3]                         3q + 12k [3]                       4q + 18k [4]
 *                                                                                            (half: 4q + 14k [7])
 *   backward, packed            6q + 10k [5]                        9q + 12k [6]             the same (half: [4])
 * Forward: partial outputs added (2 read twice, 2 written), once the first one scaled (packed: added to zeros) and keys
 * and values copied for sending; backward: gradients added, the first ones copied, keys and values copied. Unfused
 * attention, which that ring has not, moves none of it.
 *
 * A contiguous ring, as plain ring attention is run (ring_flash_attn_func of zhuzilin/ring-flash-attention@0fc25b46):
 * rank i of c has the tokens [i n/c, (i + 1) n/c) of a slice [a, b) of n = b - a tokens, and every slice before it was
 * divided alike, so that each rank holds b/c keys of the prefix. In step s rank i attends to the keys of rank i - s.
 *   1. Step 0, all ranks: n/c queries see a/c keys and, causally, their own n/c. That is the slice [a/c, b/c) of a
 *      sample on one rank: n/c x ((a + b)/c + 1)/2 pairs of a query and a key.
 *   2. Step s > 0, rank i >= s: all n/c queries see all b/c keys, no key ends inside: n b/c^2 pairs. Rank i < s holds
 *      no query behind those keys: it skips the step (with a > 0 it still has a/c keys to see, which is less).
 *   3. The last rank, c - 1, skips none. A whole block is the largest of its step, so if all ranks wait for each other
 *      in every step, each step takes as long as the last rank's block; if they only wait in the next layer, they wait
 *      for the last rank, too. The seconds are those of its blocks: the own one and c - 1 whole ones.
 *   4. Its pairs are n/c x (2b - n/c + 1)/2. Of a whole sample of L tokens that is ((2c - 1) L + c)/c^2 x L/2 of the
 *      L (L + 1)/2 pairs: (2c - 1)/c^2 of the FLOPs, nearly twice the even share 1/c. FLOPs are the mean rank's.
 * The blocks run on one stream, one after the other: the sum of all kernels. Memory-bound beside them, packed or not,
 * bytes a token as above, sums in fp32: forward 10q [1] of each other block and 12q [2] once; backward 10q + 20k [3]
 * and 12q + 24k [6].
 *
 * flash1: as PyTorch frameworks of early 2023 called it, on samples without padding: queries, keys and values are
 * gathered (read 2, written 2 bytes an element) and the output scattered into zeros (2 + 4); backward the other way
 * round. 4(q + 2k) + 6q bytes a token forward, 4q + 6(q + 2k) backward, over TP. Source: flash-attention's
 * bert_padding, called for every layer by llm-foundry.
 *
 * unfused: as Megatron-LM ran GPT before flash attention; dropout where the model has it. E = heads/TP x queries x keys
 * scores: all of them, the causal half is masked but computed. Batched GEMMs, heads/TP of them for each slice in one
 * kernel (slices of different lengths: of their mean keys), and passes over the scores, bytes a score (bf16, mask of
 * dropout 1):
 *   forward   scores Q K^T, written 2 in the GEMM; scale, mask and softmax: read 2, write 2; dropout: read 2, write 2
 *             and the mask 1; output P V, which reads 2
 *   backward  gradient of P: dO V^T, written 2; of V: P^T dO, read 2; dropout: read 2 and the mask 1, write 2; softmax:
 *             read 2 and its output 2, write 2; gradients of Q and of K, each reads 2
 * Softmax reads at the rate of norms, dropout at that of activations. These are the tensors of arXiv:2205.05198,
 * section 4.1: softmax's output 2as^2b, mask as^2b, dropout's output 2as^2b. A GEMM takes no less than moving its
 * matrices. With CP every block of the ring is one such list.
 */
void attention_add_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                           struct cost_kernels *kernels);

#endif
