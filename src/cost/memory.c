/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file computes activations, states and working memory (cost/cost.h). */
#include <math.h>

#include "base/check.h"
#include "cost/eager.h"

/** Return the divisor of norms, residuals and dropouts. */
static double outside_division(const struct cost_setting *setting)
{
    return setting->plan->sequence_parallel ? setting->tensor : 1;
}

double cost_kv_bytes(const struct model *model, int32_t tensor)
{
    return 4.0 * (double)model_kv_width(model) / tensor;
}

/** Return the bytes a token that an entry of the recomputation's list drops from a layer. They must be computed
 * again. */
static double listed_bytes(const struct cost_setting *setting, enum recompute entry)
{
    const struct model *model = setting->model;
    bool eager = eager_is_llama(setting);
    switch (entry) {
    case RECOMPUTE_NORM:
        return (eager ? 12.0 : 4.0) * (double)model->hidden / outside_division(setting);
    case RECOMPUTE_ACTIVATION:
        return (eager_splits_swiglu(setting) ? 4.0 : 2.0) * (double)model->ffn / setting->tensor;
    case RECOMPUTE_ATTENTION_CORE:
        return setting->attention == DEVICE_UNFUSED ? 0 : 4.0 * (double)model->heads / setting->tensor;
    case RECOMPUTE_ALTERNATE_GEMMS:
        return 2.0 * (double)(model_kv_width(model) + model->ffn) / setting->tensor +
               (setting->tensor == 1 ? 2.0 * (double)model->hidden : 0);
    default:
        return 0;
    }
}

static double all_listed_bytes(const struct cost_setting *setting, enum recompute list)
{
    double bytes = 0;
    for (enum recompute entry = RECOMPUTE_NORM; entry < RECOMPUTE_FULL; entry <<= 1)
        bytes += (list & entry) != 0 ? listed_bytes(setting, entry) : 0;
    return bytes;
}

/** Return the change of a layer's bytes a token under alternate-gemms, if its listed bytes count as kept. */
static double alternate_gemms_bytes(const struct cost_setting *setting, bool sliced)
{
    double h = (double)setting->model->hidden, keys = sliced ? cost_kv_bytes(setting->model, setting->tensor) / 2 : 0;
    double down = setting->tensor == 1 ? 2 * h : 2 * h + 2 * h / outside_division(setting);
    return keys - listed_bytes(setting, RECOMPUTE_ALTERNATE_GEMMS) + (setting->kernels == SCENARIO_EAGER ? down : 0);
}

double cost_kept_kv_bytes(const struct cost_setting *setting, enum recompute recompute)
{
    return cost_kv_bytes(setting->model, setting->tensor) / (recompute & RECOMPUTE_ALTERNATE_GEMMS ? 2 : 1);
}

double cost_activation_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced)
{
    const struct model *model = setting->model;
    double h = (double)model->hidden, q = (double)model_query_width(model);
    double k = (double)model_kv_width(model), f = (double)model->ffn;
    double outside = outside_division(setting), inner = model->activation == MODEL_SWIGLU ? 4 : 2;
    if (recompute == RECOMPUTE_FULL)
        return 2 * h / outside + (sliced ? cost_kv_bytes(model, setting->tensor) : 0);
    double masks = model->dropout ? 2 * h / outside : 0;
    double rest = 4 * h / outside + masks + (4 * q + 4 * k + inner * f) / setting->tensor;
    enum recompute kept = (enum recompute)((RECOMPUTE_SELECTIVE | RECOMPUTE_ATTENTION_CORE) & ~(unsigned)recompute);
    if (recompute & RECOMPUTE_ALTERNATE_GEMMS)
        rest += alternate_gemms_bytes(setting, sliced);
    return rest + all_listed_bytes(setting, kept);
}

double cost_scores(const struct cost_setting *setting, const struct cost_unit *unit)
{
    double n = 0;
    if (setting->attention != DEVICE_UNFUSED)
        return 0;
    for (int32_t i = 0; i < unit->n_slices; i++)
        n += (double)slice_tokens(unit->slices[i]) * unit->slices[i].end;
    return n * (double)setting->model->heads / ((double)setting->tensor * unit->context);
}

