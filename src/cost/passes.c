/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file computes passes of layers, head and embedding (cost/cost.h). */
#include "cost/cost.h"

#include <math.h>

#include "base/check.h"
#include "cost/attention.h"
#include "cost/context.h"
#include "cost/eager.h"
#include "cost/overlap.h"
#include "cost/shards.h"
#include "cost/tokens.h"

double cost_unit_tokens(const struct cost_unit *unit)
{
    int64_t tokens = unit->padding_tokens;
    for (int32_t i = 0; i < unit->n_slices; i++)
        tokens += slice_tokens(unit->slices[i]);
    CHECK(tokens >= 0 && unit->context >= 1);
    return (double)tokens / unit->context;
}

double cost_prefix_tokens(const struct cost_unit *unit)
{
    int64_t tokens = unit->padding_tokens;
    for (int32_t i = 0; i < unit->n_slices; i++)
        tokens += unit->slices[i].end;
    return (double)tokens;
}

/** Widths of one TP rank's share of a layer, and the tokens of one CP rank. */
struct shares {
    double h, qkv, heads, kv, up, ffn; /* qkv, up: columns of the joint GEMMs; heads: columns of queries */
    double outside;                    /* hidden width of norms and residuals, divided with sequence parallelism */
    double tokens;
};

static struct shares shares_of(const struct cost_setting *setting, double tokens)
{
    const struct model *model = setting->model;
    CHECK(setting->tensor >= 1);
    double tp = setting->tensor, h = (double)model->hidden, f = (double)model->ffn;
    double q = (double)model_query_width(model), k = (double)model_kv_width(model);
    return (struct shares){
        .h = h,
        .outside = h / (setting->plan->sequence_parallel ? tp : 1),
        .qkv = (q + 2 * k) / tp,
        .heads = q / tp,
        .kv = k / tp,
        .up = (model->activation == MODEL_SWIGLU ? 2 * f : f) / tp,
        .ffn = f / tp,
        .tokens = tokens,
    };
}

double cost_sum_bytes(const struct cost_setting *setting)
{
    bool anew = cost_shards_in_passes(setting) || setting->kernels != SCENARIO_FUSED;
    return anew ? 0 : 2 * cost_gradient_bytes(setting);
}

static void add_gemms(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                      const struct shares *s)
{
    const struct device *device = setting->device;
    static const char *const forward[] = {"QKV GEMM", "projection GEMM", "up GEMM", "down GEMM"};
    static const char *const input[] = {"QKV input-gradient GEMM", "projection input-gradient GEMM",
                                        "up input-gradient GEMM", "down input-gradient GEMM"};
    static const char *const weight[] = {"QKV weight-gradient GEMM", "projection weight-gradient GEMM",
                                         "up weight-gradient GEMM", "down weight-gradient GEMM"};
    const double in[] = {s->h, s->heads, s->h, s->ffn}, out[] = {s->qkv, s->h, s->up, s->h};
    for (int i = 0; i < 4; i++) {
        if (pass == PASS_FORWARD)
            kernels_add_gemm(kernels, device, forward[i], s->tokens, out[i], in[i]);
        if (pass == PASS_BACKWARD || pass == PASS_INPUT)
            kernels_add_gemm(kernels, device, input[i], s->tokens, in[i], out[i]);
        if (pass == PASS_BACKWARD || pass == PASS_WEIGHT)
            kernels_add_gemms(kernels, device, weight[i],
                              (struct cost_gemm){1, in[i], out[i], s->tokens, cost_sum_bytes(setting)});
    }
}

enum device_memory_kind cost_norm_kind(const struct cost_setting *setting)
{
    bool gpt = setting->kernels == SCENARIO_EAGER && setting->model->activation != MODEL_SWIGLU;
    return gpt ? DEVICE_LAYER_NORM : DEVICE_NORM;
}

