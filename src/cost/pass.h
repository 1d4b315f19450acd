/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file computes the cost of passes of layers, head and embedding. docs/model/costs.md, Cost formulas, explains
 * the symbols: h, f, q, k, n, V, T, c and [a, b). T are the tokens of one CP rank. */
#ifndef SLIMSIM_COST_PASS_H
#define SLIMSIM_COST_PASS_H

#include "cost/layer.h"
#include "cost/micro_batch.h"
#include "cost/pass_cost.h"

/**
 * Compute the cost of a stage's layers in one pass of a micro-batch. Without tokens it costs nothing.
 *
 * 1. T = (tokens of all slices + padding) / context, as a real number: the ranks share evenly.
 * 2. A layer's operators are those of cost/layer.h, for each kind of layer.
 * 3. Each GEMM runs once forward and twice backward. A weight-gradient GEMM also adds to the sum of gradients
 *    (cost_sum_bytes), or a kernel does so in the same pass (cost_added_bytes).
 * 4. Attention is one packed kernel a layer for all slices. A ring has one for each block (cost/attention.h).
 * 5. Memory-bound kernels take the time of their bytes.
 * 6. A column-split GEMM has a collective before it, a row-split one behind it. tp_overlap decides what is exposed
 *    (cost/overlap.h).
 * 7. Tokens go to experts of other ranks and back by all-to-alls, which nothing hides.
 * 8. Context parallelism adds bytes and seconds (cost/context.h).
 * 9. A backward with full recomputation repeats the forward of the layers that recompute. With a list it repeats the
 *    kernels that the list names.
 * 10. PASS_WEIGHT has the weight-gradient GEMMs and the sum of gradients. PASS_INPUT has everything else of
 * PASS_BACKWARD, including what it repeats.
 * 11. zero2 and zero3 add collectives to every pass (cost/shards.h). A rank does not wait in them for a slower one.
 *
 * docs/model/costs.md, Layer passes, has the shapes, bytes and derivations.
 */
struct cost_pass cost_of_pass(const struct cost_setting *setting, enum pass pass,
                              const struct cost_micro_batch *micro_batch);

/**
 * Compute what the last stage adds to a pass. It is never recomputed.
 *
 * 1. Each layer of MTP runs all of this once more.
 * 2. The final norm runs, and the head GEMM T x V/TP x h (backward two). A fused linear loss runs all three forward, in
 *    chunks of tokens, each of which adds to the sum of its weights' gradient.
 * 3. Cross-entropy moves bytes a logit by `loss`: passes and torch 30 forward and 14 backward, fused 2 and 4,
 *    fused-metrics 2 and 32, fused-linear 6 and 0.
 * 4. TP gathers the head's input. Backward it is reduce-scattered and gathered again.
 * 5. zero2 and zero3 have one stage, which is also the first. Embedding, last norm and head are FSDP's root.
 *    zero3 gathers it before the forward and reduce-scatters it at the end of the backward. Both are exposed.
 *
 * docs/model/costs.md, Head, loss and embedding, has the derivations.
 */
struct cost_pass cost_of_head(const struct cost_setting *setting, enum pass pass,
                              const struct cost_micro_batch *micro_batch);

/**
 * Compute what the first stage adds to a pass: the table's rows of T tokens forward, their gradients backward.
 *
 * 1. It has no FLOPs. All its kernels are copies to the device's curves.
 * 2. Forward it reads and writes rows, sets rows of other ranks to zero, adds learned positions and applies dropout.
 * 3. Backward it writes gradients of rows, zeroes the table's gradient and adds it to the main gradient, as no GEMM
 * does.
 * 4. cost/overlap.h has TP's collective of the output. cost_of_head has what zero2 and zero3 gather and reduce.
 *
 * docs/model/costs.md, Head, loss and embedding, has the bytes and their sources.
 */
struct cost_pass cost_of_embedding(const struct cost_setting *setting, enum pass pass,
                                   const struct cost_micro_batch *micro_batch);

/** List the kernels of one layer without recomputation. Their seconds times the layers are kernels_s + attention_s of
 * cost_of_pass. */
void cost_layer_kernels(const struct cost_setting *setting, int32_t kind, enum pass pass,
                        const struct cost_micro_batch *micro_batch, struct cost_kernels *kernels);

/** List the kernels of cost_of_head. */
void cost_head_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_micro_batch *micro_batch,
                       struct cost_kernels *kernels);

/** List the kernels of cost_of_embedding. */
void cost_embedding_kernels(const struct cost_setting *setting, enum pass pass,
                            const struct cost_micro_batch *micro_batch, struct cost_kernels *kernels);

/**
 * Compute a pass of the layers of one run, before the terms of cost_add_slices. It depends on a rank's tokens and
 * nano-batches only, so that cost/cache.h can keep it.
 *
 * @param setting  holds one run: cost_of_one_run
 * @param layer    layer_of this run
 */
struct cost_pass cost_of_tokens(const struct cost_setting *setting, const struct layer *layer, enum pass pass,
                                const struct cost_micro_batch *micro_batch);

/** A run as a backward repeats it: layer_of it, and cost_of_tokens of its forward, which is read only if cost_repeats.
 */
struct cost_backward {
    const struct layer *layer;
    const struct cost_pass *forward;
};

/**
 * Add attention and its transfers, what is computed again, and what zero2 and zero3 gather and reduce. The sum over all
 * runs equals cost_of_pass to the last bit.
 *
 * @param first     the run has the first layer
 * @param backward  not read in a forward pass
 */
void cost_add_slices(struct cost_pass *cost, const struct cost_setting *setting, bool first, enum pass pass,
                     const struct cost_micro_batch *micro_batch, const struct cost_backward *backward);

/** Return whether a pass repeats the forward of whole layers. cost_setting_again has these layers. */
bool cost_repeats(enum pass pass, const struct cost_micro_batch *micro_batch);

#endif
