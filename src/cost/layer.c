/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/layer.h"

#include <math.h>

#include "base/check.h"

/** Widths of one rank's share of a layer, and bytes of an element. */
struct widths {
    double h, sequence;                     /* hidden width, and that of norms and residuals */
    double q, k, f, up;                     /* columns of queries, of keys, of the inner width, of the up GEMM */
    double o;                               /* columns of attention's output */
    double half, full;                      /* bytes of an activation, bytes in fp32 */
    enum precision precision;               /* of the kind's GEMMs */
    double input;                           /* bytes of what a GEMM keeps of its input */
    bool biases, gated, separate, in_place; /* separate: SwiGLU is two operations */
    bool eager, rms_single, layer_norm;     /* RMSNorm of single operations; PyTorch's LayerNorm */
};

static struct widths widths_of(const struct cost_setting *setting, int32_t kind)
{
    const struct model *model = setting->model;
    CHECK(setting->tensor >= 1);
    double tp = setting->tensor, f = (double)model->kinds[kind].ffn;
    bool gated = model_kind_is_gated(&model->kinds[kind]), eager = setting->kernels == SCENARIO_EAGER;
    return (struct widths){
        .h = (double)model->hidden,
        .sequence = cost_sequence_width(setting),
        .q = (double)model_query_width(model, kind) / tp,
        .k = cost_kv_width(setting, kind),
        .o = (double)model_output_width(model, kind) / tp,
        .f = f / tp,
        .up = (gated ? 2 * f : f) / tp,
        .half = cost_precisions(setting).activation,
        .full = precision_bytes(PRECISION_FP32),
        .precision = cost_kind_precision(setting, kind),
        .input = precision_bytes(cost_kind_precision(setting, kind)),
        .biases = model->kinds[kind].biases,
        .gated = gated,
        .separate = gated && (eager || setting->swiglu == SCENARIO_SWIGLU_SEPARATE),
        .in_place = gated && !eager && setting->swiglu == SCENARIO_SWIGLU_IN_PLACE,
        .eager = eager,
        .rms_single = cost_norm_is_single(setting, kind),
        .layer_norm = eager && !cost_norm_is_single(setting, kind),
    };
}

static struct layer_op *add(struct layer *layer, enum layer_op_kind kind)
{
    CHECK(layer->n_ops < LAYER_MAX_OPS);
    struct layer_op *op = &layer->ops[layer->n_ops++];
    *op = (struct layer_op){.kind = kind, .copies = 1, .rows = 1};
    return op;
}

/** Names of a GEMM's kernels: forward, gradient of the input, gradient of the weight. */
#define GEMM_NAMES(name)                                                                                               \
    {                                                                                                                  \
        name " GEMM", name " input-gradient GEMM", name " weight-gradient GEMM"                                        \
    }
#define GEMM(name) (const char *const[]) GEMM_NAMES(name)

static struct layer_op *add_gemm(struct layer *layer, const char *const names[N_STEP_PASSES], enum layer_split split,
                                 double in, double out)
{
    struct layer_op *op = add(layer, LAYER_GEMM);
    for (int pass = 0; pass < N_STEP_PASSES; pass++)
        op->name[pass] = names[pass];
    op->split = split;
    op->in = in;
    op->out = out;
    return op;
}

static struct layer_op *add_memory_bound(struct layer *layer, const char *name, enum device_memory_kind curve,
                                         double forward_bytes, double backward_bytes)
{
    struct layer_op *op = add(layer, LAYER_MEMORY_BOUND);
    for (int pass = 0; pass < N_STEP_PASSES; pass++)
        op->name[pass] = name;
    op->memory_kind = curve;
    op->bytes[PASS_FORWARD] = forward_bytes;
    op->bytes[PASS_BACKWARD] = backward_bytes;
    return op;
}

/** Say how many kernels more or less than one run a memory-bound operator. */
static struct layer_op *count(struct layer_op *op, int32_t forward, int32_t backward)
{
    op->more_launches[PASS_FORWARD] = forward;
    op->more_launches[PASS_BACKWARD] = backward;
    return op;
}

/** Let entries of a list drop all that an operator keeps and repeat it. */
static void let_drop(struct layer_op *op, enum recompute entries)
{
    op->listed_bytes += op->kept_bytes;
    op->kept_bytes = 0;
    op->list = (enum recompute)((unsigned)op->list | (unsigned)entries);
}

static enum device_memory_kind norm_curve(const struct widths *w)
{
    return w->layer_norm ? DEVICE_LAYER_NORM : DEVICE_NORM;
}

/** Add a norm. @param read  bytes of an element of its output as its readers keep it; a router and the head read bf16
 */
static struct layer_op *add_norm(struct layer *layer, const struct cost_setting *setting, const struct widths *w,
                                 const char *name, double read)
{
    double width = w->sequence, half = w->half, full = w->full;
    struct layer_op *op = add_memory_bound(layer, name, norm_curve(w), 2 * half * width, 3 * half * width);
    op->vectors = (double)model_norm_parameters(setting->model);
    op->kept_bytes = half * width;
    op->listed_bytes = (w->rms_single ? half + full : read) * width;
    op->list = RECOMPUTE_NORM;
    op->work_bytes = (w->rms_single ? 2 * half + 6 * full : 4 * half) * width;
    return op;
}

