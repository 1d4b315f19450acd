/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/bound.h"

#include <math.h>

/* Seconds of kernels at their best rates, whatever the cut. */
static double best_s(const struct device *device, const struct cost_kernels *kernels)
{
    double sum = 0;
    for (int32_t i = 0; i < kernels->n; i++) {
        const struct cost_kernel *kernel = &kernels->kernel[i];
        if (kernel->family == COST_GEMM)
            sum += kernel->flop / (device->peak_flop_per_s * device->gemm.efficiency);
        else if (kernel->family == COST_MEMORY_BOUND && kernel->bytes > 0)
            sum += fmax(0, kernel->seconds - device->launch_s);
    }
    return sum;
}

/* Attention of one layer and pass on all samples, one tensor rank of each place. */
static double attention_s(const struct cost_setting *setting, const struct batch *batch, enum pass pass)
{
    const struct model *model = setting->model;
    double sum = 0;
    for (int32_t i = 0; i < batch->n_samples; i++) {
        double tokens = batch->tokens[i];
        struct cost_attention work = {
            .flop = (double)flop_attention(model, pass, 0, batch->tokens[i]) / setting->tensor,
            .queries = tokens + 1,
            .keys = 2 * tokens + 1,
            .head_dim = (double)model->hidden / (double)model->heads,
        };
        sum += cost_attention_work_s(setting->device, setting->attention, pass, &work);
    }
    return sum;
}

/* All tokens of the batch as one unit without attention; beyond 2^31 - 1 of them the rest is left out. */
static struct cost_unit all_tokens(const struct batch *batch)
{
    return (struct cost_unit){.padding_tokens = (int32_t)fmin((double)batch->n_tokens, INT32_MAX), .context = 1};
}

/* Layers of one stage in one pass, and the layers that recompute. */
static double stage_s(const struct cost_setting *setting, const struct batch *batch, enum pass pass)
{
    struct cost_unit unit = all_tokens(batch);
    struct cost_kernels kernels = {0};
    cost_layer_kernels(setting, pass, &unit, &kernels);
    double layer_s = best_s(setting->device, &kernels) + attention_s(setting, batch, pass);
    return setting->layers * layer_s + cost_of_pass(setting, pass, &unit).tensor_s;
}

static double head_s(const struct cost_setting *setting, const struct batch *batch)
{
    struct cost_unit unit = all_tokens(batch);
    double sum = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_kernels kernels = {0};
        cost_head_kernels(setting, pass, &unit, &kernels);
        sum += best_s(setting->device, &kernels) + cost_of_head(setting, pass, &unit).tensor_s;
    }
    return sum;
}

static double work_s(const struct cost_setting *setting, const struct scenario_plan *layout, const struct batch *batch)
{
    double sum = head_s(setting, batch);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        sum += stage_s(setting, batch, pass);
    if (layout->recompute == RECOMPUTE_FULL) {
        struct cost_setting again = *setting;
        if (setting->recompute_layers > 0)
            again.layers = setting->recompute_layers;
        sum += stage_s(&again, batch, PASS_FORWARD);
    }
    return sum / (double)(layout->dp * layout->cp);
}

static int32_t longest(const struct batch *batch)
{
    int32_t tokens = 0;
    for (int32_t i = 0; i < batch->n_samples; i++)
        tokens = batch->tokens[i] > tokens ? batch->tokens[i] : tokens;
    return tokens;
}

/* The longest sample, whole, through all stages and back. */
static double chain_s(const struct cost_setting *setting, const struct scenario_plan *layout, const struct batch *batch)
{
    struct slice slice = {0, 0, longest(batch)};
    struct cost_unit unit = {.slices = &slice,
                             .n_slices = 1,
                             .context = (int32_t)layout->cp,
                             .recompute = (enum recompute)layout->recompute};
    double sum = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(setting, pass, &unit), head = cost_of_head(setting, pass, &unit);
        sum += (double)layout->pp * (cost.other_s + cost.attention_s + cost.tensor_s) + head.other_s + head.tensor_s;
    }
    return sum;
}

/* A reduce-scatter or all-gather of the replicas of one stage, `size` bytes a parameter. */
static double ring_s(const struct cost_setting *setting, double parameters, double size, int32_t n)
{
    int32_t most = setting->platform->gpus_per_node / setting->tensor;
    double bytes = parameters * size * (n - 1) / n * (1 - setting->communication.dp_overlap), least = INFINITY;
    if (n <= 1)
        return 0;
    for (int32_t n_each = 1; n_each <= most && n_each <= n; n_each++)
        least = fmin(least, cost_ring_s(setting, bytes, n, n_each));
    return least;
}

double bound_after_passes_s(const struct cost_setting *setting, const struct scenario_plan *layout)
{
    bool whole = layout->pp == 1;
    int32_t n = (int32_t)(layout->dp * layout->cp);
    double parameters = cost_stage_parameters(setting->model, setting->tensor, setting->layers, whole, whole);
    return ring_s(setting, parameters, cost_gradient_bytes(setting->gradients), n) +
           cost_optimizer_s(setting->device, setting->gradients, parameters / n) + ring_s(setting, parameters, 2, n);
}

static double peak_bytes(const struct training_system *system, const struct cost_setting *setting,
                         const struct scenario_plan *layout, int32_t tokens, bool first, bool last)
{
    const struct model *model = setting->model;
    enum recompute recompute = (enum recompute)layout->recompute;
    double ranks = (double)(layout->dp * layout->cp), own = tokens / (double)layout->cp;
    double parameters = cost_stage_parameters(model, setting->tensor, setting->layers, first, last);
    double states = cost_state_bytes(setting, parameters, (int32_t)ranks) + cost_gathered_bytes(setting);
    double token_bytes = cost_layers_activation_bytes(setting, recompute, false);
    if (!system->keeps_samples)
        return states + tokens / ranks * token_bytes * (1 - layout->offload);
    return states + own * token_bytes + cost_workspace_bytes(model, recompute, setting->tensor, own) +
           (last ? cost_logits_bytes(model, setting->tensor, own) : 0);
}

struct bound bound_of(const struct training_system *system, const struct cost_setting *setting,
                      const struct scenario_plan *layout, const struct batch *batch)
{
    int32_t tokens = longest(batch);
    bool alone = layout->pp == 1;
    struct bound bound = {
        .time_s = work_s(setting, layout, batch),
        .peak_bytes = fmax(peak_bytes(system, setting, layout, tokens, true, alone),
                           peak_bytes(system, setting, layout, tokens, alone, true)),
    };
    if (system->keeps_samples)
        bound.time_s = fmax(bound.time_s, chain_s(setting, layout, batch));
    bound.time_s += bound_after_passes_s(setting, layout);
    return bound;
}
