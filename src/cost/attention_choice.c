/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/attention_choice.h"

#include "cost/attention.h"

void attention_choice_seconds(const struct model *model, const struct device *device, int32_t n_samples,
                              const int32_t *tokens, double seconds[DEVICE_N_CURVES])
{
    int64_t n_layers[MODEL_MAX_KINDS];
    model_count_kinds(model, n_layers);
    for (enum device_attention kernel = 0; kernel < DEVICE_N_CURVES; kernel++) {
        const struct cost_setting setting = {.model = model, .device = device, .tensor = 1, .attention = kernel};
        seconds[kernel] = 0;
        for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++) {
            double sum_s = 0;
            for (int32_t i = 0; n_layers[kind] > 0 && i < n_samples; i++)
                sum_s += cost_attention_least_s(&setting, kind, PASS_FORWARD, tokens[i], 1) +
                         cost_attention_least_s(&setting, kind, PASS_BACKWARD, tokens[i], 1);
            seconds[kernel] += sum_s * (double)n_layers[kind];
        }
    }
}

enum device_attention attention_choice_fastest(const struct device *device, const double seconds[DEVICE_N_CURVES])
{
    enum device_attention fastest = DEVICE_FLASH2;
    bool all = device->own_curves || device->compute_capability >= ATTENTION_CHOICE_CAPABILITY;
    for (enum device_attention kernel = 0; all && kernel < DEVICE_N_CURVES; kernel++)
        if (seconds[kernel] < seconds[fastest] && device_has_attention(device, kernel))
            fastest = kernel;
    return fastest;
}

bool attention_choice_is_own(const struct scenario *scenario)
{
    const struct device *device = &scenario->device;
    return device->own_curves ||
           (scenario->attention < DEVICE_N_CURVES && device->attention_rows[scenario->attention].own);
}

bool attention_choice_is_scaled(const struct scenario *scenario)
{
    return !attention_choice_is_own(scenario) && scenario->attention != DEVICE_FLASH2 &&
           scenario->attention == (int32_t)attention_choice_fastest(&scenario->device, scenario->attention_s);
}

void attention_choice_resolve(struct scenario *scenario, const struct lengths *lengths)
{
    struct batch batch = {0};
    lengths_draw(lengths, &scenario->data, scenario->seed, 0, &batch);
    attention_choice_seconds(&scenario->model, &scenario->device, batch.n_samples, batch.tokens, scenario->attention_s);
    if (scenario->attention == DEVICE_FASTEST)
        scenario->attention = (int32_t)attention_choice_fastest(&scenario->device, scenario->attention_s);
    batch_free(&batch);
}
