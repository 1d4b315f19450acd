/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/layer.h"

#include <math.h>

#include "base/check.h"

#define GEMM(of)                .kind = LAYER_GEMM, .name = {of " GEMM", of " input-gradient GEMM", of " weight-gradient GEMM"}
#define MEMORY_BOUND(of, curve) .kind = LAYER_MEMORY_BOUND, .name = {of, of, of}, .memory_kind = (curve)

/** Widths of one rank's share of a layer, and bytes of an element. */
struct widths {
    double h, sequence; /* hidden width, and that of norms and residuals */
    double q, k, f, up; /* columns of queries, of keys, of the inner width, of the up GEMM */
    double half, full;  /* bytes of an activation, bytes in fp32 */
    bool biases, eager, eager_llama;
};

static struct widths widths_of(const struct cost_setting *setting, int32_t kind)
{
    const struct model *model = setting->model;
    CHECK(setting->tensor >= 1);
    double tp = setting->tensor, f = (double)model->kinds[kind].ffn;
    bool swiglu = model->kinds[kind].activation == MODEL_SWIGLU, eager = setting->kernels == SCENARIO_EAGER;
    return (struct widths){
        .h = (double)model->hidden,
        .sequence = cost_sequence_width(setting),
        .q = (double)model_query_width(model, kind) / tp,
        .k = (double)model_kv_width(model, kind) / tp,
        .f = f / tp,
        .up = (swiglu ? 2 * f : f) / tp,
        .half = cost_precisions(setting).activation,
        .full = precision_bytes(PRECISION_FP32),
        .biases = model->kinds[kind].biases,
        .eager = eager,
        .eager_llama = eager && swiglu,
    };
}

static void add(struct layer *layer, struct layer_op op)
{
    CHECK(layer->n_ops < LAYER_MAX_OPS);
    layer->ops[layer->n_ops++] = op;
}

/** Return the curve of norms: PyTorch's LayerNorm in eager GELU models. */
static enum device_memory_kind norm_curve(const struct widths *w)
{
    return w->eager && !w->eager_llama ? DEVICE_LAYER_NORM : DEVICE_NORM;
}

static struct layer_op norm_of(const struct cost_setting *setting, const struct widths *w, const char *name)
{
    return (struct layer_op){
        MEMORY_BOUND(name, norm_curve(w)),
        .vectors = (double)model_norm_parameters(setting->model),
        .bytes = {2 * w->half * w->sequence, 3 * w->half * w->sequence},
        .kept_bytes = w->half * w->sequence,
        .listed_bytes = (w->eager_llama ? w->half + w->full : w->half) * w->sequence,
        .list = RECOMPUTE_NORM,
        .work_bytes = (w->eager_llama ? 2 * w->half + 6 * w->full : 4 * w->half) * w->sequence,
    };
}

static void add_attention(struct layer *layer, const struct cost_setting *setting, const struct widths *w, int32_t kind)
{
    double heads = (double)setting->model->kinds[kind].heads / setting->tensor;
    bool whole = setting->tensor == 1;
    add(layer, (struct layer_op){GEMM("QKV"), .split = LAYER_COLUMN, .in = w->h, .out = w->q + 2 * w->k,
                                 .vectors = w->biases ? w->q + 2 * w->k : 0, .kept_bytes = w->half * (w->q + 2 * w->k),
                                 .alternate = {w->k, w->half * w->k, 0}});
    add(layer, (struct layer_op){.kind = LAYER_ATTENTION,
                                 .name = {"attention", "attention", "attention"},
                                 .kept_bytes = w->half * w->q,
                                 .listed_bytes = setting->attention == DEVICE_UNFUSED ? 0 : w->full * heads,
                                 .list = RECOMPUTE_ATTENTION_CORE});
    add(layer, (struct layer_op){GEMM("projection"), .split = LAYER_ROW, .in = w->q, .out = w->h,
                                 .vectors = w->biases ? w->h : 0,
                                 .alternate = {whole || w->eager ? w->h : 0, whole ? w->half * w->h : 0, 0}});
}

