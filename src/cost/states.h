/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file has the model's states on a rank: parameters, weights, gradients and optimizer, and the optimizer's time.
 */
#ifndef SLIMSIM_COST_STATES_H
#define SLIMSIM_COST_STATES_H

#include "cost/setting.h"

/** Return the parameters of one TP rank's share of all layers. */
double cost_layers_parameters(const struct cost_setting *setting);

/** Return those of them that are of layers with GEMMs in fp8. */
double cost_fp8_parameters(const struct cost_setting *setting);

/** Return those of them that are of routed experts. */
double cost_expert_parameters(const struct cost_setting *setting);

/** Return the most parameters of one TP rank's share of one layer. */
double cost_largest_layer_parameters(const struct cost_setting *setting);

/**
 * Return the parameters of one TP rank of the ends. The first stage has embeddings, the last one norm and head.
 *
 * 1. Norms and learned positions are whole on every TP rank.
 * 2. Embedding and head are padded (model_vocabulary_share).
 * 3. Tied embeddings have a copy on both ends of the pipeline, and one if a stage is both.
 * 4. With MTP the last stage has a copy of the embedding, too.
 */
double cost_ends_parameters(const struct model *model, int32_t tensor, bool first, bool last);

/**
 * Return the seconds in which TP ranks sum the gradients of weights that they hold copies of, shared by `shards` ranks.
 *
 * 1. Keys and values: one all-reduce a kind of layer, among the ranks of one head.
 * 2. Experts, if EP is below TP: a reduce-scatter among the ranks with the same experts. Other ranks then reduce each
 *    part, and an all-gather brings back what the optimizer made of it.
 *
 * @param sent_bytes  takes the bytes that a rank sends
 */
double cost_copied_sum_s(const struct cost_setting *setting, int32_t shards, double *sent_bytes);

/** Return the parameters of one TP rank of a stage: of its layers, and of its ends. */
double cost_stage_parameters(const struct cost_setting *setting, bool first, bool last);

/** Return the parameters of a model without its mtp_layers, as models are published. */
double cost_model_parameters(const struct model *model);

/** Return those of them that compute a token. Routed experts count top_k of experts. */
double cost_model_active_parameters(const struct model *model);

/** Return the parameters of a model's mtp_layers. */
double cost_mtp_parameters(const struct model *model);

/** Return the ranks that hold the same experts of a stage, which share their states. It is 1 without sharding. */
int32_t cost_expert_shards(const struct cost_setting *setting);

/** A quantity of the states of so many parameters, which `shards` ranks share. */
typedef double cost_states_quantity(const struct cost_setting *setting, double parameters, int32_t shards);

/**
 * Return a quantity of the states of a rank of a stage: of its experts, which cost_expert_shards share, and of its
 * other parameters, which `shards` ranks share.
 *
 * @param setting     holds the layers of the rank
 * @param parameters  all parameters of the rank
 */
double cost_of_stage(cost_states_quantity *quantity, const struct cost_setting *setting, double parameters,
                     int32_t shards);

/** Return whether gradients are in memory only from the first backward to the optimizer's end. */
static inline bool cost_frees_gradients(const struct cost_setting *setting)
{
    return setting->gradient_buffers == SCENARIO_GRADIENTS_FREED;
}

/** Return the bytes of DeepSpeed's buffers of gradients (`reduce_bucket`), which last from the first step on. */
double cost_reduce_bucket_bytes(const struct cost_setting *setting);

/** Return the bytes of the copies of a rank's share of gradients while DeepSpeed's optimizer steps (`gradient_copy`).
 */
double cost_gradient_copy_bytes(const struct cost_setting *setting, double parameters, int32_t shards);

/**
 * Return the bytes of weights, gradients and optimizer states of one rank of a stage of `parameters` parameters. They
 * depend on the plan's `sharding`, with n = shards and g = 4 or 2 bytes by its `gradients`. a = p + 2 m are the bytes
 * of Adam: p = 4, 2 or 0 by `main_params`, and m = 4 or 2 by `moments` [bytes a parameter]:
 *
 *   none    2 + g + a
 *   zero1   2 + g + a/n      bf16 weight, gradient; main parameter and two moments, sharded
 *   zero2   2 + (g + a)/n
 *   zero3   (2 s + 2 m)/n    sharded weight and gradient of s = p bytes, 2 without main parameters; the gathered weight
 *                            exists only for a while
 *
 *   zero3 with stages    2 + g + (s + 2 m)/n    the gathered weight and the gradient are whole in all micro-batches
 *
 * With none and zero1 `gradient_accumulation: fp32-copy` adds 2, the gradient beside its sum.
 * The share `optimizer_offload` of a, and of zero2's g, is on the host (cost_host_state_bytes).
 * cost/gathered.h has the tensors that are whole for a while. docs/model/memory.md, States and optimizer, has the
 * sources.
 */
