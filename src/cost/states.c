/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/states.h"

#include <math.h>

#include "base/check.h"
#include "cost/communication.h"
#include "cost/layer.h"

double cost_layers_parameters(const struct cost_setting *setting)
{
    return layer_sum(setting, layer_parameters);
}

double cost_expert_parameters(const struct cost_setting *setting)
{
    return model_has_experts(setting->model) ? layer_sum(setting, layer_expert_parameters) : 0;
}

/** Return the parameters of a layer that other TP ranks hold, too. */
static double copied_parameters(const struct layer *layer)
{
    double parameters = 0;
    for (int32_t i = 0; i < layer->n_ops; i++)
        parameters += layer->ops[i].copied * (layer->ops[i].in + (layer->ops[i].vectors > 0 ? 1 : 0));
    return parameters;
}

static double parameters_in_fp8(const struct cost_setting *setting, const struct layer *layer)
{
    return model_kind_is_bf16(layer->kind) ? 0 : layer_parameters(setting, layer);
}

double cost_fp8_parameters(const struct cost_setting *setting)
{
    return setting->precision == PRECISION_BF16 ? 0 : layer_sum(setting, parameters_in_fp8);
}

bool cost_gathers_fp8(const struct cost_setting *setting)
{
    return setting->fp8_params && setting->precision == PRECISION_FP8_TENSOR;
}

double cost_cast_weight_bytes(const struct cost_setting *setting)
{
    double replaced = setting->fp8_params ? cost_precisions(setting).weight : 0;
    return setting->sharding == SCENARIO_ZERO3 ? 0
                                               : (cost_fp8_copies(setting) - replaced) * cost_fp8_parameters(setting);
}

double cost_placeholder_bytes(const struct cost_setting *setting, bool last)
{
    double head = last ? (double)setting->model->hidden * model_vocabulary_share(setting->model, setting->tensor) : 0;
    return setting->gradient_buffers == SCENARIO_GRADIENTS_PLACEHOLDERS
               ? cost_precisions(setting).weight * (cost_largest_layer_parameters(setting) + head)
               : 0;
}

double cost_gathered_parameter_bytes(const struct cost_setting *setting, double parameters)
{
    double half = cost_precisions(setting).weight, saved = half - precision_bytes(PRECISION_FP8_TENSOR);
    return half - (cost_gathers_fp8(setting) ? saved * cost_fp8_parameters(setting) / parameters : 0);
}

double cost_cast_weights_s(const struct cost_setting *setting)
{
    double read = precision_bytes(cost_gathers_fp8(setting) ? setting->precision : PRECISION_BF16);
    double written = cost_fp8_copies(setting) - cost_gathers_fp8(setting);
    return written > 0 && setting->sharding != SCENARIO_ZERO3
               ? cost_memory_bound_s(setting->device, DEVICE_COPY, (read + written) * cost_fp8_parameters(setting))
               : 0;
}

double cost_copied_sum_s(const struct cost_setting *setting, int32_t shards, double *sent_bytes)
{
    const struct cost_precisions element = cost_precisions(setting);
    int32_t peers = cost_expert_peers(setting);
    double experts = cost_expert_parameters(setting) / shards;
    double gathered = experts * ((cost_all_reduces(setting) ? element.gradient : 0) +
                                 (setting->sharding != SCENARIO_UNSHARDED ? element.weight : 0));
    double seconds = cost_collective_s(setting, DEVICE_REDUCE_SCATTER, experts * element.gradient, peers) +
                     cost_collective_s(setting, DEVICE_ALL_GATHER, gathered, peers);
    *sent_bytes = (experts * element.gradient + gathered) * (peers - 1) / peers;
    for (int32_t i = 0; i < setting->n_runs; i++) {
        int32_t copies = (int32_t)cost_kv_copies(setting, setting->runs[i].kind);
        struct layer layer;
        if (copies == 1 || setting->runs[i].n == 0)
            continue;
        layer_of(setting, setting->runs[i].kind, &layer);
        double bytes = setting->runs[i].n * copied_parameters(&layer) * cost_precisions(setting).gradient / shards;
        seconds += cost_collective_s(setting, DEVICE_ALL_REDUCE, bytes, copies);
        *sent_bytes += 2 * bytes * (copies - 1) / copies;
    }
    return seconds;
}

double cost_largest_layer_parameters(const struct cost_setting *setting)
{
    return layer_most(setting, layer_parameters);
}

double cost_ends_parameters(const struct model *model, int32_t tensor, bool first, bool last)
{
    double h = (double)model->hidden, table = h * model_vocabulary_share(model, tensor), parameters = 0;
    if (first)
        parameters += table + (double)model->positions * h;
    if (last)
        parameters += (double)model_norm_parameters(model) + (first && model->tied_embeddings ? 0 : table);
    if (last && !first && model->mtp_layers > 0 && !model->tied_embeddings)
        parameters += table;
    return parameters;
}

double cost_stage_parameters(const struct cost_setting *setting, bool first, bool last)
{
    return cost_layers_parameters(setting) + cost_ends_parameters(setting->model, setting->tensor, first, last);
}

