/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/eager.h"

void eager_add_layer(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass, double tokens)
{
    const struct model *model = setting->model;
    const struct device *device = setting->device;
    bool forward = pass == PASS_FORWARD;
    double rank_tokens = tokens / setting->tensor, h = (double)model->hidden;
    double norm_tokens = setting->sequence_parallel ? rank_tokens : tokens;
    if (setting->kernels != SCENARIO_EAGER || model->activation != MODEL_SWIGLU)
        return;
    kernels_add_memory_bound(kernels, device, DEVICE_COPY, "norms by single operations",
                             2 * (forward ? 36 - 4 : 68 - 6) * h * norm_tokens);
    kernels_add_memory_bound(kernels, device, DEVICE_COPY, "rotations by single operations",
                             (20 - 4) * (h + (double)model_kv_width(model)) * rank_tokens);
    kernels_add_memory_bound(kernels, device, DEVICE_COPY, "activation by single operations",
                             (forward ? 10 - 6 : 18 - 10) * (double)model->ffn * rank_tokens);
}
