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

/** Return the parameters of a layer that other TP ranks hold, too. */
static double copied_parameters(const struct layer *layer)
{
    double parameters = 0;
    for (int32_t i = 0; i < layer->n_ops; i++)
        parameters += layer->ops[i].copied * (layer->ops[i].in + (layer->ops[i].vectors > 0 ? 1 : 0));
    return parameters;
}

double cost_copied_sum_s(const struct cost_setting *setting, int32_t shards, double *sent_bytes)
{
    double seconds = 0;
    *sent_bytes = 0;
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

/** Return the bytes of a parameter's master weight and both moments of Adam. */
static double optimizer_bytes(const struct cost_setting *setting)
{
    return 3 * cost_precisions(setting).state;
}

double cost_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    double optimizer = optimizer_bytes(setting);
    CHECK(shards >= 1 && (setting->sharding != SCENARIO_UNSHARDED || shards == 1));
    if (setting->sharding == SCENARIO_ZERO3)
        return parameters * ((optimizer + bytes.state) / shards);
    if (setting->sharding == SCENARIO_ZERO2)
        return parameters * (bytes.weight + (bytes.gradient + optimizer) / shards);
    return parameters * (bytes.weight + bytes.gradient + optimizer / shards);
}

double cost_gradient_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    if (setting->sharding == SCENARIO_ZERO3)
        return parameters * (bytes.state / shards);
    return parameters * (setting->sharding == SCENARIO_ZERO2 ? bytes.gradient / shards : bytes.gradient);
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

/** Return the rest of a matrix. Its weight, master weight and two moments are tensors of their own. */
static double matrix_rest(const struct cost_setting *setting, double parameters)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    return rest(bytes.weight * parameters) + 3 * rest(bytes.state * parameters);
}

static double layer_rest(const struct cost_setting *setting, const struct layer *layer)
{
    double sum = 0;
    for (int32_t i = 0; i < layer->n_ops; i++)
        sum += matrix_rest(setting, layer->ops[i].in * layer->ops[i].out);
    return sum;
}

double cost_state_block_bytes(const struct cost_setting *setting, bool first, bool last, int32_t shards)
{
    const struct model *model = setting->model;
    const struct cost_precisions bytes = cost_precisions(setting);
    if (cost_shards_in_passes(setting))
        return 0;
    double parameters = cost_stage_parameters(setting, first, last);
    double sum = cost_frees_gradients(setting) ? 0 : rest(bytes.gradient * parameters);
    if (shards > 1)
        return sum + rest(bytes.weight * parameters);
    int32_t tables = first + (last && !(first && model->tied_embeddings));
    double table = (double)model->hidden * cost_logits(setting);
    return sum + layer_sum(setting, layer_rest) + tables * matrix_rest(setting, table);
}

/** Return the bytes to and from HBM for a parameter of a rank's share. */
static double share_bytes(const struct cost_setting *setting)
{
    const double half = cost_precisions(setting).weight, full = cost_precisions(setting).state;
    bool zero1 = !cost_shards_in_passes(setting);
    bool before = cost_shards_in_passes(setting) && setting->fsdp == 2;
    double converted = setting->gradients == SCENARIO_BF16 && !before ? half + full : 0;
    double norm = full, clipped = zero1 ? 0 : 2 * full, weight = setting->sharding == SCENARIO_ZERO3 ? 0 : full + half;
    double fused = 7 * full; /* gradient, weight, two moments read; weight and moments written */
    /* decay, moments (read and added to), denominator, weight */
    double eager = 2 * full + (2 + 3) * full + (2 + 3) * full + (2 + 2 + 2) * full + 4 * full;
    return converted + norm + clipped + weight + (setting->optimizer == SCENARIO_FUSED ? fused : eager);
}

double cost_optimizer_s(const struct cost_setting *setting, double parameters, int32_t shards)
{
    CHECK(shards >= 1);
    double whole_bytes = !cost_shards_in_passes(setting) ? 3 * cost_precisions(setting).gradient : 0;
    double bytes = parameters * whole_bytes + parameters / shards * share_bytes(setting);
    return cost_memory_bound_s(setting->device, DEVICE_COPY, bytes);
}
