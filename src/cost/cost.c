/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/cost.h"

#include <math.h>

#include "base/check.h"
#include "cost/context.h"
#include "cost/overlap.h"
#include "cost/shards.h"

double cost_unit_tokens(const struct cost_unit *unit)
{
    int64_t tokens = unit->padding_tokens;
    for (int32_t i = 0; i < unit->n_slices; i++)
        tokens += slice_tokens(unit->slices[i]);
    CHECK(tokens >= 0 && unit->context >= 1);
    return (double)tokens / unit->context;
}

/** Widths of one TP rank's share of a layer, and the tokens of one CP rank. */
struct shares {
    double h, qkv, heads, kv, up, ffn; /* qkv, up: columns of the joint GEMMs; heads: columns of queries */
    double outside;                    /* hidden width of norms and residuals: shared with sequence parallelism */
    double tokens;
};

static struct shares shares_of(const struct cost_setting *setting, const struct cost_unit *unit)
{
    const struct model *model = setting->model;
    CHECK(setting->tensor >= 1);
    double tp = setting->tensor, h = (double)model->hidden, k = (double)model_kv_width(model), f = (double)model->ffn;
    return (struct shares){
        .h = h,
        .outside = h / (setting->sequence_parallel ? tp : 1),
        .qkv = (h + 2 * k) / tp,
        .heads = h / tp,
        .kv = k / tp,
        .up = (model->activation == MODEL_SWIGLU ? 2 * f : f) / tp,
        .ffn = f / tp,
        .tokens = cost_unit_tokens(unit),
    };
}

static void add_kernel(struct cost_kernels *kernels, struct cost_kernel kernel)
{
    CHECK(kernels->n < COST_MAX_KERNELS);
    kernels->kernel[kernels->n++] = kernel;
}

static void add_gemm(struct cost_kernels *kernels, const struct device *device, const char *name, double m, double n,
                     double k)
{
    struct cost_kernel gemm = {
        .name = name, .family = COST_GEMM, .flop = 2 * m * n * k, .seconds = cost_gemm_s(device, m, n, k)};
    gemm.bytes = 2 * (m * n + m * k + n * k);
    gemm.outside_s = cost_gemm_outside(device, m, n, k) ? gemm.seconds : 0;
    add_kernel(kernels, gemm);
}

static void add_gemms(struct cost_kernels *kernels, const struct device *device, enum pass pass, const struct shares *s)
{
    static const char *const forward[] = {"QKV GEMM", "projection GEMM", "up GEMM", "down GEMM"};
    static const char *const input[] = {"QKV input-gradient GEMM", "projection input-gradient GEMM",
                                        "up input-gradient GEMM", "down input-gradient GEMM"};
    static const char *const weight[] = {"QKV weight-gradient GEMM", "projection weight-gradient GEMM",
                                         "up weight-gradient GEMM", "down weight-gradient GEMM"};
    const double in[] = {s->h, s->heads, s->h, s->ffn}, out[] = {s->qkv, s->h, s->up, s->h};
    for (int i = 0; i < 4; i++) {
        if (pass == PASS_FORWARD) {
            add_gemm(kernels, device, forward[i], s->tokens, out[i], in[i]);
            continue;
        }
        add_gemm(kernels, device, input[i], s->tokens, in[i], out[i]);
        add_gemm(kernels, device, weight[i], in[i], out[i], s->tokens);
    }
}

static void add_memory_bound(struct cost_kernels *kernels, const struct device *device, enum device_memory_kind kind,
                             const char *name, double bytes)
{
    struct device_range range = device->memory_range;
    struct cost_kernel kernel = {
        .name = name, .family = COST_MEMORY_BOUND, .bytes = bytes, .seconds = cost_memory_bound_s(device, kind, bytes)};
    kernel.outside_s = range.max > 0 && (bytes < range.min || bytes > range.max) ? kernel.seconds : 0;
    add_kernel(kernels, kernel);
}

static void add_norms(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                      const struct shares *s)
{
    double bytes = (pass == PASS_FORWARD ? 4 : 6) * s->outside * s->tokens;
    add_memory_bound(kernels, setting->device, DEVICE_NORM, "norm before attention", bytes);
    add_memory_bound(kernels, setting->device, DEVICE_NORM, "norm before the feed-forward block", bytes);
}

static void add_activation(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                           const struct shares *s)
{
    double bytes = pass == PASS_FORWARD ? 2 * (s->up + s->ffn) : 2 * (2 * s->up + s->ffn);
    add_memory_bound(kernels, setting->device, DEVICE_ACTIVATION, "activation", bytes * s->tokens);
}

static void add_other_memory_bound(struct cost_kernels *kernels, const struct cost_setting *setting,
                                   const struct shares *s)
{
    double add = 6 * s->outside;
    add_memory_bound(kernels, setting->device, DEVICE_COPY, "residual add of attention", add * s->tokens);
    add_memory_bound(kernels, setting->device, DEVICE_COPY, "residual add of the feed-forward block", add * s->tokens);
    add_memory_bound(kernels, setting->device, DEVICE_COPY, "rotation of queries", 4 * s->heads * s->tokens);
    add_memory_bound(kernels, setting->device, DEVICE_COPY, "rotation of keys", 4 * s->kv * s->tokens);
}

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
static struct cost_kernel attention_of(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
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
    kernel.seconds = n_kernels * cost_attention_kernel_s(device, setting->attention, pass, work_s, tile_s);
    kernel.outside_s = n_kernels * outside_s;
    return kernel;
}