static void add_norms(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                      const struct shares *s)
{
    double bytes = (pass == PASS_FORWARD ? 4 : 6) * s->outside * s->tokens;
    enum device_memory_kind kind = cost_norm_kind(setting);
    kernels_add_memory_bound(kernels, setting->device, kind, "norm before attention", bytes);
    kernels_add_memory_bound(kernels, setting->device, kind, "norm before the feed-forward block", bytes);
}

static void add_activation(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                           const struct shares *s)
{
    double bytes = pass == PASS_FORWARD ? 2 * (s->up + s->ffn) : 2 * (2 * s->up + s->ffn);
    bool swiglu = setting->model->activation == MODEL_SWIGLU && setting->kernels != SCENARIO_COMPILED;
    kernels_add_memory_bound(kernels, setting->device, swiglu ? DEVICE_ACTIVATION : DEVICE_GELU, "activation",
                             bytes * s->tokens);
}

static void add_rotations(struct cost_kernels *kernels, const struct cost_setting *setting, const struct shares *s)
{
    if (setting->model->positions > 0)
        return;
    kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "rotation of queries", 4 * s->heads * s->tokens);
    kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "rotation of keys", 4 * s->kv * s->tokens);
}

static void add_other_memory_bound(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                                   const struct shares *s)
{
    double add = 6 * s->outside;
    if (setting->model->dropout)
        kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "dropout of both residuals",
                                 (pass == PASS_FORWARD ? 2 : 10) * s->outside * s->tokens);
    kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "residual add of attention", add * s->tokens);
    kernels_add_memory_bound(kernels, setting->device, DEVICE_COPY, "residual add of the feed-forward block",
                             add * s->tokens);
    add_rotations(kernels, setting, s);
}

static void add_tensor(struct cost_pass *cost, const struct overlap_tensor *tensor, int32_t times)
{
    cost->tensor_s += times * tensor->exposed_s;
    cost->tensor_bytes += times * tensor->bytes;
    cost->outside_s[COST_COLLECTIVE] += times * tensor->outside_s;
}

static void add_kernels(struct cost_pass *cost, const struct cost_kernels *kernels, int32_t times)
{
    double flop = 0, product_s = 0, product_flop = 0, other_s = 0, attention_s = 0;
    for (int32_t i = 0; i < kernels->n; i++) {
        const struct cost_kernel *kernel = &kernels->kernel[i];
        flop += kernel->flop;
        *(kernel->family == COST_ATTENTION ? &attention_s : &other_s) += kernel->seconds;
        product_s += kernel->family == COST_GEMM ? kernel->seconds : 0;
        product_flop += kernel->family == COST_GEMM ? kernel->flop : 0;
        cost->outside_s[kernel->family] += times * kernel->outside_s;
    }
    cost->flop += times * flop;
    cost->product_s += times * product_s;
    cost->product_flop += times * product_flop;
    cost->other_s += times * other_s;
    cost->attention_s += times * attention_s;
}

/** Add the attention of all layers, and the ring that feeds it. */
static void add_attention(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                          const struct cost_unit *unit)
{
    struct cost_kernels kernels;
    kernels.n = 0;
    attention_add_kernels(setting, pass, unit, &kernels);
    add_kernels(cost, &kernels, setting->layers);
    context_of_layers(setting, pass, unit, cost);
}

/** Add all memory-bound kernels of a layer. */
static void add_memory_bound(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                             const struct shares *s)
{
    if (pass == PASS_WEIGHT)
        return;
    add_norms(kernels, setting, pass, s);
    add_activation(kernels, setting, pass, s);
    add_other_memory_bound(kernels, setting, pass, s);
    eager_add_layer(kernels, setting, pass, s->tokens);
}

/** Add all layers without their attention. */
static void add_tokens(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                       const struct shares *s)
{
    struct cost_kernels kernels;
    kernels.n = 0;
    add_gemms(&kernels, setting, pass, s);
    add_memory_bound(&kernels, setting, pass, s);
    add_kernels(cost, &kernels, setting->layers);
    const struct overlap_widths widths = {s->h, s->qkv, s->heads, s->up, s->ffn};
    struct overlap_tensor tensor = overlap_tensor_layer(setting, pass, s->tokens, &widths);
    add_tensor(cost, &tensor, setting->layers);
}

