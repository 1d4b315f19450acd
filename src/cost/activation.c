/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/activation.h"

#include <math.h>

#include "cost/context.h"
#include "cost/layer.h"

/** Return the bytes that full recomputation keeps of a token in one layer. */
static double full_bytes(const struct cost_setting *setting, int32_t kind, bool sliced)
{
    double input = cost_precisions(setting).activation * cost_sequence_width(setting);
    return input + (sliced ? cost_kv_bytes(setting, kind) : 0);
}

/** Return the share of keys and values that a layer keeps under a list of a sample that is not sliced. */
static double kept_kv_share(const struct cost_setting *setting, int32_t kind, enum recompute list)
{
    if (list & RECOMPUTE_MLA_UP_PROJ && setting->model->kinds[kind].kv_lora_rank > 0)
        return 0;
    return list & RECOMPUTE_ALTERNATE_GEMMS ? 0.5 : 1;
}

/** Return the bytes that a layer keeps of a token under a list. */
static double listed_bytes(const struct cost_setting *setting, int32_t kind, enum recompute list, bool sliced)
{
    struct layer layer;
    layer_of(setting, kind, &layer);
    double share = sliced ? 1 - kept_kv_share(setting, kind, list) : 0; /* later slices need them */
    return layer_kept_bytes(&layer, list) + share * cost_kv_bytes(setting, kind);
}

double cost_activation_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced)
{
    double bytes = 0;
    for (int32_t i = 0; i < setting->n_runs; i++) {
        const struct cost_run *run = &setting->runs[i];
        int32_t again = recompute == RECOMPUTE_FULL ? run->again : 0;
        enum recompute list = recompute == RECOMPUTE_FULL ? RECOMPUTE_NONE : recompute;
        bytes += again > 0 ? again * full_bytes(setting, run->kind, sliced) : 0;
        bytes += run->n > again ? (run->n - again) * listed_bytes(setting, run->kind, list, sliced) : 0;
    }
    return bytes;
}

/** Return the scores of a layer of a kind. */
static double scores_of(const struct cost_setting *setting, int32_t kind, const struct cost_micro_batch *micro_batch)
{
    double n = 0;
    for (int32_t i = 0; i < micro_batch->n_slices; i++)
        n += (double)slice_tokens(micro_batch->slices[i]) * micro_batch->slices[i].end;
    return n * (double)setting->model->kinds[kind].heads / ((double)setting->tensor * micro_batch->context);
}

double cost_scores(const struct cost_setting *setting, const struct cost_micro_batch *micro_batch)
{
    double most = 0;
    for (int32_t i = 0; setting->attention == DEVICE_UNFUSED && i < setting->n_runs; i++)
        most = fmax(most, scores_of(setting, setting->runs[i].kind, micro_batch));
    return most;
}

/** Return the bytes of a score: softmax, with dropout its mask and the result too. */
static double bytes_of_score(const struct cost_setting *setting)
{
    const double element = cost_precisions(setting).activation, mask = 1;
    return setting->model->dropout ? 2 * element + mask : element;
}

double cost_scores_bytes(const struct cost_setting *setting, const struct cost_micro_batch *micro_batch)
{
    double bytes = 0;
    if (setting->attention != DEVICE_UNFUSED || micro_batch->recompute & RECOMPUTE_ATTENTION_CORE)
        return 0;
    for (int32_t i = 0; i < setting->n_runs; i++) {
        const struct cost_run *run = &setting->runs[i];
        int32_t layers = run->n - (micro_batch->recompute == RECOMPUTE_FULL ? run->again : 0);
        bytes += layers * bytes_of_score(setting) * scores_of(setting, run->kind, micro_batch);
    }
    return bytes;
}

double cost_kept_kv_bytes(const struct cost_setting *setting, enum recompute recompute)
{
    double bytes = 0;
    for (int32_t i = 0; i < setting->n_runs; i++) {
        const struct cost_run *run = &setting->runs[i];
        int32_t layers = run->n - (recompute == RECOMPUTE_FULL ? run->again : 0);
        bytes += layers * cost_kv_bytes(setting, run->kind) * kept_kv_share(setting, run->kind, recompute);
    }
    return bytes;
}

double cost_copied_kv_bytes(const struct cost_setting *setting, enum recompute recompute, int32_t context)
{
    double bytes = 0;
    if (setting->cp_type != SCENARIO_ULYSSES || context == 1 || recompute & RECOMPUTE_ATTENTION_CORE)
        return 0;
    for (int32_t i = 0; i < setting->n_runs; i++) {
        const struct cost_run *run = &setting->runs[i];
        int32_t layers = run->n - (recompute == RECOMPUTE_FULL ? run->again : 0);
        double copies = (double)cost_kv_copies(setting, run->kind);
        double more = fmax(0, context_kv_copies(setting, run->kind, context) / copies - 1);
        bytes += layers * more * cost_kv_bytes(setting, run->kind) * kept_kv_share(setting, run->kind, recompute);
    }
    return bytes;
}

double cost_kv_gradient_bytes(const struct cost_setting *setting)
{
    return cost_kept_kv_bytes(setting, RECOMPUTE_NONE);
}

static double kv_bytes(const struct cost_setting *setting, const struct layer *layer)
{
    return cost_kv_bytes(setting, layer->kind);
}

static double norm_bytes(const struct cost_setting *setting, const struct layer *layer)
{
    (void)setting;
    return layer_work_bytes(layer, RECOMPUTE_NORM);
}