/** Add a norm of `weights` parameters whose output is not kept. Eager norms keep a copy of the input in fp32. Under
 * alternate-gemms the input is computed again if `again`. */
static void add_inner_norm(struct layer *layer, const struct widths *w, const char *name, double width, double weights,
                           bool again)
{
    struct layer_op *op = add_memory_bound(layer, name, norm_curve(w), 2 * w->half * width, 3 * w->half * width);
    op->vectors = weights;
    op->kept_bytes = (w->rms_single ? w->half + w->full : w->half) * width;
    if (again)
        let_drop(op, RECOMPUTE_ALTERNATE_GEMMS);
}

static void add_qk_norms(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    int32_t qk_norm = setting->model->kinds[layer->kind].qk_norm;
    double head = (double)model_head_width(setting->model, layer->kind);
    if (qk_norm == MODEL_NO_QK_NORM)
        return;
    add_inner_norm(layer, w, "norm of queries", w->q, qk_norm == MODEL_HEAD_QK_NORM ? head : w->q, true);
    add_inner_norm(layer, w, "norm of keys", w->k, qk_norm == MODEL_HEAD_QK_NORM ? head : w->k, true);
}

/** Add a norm behind attention or the feed-forward block, if the model has it. */
static void add_norm_behind(struct layer *layer, const struct cost_setting *setting, const struct widths *w,
                            const char *name, bool again)
{
    if (setting->model->norms == 4)
        add_inner_norm(layer, w, name, w->sequence, (double)model_norm_parameters(setting->model), again);
}

/** Add a column-split GEMM that reads what the one before it reads. */
static struct layer_op *add_follower(struct layer *layer, const struct widths *w,
                                     const char *const names[N_STEP_PASSES], double out)
{
    struct layer_op *op = add_gemm(layer, names, LAYER_COLUMN, w->h, out);
    op->vectors = w->biases ? out : 0;
    op->kept_bytes = w->half * out;
    op->shared = w->h;
    op->follows = true;
    return op;
}

/** Add the projections of queries, keys and values: one GEMM or three. Return the one of values. */
static struct layer_op *add_qkv(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    bool joined = !(setting->single & COST_SINGLE_QKV), copied = cost_kv_copies(setting, layer->kind) > 1;
    struct layer_op *op = joined ? add_gemm(layer, GEMM("QKV"), LAYER_COLUMN, w->h, w->q + 2 * w->k)
                                 : add_gemm(layer, GEMM("query"), LAYER_COLUMN, w->h, w->q);
    op->vectors = w->biases ? op->out : 0;
    op->kept_bytes = w->half * op->out;
    op->copied = joined && copied ? 2 * w->k : 0;
    if (joined)
        return op;
    add_follower(layer, w, GEMM("key"), w->k)->copied = copied ? w->k : 0;
    op = add_follower(layer, w, GEMM("value"), w->k);
    op->copied = copied ? w->k : 0;
    return op;
}

/** Add a GEMM that compresses the layer's input to `width` columns, and the norm behind it. Each TP rank has the whole
 * matrix, and its share of the tokens with sequence parallelism. `more` columns have no norm. */
static struct layer_op *add_compression(struct layer *layer, const struct cost_setting *setting, const struct widths *w,
                                        const char *const names[N_STEP_PASSES], double width, double more)
{
    double share = 1.0 / cost_sequence_ranks(setting);
    int32_t down = layer->n_ops;
    add_gemm(layer, names, LAYER_WHOLE, w->h, width + more)->rows = share;
    add_inner_norm(layer, w, "norm of compressed columns", width * share, width, false);
    struct layer_op *norm = &layer->ops[layer->n_ops - 1];
    norm->listed_bytes = w->half * width * share;
    norm->list = RECOMPUTE_NORM;
    return &layer->ops[down];
}

/** Add queries, keys and values of latent attention. */
static void add_latent_qkv(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    const struct model_kind *kind = &setting->model->kinds[layer->kind];
    double heads = (double)kind->heads / setting->tensor, compressed = (double)kind->q_lora_rank;
    double up =
        heads * (double)(model_head_width(setting->model, layer->kind) + model_value_head(setting->model, layer->kind));
    if (compressed > 0)
        add_compression(layer, setting, w, GEMM("query down"), compressed, 0)->shared = w->h;
    add_compression(layer, setting, w, GEMM("key and value down"), (double)kind->kv_lora_rank,
                    (double)kind->rope_width);
    struct layer_op *op = add_gemm(layer, GEMM("query up"), LAYER_COLUMN, compressed > 0 ? compressed : w->h, w->q);
    op->kept_bytes = w->half * w->q;
    let_drop(op, RECOMPUTE_MLA_UP_PROJ);
    op = add_gemm(layer, GEMM("key and value up"), LAYER_COLUMN, (double)kind->kv_lora_rank, up);
    op->kept_bytes = 2 * w->half * w->k;
    let_drop(op, RECOMPUTE_MLA_UP_PROJ);
}