double cost_model_parameters(const struct model *model)
{
    struct cost_setting whole = {.model = model, .tensor = 1};
    cost_hold_layers(&whole, 0, (int32_t)model->layers);
    return cost_stage_parameters(&whole, true, true);
}

double cost_model_active_parameters(const struct model *model)
{
    struct cost_setting whole = {.model = model, .tensor = 1};
    cost_hold_layers(&whole, 0, (int32_t)model->layers);
    return layer_sum(&whole, layer_active_parameters) + cost_ends_parameters(model, 1, true, true);
}

double cost_mtp_parameters(const struct model *model)
{
    struct cost_setting whole = {.model = model, .tensor = 1};
    if (model->mtp_layers == 0)
        return 0;
    cost_hold_layers(&whole, model->layers, (int32_t)model->mtp_layers);
    return cost_layers_parameters(&whole);
}

int32_t cost_expert_shards(const struct cost_setting *setting)
{
    return setting->sharding == SCENARIO_UNSHARDED
               ? 1
               : (int32_t)((int64_t)cost_shards(setting) * setting->tensor / cost_expert_ranks(setting));
}

double cost_of_stage(cost_states_quantity *quantity, const struct cost_setting *setting, double parameters,
                     int32_t shards)
{
    double experts = cost_expert_parameters(setting);
    if (experts <= 0)
        return quantity(setting, parameters, shards);
    return quantity(setting, parameters - experts, shards) + quantity(setting, experts, cost_expert_shards(setting));
}

/** Return the bytes of a parameter's main copy and both moments of Adam that the GPU holds. */
static double optimizer_bytes(const struct cost_setting *setting)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    return (1 - setting->optimizer_offload) * (bytes.main + 2 * bytes.moment);
}

/** Return the bytes of a parameter's whole gradient and of its sum. fp32-copy keeps both. */
static double whole_gradient_bytes(const struct cost_setting *setting)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    bool copies = setting->gradient_accumulation == SCENARIO_ACCUMULATE_FP32_COPY && !setting->staged;
    return bytes.gradient + (copies ? bytes.activation : 0);
}

double cost_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    const double optimizer = optimizer_bytes(setting), gpu = 1 - setting->optimizer_offload;
    CHECK(shards >= 1 && (setting->sharding != SCENARIO_UNSHARDED || shards == 1));
    if (setting->staged)
        return parameters * (bytes.weight + bytes.gradient + (bytes.shard + 2 * bytes.moment) / shards);
    if (setting->sharding == SCENARIO_ZERO3)
        return parameters * ((2 * bytes.shard + 2 * bytes.moment) / shards);
    if (setting->sharding == SCENARIO_ZERO2)
        return parameters * (bytes.weight + (gpu * bytes.gradient + optimizer) / shards);
    return parameters * (bytes.weight + whole_gradient_bytes(setting) + optimizer / shards);
}

double cost_reduce_bucket_bytes(const struct cost_setting *setting)
{
    bool twice = setting->sharding != SCENARIO_ZERO3 && setting->dp_overlap != SCENARIO_OVERLAP_NONE;
    double buckets = setting->sharding == SCENARIO_UNSHARDED ? 0 : twice ? 2 : 1;
    return buckets * (double)setting->reduce_bucket * cost_precisions(setting).weight;
}

double cost_gradient_copy_bytes(const struct cost_setting *setting, double parameters, int32_t shards)
{
    bool copies = setting->gradient_copy != 0 && setting->gradients == SCENARIO_BF16 &&
                  (setting->sharding == SCENARIO_ZERO1 || setting->sharding == SCENARIO_ZERO2);
    double share = (1 - setting->optimizer_offload) * parameters / shards;
    return copies ? share * (cost_precisions(setting).gradient + precision_bytes(PRECISION_FP32)) : 0;
}

/** Return the parameters of a rank that the host updates. */
static double on_host(const struct cost_setting *setting, double parameters, int32_t shards)
{
    return setting->optimizer_offload * parameters / shards;
}

double cost_host_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    double gradient = precision_bytes(PRECISION_FP32);
    return on_host(setting, parameters, shards) * (bytes.main + 2 * bytes.moment + gradient);
}

double cost_host_gradient_bytes(const struct cost_setting *setting, double parameters, int32_t shards)
{
    return setting->sharding != SCENARIO_ZERO2
               ? 0
               : 2 * cost_precisions(setting).weight * on_host(setting, parameters, shards);
}

struct cost_host_copies cost_optimizer_copies(const struct cost_setting *setting, double parameters, int32_t shards)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    double copied = on_host(setting, parameters, shards);
    double gradient = setting->sharding == SCENARIO_ZERO2 ? 0 : bytes.gradient;
    return (struct cost_host_copies){copied * gradient, copied * bytes.weight};
}

