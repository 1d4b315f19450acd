/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/eager.h"

static void add_gpt_backward(struct cost_kernels *kernels, const struct cost_setting *setting, double rank_tokens,
                             double norm_tokens)
{
    double h = (double)setting->model->hidden, k = (double)model_kv_width(setting->model);
    kernels_add_memory_bound(kernels, setting->device, DEVICE_NORM, "norms' weight gradients", 2 * 4 * h * norm_tokens);
    kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "gradients of queries, keys and values joined",
                             4 * (h + 2 * k) * rank_tokens);
}

void eager_add_layer(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass, double tokens)
{
    const struct model *model = setting->model;
    const struct device *device = setting->device;
    bool forward = pass == PASS_FORWARD;
    double rank_tokens = tokens / setting->tensor, h = (double)model->hidden;
    double norm_tokens = setting->sequence_parallel ? rank_tokens : tokens;
    if (setting->kernels != SCENARIO_EAGER)
        return;
    if (model->activation != MODEL_SWIGLU) {
        if (!forward)
            add_gpt_backward(kernels, setting, rank_tokens, norm_tokens);
        return;
    }
    kernels_add_memory_bound(kernels, device, DEVICE_COPY, "norms by single operations",
                             2 * (forward ? 36 - 4 : 68 - 6) * h * norm_tokens);
    if (model->positions == 0)
        kernels_add_memory_bound(kernels, device, DEVICE_COPY, "rotations by single operations",
                                 (20 - 4) * (h + (double)model_kv_width(model)) * rank_tokens);
    kernels_add_memory_bound(kernels, device, DEVICE_COPY, "activation by single operations",
                             (forward ? 10 - 6 : 18 - 10) * (double)model->ffn * rank_tokens);
    if (!forward)
        kernels_add_memory_bound(kernels, device, DEVICE_COPY, "input's gradients summed",
                                 (2 + 1) * 6 * h * norm_tokens);
}