static void add_attention(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    double heads = (double)setting->model->kinds[layer->kind].heads / setting->tensor;
    bool whole = setting->tensor == 1, parallel = setting->model->parallel_attention;
    struct layer_op *op;
    if (setting->model->kinds[layer->kind].kv_lora_rank > 0) {
        add_latent_qkv(layer, setting, w);
    } else {
        op = add_qkv(layer, setting, w);
        op->alternate.out = w->k;
        op->alternate.dropped_bytes = w->half * w->k;
    }

    add_qk_norms(layer, setting, w);
    op = add(layer, LAYER_ATTENTION);
    op->kept_bytes = (w->half + (w->precision == PRECISION_BF16 ? 0 : w->input)) * w->o;
    op->listed_bytes = setting->attention == DEVICE_UNFUSED ? 0 : w->full * heads; /* log-sum-exp */
    op->list = RECOMPUTE_ATTENTION_CORE;

    op = add_gemm(layer, GEMM("projection"), LAYER_ROW, w->o, w->h);
    op->vectors = w->biases ? op->out : 0;
    op->alternate.out = (whole && !parallel) || w->eager ? w->h : 0; /* a norm reads the sum behind it */
    op->alternate.dropped_bytes = (whole || setting->model->norms == 4) && !parallel ? w->half * w->sequence : 0;
    op->shared = parallel ? w->h : 0;
    add_norm_behind(layer, setting, w, "norm behind attention", whole);
}

/** Names of the kernels of a feed-forward block. */
struct block_names {
    const char *gate[N_STEP_PASSES], *up[N_STEP_PASSES], *activation, *down[N_STEP_PASSES];
};

static const struct block_names dense_names = {GEMM_NAMES("gate"), GEMM_NAMES("up"), "activation", GEMM_NAMES("down")};
static const struct block_names expert_names = {
    .up = GEMM_NAMES("experts' up"), .activation = "experts' activation", .down = GEMM_NAMES("experts' down")};
static const struct block_names shared_names = {GEMM_NAMES("shared experts' gate"), GEMM_NAMES("shared experts' up"),
                                                "shared experts' activation", GEMM_NAMES("shared experts' down")};

/** Add a dense feed-forward block, or shared experts, which are one. */
static void add_block(struct layer *layer, const struct cost_setting *setting, const struct widths *w,
                      const struct block_names *names)
{
    bool whole = setting->tensor == 1, fused = w->gated && setting->kernels != SCENARIO_COMPILED;
    bool two = w->gated && setting->single & COST_SINGLE_GATE_UP;
    struct layer_op *op = add_gemm(layer, two ? names->gate : names->up, LAYER_COLUMN, w->h, two ? w->f : w->up);
    op->vectors = w->biases ? op->out : 0;
    op->shared = setting->model->norms == 1 ? w->h : 0;
    op->kept_bytes = w->half * op->out;
    op = two ? add_follower(layer, w, names->up, w->f) : op;
    op->alternate.out = w->f;
    op->alternate.dropped_bytes = w->half * w->f;

    op = add_memory_bound(layer, names->activation, fused ? DEVICE_ACTIVATION : DEVICE_GELU, w->half * (w->up + w->f),
                          w->half * (2 * w->up + w->f));
    op->listed_bytes = ((w->separate ? w->half : 0) + w->input) * w->f;
    op->list = RECOMPUTE_ACTIVATION;
    op->work_bytes = w->half * ((w->in_place ? 0 : w->up) + w->f);

    op = add_gemm(layer, names->down, LAYER_ROW, w->f, w->h);
    op->vectors = w->biases ? op->out : 0;
    op->alternate.added_bytes = w->eager ? w->half * (w->h + (whole ? 0 : w->sequence)) : 0;
    op->is_end = !setting->model->dropout && setting->model->norms != 4;
}

/** Add a GEMM of each routed expert on the rank. All of them together have `rows` rows for a token. */
static struct layer_op *add_expert_gemm(struct layer *layer, const struct cost_setting *setting, const struct widths *w,
                                        const char *const names[N_STEP_PASSES], double rows)
{
    const struct model_kind *kind = &setting->model->kinds[layer->kind];
    bool up = names == expert_names.up;
    double inner = (double)kind->ffn / cost_expert_tensor(setting);
    double columns = model_kind_is_gated(kind) && up ? 2 * inner : inner;
    struct layer_op *op = add_gemm(layer, names, LAYER_WHOLE, up ? w->h : inner, up ? columns : w->h);
    op->of_experts = true;
    op->copies = (double)kind->experts / cost_ep(setting);
    op->rows = rows / op->copies;
    op->vectors = w->biases ? op->copies * op->out : 0;
    return op;
}

/** Add the biases of down projections, which Megatron-Core adds expert by expert behind the GEMMs: the product with the
 * token's weight, the sum, and a copy that joins all experts. */
static void add_expert_biases(struct layer *layer, const struct cost_setting *setting, const struct widths *w,
                              double rows)
{
    double element = w->half * w->h * rows;
    int32_t copies = (int32_t)layer->ops[layer->n_ops - 1].copies;
    if (w->biases && setting->expert_gemms == DEVICE_MULTI_STREAM)
        count(add_memory_bound(layer, "biases of experts", DEVICE_COPY, 6 * element, 8 * element), 2 * copies,
              4 * copies);
}