double cost_norm_backward_bytes(const struct cost_setting *setting, double tokens)
{
    return tokens * layer_most(setting, norm_bytes);
}

/** Return the bytes a token that a layer of a kind computes again. */
static double again_bytes(const struct cost_setting *setting, const struct layer *layer, int32_t kind,
                          enum recompute recompute)
{
    if (recompute != RECOMPUTE_FULL)
        return layer_listed_bytes(layer, recompute);
    /* the input is there; eager norms keep a copy in fp32, too */
    return layer_kept_bytes(layer, RECOMPUTE_NONE) -
           (cost_norm_is_single(setting, kind) ? 0 : full_bytes(setting, kind, false));
}

struct cost_workspace cost_workspace_of(const struct cost_setting *setting, enum recompute recompute)
{
    const double element = cost_precisions(setting).activation;
    const enum recompute activations = (enum recompute)(RECOMPUTE_ACTIVATION | RECOMPUTE_MOE_ACT);
    bool again = recompute == RECOMPUTE_FULL || recompute & RECOMPUTE_ATTENTION_CORE;
    struct cost_workspace most = {
        .input = (cost_gathers_inputs(setting) ? 2 : 1) * element * (double)setting->model->hidden,
        .score_again = again ? bytes_of_score(setting) : 0,
    };
    for (int32_t i = 0; i < setting->n_runs; i++) {
        struct layer layer;
        layer_of(setting, setting->runs[i].kind, &layer);
        most.gradients = fmax(most.gradients, layer_work_bytes(&layer, activations));
        most.again = fmax(most.again, again_bytes(setting, &layer, setting->runs[i].kind, recompute));
    }
    return most;
}

double cost_workspace_of_tokens(const struct cost_workspace *each, double tokens, double scores, double gathered_bytes)
{
    const double score_gradients = 2 * precision_bytes(PRECISION_BF16);
    double again = each->again + (scores > 0 ? each->score_again * scores / tokens : 0);
    double widest = fmax(each->gradients * tokens, score_gradients * scores);
    return fmax(widest, gathered_bytes) + tokens * (each->input + again);
}

double cost_gathered_kv_bytes(const struct cost_setting *setting, enum pass pass,
                              const struct cost_micro_batch *micro_batch)
{
    if (setting->cp_type != SCENARIO_ALL_GATHER || micro_batch->context == 1 || micro_batch->sharding == SLICE_PLACED)
        return 0;
    return (pass == PASS_FORWARD ? 1 : 2) * cost_prefix_tokens(micro_batch) * layer_most(setting, kv_bytes);
}

double cost_workspace_bytes(const struct cost_setting *setting, const struct cost_micro_batch *micro_batch)
{
    struct cost_workspace each = cost_workspace_of(setting, micro_batch->recompute);
    return cost_workspace_of_tokens(&each, cost_micro_batch_tokens(micro_batch), cost_scores(setting, micro_batch),
                                    cost_gathered_kv_bytes(setting, PASS_BACKWARD, micro_batch));
}

double cost_weight_bytes(const struct cost_setting *setting)
{
    return layer_sum(setting, layer_weight_gradient_bytes);
}

/** Return how often the head runs in a pass: once more for each layer of MTP. */
static double head_passes(const struct cost_setting *setting)
{
    return (double)(1 + setting->model->mtp_layers);
}

double cost_head_weight_bytes(const struct cost_setting *setting, double tokens)
{
    struct layer head;
    layer_of_head(setting, &head);
    return head_passes(setting) * tokens * layer_weight_gradient_bytes(setting, &head);
}

double cost_embedding_bytes(const struct cost_setting *setting, double tokens)
{
    const double mask = 1;
    return setting->model->dropout ? tokens * mask * cost_sequence_width(setting) : 0;
}

double cost_head_bytes(const struct cost_setting *setting, double tokens)
{
    struct layer head;
    layer_of_head(setting, &head);
    return head_passes(setting) * tokens * layer_kept_bytes(&head, RECOMPUTE_NONE);
}

/** Return the bytes a token of the head's gathered input. */
static double gathered_input_bytes(const struct cost_setting *setting)
{
    return cost_gathers_inputs(setting) ? cost_precisions(setting).activation * (double)setting->model->hidden : 0;
}

double cost_head_workspace_bytes(const struct cost_setting *setting, double tokens)
{
    const double element = cost_precisions(setting).activation;
    if (cost_loss_is_chunked(setting))
        return tokens * element *
               (cost_loss_logits(setting) / cost_loss_chunks(setting) + (double)setting->model->hidden);
    double logit = cost_loss_is_torch(setting) ? 2 * precision_bytes(PRECISION_FP32) : element;
    return tokens * (logit * cost_loss_logits(setting) + gathered_input_bytes(setting));
}

double cost_head_early_bytes(const struct cost_setting *setting)
{
    double parameters = (double)setting->model->hidden * cost_logits(setting);
    return cost_loss_is_chunked(setting) ? cost_precisions(setting).activation * parameters : 0;
}

double cost_head_backward_bytes(const struct cost_setting *setting, double tokens)
{
    const double element = cost_precisions(setting).activation;
    if (cost_loss_is_chunked(setting))
        return 0;
    double kept = cost_kept_logit_bytes(setting);
    double input = element * (double)setting->model->hidden;
    return tokens * ((element - kept) * cost_loss_logits(setting) + input + gathered_input_bytes(setting));
}