static void add_feed_forward(struct layer *layer, const struct cost_setting *setting, const struct widths *w,
                             int32_t kind)
{
    bool swiglu = setting->model->kinds[kind].activation == MODEL_SWIGLU, whole = setting->tensor == 1;
    bool separate = w->eager_llama || (swiglu && setting->swiglu == SCENARIO_SWIGLU_SEPARATE);
    add(layer,
        (struct layer_op){GEMM("up"), .split = LAYER_COLUMN, .in = w->h, .out = w->up, .vectors = w->biases ? w->up : 0,
                          .kept_bytes = w->half * w->up, .alternate = {w->f, w->half * w->f, 0}});
    add(layer,
        (struct layer_op){MEMORY_BOUND("activation", swiglu && setting->kernels != SCENARIO_COMPILED ? DEVICE_ACTIVATION
                                                                                                     : DEVICE_GELU),
                          .bytes = {w->half * (w->up + w->f), w->half * (2 * w->up + w->f)},
                          .listed_bytes = (separate ? 2 : 1) * w->half * w->f, .list = RECOMPUTE_ACTIVATION,
                          .work_bytes = w->half * (w->up + w->f)});
    add(layer,
        (struct layer_op){GEMM("down"), .split = LAYER_ROW, .in = w->f, .out = w->h, .vectors = w->biases ? w->h : 0,
                          .alternate = {0, 0, w->eager ? w->half * (w->h + (whole ? 0 : w->sequence)) : 0},
                          .is_end = !setting->model->dropout});
}

/** Add the operators between GEMMs that keep nothing but masks. */
static void add_between(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    const double residual = 3 * w->half * w->sequence, mask = 1;
    if (setting->model->dropout)
        add(layer, (struct layer_op){MEMORY_BOUND("dropout of both residuals", DEVICE_COPY),
                                     .bytes = {2 * mask * w->sequence, (2 * mask + 4 * w->half) * w->sequence},
                                     .kept_bytes = 2 * mask * w->sequence});
    add(layer, (struct layer_op){MEMORY_BOUND("residual add of attention", DEVICE_COPY), .bytes = {residual, residual},
                                 .list = RECOMPUTE_ALTERNATE_GEMMS});
    add(layer, (struct layer_op){MEMORY_BOUND("residual add of the feed-forward block", DEVICE_COPY),
                                 .bytes = {residual, residual}, .is_end = true});
    if (setting->model->positions > 0)
        return;
    add(layer, (struct layer_op){MEMORY_BOUND("rotation of queries", DEVICE_COPY),
                                 .bytes = {2 * w->half * w->q, 2 * w->half * w->q}, .list = RECOMPUTE_ALTERNATE_GEMMS});
    add(layer, (struct layer_op){MEMORY_BOUND("rotation of keys", DEVICE_COPY),
                                 .bytes = {2 * w->half * w->k, 2 * w->half * w->k}, .list = RECOMPUTE_ALTERNATE_GEMMS});
}

/** Return the bytes of `n` norms of single operations, beside those of the fused ones. */
static struct layer_op single_norms(const struct widths *w, int32_t n)
{
    return (struct layer_op){MEMORY_BOUND("norms by single operations", DEVICE_COPY),
                             .bytes = {n * (4 * w->half + 7 * w->full - 2 * w->half) * w->sequence,
                                       n * (8 * w->half + 13 * w->full - 3 * w->half) * w->sequence},
                             .list = RECOMPUTE_NORM};
}

static void add_single_operations(struct layer *layer, const struct cost_setting *setting, const struct widths *w,
                                  int32_t kind)
{
    bool swiglu = setting->model->kinds[kind].activation == MODEL_SWIGLU;
    double rotations = (10 - 2) * w->half * (w->q + w->k);
    if (w->eager_llama)
        add(layer, single_norms(w, 2));
    if (w->eager_llama && setting->model->positions == 0)
        add(layer, (struct layer_op){MEMORY_BOUND("rotations by single operations", DEVICE_COPY),
                                     .bytes = {rotations, rotations}, .list = RECOMPUTE_ALTERNATE_GEMMS});
    if (w->eager_llama || (swiglu && setting->swiglu == SCENARIO_SWIGLU_SEPARATE))
        add(layer, (struct layer_op){MEMORY_BOUND("activation by single operations", DEVICE_COPY),
                                     .bytes = {(5 - 3) * w->half * w->f, (9 - 5) * w->half * w->f},
                                     .list = RECOMPUTE_ACTIVATION});
    if (w->eager_llama)
        add(layer, (struct layer_op){MEMORY_BOUND("input's gradients summed", DEVICE_COPY),
                                     .bytes = {0, (2 + 1) * 3 * w->half * w->h}});
    if (!w->eager || w->eager_llama)
        return;
    add(layer, (struct layer_op){MEMORY_BOUND("norms' weight gradients", norm_curve(w)),
                                 .bytes = {0, 2 * 2 * w->half * w->sequence}});
    add(layer, (struct layer_op){MEMORY_BOUND("gradients of queries, keys and values joined", DEVICE_COPY),
                                 .bytes = {0, 2 * w->half * (w->q + 2 * w->k)}});
}