/** Add the copies that pad each expert's tokens to a multiple of 16, as GEMMs in fp8 need, and those that take the
 * padding out of the outputs. Multi-stream GEMMs have them. The tokens' weights are a kernel more. */
static void add_padding(struct layer *layer, const struct cost_setting *setting, const struct widths *w, double rows)
{
    double copied = (cost_dispatched_bytes(setting, layer->kind) + w->half) * w->h * rows; /* inputs and outputs */
    if (w->precision != PRECISION_BF16 && setting->expert_gemms == DEVICE_MULTI_STREAM && setting->padded_capacity <= 0)
        count(add_memory_bound(layer, "experts' tokens padded", DEVICE_COPY, 2 * copied, 2 * copied), 2, 2);
}

/** Add the routed experts. A token is copied for each expert that computes it, and the copies are added up behind. */
static void add_routed_experts(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    const struct model_kind *kind = &setting->model->kinds[layer->kind];
    const double map = 4, share = 1.0 / cost_sequence_ranks(setting);
    const int32_t split = cost_expert_tensor(setting); /* each of them has the tokens of all */
    bool single = setting->single & COST_SINGLE_PERMUTE;
    enum device_memory_kind sums = single ? DEVICE_SCATTER : DEVICE_PERMUTE;
    double rows = share * (double)kind->top_k * cost_expert_load(setting) * split, inner = (double)kind->ffn / split;
    double up = model_kind_is_gated(kind) ? 2 * inner : inner, columns = w->h * (share + rows / split);
    double moved = w->half * columns, arrived = cost_dispatched_bytes(setting, layer->kind) * columns;
    count(add_memory_bound(layer, "tokens permuted", DEVICE_PERMUTE, arrived, single ? 0 : moved), 6, 4)->kept_bytes =
        w->input * w->h * rows;
    if (single)
        add_memory_bound(layer, "gradients of permuted tokens summed", DEVICE_SCATTER, 0, moved);
    add_padding(layer, setting, w, rows);

    add_expert_gemm(layer, setting, w, expert_names.up, rows)->kept_bytes = w->half * up * rows;
    struct layer_op *op = add_memory_bound(layer, expert_names.activation, DEVICE_ACTIVATION,
                                           w->half * (up + inner) * rows, w->half * (2 * up + inner) * rows);
    op->listed_bytes = w->input * inner * rows;
    op->list = RECOMPUTE_MOE_ACT;
    op->work_bytes = w->half * (up + inner) * rows;
    add_expert_gemm(layer, setting, w, expert_names.down, rows);
    add_expert_biases(layer, setting, w, rows);
    count(add_memory_bound(layer, "tokens put back", sums, moved, arrived), 3, 3)->kept_bytes =
        map * share * (double)kind->top_k;
}

/** Add the router, shared and routed experts. */
static void add_experts(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    const struct model_kind *kind = &setting->model->kinds[layer->kind];
    const double mask = 1, share = 1.0 / cost_sequence_ranks(setting);
    struct layer_op *op = add_gemm(layer, GEMM("router"), LAYER_WHOLE, w->h, (double)kind->experts);
    op->stays_bf16 = true;
    op->rows = share;
    op->vectors = w->biases ? op->out : 0;
    op->kept_bytes = (w->full + mask) * op->out * share; /* scores, and the experts that were chosen */
    op->shared = kind->shared_ffn > 0 ? w->h : 0;
    const struct device_experts *measured =
        setting->device != NULL ? &setting->device->experts : &(struct device_experts){0};
    double scores = measured->router_token_bytes + measured->router_expert_bytes * op->out;
    count(add_memory_bound(layer, "scores and experts of tokens", DEVICE_COPY, scores * share,
                           2 * w->full * op->out * share),
          14, 5);
    if (kind->shared_ffn > 0) {
        struct widths shared = *w;
        shared.f = (double)kind->shared_ffn / setting->tensor;
        shared.up = (w->gated ? 2 : 1) * shared.f;
        add_block(layer, setting, &shared, &shared_names);
        layer->ops[layer->n_ops - 1].is_end = false; /* the routed experts come behind */
    }
    add_routed_experts(layer, setting, w);
}

static void add_feed_forward(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    bool experts = setting->model->kinds[layer->kind].experts > 0;
    int32_t first = layer->n_ops;
    if (experts)
        add_experts(layer, setting, w);
    else
        add_block(layer, setting, w, &dense_names);
    for (int32_t i = first; i < layer->n_ops; i++)
        let_drop(&layer->ops[i], experts ? RECOMPUTE_MOE : RECOMPUTE_MLP);
    add_norm_behind(layer, setting, w, "norm behind the feed-forward block", false);
}

/** Add what a layer that predicts a later token has before attention. The last of its norms is before the head. */
static void add_prediction(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    add_norm(layer, setting, w, "norm of embeddings", w->input);
    add_norm(layer, setting, w, "norm of hidden states", w->input)->vectors +=
        (double)model_norm_parameters(setting->model);
    add_gemm(layer, GEMM("MTP projection"), LAYER_COLUMN, 2 * w->h, w->h / setting->tensor);
}