/** Return the bytes of a score: softmax, with dropout its mask and the result too. */
static double bytes_of_score(const struct cost_setting *setting)
{
    return setting->model->dropout ? 5 : 2;
}

double cost_scores_bytes(const struct cost_setting *setting, const struct cost_unit *unit)
{
    int32_t layers = setting->layers;
    if (unit->recompute == RECOMPUTE_FULL)
        layers -= setting->recompute_layers > 0 ? setting->recompute_layers : layers;
    else if (unit->recompute & RECOMPUTE_ATTENTION_CORE)
        layers = 0;
    return layers * bytes_of_score(setting) * cost_scores(setting, unit);
}

/** Return the biases of one TP rank of a layer. Biases of GEMMs that split columns are split as well. */
static double bias_parameters(const struct model *model, int32_t tensor)
{
    double h = (double)model->hidden, q = (double)model_query_width(model), k = (double)model_kv_width(model);
    double up = (model->activation == MODEL_SWIGLU ? 2 : 1) * (double)model->ffn;
    return model->biases ? (q + 2 * k + up) / tensor + 2 * h : 0;
}

double cost_stage_parameters(const struct model *model, int32_t tensor, int32_t layers, bool first, bool last)
{
    double h = (double)model->hidden, table = h * model_vocabulary_share(model, tensor);
    double norm = (double)model_norm_parameters(model);
    double layer = (double)model_layer_parameters(model) / tensor + bias_parameters(model, tensor) + 2 * norm;
    double parameters = layers * layer;
    if (first)
        parameters += table + (double)model->positions * h;
    if (last)
        parameters += norm + (first && model->tied_embeddings ? 0 : table);
    return parameters;
}

double cost_layers_activation_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced)
{
    double each = cost_activation_bytes(setting, recompute, sliced);
    if (recompute != RECOMPUTE_FULL || setting->recompute_layers == 0)
        return setting->layers * each;
    CHECK(setting->recompute_layers <= setting->layers);
    double kept = cost_activation_bytes(setting, RECOMPUTE_NONE, sliced);
    return setting->recompute_layers * each + (setting->layers - setting->recompute_layers) * kept;
}

double cost_layers_kept_kv_bytes(const struct cost_setting *setting, enum recompute recompute)
{
    int32_t layers = setting->layers;
    if (recompute == RECOMPUTE_FULL)
        layers = setting->recompute_layers > 0 ? setting->layers - setting->recompute_layers : 0;
    return layers * cost_kept_kv_bytes(setting, recompute);
}

double cost_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards)
{
    CHECK(shards >= 1 && (setting->plan->sharding != SCENARIO_UNSHARDED || shards == 1));
    double gradient = cost_gradient_bytes(setting);
    if (setting->plan->sharding == SCENARIO_ZERO3)
        return parameters * (16.0 / shards);
    if (setting->plan->sharding == SCENARIO_ZERO2)
        return parameters * (2 + (gradient + 12) / shards);
    return parameters * (2 + gradient + 12.0 / shards);
}

double cost_gradient_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards)
{
    if (setting->plan->sharding == SCENARIO_ZERO3)
        return parameters * (4.0 / shards);
    double gradient = cost_gradient_bytes(setting);
    return parameters * (setting->plan->sharding == SCENARIO_ZERO2 ? gradient / shards : gradient);
}

struct cost_workspace cost_workspace_of(const struct cost_setting *setting, enum recompute recompute)
{
    const struct model *model = setting->model;
    bool full = recompute == RECOMPUTE_FULL, gathered = setting->tensor > 1 && setting->plan->sequence_parallel;
    double again = all_listed_bytes(setting, recompute);
    if (full) /* the input is there; eager norms keep a copy in fp32, too */
        again = cost_activation_bytes(setting, RECOMPUTE_NONE, false) -
                (eager_is_llama(setting) ? 0 : cost_activation_bytes(setting, RECOMPUTE_FULL, false));
    return (struct cost_workspace){
        .gradients = (model->activation == MODEL_SWIGLU ? 6 : 4) * (double)model->ffn / setting->tensor,
        .input = (gathered ? 4 : 2) * (double)model->hidden,
        .again = again,
        .score_again = full || recompute & RECOMPUTE_ATTENTION_CORE ? bytes_of_score(setting) : 0,
    };
}

