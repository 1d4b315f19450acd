/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/eager.h"

static void add_gpt_backward(struct cost_kernels *kernels, const struct cost_setting *setting, double rank_tokens,
                             double norm_tokens)
{
    double h = (double)setting->model->hidden, k = (double)model_kv_width(setting->model);
    double q = (double)model_query_width(setting->model);
    kernels_add_memory_bound(kernels, setting->device, cost_norm_kind(setting), "norms' weight gradients",
                             2 * 4 * h * norm_tokens);
    kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "gradients of queries, keys and values joined",
                             4 * (q + 2 * k) * rank_tokens);
}

bool eager_is_llama(const struct cost_setting *setting)
{
    return setting->kernels == SCENARIO_EAGER && setting->model->activation == MODEL_SWIGLU;
}

bool eager_splits_swiglu(const struct cost_setting *setting)
{
    return eager_is_llama(setting) ||
           (setting->swiglu == SCENARIO_SWIGLU_SEPARATE && setting->model->activation == MODEL_SWIGLU);
}

void eager_add_norms(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass, int32_t n_norms,
                     double tokens)
{
    double norm_tokens = setting->plan->sequence_parallel ? tokens / setting->tensor : tokens;
    if (eager_is_llama(setting))
        kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "norms by single operations",
                                 n_norms * (pass == PASS_FORWARD ? 36 - 4 : 68 - 6) * (double)setting->model->hidden *
                                     norm_tokens);
}

void eager_add_rotations(struct cost_kernels *kernels, const struct cost_setting *setting, double tokens)
{
    const struct model *model = setting->model;
    if (eager_is_llama(setting) && model->positions == 0)
        kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "rotations by single operations",
                                 (20 - 4) * ((double)model_query_width(model) + (double)model_kv_width(model)) *
                                     (tokens / setting->tensor));
}

void eager_add_activation(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                          double tokens)
{
    if (eager_splits_swiglu(setting))
        kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "activation by single operations",
                                 (pass == PASS_FORWARD ? 10 - 6 : 18 - 10) * (double)setting->model->ffn *
                                     (tokens / setting->tensor));
}

void eager_add_layer(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass, double tokens)
{
    const struct model *model = setting->model;
    bool forward = pass == PASS_FORWARD;
    double rank_tokens = tokens / setting->tensor,
           norm_tokens = setting->plan->sequence_parallel ? rank_tokens : tokens;
    if (setting->kernels != SCENARIO_EAGER) {
        eager_add_activation(kernels, setting, pass, tokens);
        return;
    }
    if (model->activation != MODEL_SWIGLU) {
        if (!forward)
            add_gpt_backward(kernels, setting, rank_tokens, norm_tokens);
        return;
    }
    eager_add_norms(kernels, setting, pass, 2, tokens);
    eager_add_rotations(kernels, setting, tokens);
    eager_add_activation(kernels, setting, pass, tokens);
    if (!forward)
        kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "input's gradients summed",
                                 (2 + 1) * 6 * (double)model->hidden * tokens);
}
