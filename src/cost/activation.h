/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file has the bytes that micro-batches hold: activations, keys and values, and working memory. */
#ifndef SLIMSIM_COST_ACTIVATION_H
#define SLIMSIM_COST_ACTIVATION_H

#include "cost/micro_batch.h"
#include "cost/setting.h"
#include "cost/slice.h"

/**
 * Return the bytes that a token holds from forward to backward in all layers of a stage, on one TP rank. sliced: the
 * sample is in more than one micro-batch of a pass.
 *
 * 1. A layer keeps what its operators keep (cost/layer.h). A list drops what its entries name.
 * 2. alternate-gemms drops keys, and mla-up-proj keys and values, only if the sample is not sliced.
 * 3. full keeps a layer's input, and keys and values of a sliced sample, which later slices attend to. Layers that do
 *    not recompute keep all.
 * 4. Unfused attention keeps cost_scores_bytes, too.
 *
 * docs/model/memory.md, Activations and working memory, has the table of terms and the sources.
 */
double cost_activation_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced);

/** Return the scores of unfused attention in a layer of a micro-batch, on one rank. A slice [a, b) has (b - a) b n/TP
 * over its `context` ranks, including masked ones. Other attention has 0. The kind of layer with most counts. */
double cost_scores(const struct cost_setting *setting, const struct cost_micro_batch *micro_batch);

/** Return the bytes that unfused attention keeps of a micro-batch in all layers [bytes]. They are 2 a score (softmax),
 * with dropout 5 (mask, result). */
double cost_scores_bytes(const struct cost_setting *setting, const struct cost_micro_batch *micro_batch);

/** Return the bytes of a token's keys and values that cost_activation_bytes includes, except layers that recompute in
 * full. With alternate-gemms these are only the values, with mla-up-proj none of latent attention [bytes]. */
double cost_kept_kv_bytes(const struct cost_setting *setting, enum recompute recompute);

/** Return the bytes a token of a rank of what `ulysses` keeps in all layers beside cost_activation_bytes [bytes]. With
 * more ranks than heads of keys and values it keeps copies, since attention runs on them. */
double cost_copied_kv_bytes(const struct cost_setting *setting, enum recompute recompute, int32_t context);

/** Return the bytes of the gradients of a token's keys and values in all layers [bytes]. */
double cost_kv_gradient_bytes(const struct cost_setting *setting);

/** Return the bytes that a layer's first norm works on and keeps in its backward, over TP with sequence parallelism
 * [bytes]. It is 8h a token, for single operations (eager Llamas) 28h. docs/model/memory.md, Activations and working
 * memory, lists the tensors. */
double cost_norm_backward_bytes(const struct cost_setting *setting, double tokens);

/**
 * Return the working memory while one layer of a micro-batch computes its backward, at its largest moment [bytes].
 *
 * 1. Gradients of the widest tensors: SwiGLU 6f/TP a token, GELU 4f/TP. 4 bytes a score of unfused attention or
 *    cost_gathered_kv_bytes count instead if they are more.
 * 2. Gradient of the layer's input: 2h a token. With sequence parallelism it and the gathered input are whole on every
 *    rank, 4h.
 * 3. Activations that are computed again. With a list these are its entries. Under full recomputation they are all of a
 *    layer except its input, which was kept (eager norms keep a copy in fp32 as well).
 * 4. With several kinds of layers each term is the largest.
 */
double cost_workspace_bytes(const struct cost_setting *setting, const struct cost_micro_batch *micro_batch);

/** Terms of cost_workspace_bytes, for micro-batches that recompute in the same way [bytes]. */
struct cost_workspace {
    double gradients, input, again; /* bytes a token */
    double score_again;             /* bytes a score of unfused attention, in addition to `again` */
};

struct cost_workspace cost_workspace_of(const struct cost_setting *setting, enum recompute recompute);

/** Return cost_workspace_bytes of a micro-batch with these cost_micro_batch_tokens, cost_scores and
 * cost_gathered_kv_bytes. */
double cost_workspace_of_tokens(const struct cost_workspace *each, double tokens, double scores, double gathered_bytes);