struct layer layer_of(const struct cost_setting *setting, int32_t kind)
{
    const struct widths w = widths_of(setting, kind);
    struct layer layer;
    layer.kind = kind;
    layer.n_ops = 0;
    add(&layer, norm_of(setting, &w, "norm before attention"));
    add_attention(&layer, setting, &w, kind);
    add(&layer, norm_of(setting, &w, "norm before the feed-forward block"));
    add_feed_forward(&layer, setting, &w, kind);
    add_between(&layer, setting, &w);
    add_single_operations(&layer, setting, &w, kind);
    return layer;
}

/** Return the bytes that the cross-entropy of one logit moves. */
static double loss_bytes(enum scenario_loss loss, const struct widths *w, bool forward)
{
    const double metric = w->half + 3 * w->full; /* fp32 copy; logarithms of the softmax */
    if (loss == SCENARIO_LOSS_PASSES)
        return forward ? w->half + 7 * w->full : w->half + 3 * w->full;
    return forward ? w->half : 2 * w->half + (loss == SCENARIO_LOSS_FUSED_METRICS ? 2 * metric : 0);
}

struct layer layer_of_head(const struct cost_setting *setting)
{
    const struct widths w = widths_of(setting, 0);
    double logits = cost_logits(setting);
    struct layer layer;
    layer.kind = -1;
    layer.n_ops = 0;
    add(&layer, norm_of(setting, &w, "final norm"));
    if (w.eager_llama)
        add(&layer, single_norms(&w, 1));
    add(&layer, (struct layer_op){MEMORY_BOUND("cross-entropy", DEVICE_LOSS),
                                  .bytes = {loss_bytes(setting->loss, &w, true) * logits,
                                            loss_bytes(setting->loss, &w, false) * logits},
                                  .kept_bytes = (setting->loss == SCENARIO_LOSS_PASSES ? w.full : w.half) * logits});
    add(&layer, (struct layer_op){GEMM("head"), .split = LAYER_COLUMN, .in = w.h, .out = logits});
    return layer;
}

double layer_sum(const struct cost_setting *setting, layer_quantity *quantity)
{
    double sum = 0;
    for (int32_t i = 0; i < setting->n_runs; i++) {
        const struct layer layer = layer_of(setting, setting->runs[i].kind);
        sum += setting->runs[i].n * quantity(setting, &layer);
    }
    return sum;
}

double layer_most(const struct cost_setting *setting, layer_quantity *quantity)
{
    double most = 0;
    for (int32_t i = 0; i < setting->n_runs; i++) {
        const struct layer layer = layer_of(setting, setting->runs[i].kind);
        most = fmax(most, quantity(setting, &layer));
    }
    return most;
}

double layer_parameters(const struct cost_setting *setting, const struct layer *layer)
{
    (void)setting;
    double parameters = 0;
    for (int32_t i = 0; i < layer->n_ops; i++)
        parameters += layer->ops[i].in * layer->ops[i].out + layer->ops[i].vectors;
    return parameters;
}

int64_t layer_matrix_parameters(const struct model *model, int32_t kind)
{
    const struct cost_setting whole = {.model = model, .tensor = 1};
    const struct layer layer = layer_of(&whole, kind);
    double parameters = 0; /* whole numbers below 2^53 */
    for (int32_t i = 0; i < layer.n_ops; i++)
        parameters += layer.ops[i].in * layer.ops[i].out;
    return (int64_t)parameters;
}

double cost_sum_bytes(const struct cost_setting *setting)
{
    bool anew = cost_shards_in_passes(setting) || setting->kernels != SCENARIO_FUSED;
    return anew ? 0 : 2 * cost_precisions(setting).gradient;
}

struct cost_gemm layer_weight_gemm(const struct cost_setting *setting, const struct layer_op *op, double tokens)
{
    return (struct cost_gemm){1, op->in, op->out, tokens, cost_sum_bytes(setting), setting->precision};
}

void layer_add_gemms(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer *layer,
                     enum pass pass, double tokens)
{
    const struct device *device = setting->device;
    for (int32_t i = 0; i < layer->n_ops; i++) {
        const struct layer_op *op = &layer->ops[i];
        if (op->kind != LAYER_GEMM)
            continue;
        if (pass == PASS_FORWARD)
            kernel_add_gemm(kernels, device, op->name[PASS_FORWARD], tokens, op->out, op->in, setting->precision);
        if (pass == PASS_BACKWARD || pass == PASS_INPUT)
            kernel_add_gemm(kernels, device, op->name[PASS_BACKWARD], tokens, op->in, op->out, setting->precision);
        if (pass == PASS_BACKWARD || pass == PASS_WEIGHT)
            kernel_add_gemms(kernels, device, op->name[PASS_WEIGHT], layer_weight_gemm(setting, op, tokens));
    }
}

