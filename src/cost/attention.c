/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/attention.h"

#include <math.h>

#include "cost/context.h"

/** A slice's share of a packed kernel, of one block of the ring with CP. */
static struct cost_attention attention_of_slice(const struct cost_setting *setting, enum pass pass, struct slice slice,
                                                int32_t context)
{
    const struct model *model = setting->model;
    double begin = slice.begin, end = slice.end, head_dim = (double)model->hidden / (double)model->heads;
    double kernels = context_kernels(setting, context);
    double key_ranks = setting->context_type == SCENARIO_RING ? context : 1;
    double query_ranks = setting->context_type == SCENARIO_ULYSSES ? 1 : context;
    double tile_flop = pass == PASS_FORWARD ? 4 * end / key_ranks : 10 * (end - begin) / query_ranks;
    return (struct cost_attention){
        .flop = (double)flop_attention(model, pass, slice.begin, slice.end) / (kernels * context * setting->tensor),
        .queries = (end - begin) * (begin + end + 1) / end / query_ranks,
        .keys = (begin + end + 1) / key_ranks,
        .head_dim = head_dim,
        .tile_flop = tile_flop * 128 * head_dim,
    };
}

/** All slices in one packed kernel; with a ring one kernel for every block of it. */
static struct cost_kernel fused_kernel(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
{
    const struct device *device = setting->device;
    struct cost_kernel kernel = {.name = "attention", .family = COST_ATTENTION};
    double work_s = 0, tile_s = 0, outside_s = 0;
    int32_t n_kernels = context_kernels(setting, unit->context);
    for (int32_t i = 0; i < unit->n_slices; i++) {
        struct cost_attention work = attention_of_slice(setting, pass, unit->slices[i], unit->context);
        double own_s = cost_attention_work_s(device, setting->attention, pass, &work);
        kernel.flop += work.flop * n_kernels;
        work_s += own_s;
        tile_s = fmax(tile_s, cost_attention_tile_s(device, setting->attention, pass, &work));
        if (cost_attention_outside(device, setting->attention, pass, &work))
            outside_s += own_s;
    }
    double seconds = cost_attention_kernel_s(device, setting->attention, pass, work_s, tile_s);
    kernel.seconds = n_kernels * kernels_sustained_s(device, seconds);
    kernel.outside_s = n_kernels * kernels_sustained_s(device, outside_s);
    return kernel;
}

/** Batched GEMMs of a rank's heads in one attention kernel (one block of a ring). */
struct batch {
    double n, queries, keys, head_dim, scores;
    bool dropout;
};

static struct batch batch_of(const struct cost_setting *setting, const struct cost_unit *unit)
{
    const struct model *model = setting->model;
    bool ulysses = setting->context_type == SCENARIO_ULYSSES;
    double heads = (double)model->heads / setting->tensor / (ulysses ? unit->context : 1), queries = 0, scores = 0;
    double query_ranks = ulysses ? 1 : unit->context;
    double key_ranks = setting->context_type == SCENARIO_RING ? unit->context : 1;
    for (int32_t i = 0; i < unit->n_slices; i++) {
        double own = (double)slice_tokens(unit->slices[i]) / query_ranks;
        queries += own;
        scores += own * unit->slices[i].end / key_ranks;
    }
    return (struct batch){.n = heads * unit->n_slices,
                          .queries = queries / fmax(1, unit->n_slices),
                          .keys = queries > 0 ? scores / queries : 0,
                          .head_dim = (double)model->hidden / (double)model->heads,
                          .scores = heads * scores,
                          .dropout = model->dropout};
}

static void add_unfused_forward(struct cost_kernels *kernels, const struct device *device, const struct batch *b)
{
    kernels_add_batched_gemm(kernels, device, "attention scores",
                             (struct kernels_gemm){b->n, b->queries, b->keys, b->head_dim});
    kernels_add_memory_bound(kernels, device, DEVICE_NORM, "attention softmax", 4 * b->scores);
    if (b->dropout)
        kernels_add_memory_bound(kernels, device, DEVICE_ACTIVATION, "attention dropout", 5 * b->scores);
    kernels_add_batched_gemm(kernels, device, "attention output",
                             (struct kernels_gemm){b->n, b->queries, b->head_dim, b->keys});
}

static void add_unfused_backward(struct cost_kernels *kernels, const struct device *device, const struct batch *b)
{
    kernels_add_batched_gemm(kernels, device, "attention output's gradient",
                             (struct kernels_gemm){b->n, b->queries, b->keys, b->head_dim});
    kernels_add_batched_gemm(kernels, device, "attention values' gradient",
                             (struct kernels_gemm){b->n, b->keys, b->head_dim, b->queries});
    if (b->dropout)
        kernels_add_memory_bound(kernels, device, DEVICE_ACTIVATION, "attention dropout", 5 * b->scores);
    kernels_add_memory_bound(kernels, device, DEVICE_NORM, "attention softmax", 6 * b->scores);
    kernels_add_batched_gemm(kernels, device, "attention queries' gradient",
                             (struct kernels_gemm){b->n, b->queries, b->head_dim, b->keys});
    kernels_add_batched_gemm(kernels, device, "attention keys' gradient",
                             (struct kernels_gemm){b->n, b->keys, b->head_dim, b->queries});
}

static void add_unfused(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                        struct cost_kernels *kernels)
{
    struct batch batch = batch_of(setting, unit);
    int32_t first = kernels->n, n_kernels = context_kernels(setting, unit->context);
    if (batch.scores <= 0)
        return;
    if (pass == PASS_FORWARD)
        add_unfused_forward(kernels, setting->device, &batch);
    else
        add_unfused_backward(kernels, setting->device, &batch);
    for (int32_t i = first; i < kernels->n; i++) {
        struct cost_kernel *kernel = &kernels->kernel[i];
        kernel->family = COST_ATTENTION;
        kernel->flop *= n_kernels;
        kernel->bytes *= n_kernels;
        kernel->seconds *= n_kernels;
        kernel->outside_s *= n_kernels;
    }
}

/** flash1's gathers and scatters. */
static void add_padding(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                        struct cost_kernels *kernels)
{
    double tokens = 0, in = (double)(setting->model->hidden + 2 * model_kv_width(setting->model)) / setting->tensor;
    double out = (double)setting->model->hidden / setting->tensor;
    for (int32_t i = 0; i < unit->n_slices; i++)
        tokens += (double)slice_tokens(unit->slices[i]) / unit->context;
    double bytes = (pass == PASS_FORWARD ? 4 * in + 6 * out : 6 * in + 4 * out) * tokens;
    kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "attention gather and scatter", bytes);
    if (bytes > 0)
        kernels->kernel[kernels->n - 1].family = COST_ATTENTION;
}

void attention_add_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                           struct cost_kernels *kernels)
{
    if (setting->attention == DEVICE_UNFUSED) {
        add_unfused(setting, pass, unit, kernels);
        return;
    }
    kernels_add(kernels, fused_kernel(setting, pass, unit));
    if (setting->attention == DEVICE_FLASH1)
        add_padding(setting, pass, unit, kernels);
}
