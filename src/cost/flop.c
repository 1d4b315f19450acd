/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/flop.h"

#include <math.h>

#include "cost/layer.h"

struct flop_curve flop_layer_curve(const struct model *model, int32_t kind, enum pass pass)
{
    int64_t w = model_query_width(model, kind), p = layer_matrix_parameters(model, kind);
    if (pass == PASS_FORWARD)
        return (struct flop_curve){.q = 2 * w, .l = 2 * p + 2 * w};
    return (struct flop_curve){.q = 5 * w, .l = 4 * p + 5 * w};
}

int64_t flop_repeats(const struct model *model)
{
    int64_t n[MODEL_MAX_KINDS], divisor = 0;
    model_count_kinds(model, n);
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        for (int64_t rest = n[kind]; rest != 0;) { /* Euclid's greatest common divisor */
            int64_t left = divisor % rest;
            divisor = rest;
            rest = left;
        }
    return divisor;
}

struct flop_curve flop_model_curve(const struct model *model, enum pass pass)
{
    int64_t n[MODEL_MAX_KINDS], repeats = flop_repeats(model);
    struct flop_curve sum = {0};
    model_count_kinds(model, n);
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++) {
        struct flop_curve curve = n[kind] > 0 ? flop_layer_curve(model, kind, pass) : (struct flop_curve){0};
        sum.q += n[kind] / repeats * curve.q;
        sum.l += n[kind] / repeats * curve.l;
    }
    return sum;
}

bool flop_fits(const struct model *model, int64_t layers, int64_t tokens)
{
    int64_t n_layers[MODEL_MAX_KINDS];
    double n = (double)tokens, largest = 0;
    model_count_kinds(model, n_layers);
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        if (n_layers[kind] > 0) {
            struct flop_curve curve = flop_layer_curve(model, kind, PASS_BACKWARD); /* the larger pass */
            largest = fmax(largest, (double)layers * n * ((double)curve.q * n + (double)curve.l));
        }
    return largest < 0x1p63 && 4.0 * (double)model->hidden * (double)model->vocabulary * n < 0x1p63;
}

int64_t flop_attention(const struct model *model, int32_t kind, enum pass pass, int64_t begin, int64_t end)
{
    int64_t factor = pass == PASS_FORWARD ? 2 : 5;
    return factor * model_query_width(model, kind) * (end * (end + 1) - begin * (begin + 1));
}

int64_t flop_head(const struct model *model, enum pass pass, int64_t tokens)
{
    int64_t factor = pass == PASS_FORWARD ? 2 : 4;
    return factor * model->hidden * model->vocabulary * tokens;
}

struct flop_model flop_model_of(const struct model *model)
{
    int64_t n[MODEL_MAX_KINDS];
    struct flop_model of = {.parameters = (double)model->hidden * (double)model->vocabulary};
    model_count_kinds(model, n);
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        if (n[kind] > 0) {
            of.parameters += (double)n[kind] * (double)layer_matrix_parameters(model, kind);
            of.width += (double)n[kind] * (double)model_query_width(model, kind);
        }
    return of;
}

double flop_model_of_samples(const struct model *model, const int32_t *tokens, int32_t n)
{
    const struct flop_model of = flop_model_of(model);
    double sum_flop = 0;
    for (int32_t i = 0; i < n; i++)
        sum_flop += flop_model_of_sample(&of, tokens[i]);
    return sum_flop;
}
