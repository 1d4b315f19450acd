/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_setting.h"

void hand_options(struct cost_setting *setting, const struct scenario_plan *plan)
{
    int32_t tensor = setting->tensor, recompute_layers = setting->recompute_layers;
    struct scenario_plan whole = *plan;
    whole.vpp = 1;
    whole.dp = plan->dp > 0 ? plan->dp : 1;
    whole.cp = plan->cp > 0 ? plan->cp : 1;
    cost_take_plan(setting, &whole);
    setting->tensor = tensor;
    setting->recompute_layers = recompute_layers;
}

struct cost_setting hand_with(struct cost_setting setting, const struct scenario_plan *plan)
{
    hand_options(&setting, plan);
    return setting;
}

void hand_layers(struct cost_setting *setting, int32_t n)
{
    cost_hold_layers(setting, 0, n);
}

void hand_recompute_layers(struct cost_setting *setting, int32_t n)
{
    setting->recompute_layers = n;
    hand_layers(setting, cost_n_layers(setting));
}

double hand_model_flop(const struct model *model, int32_t tokens)
{
    return flop_model_of_samples(model, &tokens, 1);
}

double hand_layer_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced)
{
    struct cost_setting layer = *setting;
    layer.recompute_layers = 0;
    hand_layers(&layer, 1);
    return cost_activation_bytes(&layer, recompute, sliced);
}

double hand_stage_parameters(const struct model *model, int32_t tensor, int32_t layers, bool first, bool last)
{
    struct cost_setting stage = {.model = model, .tensor = tensor};
    hand_layers(&stage, layers);
    return cost_stage_parameters(&stage, first, last);
}