/** Return the entry of a list that repeats rotations. */
static enum recompute entry_of_rotations(const struct cost_setting *setting, const struct layer *layer)
{
    return setting->model->kinds[layer->kind].kv_lora_rank > 0 ? RECOMPUTE_MLA_UP_PROJ : RECOMPUTE_ALTERNATE_GEMMS;
}

/** Add the operators between GEMMs that keep nothing but masks. */
static void add_between(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    double width = w->sequence, sum = 3 * w->half * width, q = 2 * w->half * w->q, k = 2 * w->half * w->k;
    const double mask = 1;
    struct layer_op *op;
    if (setting->model->dropout) {
        op = add_memory_bound(layer, "dropout of both residuals", DEVICE_COPY, 2 * mask * width,
                              (2 * mask + 4 * w->half) * width);
        count(op, w->eager ? 1 : -1, 1)->kept_bytes = 2 * mask * width;
    }
    op = add_memory_bound(layer, "residual add of attention", DEVICE_COPY, sum, sum);
    op->list = setting->model->parallel_attention ? RECOMPUTE_NONE : RECOMPUTE_ALTERNATE_GEMMS;
    op->is_end = setting->model->parallel_attention; /* no norm reads the sum */
    add_memory_bound(layer, "residual add of the feed-forward block", DEVICE_COPY, sum, sum)->is_end = true;
    if (setting->model->positions > 0)
        return;
    add_memory_bound(layer, "rotation of queries", DEVICE_COPY, q, q)->list = entry_of_rotations(setting, layer);
    add_memory_bound(layer, "rotation of keys", DEVICE_COPY, k, k)->list = entry_of_rotations(setting, layer);
}

/** Add the bytes of n norms of single operations on `width` columns in all, beside those of the fused ones. Each has 8
 * kernels forward and 8 backward, and one is the fused one's. */
static struct layer_op *add_single_norms(struct layer *layer, const struct widths *w, double width, int32_t n)
{
    double forward = 4 * w->half + 7 * w->full - 2 * w->half, backward = 8 * w->half + 13 * w->full - 3 * w->half;
    struct layer_op *op =
        add_memory_bound(layer, "norms by single operations", DEVICE_COPY, forward * width, backward * width);
    op->list = RECOMPUTE_NORM;
    return count(op, 7 * n - 1, 7 * n - 1);
}

/** Return whether the rotation runs as Llama's single operations. */
static bool rotates_singly(const struct cost_setting *setting, const struct widths *w)
{
    return w->gated && setting->model->positions == 0 && setting->kernels != SCENARIO_COMPILED &&
           (w->eager || setting->single & COST_SINGLE_ROTATION);
}

/** Add the sums of inputs' gradients of projections that are GEMMs of their own. A compiler adds them up in GEMMs. */
static void add_input_sums(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    int32_t sums = 0;
    for (int32_t i = 0; i < layer->n_ops; i++)
        sums += layer->ops[i].follows;
    if (sums > 0 && setting->kernels != SCENARIO_COMPILED)
        count(add_memory_bound(layer, "input's gradients summed", DEVICE_COPY, 0, sums * 3 * w->half * w->h), 0,
              sums - 1);
}

/** Return the entries of a list that repeat the activation of a feed-forward block, or of routed experts. */
static enum recompute entries_of_activation(const struct cost_setting *setting, const struct layer *layer)
{
    bool experts = setting->model->kinds[layer->kind].experts > 0;
    return (enum recompute)(experts ? RECOMPUTE_MOE_ACT | RECOMPUTE_MOE : RECOMPUTE_ACTIVATION | RECOMPUTE_MLP);
}

static void add_single_operations(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    double rotations = (10 - 2) * w->half * (w->q + w->k);
    int32_t outside = setting->model->norms == 1 ? 1 : 2;
    if (w->rms_single)
        add_single_norms(layer, w, outside * w->sequence, outside);
    if (w->rms_single && setting->model->norms == 4)
        add_single_norms(layer, w, 2 * w->sequence, 2)->list = RECOMPUTE_NONE;
    if (w->rms_single && setting->model->kinds[layer->kind].qk_norm != MODEL_NO_QK_NORM)
        add_single_norms(layer, w, w->q + w->k, 2)->list = RECOMPUTE_ALTERNATE_GEMMS;
    if (rotates_singly(setting, w))
        count(add_memory_bound(layer, "rotations by single operations", DEVICE_COPY, rotations, rotations), 7, 7)
            ->list = entry_of_rotations(setting, layer);
    if (w->separate)
        count(add_memory_bound(layer, "activation by single operations", DEVICE_COPY, (5 - 3) * w->half * w->f,
                               (9 - 5) * w->half * w->f),
              0, 1)
            ->list = entries_of_activation(setting, layer);
    add_input_sums(layer, setting, w);
    if (w->layer_norm)
        count(add_memory_bound(layer, "norms' weight gradients", norm_curve(w), 0, 2 * 2 * w->half * w->sequence), 0,
              1);
    if (w->eager && !(setting->single & COST_SINGLE_QKV))
        add_memory_bound(layer, "gradients of queries, keys and values joined", DEVICE_COPY, 0,
                         2 * w->half * (w->q + 2 * w->k));
}

