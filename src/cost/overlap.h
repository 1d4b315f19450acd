/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These are the costs of collectives that run beside kernels, and of the kernels beside them. The file is used in
 * cost/ only. */
#ifndef SLIMSIM_COST_OVERLAP_H
#define SLIMSIM_COST_OVERLAP_H

#include "cost/layer.h"

/** Extent of a collective's ranks. NCCL runs more channels inside an NVLink domain. Transformer Engine's own
 * collectives (chunked) count as over nodes, because they take 16 multiprocessors too
 * (transformer_engine/pytorch/module/base.py, num_sm). */
enum overlap_extent { OVERLAP_IN_DOMAIN, OVERLAP_OVER_DOMAINS };

/** Seconds of kernels without a collective, and of the GEMMs among them. */
struct overlap_kernels {
    double all_s, product_s;
};

/**
 * Return the seconds that kernels lose for each second of a collective beside them.
 *
 * 1. The collective holds c of S multiprocessors as long as it runs (training.node_multiprocessors or
 *    collective_multiprocessors). S = 0: nothing is lost.
 * 2. Kernels of many blocks take S/(S - c) times as long.
 * 3. Persistent GEMMs (training.persistent_gemms) take ceil(S/(S - c)) times as long.
 * 4. GEMMs have the share p of the time. Then the loss is 1 - 1/(p ceil(S/(S - c)) + (1 - p) S/(S - c)). Without
 *    persistent GEMMs it is c/S.
 *
 * docs/model/costs.md, Collectives beside kernels, has the reasons, the sources and what is left out.
 */
double overlap_loss(const struct device *device, enum overlap_extent extent, struct overlap_kernels kernels);

/**
 * Return the time until kernels and a collective that started together have both ended [s]. Without each other they
 * take kernels and `collective_s`. The collective is not slowed down.
 *
 *     max(collective, kernels + collective x loss)
 */
double overlap_beside_s(const struct device *device, enum overlap_extent extent, struct overlap_kernels kernels,
                        double collective_s);

/**
 * Return the time of a GEMM of T x n x k and the all-gather of its T x k input [s]. It is a ring of TP steps. In each
 * step one chunk of T/TP rows is computed while the copy engines send the next one:
 *
 *     (TP - 1) max(G, X) + G,   G: GEMM of T/TP x n x k,  X: T/TP x k x 2 bytes from GPU to GPU
 *
 * Source: Transformer Engine's "ring_exchange" (transformer_engine/pytorch/module/base.py: one multiprocessor, copy
 * engines). docs/model/costs.md, Collectives beside kernels, says what chunks leave out.
 */
double overlap_gather_gemm_s(const struct cost_setting *setting, struct cost_gemm gemm);

/**
 * Return the time of a GEMM of T x n x k and the reduce-scatter of its T x n output [s]. Each of four chunks of rows is
 * reduced while the next one is computed on the multiprocessors that are left:
 *
 *     G + 3 max(G, R) + R,   G: GEMM of T/4 x n x k on S - c multiprocessors,  R: reduce-scatter of T/4 x n x 2 bytes
 *
 * Source: Transformer Engine's "pipeline" with its default of 4 splits (same file).
 */
double overlap_gemm_scatter_s(const struct cost_setting *setting, struct cost_gemm gemm);

/** Tensor-parallel collectives of one layer: seconds that they add to the kernels, bytes that a rank sends, the
 * extrapolated share of the seconds, and the number of collectives. */
struct overlap_tensor {
    double exposed_s, bytes, extrapolated_s, launches;
};

/**
 * Compute the tensor-parallel collectives of a layer of T tokens. Each is of a T x h tensor of activations, or of
 * compressed ones as wide as their GEMM reads (layer_split_width).
 *
 * 1. Forward there is an all-gather before each column-split GEMM, and a reduce-scatter after each row-split one.
 * 2. Backward mirrors them: an all-gather before the input gradient of a row-split GEMM, a reduce-scatter after that of
 *    a column-split one. The input of the latter is gathered again, because only a shard was kept.
 * 3. none: all are exposed.
 * 4. bulk: backward the gather of a column-split GEMM's input runs beside the GEMM of the input gradient. Its
 *    reduce-scatter runs beside that of the weight gradient (overlap_beside_s). All others are exposed.
 * 5. chunked: as bulk, and all others by overlap_gather_gemm_s and overlap_gemm_scatter_s. GEMMs lose
 *    collective_multiprocessors.
 * 6. A split backward (PASS_INPUT, PASS_WEIGHT) exposes the collectives of column-split GEMMs.
 * 7. Without sequence parallelism there is an all-reduce forward after a row-split GEMM, which is exposed. Backward
 *    there is one of the input gradient of each column-split GEMM. With bulk or chunked it runs beside the GEMM of the
 *    weight gradient.
 * 8. Beside the collectives of bulk GEMMs lose c/S, persistent or not. The loss of persistent ones there is open
 *    (docs/model/errors.md, Not modelled).
 * 9. The seconds of chunks include the loss of smaller GEMMs, so chunked may be slower than bulk.
 *
 * docs/model/costs.md, Collectives beside kernels, has the sources.
 */
struct overlap_tensor overlap_tensor_layer(const struct cost_setting *setting, const struct layer *layer,
                                           enum pass pass, double tokens);

/** Return the collective behind the forward of a row-split GEMM. */
struct overlap_tensor overlap_tensor_row(const struct cost_setting *setting, const struct layer_op *op, double tokens);

/** Return the collectives of the forward of the GEMMs that a backward repeats whole by a list: those of mla-up-proj,
 * mlp and moe. alternate-gemms repeats no collectives. */
struct overlap_tensor overlap_tensor_listed(const struct cost_setting *setting, const struct layer *layer,
                                            enum recompute list, double tokens);

/** Return the collectives of the head's GEMM. Forward its input's all-gather is exposed, and that of the logits if
 * every rank gathers them. Backward they run as those of a layer's column-split GEMMs, and with none they are exposed.
 */
struct overlap_tensor overlap_tensor_head(const struct cost_setting *setting, const struct layer_op *op, enum pass pass,
                                          double tokens);

/**
 * Return the collective of the embedding, which is exposed.
 *
 * 1. Forward it is a reduce-scatter of the output. Each rank has the rows of its own share of the vocabulary.
 * 2. Backward it is the all-gather of the gradient.
 * 3. Without sequence parallelism it is an all-reduce forward and nothing backward. Learned positions, which are added
 *    to the whole tensor, also need an all-reduce forward.
 *
 * docs/model/costs.md, Collectives beside kernels, has the sources.
 */
struct overlap_tensor overlap_tensor_embedding(const struct cost_setting *setting, enum pass pass, double tokens);

#endif