/**
 * Return the bytes of keys and values that cp_type all-gather gathers of a micro-batch in the layer in work [bytes].
 *
 * 1. Every context rank has those of the whole prefix, 4k/TP a token.
 * 2. Backward it also has their gradients, which are as large until they are reduced.
 * 3. Other cp_types have 0.
 *
 * Source: Transformer Engine, AttnFuncWithCPAndKVAllGather (k_ag, v_ag; dk, dv of their size).
 */
double cost_gathered_kv_bytes(const struct cost_setting *setting, enum pass pass,
                              const struct cost_micro_batch *micro_batch);

/**
 * Return the bytes that a token holds in a split backward in all layers, on one TP rank [bytes]. They are held from the
 * gradients of the inputs to those of the weights. They are inputs and output gradients of the GEMMs.
 *
 *   inputs     4h (both norms' outputs, over TP with sequence parallelism) + 2o/TP (attention) + 2f/TP (activation)
 *   gradients  2(q + 2k)/TP (QKV) + 2h (projection) + 4f/TP (up; GELU 2f) + 2h (down)
 *
 * docs/model/memory.md, Activations and working memory, compares it with Qi et al. 2023.
 */
double cost_weight_bytes(const struct cost_setting *setting);

/** Return the same for the head on the last stage: its input, 2h, and the logits' gradient, 2V/TP a token [bytes]. */
double cost_head_weight_bytes(const struct cost_setting *setting, double tokens);

/** Return the bytes of the mask of the embedding's dropout: h bytes a token, over TP with sequence parallelism. The
 * first stage holds it from forward to backward. */
double cost_embedding_bytes(const struct cost_setting *setting, double tokens);

/**
 * Return the bytes that the last stage holds from forward to backward beside its layers [bytes]. The head is never
 * recomputed (cost_of_head).
 *
 * 1. The last norm's input and output: 4h a token, over TP with sequence parallelism. Eager norms keep more
 *    (cost/layer.h).
 * 2. Probabilities in fp32 that the backward turns into the logits' gradient: 4V/TP, as in Megatron-LM's
 *    vocabulary-parallel loss. PyTorch's cross-entropy keeps as many logarithms instead. A fused loss keeps only the
 *    bf16 logits, 2V/TP. A fused linear loss keeps none.
 *
 * A fused linear loss keeps the gradient of the norm's output in place of it. Each layer of MTP keeps as much again.
 */
double cost_head_bytes(const struct cost_setting *setting, double tokens);

/**
 * Return the working memory while the last stage computes its head, in addition to cost_head_bytes [bytes].
 *
 * 1. Logits or their gradient in bf16: 2V/TP a token.
 * 2. PyTorch's loss (loss torch, or passes with eager kernels) has two gradients in fp32 instead: 8V/TP. They are of
 *    the logarithms and of the logits (PyTorch's nll_loss_backward and _log_softmax_backward_data).
 * 3. With sequence parallelism the gathered input: 2h.
 * 4. A fused linear loss has the bf16 logits of a chunk of tokens, at most 2h a token, and beside the norm's output its
 *    gradient, 2h. A chunk counts without its rounding up to a power of two.
 *
 * The copies of metrics, 8V/TP, do not count, because the layers' activations are freed by then.
 */
double cost_head_workspace_bytes(const struct cost_setting *setting, double tokens);

/** Return the bytes of the gradient of the head's weights, 2Vh, that a fused linear loss makes in the forward. The last
 * stage holds it until the backward is behind the head. It is 0 for other losses. */
double cost_head_early_bytes(const struct cost_setting *setting);

/**
 * Return the memory behind the loss while the head computes its gradients, in addition to cost_head_bytes [bytes]. The
 * gradient of its weights is not included. The result may be negative.
 *
 * 1. The logits' gradient in bf16: 2V/TP a token. The kept bytes of the logits, which have gone by then, are
 *    subtracted.
 * 2. The gradient of the head's input: 2h, whole on every rank.
 * 3. With sequence parallelism the gathered input: 2h.
 * 4. A fused linear loss has nothing more than it keeps.
 */
double cost_head_backward_bytes(const struct cost_setting *setting, double tokens);

#endif
