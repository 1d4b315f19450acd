/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/gathered.h"

#include <math.h>

#include "base/check.h"
#include "cost/activation.h"
#include "cost/layer.h"
#include "cost/states.h"

static double root_parameters(const struct cost_setting *setting)
{
    return cost_ends_parameters(setting->model, setting->tensor, true, true);
}

/** Return the bytes of a weight that is gathered for a layer's pass only. */
static double weight_bytes(const struct cost_setting *setting)
{
    return setting->sharding == SCENARIO_ZERO3 && !setting->keeps_gathered ? cost_precisions(setting).weight : 0;
}

/** Return the same for a weight of a layer, the most of all layers. A gather in fp8 makes a transposed copy where GEMMs
 * need one. */
static double layer_weight_bytes(const struct cost_setting *setting)
{
    double bytes = weight_bytes(setting);
    bool fp8 = cost_gathers_fp8(setting) && !cost_has_gemms_in(setting, false);
    return bytes > 0 && fp8 ? cost_fp8_copies(setting) : bytes;
}

/** Return the bytes of what a pass casts of each weight of its layer: one copy in fp8, for its GEMMs alone. */
static double cast_weight_bytes(const struct cost_setting *setting)
{
    bool casts = setting->sharding == SCENARIO_ZERO3 && cost_has_gemms_in(setting, true);
    return casts && !cost_gathers_fp8(setting) ? precision_bytes(setting->precision) : 0;
}

static double head_parameters(const struct cost_setting *setting)
{
    return (double)setting->model->hidden * cost_logits(setting);
}

/** Return the layers of the model, with those of MTP. Each is a unit of FSDP. */
static int64_t n_units(const struct cost_setting *setting)
{
    return setting->model->layers + setting->model->mtp_layers;
}

/** Return whether embedding and head are outside the root. */
static bool has_own_ends(const struct cost_setting *setting)
{
    return setting->fsdp == 2 && setting->fsdp_ends == SCENARIO_ENDS_OWN;
}

double cost_gathered_bytes(const struct cost_setting *setting)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    bool layer_gradients = setting->staged || cost_shards_on_demand(setting);
    double sent = layer_gradients ? bytes.activation * cost_largest_layer_parameters(setting) : 0;
    if (setting->staged)
        return sent;
    double in_fp8 = cost_gathers_fp8(setting) ? cost_fp8_parameters(setting) : 0;
    if (setting->keeps_gathered)
        return bytes.weight * (root_parameters(setting) + cost_layers_parameters(setting) - in_fp8) +
               cost_fp8_copies(setting) * in_fp8 + sent;
    return (has_own_ends(setting) ? 0 : weight_bytes(setting) * root_parameters(setting)) + sent;
}

static double last_columns(const struct cost_setting *setting, const struct layer *layer)
{
    (void)setting;
    return layer_last_gemm(layer)->in;
}

/** Bytes of whole tensors. While the head's gradient waits or is reduced, it counts among those of layers. */
struct whole {
    double at_head, in_layer[2], in_norm[2], behind_layer, at_ends;
};

static struct whole whole_of_fsdp1(const struct cost_setting *setting)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    const double made = bytes.activation, joined = 2 * made; /* gradients as they come, and while they are joined */
    double w = layer_weight_bytes(setting), layer = cost_largest_layer_parameters(setting);
    double copy = setting->gradients == SCENARIO_FP32 ? bytes.gradient : 0;
    bool early = setting->fsdp_prefetch == SCENARIO_BACKWARD_PRE, single = n_units(setting) == 1;
    double weights = early && !single ? 2 * w : w, head = made * head_parameters(setting);
    double in_layer = head + (weights + cast_weight_bytes(setting)) * layer, in_norm = in_layer + made * layer;
    return (struct whole){
        .at_head = early ? w * layer : 0,
        .in_layer = {in_layer, in_layer},
        .in_norm = {in_norm, in_norm},
        .behind_layer = head + fmax(weights + joined, (single ? 0 : w) + made + copy) * layer,
        .at_ends = fmax(joined, made + copy - weight_bytes(setting)) * root_parameters(setting),
    };
}

