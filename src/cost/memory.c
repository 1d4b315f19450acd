/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/check.h"
#include "cost/cost.h"

/** What recomputation "selective" does not keep: outputs of both norms and of the activation. */
static double recomputed_bytes(const struct model *model, int32_t tensor)
{
    return (4.0 * (double)model->hidden + 2.0 * (double)model->ffn) / tensor;
}

double cost_kv_bytes(const struct model *model, int32_t tensor)
{
    return 4.0 * (double)model_kv_width(model) / tensor;
}

double cost_activation_bytes(const struct model *model, enum recompute recompute, int32_t tensor, bool sliced)
{
    double h = (double)model->hidden, k = (double)model_kv_width(model), f = (double)model->ffn;
    double activation_inputs = model->activation == MODEL_SWIGLU ? 4 : 2;
    if (recompute == RECOMPUTE_FULL)
        return 2 * h / tensor + (sliced ? cost_kv_bytes(model, tensor) : 0);
    double none = (12 * h + 4 * k + (activation_inputs + 2) * f + 4 * (double)model->heads) / tensor;
    return recompute == RECOMPUTE_NONE ? none : none - recomputed_bytes(model, tensor);
}

double cost_stage_parameters(const struct model *model, int32_t tensor, int32_t layers, bool first, bool last)
{
    double h = (double)model->hidden, table = h * (double)model->vocabulary / tensor;
    double parameters = layers * ((double)model_layer_parameters(model) / tensor + 2 * h);
    if (first)
        parameters += table;
    if (last)
        parameters += h + (first && model->tied_embeddings ? 0 : table);
    return parameters;
}

double cost_layers_activation_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced)
{
    double each = cost_activation_bytes(setting->model, recompute, setting->tensor, sliced);
    if (recompute != RECOMPUTE_FULL || setting->recompute_layers == 0)
        return setting->layers * each;
    CHECK(setting->recompute_layers <= setting->layers);
    double kept = cost_activation_bytes(setting->model, RECOMPUTE_NONE, setting->tensor, sliced);
    return setting->recompute_layers * each + (setting->layers - setting->recompute_layers) * kept;
}

double cost_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards)
{
    CHECK(shards >= 1);
    double gradient = cost_gradient_bytes(setting->gradients);
    if (setting->sharding == SCENARIO_ZERO3)
        return parameters * ((gradient + 12) / shards);
    if (setting->sharding == SCENARIO_ZERO2)
        return parameters * (2 + (gradient + 12) / shards);
    return parameters * (2 + gradient + 12.0 / shards);
}

double cost_gathered_bytes(const struct cost_setting *setting)
{
    if (setting->sharding == SCENARIO_ZERO1)
        return 0;
    double layer = cost_stage_parameters(setting->model, setting->tensor, 1, false, false);
    double tables = cost_stage_parameters(setting->model, setting->tensor, 0, true, true);
    double gradients = 2 * layer * cost_gradient_bytes(setting->gradients);
    return gradients + (setting->sharding == SCENARIO_ZERO3 ? 2 * (2 * layer + tables) : 0);
}

double cost_workspace_bytes(const struct model *model, enum recompute recompute, int32_t tensor, double tokens)
{
    double activation = (model->activation == MODEL_SWIGLU ? 6 : 4) * (double)model->ffn / tensor;
    double whole = (tensor > 1 ? 4 : 2) * (double)model->hidden;
    double again = 0;
    if (recompute == RECOMPUTE_SELECTIVE)
        again = recomputed_bytes(model, tensor);
    if (recompute == RECOMPUTE_FULL)
        again = cost_activation_bytes(model, RECOMPUTE_NONE, tensor, false);
    return tokens * (activation + whole + again);
}

double cost_logits_bytes(const struct model *model, int32_t tensor, double tokens)
{
    return tokens * 6.0 * (double)model->vocabulary / tensor;
}

double cost_probabilities_bytes(const struct model *model, int32_t tensor, double tokens)
{
    return tokens * 4.0 * (double)model->vocabulary / tensor;
}