void cost_add_pass(struct cost_pass *cost, const struct cost_pass *more)
{
    cost->flop += more->flop;
    cost->product_s += more->product_s;
    cost->product_flop += more->product_flop;
    cost->other_s += more->other_s;
    cost->attention_s += more->attention_s;
    cost->tensor_s += more->tensor_s;
    cost->tensor_bytes += more->tensor_bytes;
    cost->shard_s += more->shard_s;
    cost->shard_bytes += more->shard_bytes;
    for (int i = 0; i < COST_N_FAMILIES; i++)
        cost->outside_s[i] += more->outside_s[i];
}

/** Add the forward of all layers without their attention, which is already known. */
static void add_known(struct cost_pass *cost, const struct cost_setting *setting, const struct shares *s,
                      const struct cost_pass *forward)
{
    bool exact = true; /* sums in another order differ in their last bits */
    for (int i = 0; i < COST_N_FAMILIES; i++)
        exact = exact && (cost->outside_s[i] == 0 || forward->outside_s[i] == 0);
    if (!exact) {
        add_tokens(cost, setting, PASS_FORWARD, s);
        return;
    }
    cost_add_pass(cost, forward);
}

/** Add the forward of all layers, as the backward repeats it. */
static void add_again(struct cost_pass *cost, const struct cost_setting *setting, const struct cost_unit *unit,
                      const struct shares *s, const struct cost_pass *forward)
{
    struct cost_kernels last;
    last.n = 0;
    add_known(cost, setting, s, forward);
    add_attention(cost, setting, PASS_FORWARD, unit);
    if (!setting->plan->early_stop)
        return;
    kernels_add_memory_bound(&last, setting->device, DEVICE_COPY, "residual add of the feed-forward block",
                             6 * s->outside * s->tokens);
    if (!setting->model->dropout) {
        struct overlap_tensor tensor = overlap_tensor_down(setting, s->tokens, s->h, s->ffn);
        add_tensor(cost, &tensor, -setting->layers);
        kernels_add_gemm(&last, setting->device, "down GEMM", s->tokens, s->h, s->ffn);
    }
    add_kernels(cost, &last, -setting->layers);
}

/** Add every second GEMM of a layer, in the order of Llama's modules (queries, keys, values, projection, gate, up,
 * down). Add also the kernels between the kept GEMMs and the tensors that the backward needs. */
static void add_alternate_gemms(struct cost_kernels *kernels, const struct cost_setting *setting,
                                const struct shares *s)
{
    const struct device *device = setting->device;
    kernels_add_gemm(kernels, device, "keys GEMM", s->tokens, s->kv, s->h);
    if (setting->tensor == 1 || setting->kernels == SCENARIO_EAGER)
        kernels_add_gemm(kernels, device, "projection GEMM", s->tokens, s->h, s->heads);
    kernels_add_gemm(kernels, device, "up GEMM", s->tokens, s->ffn, s->h);
    add_rotations(kernels, setting, s);
    eager_add_rotations(kernels, setting, s->tokens);
    kernels_add_memory_bound(kernels, device, DEVICE_COPY, "residual add of attention", 6 * s->outside * s->tokens);
}

/** Add the forward kernels that the backward repeats by the recomputation's list. */
static void add_listed(struct cost_pass *cost, const struct cost_setting *setting, const struct cost_unit *unit,
                       const struct shares *s)
{
    struct cost_kernels again;
    again.n = 0;
    if (unit->recompute & RECOMPUTE_NORM) {
        add_norms(&again, setting, PASS_FORWARD, s);
        eager_add_norms(&again, setting, PASS_FORWARD, 2, s->tokens);
    }
    if (unit->recompute & RECOMPUTE_ACTIVATION) {
        add_activation(&again, setting, PASS_FORWARD, s);
        eager_add_activation(&again, setting, PASS_FORWARD, s->tokens);
    }
    if (unit->recompute & RECOMPUTE_ALTERNATE_GEMMS)
        add_alternate_gemms(&again, setting, s);
    add_kernels(cost, &again, setting->layers);
    if (unit->recompute & RECOMPUTE_ATTENTION_CORE)
        add_attention(cost, setting, PASS_FORWARD, unit);
}