/** Return the bytes of a column that a cast with its copies moves. A current scale reads the tensor once more. */
static double cast_bytes(const struct cost_setting *setting, const struct widths *w)
{
    return w->half + cost_fp8_copies(setting) * w->input + (cost_scales_are_current(setting) ? w->half : 0);
}

/** Return the kernels that cast what one GEMM reads. A current scale has three: to find the maximum, make the scale,
 * and cast. Experts have tensors of their own. Before multi-stream GEMMs one kernel casts those of all with delayed
 * scales.
 */
static int32_t cast_kernels(const struct cost_setting *setting, const struct layer_op *op)
{
    bool tensor = setting->precision == PRECISION_FP8_TENSOR, current = cost_scales_are_current(setting);
    bool joint = setting->expert_gemms == DEVICE_MULTI_STREAM && tensor && !current;
    return (current ? 3 : 1) * (op->of_experts && !joint ? (int32_t)op->copies : 1);
}

/** Return the bytes of a column that the cast of a GEMM's input moves. With delayed scales a norm writes the input of
 * the GEMM behind it in fp8, but a transposed copy remains. Other scales are found in the norm's output (Transformer
 * Engine, pytorch/csrc/extensions/normalization.cpp). */
static double input_cast_bytes(const struct cost_setting *setting, const struct widths *w, const struct layer_op *op)
{
    bool delayed = setting->precision == PRECISION_FP8_TENSOR && !cost_scales_are_current(setting);
    bool behind_norm = op->split == LAYER_COLUMN && !op->of_experts;
    if (op->follows)
        return 0;
    return behind_norm && delayed ? 2 * (cost_fp8_copies(setting) - 1) * w->input : cast_bytes(setting, w);
}

/** Return the bytes of a column that the casts of what experts read move. If it was sent in fp8, each token was cast
 * once before, and the copy for the other pass is made of what arrived. */
static double expert_cast_bytes(const struct cost_setting *setting, const struct widths *w, double rows)
{
    double share = 1.0 / cost_sequence_ranks(setting);
    return (w->half + w->input) * share + 2 * (cost_fp8_copies(setting) - 1) * w->input * rows;
}

/** Give the layer's GEMMs their precision, and add the casts of their inputs and of their outputs' gradients. The
 * router has bf16. */
static void add_casts(struct layer *layer, const struct cost_setting *setting, const struct widths *w)
{
    double forward = 0, backward = 0;
    int32_t n_forward = 0, n_backward = 0, n_ops = layer->n_ops;
    if (w->precision == PRECISION_BF16)
        return;
    for (int32_t i = 0; i < n_ops; i++) {
        struct layer_op *op = &layer->ops[i];
        if (op->kind != LAYER_GEMM || op->stays_bf16)
            continue;
        double rows = op->copies * op->rows;
        double input = input_cast_bytes(setting, w, op);
        bool sent = op->of_experts && cost_dispatches_fp8(setting, layer->kind);
        bool up = sent && op->name[PASS_FORWARD] == expert_names.up[PASS_FORWARD], down = sent && !up;
        op->precision = w->precision;
        forward += up ? expert_cast_bytes(setting, w, rows) * op->in : input * op->in * rows;
        backward += down ? expert_cast_bytes(setting, w, rows) * op->out : cast_bytes(setting, w) * op->out * rows;
        n_forward += (input > 0 ? cast_kernels(setting, op) : 0) + up;
        n_backward += cast_kernels(setting, op) + down;
    }
    count(add_memory_bound(layer, "casts to fp8", DEVICE_COPY, forward, backward), n_forward - 1, n_backward - 1)
        ->casts = true;
}

void layer_of(const struct cost_setting *setting, int32_t kind, struct layer *layer)
{
    const struct widths w = widths_of(setting, kind);
    layer->kind = kind;
    layer->n_ops = 0;
    if (kind == MODEL_MTP_KIND)
        add_prediction(layer, setting, &w);
    add_norm(layer, setting, &w, "norm before attention", w.input);
    add_attention(layer, setting, &w);
    if (setting->model->norms != 1) {
        double read = setting->model->kinds[kind].experts > 0 ? w.half : w.input;
        struct layer_op *op = add_norm(layer, setting, &w, "norm before the feed-forward block", read);
        op->kept_bytes = setting->model->parallel_attention ? 0 : op->kept_bytes; /* the first norm keeps this input */
    }
    add_feed_forward(layer, setting, &w);
    add_between(layer, setting, &w);
    add_single_operations(layer, setting, &w);
    add_casts(layer, setting, &w);
}

/** Return the bytes that the cross-entropy of one logit moves. */
static double loss_bytes(enum scenario_loss loss, const struct widths *w, bool forward)
{
    const double metric = w->half + 3 * w->full; /* fp32 copy; logarithms of the softmax */
    if (loss == SCENARIO_LOSS_FUSED_LINEAR)      /* read for the sum, read again, and the gradient is written */
        return forward ? 3 * w->half : 0;
    if (loss == SCENARIO_LOSS_PASSES || loss == SCENARIO_LOSS_TORCH)
        return forward ? w->half + 7 * w->full : w->half + 3 * w->full;
    return forward ? w->half : 2 * w->half + (loss == SCENARIO_LOSS_FUSED_METRICS ? 2 * metric : 0);
}