/** Append the kernel of a memory-bound operator. */
static void add_moved(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer_op *op,
                      enum pass pass, double tokens)
{
    enum pass of = pass == PASS_FORWARD ? PASS_FORWARD : PASS_BACKWARD;
    kernel_add_memory_bound(kernels, setting->device, op->memory_kind, op->name[of], op->bytes[of] * tokens);
}

void layer_add_memory_bound(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer *layer,
                            enum pass pass, double tokens)
{
    for (int32_t i = 0; pass != PASS_WEIGHT && i < layer->n_ops; i++)
        if (layer->ops[i].kind == LAYER_MEMORY_BOUND)
            add_moved(kernels, setting, &layer->ops[i], pass, tokens);
}

void layer_add_listed(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer *layer,
                      enum recompute list, double tokens)
{
    for (int32_t i = 0; i < layer->n_ops; i++) {
        const struct layer_op *op = &layer->ops[i];
        if (op->kind == LAYER_MEMORY_BOUND && (op->list & list) != 0)
            add_moved(kernels, setting, op, PASS_FORWARD, tokens);
        if (op->kind == LAYER_GEMM && (list & RECOMPUTE_ALTERNATE_GEMMS) != 0 && op->alternate.out > 0)
            kernel_add_gemm(kernels, setting->device, op->name[PASS_FORWARD], tokens, op->alternate.out, op->in,
                            setting->precision);
    }
}

void layer_add_ends(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer *layer,
                    double tokens)
{
    for (int32_t i = 0; i < layer->n_ops; i++) {
        const struct layer_op *op = &layer->ops[i];
        if (op->is_end && op->kind == LAYER_MEMORY_BOUND)
            add_moved(kernels, setting, op, PASS_FORWARD, tokens);
        if (op->is_end && op->kind == LAYER_GEMM)
            kernel_add_gemm(kernels, setting->device, op->name[PASS_FORWARD], tokens, op->out, op->in,
                            setting->precision);
    }
}

double layer_listed_bytes(const struct layer *layer, enum recompute list)
{
    double bytes = 0;
    for (int32_t i = 0; i < layer->n_ops; i++) {
        const struct layer_op *op = &layer->ops[i];
        bytes += (op->list & list) != 0 ? op->listed_bytes : 0;
        bytes += (list & RECOMPUTE_ALTERNATE_GEMMS) != 0 ? op->alternate.dropped_bytes : 0;
    }
    return bytes;
}

double layer_kept_bytes(const struct layer *layer, enum recompute list)
{
    enum recompute kept = (enum recompute)((RECOMPUTE_SELECTIVE | RECOMPUTE_ATTENTION_CORE) & ~(unsigned)list);
    double bytes = 0;
    for (int32_t i = 0; i < layer->n_ops; i++) {
        bytes += layer->ops[i].kept_bytes;
        if ((list & RECOMPUTE_ALTERNATE_GEMMS) != 0)
            bytes += layer->ops[i].alternate.added_bytes - layer->ops[i].alternate.dropped_bytes;
    }
    return bytes + layer_listed_bytes(layer, kept);
}

double layer_work_bytes(const struct layer *layer, enum recompute list)
{
    double most = 0;
    for (int32_t i = 0; i < layer->n_ops; i++)
        if (layer->ops[i].list == list && layer->ops[i].work_bytes > most)
            most = layer->ops[i].work_bytes;
    return most;
}

double layer_weight_gradient_bytes(const struct cost_setting *setting, const struct layer *layer)
{
    const double element = cost_precisions(setting).activation;
    double bytes = 0;
    for (int32_t i = 0; i < layer->n_ops; i++) {
        const struct layer_op *op = &layer->ops[i];
        double ranks = op->split == LAYER_COLUMN ? cost_sequence_ranks(setting) : 1;
        bytes += op->kind == LAYER_GEMM ? element * (op->in / ranks + op->out) : 0;
    }
    return bytes;
}

const struct layer_op *layer_last_gemm(const struct layer *layer)
{
    int32_t i = layer->n_ops - 1;
    while (layer->ops[i].kind != LAYER_GEMM)
        i--;
    return &layer->ops[i];
}