struct cost_pass cost_of_tokens(const struct cost_setting *setting, enum pass pass, double tokens)
{
    struct shares s = shares_of(setting, tokens);
    struct cost_pass cost = {.boundary_bytes = pass == PASS_WEIGHT ? 0 : 2 * s.tokens * s.outside};
    add_tokens(&cost, setting, pass, &s);
    return cost;
}

bool cost_repeats(enum pass pass, const struct cost_unit *unit)
{
    return (pass == PASS_BACKWARD || pass == PASS_INPUT) && unit->recompute == RECOMPUTE_FULL;
}

struct cost_setting cost_setting_again(const struct cost_setting *setting)
{
    struct cost_setting again = *setting;
    if (setting->recompute_layers > 0)
        again.layers = setting->recompute_layers;
    return again;
}

/** Add all work that a backward computes again. */
static void add_recomputed(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                           const struct cost_unit *unit, const struct cost_pass *forward)
{
    struct shares s = shares_of(setting, cost_unit_tokens(unit));
    if (cost_repeats(pass, unit)) {
        struct cost_setting again = cost_setting_again(setting);
        add_again(cost, &again, unit, &s, forward);
    }
    add_listed(cost, setting, unit, &s);
}

void cost_add_slices(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                     const struct cost_unit *unit, const struct cost_pass *forward)
{
    bool backward = pass == PASS_BACKWARD || pass == PASS_INPUT;
    if (pass != PASS_WEIGHT)
        add_attention(cost, setting, backward ? PASS_BACKWARD : pass, unit);
    if (backward && unit->recompute != RECOMPUTE_NONE)
        add_recomputed(cost, setting, pass, unit, forward);
    shards_of_layers(setting, pass, cost);
}

struct cost_pass cost_of_pass(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
{
    double tokens = cost_unit_tokens(unit);
    struct cost_pass cost = cost_of_tokens(setting, pass, tokens), forward = {0};
    if (cost_repeats(pass, unit)) {
        struct cost_setting again = cost_setting_again(setting);
        forward = cost_of_tokens(&again, PASS_FORWARD, tokens);
    }
    cost_add_slices(&cost, setting, pass, unit, &forward);
    return cost;
}

void cost_layer_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                        struct cost_kernels *kernels)
{
    struct shares s = shares_of(setting, cost_unit_tokens(unit));
    kernels->n = 0;
    add_gemms(kernels, setting, pass, &s);
    if (pass != PASS_WEIGHT)
        attention_add_kernels(setting, pass == PASS_INPUT ? PASS_BACKWARD : pass, unit, kernels);
    add_memory_bound(kernels, setting, pass, &s);
}

/** Return the bytes that the cross-entropy of one logit moves. */
static double loss_bytes(enum scenario_loss loss, bool forward)
{
    const double metric = 2 + 4 + 4 + 4; /* fp32 copy; logarithms of the softmax */
    if (loss == SCENARIO_LOSS_PASSES)
        return forward ? 30 : 14;
    return forward ? 2 : 2 + 2 + (loss == SCENARIO_LOSS_FUSED_METRICS ? 2 * metric : 0);
}