void layer_of_head(const struct cost_setting *setting, struct layer *layer)
{
    const struct widths w = widths_of(setting, 0);
    double logits = cost_loss_logits(setting), share = cost_logits(setting);
    layer->kind = layer->n_ops = 0;
    add_norm(layer, setting, &w, "final norm", w.half);
    if (w.rms_single)
        add_single_norms(layer, &w, w.sequence, 1);
    add_memory_bound(layer, "cross-entropy", DEVICE_LOSS, loss_bytes(setting->loss, &w, true) * logits,
                     loss_bytes(setting->loss, &w, false) * logits)
        ->kept_bytes = cost_kept_logit_bytes(setting) * logits;
    if (logits > share) /* gathered one after the other, then joined; backward cuts the share out */
        add_memory_bound(layer, "logits joined", DEVICE_COPY, 2 * w.half * logits, 2 * w.half * share);
    add_gemm(layer, GEMM("head"), LAYER_COLUMN, w.h, share);
}

double layer_sum(const struct cost_setting *setting, layer_quantity *quantity)
{
    double sum = 0;
    for (int32_t i = 0; i < setting->n_runs; i++) {
        struct layer layer;
        layer_of(setting, setting->runs[i].kind, &layer);
        sum += setting->runs[i].n * quantity(setting, &layer);
    }
    return sum;
}

double layer_most(const struct cost_setting *setting, layer_quantity *quantity)
{
    double most = 0;
    for (int32_t i = 0; i < setting->n_runs; i++) {
        struct layer layer;
        layer_of(setting, setting->runs[i].kind, &layer);
        most = fmax(most, quantity(setting, &layer));
    }
    return most;
}

static double op_parameters(const struct layer_op *op)
{
    return op->copies * (op->in * op->out) + op->vectors;
}

double layer_parameters(const struct cost_setting *setting, const struct layer *layer)
{
    (void)setting;
    double parameters = 0;
    for (int32_t i = 0; i < layer->n_ops; i++)
        parameters += op_parameters(&layer->ops[i]);
    return parameters;
}

double layer_expert_parameters(const struct cost_setting *setting, const struct layer *layer)
{
    (void)setting;
    double parameters = 0;
    for (int32_t i = 0; i < layer->n_ops; i++)
        parameters += layer->ops[i].of_experts ? op_parameters(&layer->ops[i]) : 0;
    return parameters;
}

double layer_active_parameters(const struct cost_setting *setting, const struct layer *layer)
{
    (void)setting;
    double parameters = 0;
    for (int32_t i = 0; i < layer->n_ops; i++)
        parameters += op_parameters(&layer->ops[i]) * (layer->ops[i].of_experts ? layer->ops[i].rows : 1);
    return parameters;
}

int64_t layer_matrix_parameters(const struct model *model, int32_t kind)
{
    const struct cost_setting whole = {.model = model, .tensor = 1};
    struct layer layer;
    layer_of(&whole, kind, &layer);
    double parameters = 0; /* whole numbers below 2^53, but for the shares of experts */
    for (int32_t i = 0; i < layer.n_ops; i++)
        parameters += layer.ops[i].in * layer.ops[i].out * (layer.ops[i].copies * layer.ops[i].rows);
    return (int64_t)(parameters + 0.5);
}

double cost_sum_bytes(const struct cost_setting *setting)
{
    bool anew = cost_shards_in_passes(setting) || setting->staged;
    return anew || setting->gradient_accumulation != SCENARIO_ACCUMULATE_FUSED ? 0
                                                                               : 2 * cost_precisions(setting).gradient;
}

double cost_added_bytes(const struct cost_setting *setting, bool first)
{
    const double made = cost_precisions(setting).activation, sum = cost_precisions(setting).gradient;
    if (cost_shards_in_passes(setting) || setting->staged ||
        setting->gradient_accumulation == SCENARIO_ACCUMULATE_FUSED)
        return 0;
    if (setting->gradient_accumulation == SCENARIO_ACCUMULATE_FP32_COPY)
        return 3 * made + (made + sum) + 3 * sum + made;
    return first && sum == made ? 0 : made + 2 * sum;
}

struct cost_gemm layer_weight_gemm(const struct cost_setting *setting, const struct layer_op *op, double tokens)
{
    return (struct cost_gemm){
        1, op->in, op->out, op->rows * tokens, cost_sum_bytes(setting), op->precision, DEVICE_SEQUENTIAL};
}

static struct cost_gemm forward_gemm(const struct layer_op *op, double tokens)
{
    return (struct cost_gemm){1, op->rows * tokens, op->out, op->in, 0, op->precision, DEVICE_SEQUENTIAL};
}

