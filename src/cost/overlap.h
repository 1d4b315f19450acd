/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What collectives cost that run beside kernels, and kernels beside them. Inside cost/. */
#ifndef SLIMSIM_COST_OVERLAP_H
#define SLIMSIM_COST_OVERLAP_H

#include "cost/cost.h"

/** Where a collective's ranks are: NCCL runs more channels inside a node. Transformer Engine's own collectives
 * (chunked) count as over nodes: they take 16 multiprocessors too (transformer_engine/pytorch/module/base.py, num_sm).
 */
enum overlap_place { OVERLAP_IN_NODE, OVERLAP_OVER_NODES };

/** Seconds of kernels alone, and of the GEMMs among them. */
struct overlap_kernels {
    double all_s, product_s;
};

/**
 * Seconds that kernels lose for each of a collective beside them. A collective holds c multiprocessors of S
 * (training.node_multiprocessors or collective_multiprocessors) as long as it runs: a channel is a block that shares
 * its multiprocessor with no kernel (NVIDIA/nccl issue 689). Beside it
 *
 *     kernels of many blocks take  S/(S - c)  as long
 *     persistent GEMMs             ceil(S/(S - c))
 *
 * (training.persistent_gemms): these launch S blocks, each of which computes its share of the tiles, so the c that find
 * no place run in a round of their own when the others are done. That is twice as long, as measured on H100 under FSDP
 * (pytorch/pytorch issue 143988; pull 144974 on why Hopper's GEMMs are persistent and earlier ones were not). With p
 * the GEMMs' share of the time alone, the kernels' pace is 1/(p ceil(S/(S - c)) + (1 - p) S/(S - c)), and the loss 1
 * less that; without persistent GEMMs c/S. S = 0: nothing is lost.
 *
 * Left out: that a collective starts only once the running GEMM has ended, and that the last GEMM beside it takes both
 * rounds even if the collective ends in the first; GEMMs of so few tiles that fewer blocks do; attention counts as many
 * blocks.
 */
double overlap_loss(const struct device *device, enum overlap_place place, struct overlap_kernels kernels);

/**
 * Kernels and a collective of `collective_s`, both alone, started together: until both have ended [s]. The collective
 * itself is not slowed down.
 *
 *     max(collective, kernels + collective x loss)
 */
double overlap_beside_s(const struct device *device, enum overlap_place place, struct overlap_kernels kernels,
                        double collective_s);

/**
 * All-gather of the T x h input of a GEMM of T x n x k (k of the gathered tensor's columns) and the GEMM [s]: a ring of
 * TP steps, in each of which one chunk of T/TP rows is computed while the copy engines send the next one:
 *
 *     (TP - 1) max(G, X) + G,   G: GEMM of T/TP x n x k,  X: T/TP x k x 2 bytes from GPU to GPU
 *
 * Source: Transformer Engine's "ring_exchange" (transformer_engine/pytorch/module/base.py: one multiprocessor, copy
 * engines). Its chunks run on several streams (common/comm_gemm_overlap/comm_gemm_overlap.cpp): that one's tiles fill
 * the last wave of another is left out, here and below. It would make E131 of split calib faster by 5%, which is 0.6%
 * too fast without; E175 and E179, which chunk by their framework's recipes, are 2% too slow.
 */
double overlap_gather_gemm_s(const struct cost_setting *setting, double tokens, double n, double k);

/**
 * A GEMM of T x n x k and the reduce-scatter of its T x n output [s]: of four chunks of rows each is reduced while the
 * next one is computed, on the multiprocessors that are left:
 *
 *     G + 3 max(G, R) + R,   G: GEMM of T/4 x n x k on S - c multiprocessors,  R: reduce-scatter of T/4 x n x 2 bytes
 *
 * Source: Transformer Engine's "pipeline" with its default of 4 splits (same file).
 */
double overlap_gemm_scatter_s(const struct cost_setting *setting, double tokens, double n, double k);

/** Columns of a layer's tensors: h whole, the others one TP rank's. */
struct overlap_widths {
    double hidden, qkv, heads, up, ffn;
};

/** Tensor-parallel collectives of one layer: seconds that they add to the kernels, bytes that a rank sends, and how
 * many of the seconds are extrapolated. */
struct overlap_tensor {
    double exposed_s, bytes, outside_s;
};

/**
 * The collectives of a layer of T tokens, each a T x h tensor in bf16: forward an all-gather before QKV and up, a
 * reduce-scatter after projection and down; backward the mirrors of these, an all-gather before the input gradients of
 * projection and down, a reduce-scatter after those of QKV and up, and again the all-gather of QKV's and up's inputs,
 * of which only a shard was kept.
 *
 *   none      all are exposed
 *   bulk      backward: QKV's and up's gather beside the GEMM of the input gradient, their reduce-scatter beside that
 *             of the weight gradient (overlap_beside_s); the other two, and all of the forward, are exposed
 *   chunked   bulk, beside which GEMMs lose collective_multiprocessors (overlap_place), and the others by
 *             overlap_gather_gemm_s and overlap_gemm_scatter_s
 *
 * A split backward (PASS_INPUT, PASS_WEIGHT) exposes the collectives of QKV and up: the gather stands before the
 * weight's gradient, which needs the input, the reduce-scatter (all-reduce) behind the input's; what would hide either
 * is in the other pass. Source: github.com/sail-sg/zero-bubble-pipeline-parallelism,
 * megatron/core/tensor_parallel/layers.py (pre_process of the stored gradient gathers; the other is not asynchronous).
 *
 * Without sequence parallelism an all-reduce forward after projection and down, backward of the input gradients of up
 * and QKV: exposed forward, and with bulk or chunked beside the GEMM of the weight gradient backward.
 *
 * Beside bulk's collectives GEMMs lose c/S, persistent or not: what persistent ones lose there is an open question
 * (docs/model.md, what is not modelled).
 *
 * bulk is Megatron-LM's default (core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication;
 * arXiv:2205.05198, section 4.2.2), chunked is --tp-comm-overlap. What chunks lose by their smaller GEMMs is in, so
 * chunked may be slower than bulk.
 */
struct overlap_tensor overlap_tensor_layer(const struct cost_setting *setting, enum pass pass, double tokens,
                                           const struct overlap_widths *widths);

/** Of these the one behind a forward's down GEMM of T x h x ffn, the layer's last. */
struct overlap_tensor overlap_tensor_down(const struct cost_setting *setting, double tokens, double hidden, double ffn);

/** Those of the head of `logits` columns: its input's all-gather, exposed; backward as those of up, exposed with none.
 */
struct overlap_tensor overlap_tensor_head(const struct cost_setting *setting, enum pass pass, double tokens,
                                          double logits);

/** That of the embedding, exposed: forward a reduce-scatter of its output, of which each rank has the rows of its own
 * part of the vocabulary; backward the all-gather of the gradient. Without sequence parallelism, and forward with
 * learned positions (added to the whole tensor), an all-reduce forward, nothing backward. Source: Megatron-Core,
 * models/common/embeddings/language_model_embedding.py (reduce_scatter_embeddings) and
 * tensor_parallel/layers.py (VocabParallelEmbedding). */
struct overlap_tensor overlap_tensor_embedding(const struct cost_setting *setting, enum pass pass, double tokens);

#endif