static void add_head(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                     const struct shares *s)
{
    const struct device *device = setting->device;
    bool forward = pass == PASS_FORWARD;
    double logits = model_vocabulary_share(setting->model, setting->tensor);
    double norm = (forward ? 4 : 6) * s->outside, loss = loss_bytes(setting->loss, forward) * logits;
    if (pass != PASS_WEIGHT) {
        kernels_add_memory_bound(kernels, device, cost_norm_kind(setting), "final norm", norm * s->tokens);
        eager_add_norms(kernels, setting, pass, 1, s->tokens);
        kernels_add_memory_bound(kernels, device, DEVICE_LOSS, "cross-entropy", loss * s->tokens);
    }
    if (forward)
        kernels_add_gemm(kernels, device, "head GEMM", s->tokens, logits, s->h);
    if (pass == PASS_BACKWARD || pass == PASS_INPUT)
        kernels_add_gemm(kernels, device, "head input-gradient GEMM", s->tokens, s->h, logits);
    if (pass == PASS_BACKWARD || pass == PASS_WEIGHT)
        kernels_add_gemms(kernels, device, "head weight-gradient GEMM",
                          (struct cost_gemm){1, s->h, logits, s->tokens, cost_sum_bytes(setting)});
}

void cost_head_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                       struct cost_kernels *kernels)
{
    struct shares s = shares_of(setting, cost_unit_tokens(unit));
    kernels->n = 0;
    add_head(kernels, setting, pass, &s);
}

struct cost_pass cost_of_head(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
{
    struct shares s = shares_of(setting, cost_unit_tokens(unit));
    struct cost_kernels kernels;
    struct cost_pass cost = {0};
    kernels.n = 0;
    add_head(&kernels, setting, pass, &s);
    add_kernels(&cost, &kernels, 1);
    double logits = model_vocabulary_share(setting->model, setting->tensor);
    struct overlap_tensor tensor = overlap_tensor_head(setting, pass, s.tokens, logits);
    add_tensor(&cost, &tensor, 1);
    shards_of_tables(setting, pass, &cost);
    return cost;
}

/** Return the bytes that a backward moves for each parameter of the rank's tables. The gradient is zeroed in bf16
 * and added to the main gradient or the head's. */
static double table_gradient_bytes(const struct cost_setting *setting)
{
    double added = 2 + 2 * cost_gradient_bytes(setting);
    if (cost_shards_in_passes(setting))
        added = setting->model->tied_embeddings ? 2 + 2 + 2 : 0;
    return 2 + added;
}

static void add_embedding(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                          const struct shares *s)
{
    const struct model *model = setting->model;
    const struct device *device = setting->device;
    bool forward = pass == PASS_FORWARD;
    double share = 1.0 / setting->tensor, positions = (double)model->positions;
    double rows = s->h * (model_vocabulary_share(model, setting->tensor) + positions);
    /* No other pass needs the table's gradient, so it stays in the input's pass. */
    if (s->tokens <= 0 || pass == PASS_WEIGHT)
        return;
    kernels_add_memory_bound(kernels, device, DEVICE_COPY, forward ? "embedding" : "embedding's gradient",
                             (forward ? 4 + 2 * (1 - share) : 2 + 2 * share) * s->h * s->tokens);
    if (model->positions > 0)
        kernels_add_memory_bound(kernels, device, DEVICE_COPY, forward ? "positions" : "positions' gradient",
                                 (forward ? 4 + 6 : 4) * s->h * s->tokens);
    if (model->dropout)
        kernels_add_memory_bound(kernels, device, DEVICE_COPY, "dropout of the embedding", 5 * s->outside * s->tokens);
    if (!forward)
        kernels_add_memory_bound(kernels, device, DEVICE_COPY, "gradients of whole tables",
                                 table_gradient_bytes(setting) * rows);
}

void cost_embedding_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                            struct cost_kernels *kernels)
{
    struct shares s = shares_of(setting, cost_unit_tokens(unit));
    kernels->n = 0;
    add_embedding(kernels, setting, pass, &s);
}

struct cost_pass cost_of_embedding(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
{
    struct shares s = shares_of(setting, cost_unit_tokens(unit));
    struct cost_kernels kernels;
    struct cost_pass cost = {0};
    kernels.n = 0;
    if (pass == PASS_WEIGHT)
        return cost;
    add_embedding(&kernels, setting, pass, &s);
    add_kernels(&cost, &kernels, 1);
    struct overlap_tensor tensor = overlap_tensor_embedding(setting, pass, s.tokens);
    add_tensor(&cost, &tensor, 1);
    return cost;
}