/** Append the GEMMs of an operator in one pass. Several copies run one after the other, or as one kernel. */
static void add_products(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer_op *op,
                         enum pass pass, struct cost_gemm gemm)
{
    int32_t n = kernels->n;
    gemm.experts = op->of_experts ? (enum device_expert_gemms)setting->expert_gemms : DEVICE_SEQUENTIAL;
    bool grouped = gemm.experts == DEVICE_GROUPED;
    gemm.batch = grouped ? op->copies : 1;
    kernel_add_gemms(kernels, setting->device, op->name[pass], gemm);
    kernel_repeat(kernels, n, grouped ? 1 : op->copies);
    kernels->kernel[n].of_experts = op->of_experts;
    kernels->kernel[n].precision = op->precision;
}

void layer_add_gemms(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer *layer,
                     enum pass pass, double tokens)
{
    for (int32_t i = 0; i < layer->n_ops; i++) {
        const struct layer_op *op = &layer->ops[i];
        double rows = op->rows * tokens;
        if (op->kind != LAYER_GEMM)
            continue;
        if (pass == PASS_FORWARD)
            add_products(kernels, setting, op, PASS_FORWARD, forward_gemm(op, tokens));
        if (pass == PASS_BACKWARD || pass == PASS_INPUT)
            add_products(kernels, setting, op, PASS_BACKWARD,
                         (struct cost_gemm){1, rows, op->in, op->out, 0, op->precision, DEVICE_SEQUENTIAL});
        if (pass == PASS_BACKWARD || pass == PASS_WEIGHT)
            add_products(kernels, setting, op, PASS_WEIGHT, layer_weight_gemm(setting, op, tokens));
        if ((pass == PASS_BACKWARD || pass == PASS_WEIGHT) && op->vectors > 0)
            kernels->kernel[kernels->n - 1].launches += op->copies; /* the biases' gradients */
    }
}

/** Append the kernel of a memory-bound operator. */
static void add_moved(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer_op *op,
                      enum pass pass, double tokens)
{
    enum pass of = pass == PASS_FORWARD ? PASS_FORWARD : PASS_BACKWARD;
    int32_t n = kernels->n;
    kernel_add_memory_bound(kernels, setting->device, op->memory_kind, op->name[of], op->bytes[of] * tokens);
    if (kernels->n > n)
        kernels->kernel[n].launches += op->more_launches[of], kernels->kernel[n].casts = op->casts;
}

void layer_add_memory_bound(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer *layer,
                            enum pass pass, double tokens)
{
    for (int32_t i = 0; pass != PASS_WEIGHT && i < layer->n_ops; i++)
        if (layer->ops[i].kind == LAYER_MEMORY_BOUND)
            add_moved(kernels, setting, &layer->ops[i], pass, tokens);
}

/** Return whether alternate-gemms repeats a part of a GEMM. */
static bool alternates(const struct layer_op *op, enum recompute list)
{
    return (list & RECOMPUTE_ALTERNATE_GEMMS) != 0 && !layer_repeats(op, list);
}

void layer_add_listed(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer *layer,
                      enum recompute list, double tokens)
{
    for (int32_t i = 0; i < layer->n_ops; i++) {
        const struct layer_op *op = &layer->ops[i];
        if (op->kind == LAYER_MEMORY_BOUND && layer_repeats(op, list))
            add_moved(kernels, setting, op, PASS_FORWARD, tokens);
        if (op->kind == LAYER_GEMM && layer_repeats(op, list))
            add_products(kernels, setting, op, PASS_FORWARD, forward_gemm(op, tokens));
        if (op->kind == LAYER_GEMM && alternates(op, list) && op->alternate.out > 0)
            kernel_add_gemms(
                kernels, setting->device, op->name[PASS_FORWARD],
                (struct cost_gemm){1, tokens, op->alternate.out, op->in, 0, op->precision, DEVICE_SEQUENTIAL});
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
            kernel_add_gemms(kernels, setting->device, op->name[PASS_FORWARD],
                             (struct cost_gemm){1, tokens, op->out, op->in, 0, op->precision, DEVICE_SEQUENTIAL});
    }
}

double layer_listed_bytes(const struct layer *layer, enum recompute list)
{
    double bytes = 0;
    for (int32_t i = 0; i < layer->n_ops; i++) {
        const struct layer_op *op = &layer->ops[i];
        bytes += layer_repeats(op, list) ? op->listed_bytes : 0;
        bytes += alternates(op, list) ? op->alternate.dropped_bytes : 0;
    }
    return bytes;
}

double layer_kept_bytes(const struct layer *layer, enum recompute list)
{
    double bytes = 0;
    for (int32_t i = 0; i < layer->n_ops; i++) {
        const struct layer_op *op = &layer->ops[i];
        bytes += op->kept_bytes + (layer_repeats(op, list) ? 0 : op->listed_bytes);
        bytes += alternates(op, list) ? op->alternate.added_bytes - op->alternate.dropped_bytes : 0;
    }
    return bytes;
}

double layer_work_bytes(const struct layer *layer, enum recompute list)
{
    double most = 0;
    for (int32_t i = 0; i < layer->n_ops; i++)
        if (layer_repeats(&layer->ops[i], list) && layer->ops[i].work_bytes > most)
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
        double shared = op->shared / (op->split == LAYER_COLUMN ? ranks : 1);
        bytes += op->kind == LAYER_GEMM ? element * op->copies * op->rows * (op->in / ranks + op->out - shared) : 0;
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