static void add_tensor(struct cost_pass *cost, const struct overlap_tensor *tensor, int32_t times)
{
    cost->tensor_s += times * tensor->exposed_s;
    cost->tensor_bytes += times * tensor->bytes;
    cost->outside_s[COST_COLLECTIVE] += times * tensor->outside_s;
}

static void add_kernels(struct cost_pass *cost, const struct cost_kernels *kernels, int32_t times)
{
    double flop = 0, seconds = 0;
    for (int32_t i = 0; i < kernels->n; i++) {
        flop += kernels->kernel[i].flop;
        seconds += kernels->kernel[i].seconds;
        cost->outside_s[kernels->kernel[i].family] += times * kernels->kernel[i].outside_s;
    }
    cost->flop += times * flop;
    cost->other_s += times * seconds;
}

/** Attention of all layers, and the ring that feeds it. */
static void add_attention(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                          const struct cost_unit *unit)
{
    struct cost_kernel attention = attention_of(setting, pass, unit);
    cost->flop += setting->layers * attention.flop;
    cost->attention_s += setting->layers * attention.seconds;
    cost->outside_s[COST_ATTENTION] += setting->layers * attention.outside_s;
    context_of_layers(setting, pass, unit, cost);
}

static void add_layers(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                       const struct cost_unit *unit, const struct shares *s)
{
    struct cost_kernels kernels = {0};
    add_gemms(&kernels, setting->device, pass, s);
    add_norms(&kernels, setting, pass, s);
    add_activation(&kernels, setting, pass, s);
    add_other_memory_bound(&kernels, setting, s);
    add_kernels(cost, &kernels, setting->layers);
    add_attention(cost, setting, pass, unit);
    const struct overlap_widths widths = {s->h, s->qkv, s->heads, s->up, s->ffn};
    struct overlap_tensor tensor = overlap_tensor_layer(setting, pass, s->tokens, &widths);
    add_tensor(cost, &tensor, setting->layers);
}

/** What the backward repeats of the forward by the list of recomputation. */
static void add_listed(struct cost_pass *cost, const struct cost_setting *setting, const struct cost_unit *unit,
                       const struct shares *s)
{
    struct cost_kernels again = {0};
    if (unit->recompute & RECOMPUTE_NORM)
        add_norms(&again, setting, PASS_FORWARD, s);
    if (unit->recompute & RECOMPUTE_ACTIVATION)
        add_activation(&again, setting, PASS_FORWARD, s);
    add_kernels(cost, &again, setting->layers);
    if (unit->recompute & RECOMPUTE_ATTENTION_CORE)
        add_attention(cost, setting, PASS_FORWARD, unit);
}

struct cost_pass cost_of_pass(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
{
    struct shares s = shares_of(setting, unit);
    struct cost_pass cost = {.boundary_bytes = 2 * s.tokens * s.h / setting->tensor};
    add_layers(&cost, setting, pass, unit, &s);
    if (pass == PASS_BACKWARD && unit->recompute == RECOMPUTE_FULL) {
        struct cost_setting again = *setting;
        if (setting->recompute_layers > 0)
            again.layers = setting->recompute_layers;
        add_layers(&cost, &again, PASS_FORWARD, unit, &s);
    }
    if (pass == PASS_BACKWARD)
        add_listed(&cost, setting, unit, &s);
    shards_of_layers(setting, pass, &cost);
    return cost;
}

void cost_layer_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                        struct cost_kernels *kernels)
{
    struct shares s = shares_of(setting, unit);
    kernels->n = 0;
    add_gemms(kernels, setting->device, pass, &s);
    add_kernel(kernels, attention_of(setting, pass, unit));
    add_norms(kernels, setting, pass, &s);
    add_activation(kernels, setting, pass, &s);
    add_other_memory_bound(kernels, setting, &s);
}

static void add_head(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                     const struct shares *s)
{
    const struct device *device = setting->device;
    bool forward = pass == PASS_FORWARD;
    double logits = model_vocabulary_share(setting->model, setting->tensor);
    add_memory_bound(kernels, device, DEVICE_NORM, "final norm", (forward ? 4 : 6) * s->outside * s->tokens);
    add_memory_bound(kernels, device, DEVICE_LOSS, "cross-entropy", (forward ? 30 : 14) * logits * s->tokens);
    if (forward) {
        add_gemm(kernels, device, "head GEMM", s->tokens, logits, s->h);
        return;
    }
    add_gemm(kernels, device, "head input-gradient GEMM", s->tokens, s->h, logits);
    add_gemm(kernels, device, "head weight-gradient GEMM", s->h, logits, s->tokens);
}

void cost_head_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                       struct cost_kernels *kernels)
{
    struct shares s = shares_of(setting, unit);
    kernels->n = 0;
    add_head(kernels, setting, pass, &s);
}

struct cost_pass cost_of_head(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
{
    struct shares s = shares_of(setting, unit);
    struct cost_kernels kernels = {0};
    struct cost_pass cost = {0};
    add_head(&kernels, setting, pass, &s);
    add_kernels(&cost, &kernels, 1);
    double logits = (double)setting->model->vocabulary / setting->tensor;
    struct overlap_tensor tensor = overlap_tensor_head(setting, pass, s.tokens, logits);
    add_tensor(&cost, &tensor, 1);
    shards_of_tables(setting, pass, &cost);
    return cost;
}