double cost_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards);

/**
 * Return the bytes that a rank has in its host's memory: for the share of the parameters that is updated there, the
 * main parameter, both moments and the gradient in fp32, 16 bytes. Megatron-LM (core/optimizer/cpu_offloading) and
 * DeepSpeed (runtime/zero, estimate_zero2_model_states_mem_needs) have these.
 */
double cost_host_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards);

/** Return the bytes of gradients that a backward of zero2 copies to the host, where they are added up: 2 a parameter
 * there and 2 of the sum back, or 4 of the last sum. Others copy them behind the last backward. */
double cost_host_gradient_bytes(const struct cost_setting *setting, double parameters, int32_t shards);

/** Bytes that a rank copies behind the last backward for an optimizer on the host: gradients to it, and bf16 weights
 * back. */
struct cost_host_copies {
    double to_host_bytes, from_host_bytes;
};

struct cost_host_copies cost_optimizer_copies(const struct cost_setting *setting, double parameters, int32_t shards);

/**
 * Return the time of the optimizer's step on the host [s]. Each parameter moves 30 bytes to and from its memory:
 * gradient, main parameter and two moments read, the last three and the bf16 weight written. All GPUs of a node share
 * the bandwidth that Adam reaches there (device.node.host_adam). It is 0 without offload.
 */
double cost_host_optimizer_s(const struct cost_setting *setting, double parameters, int32_t shards);

/** Return the bytes of the copies in fp8 that a rank keeps of its layers' weights from micro-batch to micro-batch, less
 * those of the bf16 weights if fp8_params leaves them out. Norms and routers are counted, too. zero3 keeps what it
 * gathers for a pass only. */
double cost_cast_weight_bytes(const struct cost_setting *setting);

/** Return the bytes of the bf16 tensors that autograd takes for gradients of weights, if gradient_buffers says so. A
 * rank has one of each shape: those of its largest layer, and that of the head on the last stage. */
double cost_placeholder_bytes(const struct cost_setting *setting, bool last);

/** Return the seconds in which a rank casts its layers' weights once a step [s]. From weights that were gathered in fp8
 * it makes the transposed copy. zero3 casts in each pass (cost/shards.h), so it is 0 here. */
double cost_cast_weights_s(const struct cost_setting *setting);

/** Return whether parameters of layers with GEMMs in fp8 are gathered in fp8. Scales of blocks belong to a layout,
 * which a gather of flat shards does not keep, so only those of whole tensors allow it. */
bool cost_gathers_fp8(const struct cost_setting *setting);

/** Return the mean bytes of each of the `parameters` of a rank's stage in the all-gather behind the optimizer. */
double cost_gathered_parameter_bytes(const struct cost_setting *setting, double parameters);

/** Return the bytes of gradients in cost_state_bytes. If they are freed, they exist only from the first backward to
 * the optimizer's end. */
double cost_gradient_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards);

/** Return what PyTorch's allocator counts as allocated for a tensor [bytes]. From 10 MiB on the size is rounded up
 * to a multiple of 2 MiB if this adds 1 MiB or less. docs/model/memory.md, States and optimizer, has the rule and its
 * source. */
double cost_block_bytes(double bytes);

/**
 * Return what the allocator adds to the states of a stage's rank [bytes].
 *
 * 1. zero1's gradients are one tensor. Gradients that are freed are left out.
 * 2. With several shards the weights are one tensor, too.
 * 3. With one shard, the weight, main parameters and moments of each matrix are tensors of their own.
 * 4. zero2 and zero3 are left out.
 */
double cost_state_block_bytes(const struct cost_setting *setting, bool first, bool last, int32_t shards);

/**
 * Return the time of the optimizer step of a rank, on a stage of `parameters` parameters [s]. The rank updates 1/shards
 * of them.
 *
 * 1. The optimizer is Adam. It is memory-bound, and all its bytes follow the device's curve of copies.
 * 2. With fp32 states each parameter of the rank's share counts: gradient 4 to 18, fused kernel 28 or eager kernels 88,
 *    bf16 weight 6 (zero3: 0). With others the kernels count the bytes of these states.
 * 3. With zero1 and none each parameter of the stage also counts 3 gradients, which are set to zero and divided by the
 *    ranks.
 *
 * 4. With zero3 and stages each parameter of the stage counts 2 gradients, which are copied to be reduced. The share
 *    counts the conversion of the reduced gradient and 3 of it, as FSDP2's passes do with one stage (cost/shards.h).
 * 5. The host has the share optimizer_offload of the kernels of Adam.
 *
 * docs/model/memory.md, States and optimizer, has each term and its source.
 */
double cost_optimizer_s(const struct cost_setting *setting, double parameters, int32_t shards);

#endif
