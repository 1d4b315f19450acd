/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/gathered.h"

#include <math.h>

#include "base/check.h"

static double layer_parameters(const struct cost_setting *setting)
{
    return cost_stage_parameters(setting->model, setting->tensor, 1, false, false);
}

static double root_parameters(const struct cost_setting *setting)
{
    return cost_stage_parameters(setting->model, setting->tensor, 0, true, true);
}

/** Return the bytes of a gathered weight that is not a state. */
static double weight_bytes(const struct cost_setting *setting)
{
    return setting->plan->sharding == SCENARIO_ZERO3 ? 2 : 0;
}

static double head_parameters(const struct cost_setting *setting)
{
    return (double)setting->model->hidden * model_vocabulary_share(setting->model, setting->tensor);
}

/** Return whether embedding and head are outside the root. */
static bool has_own_ends(const struct cost_setting *setting)
{
    return setting->plan->fsdp == 2 && setting->plan->fsdp_ends == SCENARIO_ENDS_OWN;
}

double cost_gathered_bytes(const struct cost_setting *setting)
{
    return has_own_ends(setting) ? 0 : weight_bytes(setting) * root_parameters(setting);
}

/** Bytes of whole tensors. While the head's gradient waits or is reduced, it counts among those of layers. */
struct whole {
    double at_head, in_layer[2], in_norm[2], behind_layer, at_ends;
};

static struct whole whole_of_fsdp1(const struct cost_setting *setting)
{
    double w = weight_bytes(setting), layer = layer_parameters(setting), root = root_parameters(setting);
    double copy = setting->plan->gradients == SCENARIO_FP32 ? cost_gradient_bytes(setting) : 0;
    bool early = setting->plan->fsdp_prefetch == SCENARIO_BACKWARD_PRE, single = setting->model->layers == 1;
    double weights = early && !single ? 2 * w : w, head = 2 * head_parameters(setting);
    double in_layer = head + weights * layer, in_norm = in_layer + 2 * layer;
    return (struct whole){
        .at_head = early ? w * layer : 0,
        .in_layer = {in_layer, in_layer},
        .in_norm = {in_norm, in_norm},
        .behind_layer = head + fmax(weights + 2 + 2, (single ? 0 : w) + 2 + copy) * layer,
        .at_ends = fmax(2 + 2, 2 + copy - w) * root,
    };
}

static struct whole whole_of_fsdp2(const struct cost_setting *setting)
{
    double w = weight_bytes(setting), layer = layer_parameters(setting), root = root_parameters(setting);
    double g = cost_gradient_bytes(setting), layers = (double)setting->model->layers;
    double weights = fmin(layers, 2) * w, next = fmin(layers - 1, 2) * w, behind = layers > 1 ? w + 2 + g : 2 + g;
    bool own = has_own_ends(setting);
    double head = head_parameters(setting), waits = own ? 0 : 2 * head, reduced = own ? g * head : 2 * head;
    return (struct whole){
        .at_head = w * layer + (own ? w * head : 0),
        .in_layer = {weights * layer + reduced, (next + g) * layer + waits},
        .in_norm = {(weights + 2) * layer + reduced, (next + 2 + g) * layer + waits},
        .behind_layer = behind * layer + waits,
        .at_ends = own ? fmax((w + 2) * (root - head) + g * layer, (2 + g) * (root - head))
                       : fmax(2 * root + g * layer, (2 + g - w) * root),
    };
}

void cost_forward_moments_of(const struct cost_setting *setting, const struct cost_work *work,
                             double bytes[COST_N_FORWARD_MOMENTS])
{
    bool two = setting->plan->fsdp == 2, passes = setting->loss == SCENARIO_LOSS_PASSES;
    double w = weight_bytes(setting), layer = w * layer_parameters(setting), head = w * head_parameters(setting);
    double layers = two ? 2 * layer : layer, at_head = has_own_ends(setting) ? layer + 2 * head : layers;
    double logits = model_vocabulary_share(setting->model, setting->tensor) * work->tokens;
    double inner = 2 * (double)setting->model->ffn / setting->tensor;
    double gradient = !passes ? 2 : setting->kernels == SCENARIO_EAGER ? 4 : 0;
    double later = !passes ? 2 : setting->kernels == SCENARIO_EAGER ? 8 - 2 + 4 : 4;
    bytes[COST_FORWARD_HEAD] = work->head_workspace - later * logits + (two ? at_head : 0);
    bytes[COST_FORWARD_LOSS] = work->head_workspace - gradient * logits + (two ? whole_of_fsdp2(setting).at_head : 0);
    bytes[COST_FORWARD_LAYER] = work->workspace - inner * work->tokens + layers - work->head;
}

void cost_moments_of(const struct cost_setting *setting, const struct cost_work *work, double bytes[COST_N_MOMENTS])
{
    CHECK(cost_shards_in_passes(setting));
    const struct model *model = setting->model;
    const struct whole whole = setting->plan->fsdp == 2 ? whole_of_fsdp2(setting) : whole_of_fsdp1(setting);
    double h = (double)model->hidden, vocabulary = model_vocabulary_share(model, setting->tensor);
    double input = 2 * h * work->tokens, shard = setting->plan->sequence_parallel ? input / setting->tensor : input;
    double norm = cost_norm_backward_bytes(setting, work->tokens);
    double inner = 2 * (double)model->ffn / setting->tensor, down = inner * h;
    double workspace = work->workspace - inner * work->tokens; /* the down GEMM's input has gone by then */
    bytes[COST_AT_LOSS] = work->head_workspace + whole.at_head;
    bytes[COST_AT_HEAD] = cost_head_backward_bytes(setting, work->tokens) + 2 * vocabulary * h + whole.at_head;
    for (int i = 0; i < 2; i++) { /* layers before this one have gone */
        double gone = work->head + i * work->layer;
        bytes[COST_IN_LAYER + 3 * i] = workspace + down + whole.in_layer[i] - gone;
        bytes[COST_IN_NORM + 3 * i] = norm + whole.in_norm[i] - gone - work->layer;
        bytes[COST_BEHIND_LAYER + 3 * i] = shard + whole.behind_layer - gone - work->layer;
    }
    bytes[COST_AT_ENDS] = input + whole.at_ends - work->head - work->layers;
}

double cost_moments_most(const struct cost_setting *setting, enum pass pass, const struct cost_work *work)
{
    double bytes[COST_N_MOMENTS], most = -INFINITY;
    if (pass == PASS_FORWARD)
        cost_forward_moments_of(setting, work, bytes);
    else
        cost_moments_of(setting, work, bytes);
    for (int i = 0; i < (pass == PASS_FORWARD ? (int)COST_N_FORWARD_MOMENTS : (int)COST_N_MOMENTS); i++)
        most = fmax(most, bytes[i]);
    return most;
}