double cost_host_optimizer_s(const struct cost_setting *setting, double parameters, int32_t shards)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    double gradient = precision_bytes(PRECISION_FP32), moved = gradient + 2 * (bytes.main + 2 * bytes.moment);
    double node_bytes =
        setting->platform->gpus_per_node * on_host(setting, parameters, shards) * (moved + bytes.weight);
    return node_bytes > 0 ? node_bytes / setting->device->node_host_adam_bytes_per_s : 0;
}

double cost_gradient_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    if (setting->sharding == SCENARIO_ZERO3 && !setting->staged)
        return parameters * (bytes.shard / shards);
    return parameters * (setting->sharding == SCENARIO_ZERO2
                             ? (1 - setting->optimizer_offload) * bytes.gradient / shards
                             : whole_gradient_bytes(setting));
}

double cost_block_bytes(double bytes)
{
    const double mib = 1 << 20;
    double segment = ceil(bytes / (2 * mib)) * 2 * mib;
    return bytes >= 10 * mib && segment - bytes <= mib ? segment : bytes;
}

static double rest(double bytes)
{
    return cost_block_bytes(bytes) - bytes;
}

/** Return the rest of a matrix. Its weight, main copy and two moments are tensors of their own. */
static double matrix_rest(const struct cost_setting *setting, double parameters)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    double adam = rest(bytes.main * parameters) + 2 * rest(bytes.moment * parameters);
    return rest(bytes.weight * parameters) + (1 - setting->optimizer_offload) * adam;
}

static double layer_rest(const struct cost_setting *setting, const struct layer *layer)
{
    double sum = 0;
    for (int32_t i = 0; i < layer->n_ops; i++)
        sum += layer->ops[i].copies * matrix_rest(setting, layer->ops[i].in * layer->ops[i].out);
    return sum;
}

double cost_state_block_bytes(const struct cost_setting *setting, bool first, bool last, int32_t shards)
{
    const struct model *model = setting->model;
    const struct cost_precisions bytes = cost_precisions(setting);
    if (cost_shards_in_passes(setting) || setting->staged)
        return 0;
    double parameters = cost_stage_parameters(setting, first, last);
    double sum = cost_frees_gradients(setting) ? 0 : rest(bytes.gradient * parameters);
    if (shards > 1)
        return sum + rest(bytes.weight * parameters);
    int32_t tables = first + (last && !(first && model->tied_embeddings)) +
                     (last && !first && model->mtp_layers > 0 && !model->tied_embeddings);
    double table = (double)model->hidden * cost_logits(setting);
    return sum + layer_sum(setting, layer_rest) + tables * matrix_rest(setting, table);
}

/** Bytes to and from HBM for a parameter of a rank's share: of its gradient before Adam, and of Adam itself. */
struct share_bytes {
    double gradient, adam;
};

/**
 * Return the bytes of a parameter of a rank's share.
 *
 * 1. Adam on fp32 states first makes bf16 gradients fp32. FSDP2 has done so in the passes. Adam on others reads the
 *    gradients as they are, as Transformer Engine's does.
 * 2. Behind Adam fp32 main parameters are copied to the bf16 weights. Adam on other states writes the weights itself.
 */
static struct share_bytes share_bytes(const struct cost_setting *setting)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    const double half = bytes.weight, full = precision_bytes(PRECISION_FP32), moment = bytes.moment;
    bool zero3 = setting->sharding == SCENARIO_ZERO3, zero1 = !zero3 && setting->sharding != SCENARIO_ZERO2;
    bool plain = bytes.main == full && moment == full;
    bool before = !zero1 && setting->fsdp == 2;
    bool converts = plain && setting->gradients == SCENARIO_BF16 && !before;
    double gradient = converts ? full : zero3 || before ? bytes.shard : bytes.gradient;
    double norm = gradient, clipped = zero1 ? 0 : 2 * gradient;
    double weight = zero3 || bytes.main == 0 ? 0 : plain ? full + half : half;
    /* gradient, weight, two moments read; weight and moments written */
    double fused = gradient + 2 * bytes.shard + 4 * moment;
    /* decay, moments (read and added to), denominator, weight */
    double eager = 2 * bytes.shard + 2 * (4 * moment + gradient) + (2 + 2 + 2) * moment + 2 * bytes.shard + 2 * moment;
    return (struct share_bytes){.gradient = (converts ? half + full : 0) + norm + clipped,
                                .adam = weight + (setting->optimizer == SCENARIO_FUSED ? fused : eager)};
}

double cost_optimizer_s(const struct cost_setting *setting, double parameters, int32_t shards)
{
    CHECK(shards >= 1);
    const struct cost_precisions precisions = cost_precisions(setting);
    double gradient = precisions.gradient, converted = gradient != precisions.shard ? gradient + precisions.shard : 0;
    double whole_bytes = cost_shards_in_passes(setting) ? 0 : (setting->staged ? 2 : 3) * gradient;
    double reduced = setting->staged ? converted + 3 * precisions.shard : 0;
    const struct share_bytes share = share_bytes(setting);
    double bytes = parameters * whole_bytes +
                   parameters / shards * (reduced + share.gradient + (1 - setting->optimizer_offload) * share.adam);
    return cost_memory_bound_s(setting->device, DEVICE_COPY, bytes);
}