static struct whole whole_of_fsdp2(const struct cost_setting *setting)
{
    const double made = cost_precisions(setting).activation, g = cost_precisions(setting).gradient;
    double w = weight_bytes(setting), layer = cost_largest_layer_parameters(setting), root = root_parameters(setting);
    double layers = (double)n_units(setting), of_layer = layer_weight_bytes(setting), cast = cast_weight_bytes(setting);
    double weights = fmin(layers, 2) * of_layer, next = fmin(layers - 1, 2) * of_layer,
           behind = (layers > 1 ? of_layer : 0) + made + g;
    bool own = has_own_ends(setting);
    double head = head_parameters(setting), waits = own ? 0 : made * head, reduced = (own ? g : made) * head;
    return (struct whole){
        .at_head = of_layer * layer + (own ? w * head : 0),
        .in_layer = {(weights + cast) * layer + reduced, (next + cast + g) * layer + waits},
        .in_norm = {(weights + cast + made) * layer + reduced, (next + cast + made + g) * layer + waits},
        .behind_layer = behind * layer + waits,
        .at_ends = own ? fmax((w + made) * (root - head) + g * layer, (made + g) * (root - head))
                       : fmax(made * root + g * layer, (made + g - w) * root),
    };
}

/** Bytes of a logit in the head's workspace that are not there yet: when the head runs, and at the loss. */
struct missing_logits {
    double at_head, at_loss;
};

static struct missing_logits missing_logits(const struct cost_setting *setting)
{
    const double half = cost_precisions(setting).activation, full = precision_bytes(PRECISION_FP32);
    if (cost_loss_is_chunked(setting))
        return (struct missing_logits){0, 0};
    if (cost_kept_logit_bytes(setting) < full)
        return (struct missing_logits){half, half};
    if (cost_loss_is_torch(setting))
        return (struct missing_logits){2 * full - half + full, full};
    return (struct missing_logits){full, 0};
}

void cost_forward_moments_of(const struct cost_setting *setting, const struct cost_work *work,
                             double bytes[COST_N_FORWARD_MOMENTS])
{
    const struct missing_logits missing = missing_logits(setting);
    bool two = setting->fsdp == 2;
    double layer = layer_weight_bytes(setting) * cost_largest_layer_parameters(setting),
           head = weight_bytes(setting) * head_parameters(setting);
    double layers = two ? 2 * layer : layer, at_head = has_own_ends(setting) ? layer + 2 * head : layers;
    double logits = cost_loss_logits(setting) * work->tokens;
    double inner = cost_precisions(setting).activation * layer_most(setting, last_columns);
    double workspace = work->head_workspace + cost_head_early_bytes(setting);
    bytes[COST_FORWARD_HEAD] = workspace - missing.at_head * logits + (two ? at_head : 0);
    bytes[COST_FORWARD_LOSS] = workspace - missing.at_loss * logits + (two ? whole_of_fsdp2(setting).at_head : 0);
    double cast = cast_weight_bytes(setting) * cost_largest_layer_parameters(setting);
    bytes[COST_FORWARD_LAYER] = work->workspace - inner * work->tokens + layers + cast - work->head;
}

void cost_moments_of(const struct cost_setting *setting, const struct cost_work *work, double bytes[COST_N_MOMENTS])
{
    CHECK(cost_shards_in_passes(setting));
    const double element = cost_precisions(setting).activation;
    const struct whole whole = setting->fsdp == 2 ? whole_of_fsdp2(setting) : whole_of_fsdp1(setting);
    double input = element * (double)setting->model->hidden * work->tokens;
    double norm = cost_norm_backward_bytes(setting, work->tokens), shard = input / cost_sequence_ranks(setting);
    double inner = element * layer_most(setting, last_columns), down = inner * (double)setting->model->hidden;
    double workspace = work->workspace - inner * work->tokens; /* the down GEMM's input has gone by then */
    bytes[COST_AT_HEAD] =
        cost_head_backward_bytes(setting, work->tokens) + element * head_parameters(setting) + whole.at_head;
    /* a chunked loss is over with the forward */
    bytes[COST_AT_LOSS] = cost_loss_is_chunked(setting) ? bytes[COST_AT_HEAD] : work->head_workspace + whole.at_head;
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