double cost_workspace_of_tokens(const struct cost_workspace *each, double tokens, double scores, double gathered_bytes)
{
    double again = each->again + (scores > 0 ? each->score_again * scores / tokens : 0);
    double widest = fmax(each->gradients * tokens, 4 * scores);
    return fmax(widest, gathered_bytes) + tokens * (each->input + again);
}

double cost_gathered_kv_bytes(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
{
    if (setting->plan->cp_type != SCENARIO_ALL_GATHER || unit->context == 1)
        return 0;
    return (pass == PASS_FORWARD ? 1 : 2) * cost_prefix_tokens(unit) * cost_kv_bytes(setting->model, setting->tensor);
}

double cost_workspace_bytes(const struct cost_setting *setting, const struct cost_unit *unit)
{
    struct cost_workspace each = cost_workspace_of(setting, unit->recompute);
    return cost_workspace_of_tokens(&each, cost_unit_tokens(unit), cost_scores(setting, unit),
                                    cost_gathered_kv_bytes(setting, PASS_BACKWARD, unit));
}

double cost_weight_bytes(const struct cost_setting *setting)
{
    const struct model *model = setting->model;
    double h = (double)model->hidden, q = (double)model_query_width(model);
    double k = (double)model_kv_width(model), f = (double)model->ffn;
    double up = (model->activation == MODEL_SWIGLU ? 2 : 1) * f;
    double inputs = 4 * h / outside_division(setting) + 2 * (q + f) / setting->tensor;
    return inputs + 2 * (q + 2 * k + up) / setting->tensor + 4 * h;
}

double cost_head_weight_bytes(const struct cost_setting *setting, double tokens)
{
    double input = 2.0 * (double)setting->model->hidden / outside_division(setting);
    return tokens * (2 * model_vocabulary_share(setting->model, setting->tensor) + input);
}

double cost_embedding_bytes(const struct cost_setting *setting, double tokens)
{
    return setting->model->dropout ? tokens * (double)setting->model->hidden / outside_division(setting) : 0;
}

/** Return the bytes that are kept of a logit from forward to backward. */
static double kept_logit_bytes(const struct cost_setting *setting)
{
    return setting->loss == SCENARIO_LOSS_PASSES ? 4 : 2;
}

double cost_head_bytes(const struct cost_setting *setting, double tokens)
{
    double norm = (eager_is_llama(setting) ? 8.0 : 4.0) * (double)setting->model->hidden / outside_division(setting);
    return tokens * (kept_logit_bytes(setting) * model_vocabulary_share(setting->model, setting->tensor) + norm);
}

double cost_head_workspace_bytes(const struct cost_setting *setting, double tokens)
{
    bool gathered = setting->tensor > 1 && setting->plan->sequence_parallel;
    double input = gathered ? 2.0 * (double)setting->model->hidden : 0;
    double logit = setting->kernels == SCENARIO_EAGER && setting->loss == SCENARIO_LOSS_PASSES ? 4 + 4 : 2;
    return tokens * (logit * model_vocabulary_share(setting->model, setting->tensor) + input);
}

double cost_head_backward_bytes(const struct cost_setting *setting, double tokens)
{
    bool gathered = setting->tensor > 1 && setting->plan->sequence_parallel;
    double logits = (2 - kept_logit_bytes(setting)) * model_vocabulary_share(setting->model, setting->tensor);
    return tokens * (logits + (gathered ? 4 : 2) * (double)setting->model->hidden);
}

double cost_norm_backward_bytes(const struct cost_setting *setting, double tokens)
{
    double each = eager_is_llama(setting) ? 28 : 8;
    return tokens * each * (double)setting->model->hidden / outside_division(setting);
}
