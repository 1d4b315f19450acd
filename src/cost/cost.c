/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/cost.h"

#include "base/check.h"

/** Widths of one TP rank's share of a layer, and the tokens of one CP rank. */
struct shares {
    double h, qkv, heads, kv, up, ffn; /* qkv, up: columns of the joint GEMMs; heads: columns of queries */
    double tokens;
};

static struct shares shares_of(const struct cost_setting *setting, const struct cost_unit *unit)
{
    const struct model *model = setting->model;
    int64_t tokens = unit->padding_tokens;
    for (int32_t i = 0; i < unit->n_slices; i++)
        tokens += slice_tokens(unit->slices[i]);
    CHECK(tokens >= 0 && unit->context >= 1 && setting->tensor >= 1);
    double tp = setting->tensor, h = (double)model->hidden, k = (double)model_kv_width(model), f = (double)model->ffn;
    return (struct shares){
        .h = h,
        .qkv = (h + 2 * k) / tp,
        .heads = h / tp,
        .kv = k / tp,
        .up = (model->activation == MODEL_SWIGLU ? 2 * f : f) / tp,
        .ffn = f / tp,
        .tokens = (double)tokens / unit->context,
    };
}

static double layer_gemms_s(const struct device *device, enum pass pass, const struct shares *s)
{
    const double in[] = {s->h, s->heads, s->h, s->ffn}, out[] = {s->qkv, s->h, s->up, s->h};
    double seconds = 0;
    for (int i = 0; i < 4; i++)
        if (pass == PASS_FORWARD)
            seconds += cost_gemm_s(device, s->tokens, out[i], in[i]);
        else
            seconds += cost_gemm_s(device, s->tokens, in[i], out[i]) + cost_gemm_s(device, in[i], out[i], s->tokens);
    return seconds;
}

/** Norms and the activation: what selective recomputation runs again. */
static double norms_and_activation_s(const struct cost_setting *setting, enum pass pass, const struct shares *s)
{
    bool forward = pass == PASS_FORWARD;
    double norm = (forward ? 4 : 6) * s->h / setting->tensor;
    double activation = forward ? 2 * (s->up + s->ffn) : 2 * (2 * s->up + s->ffn);
    return 2 * cost_memory_bound_s(setting->device, norm * s->tokens) +
           cost_memory_bound_s(setting->device, activation * s->tokens);
}

static double layer_memory_bound_s(const struct cost_setting *setting, enum pass pass, const struct shares *s)
{
    const struct device *device = setting->device;
    double add = 6 * s->h / setting->tensor;
    return norms_and_activation_s(setting, pass, s) + 2 * cost_memory_bound_s(device, add * s->tokens) +
           cost_memory_bound_s(device, 4 * s->heads * s->tokens) + cost_memory_bound_s(device, 4 * s->kv * s->tokens);
}

/** All slices in one packed kernel; with CP one kernel for every block of the ring. */
static void add_attention(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                          const struct cost_unit *unit)
{
    const struct model *model = setting->model;
    double seconds = 0, flop = 0, parts = (double)unit->context * setting->tensor;
    double head_dim = (double)model->hidden / (double)model->heads;
    for (int32_t i = 0; i < unit->n_slices; i++) {
        double begin = unit->slices[i].begin, end = unit->slices[i].end;
        struct cost_attention work = {
            .flop = (double)flop_attention(model, pass, unit->slices[i].begin, unit->slices[i].end) / parts,
            .queries = (end - begin) * (begin + end) / end / unit->context,
            .keys = begin + end,
            .head_dim = head_dim,
        };
        flop += work.flop;
        seconds += cost_attention_work_s(setting->device, setting->attention, pass, &work);
    }
    if (flop > 0)
        seconds += unit->context * setting->device->launch_s;
    cost->attention_s += setting->layers * seconds;
    cost->flop += setting->layers * flop;
}

/** `collectives` all-gathers or reduce-scatters of a tensor of hidden width. */
static void add_tensor(struct cost_pass *cost, const struct cost_setting *setting, double tokens, int32_t collectives)
{
    int32_t tp = setting->tensor;
    double bytes = tokens * (double)setting->model->hidden * 2 * (tp - 1) / tp;
    struct cost_transfer one = cost_of_transfer(setting, COST_NVLINK, bytes, tp - 1);
    cost->tensor_bytes += collectives * bytes;
    cost->tensor_s += collectives * one.duration_s * (1 - setting->communication.tp_overlap);
}

static void add_ring(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                     const struct cost_unit *unit)
{
    int32_t steps = unit->context - 1;
    double prefix = 0;
    for (int32_t i = 0; i < unit->n_slices; i++)
        prefix += unit->slices[i].end;
    double bytes = prefix * steps / unit->context * cost_kv_bytes(setting->model, setting->tensor);
    cost->ring_bytes += setting->layers * bytes * (pass == PASS_FORWARD ? 1 : 2);
    if (bytes > 0)
        cost->ring_steps += setting->layers * steps;
}

static void add_layers(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                       const struct cost_unit *unit, const struct shares *s)
{
    double parameters = (double)model_layer_parameters(setting->model) / setting->tensor;
    cost->flop += setting->layers * parameters * s->tokens * (pass == PASS_FORWARD ? 2 : 4);
    cost->other_s +=
        setting->layers * (layer_gemms_s(setting->device, pass, s) + layer_memory_bound_s(setting, pass, s));
    add_attention(cost, setting, pass, unit);
    add_tensor(cost, setting, s->tokens, setting->layers * (pass == PASS_FORWARD ? 4 : 6));
    add_ring(cost, setting, pass, unit);
}

struct cost_pass cost_of_pass(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
{
    struct shares s = shares_of(setting, unit);
    struct cost_pass cost = {.boundary_bytes = 2 * s.tokens * s.h / setting->tensor};
    add_layers(&cost, setting, pass, unit, &s);
    if (pass == PASS_BACKWARD && unit->recompute == RECOMPUTE_FULL)
        add_layers(&cost, setting, PASS_FORWARD, unit, &s);
    if (pass == PASS_BACKWARD && unit->recompute == RECOMPUTE_SELECTIVE)
        cost.other_s += setting->layers * norms_and_activation_s(setting, PASS_FORWARD, &s);
    return cost;
}

struct cost_pass cost_of_head(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
{
    const struct device *device = setting->device;
    struct shares s = shares_of(setting, unit);
    bool forward = pass == PASS_FORWARD;
    double logits = (double)setting->model->vocabulary / setting->tensor;
    struct cost_pass cost = {.flop = (forward ? 2 : 4) * s.tokens * s.h * logits};
    cost.other_s = cost_memory_bound_s(device, (forward ? 4 : 6) * s.h / setting->tensor * s.tokens);
    cost.other_s += cost_memory_bound_s(device, (forward ? 30 : 14) * logits * s.tokens);
    if (forward)
        cost.other_s += cost_gemm_s(device, s.tokens, logits, s.h);
    else
        cost.other_s += cost_gemm_s(device, s.tokens, s.h, logits) + cost_gemm_s(device, s.h, logits, s.tokens);
    add_tensor(&cost, setting, s.tokens, forward ? 1 : 2);
    return cost;
}
