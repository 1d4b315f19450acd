/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Tests make settings of costs by hand with these functions. */
#ifndef SLIMSIM_TESTS_HAND_SETTING_H
#define SLIMSIM_TESTS_HAND_SETTING_H

#include "cost/activation.h"
#include "cost/context.h"
#include "cost/flop.h"
#include "cost/layer.h"
#include "cost/setting.h"
#include "cost/states.h"

/** n layers of the first kind, all of which recompute under full recomputation. */
#define HAND_LAYERS(n_) .n_runs = 1, .runs = {{0, (n_), (n_)}}

/** Replace the plan's options and its number of ranks, at least 1. TP degree and layers stay. */
void hand_options(struct cost_setting *setting, const struct scenario_plan *plan);

/** Return a setting with the options of a plan. */
struct cost_setting hand_with(struct cost_setting setting, const struct scenario_plan *plan);

/** Replace the number of layers, or that of the layers that recompute under full recomputation. */
void hand_layers(struct cost_setting *setting, int32_t n);
void hand_recompute_layers(struct cost_setting *setting, int32_t n);

/** Return the model FLOPs of a sample for MFU. */
double hand_model_flop(const struct model *model, int32_t tokens);

/** Return the bytes that a token keeps in one layer. */
double hand_layer_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced);

/** Return the parameters of a stage of `layers` layers. */
double hand_stage_parameters(const struct model *model, int32_t tensor, int32_t layers, bool first, bool last);

#endif
