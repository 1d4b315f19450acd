/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/flop.h"

#include <math.h>

#include "cost/layer.h"

/** Return the FLOPs of attention of a key that a query sees, over 2: both products forward, all five backward. */
static int64_t attention_width(const struct model *model, int32_t kind, enum pass pass)
{
    int64_t keys = model_query_width(model, kind), values = model_output_width(model, kind);
    return pass == PASS_FORWARD ? keys + values : 3 * keys + 2 * values;
}

/** Add n times the FLOPs of attention in a layer of a kind. */
static void add_attention(struct flop_curve *curve, const struct model *model, int32_t kind, enum pass pass, int64_t n)
{
    int64_t window = model->kinds[kind].window, q = n * attention_width(model, kind, pass);
    curve->l += q;
    if (window == 0)
        curve->q += q;
    else
        curve->windows[curve->n_windows++] = (struct flop_window){q, window};
}

/** Add n times the FLOPs of a layer of a kind. */
static void add_layers(struct flop_curve *curve, const struct model *model, int32_t kind, enum pass pass, int64_t n)
{
    curve->l += n * (pass == PASS_FORWARD ? 2 : 4) * layer_matrix_parameters(model, kind);
    add_attention(curve, model, kind, pass, n);
}

struct flop_curve flop_layer_curve(const struct model *model, int32_t kind, enum pass pass)
{
    struct flop_curve curve = {0};
    add_layers(&curve, model, kind, pass, 1);
    return curve;
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

/** Return the sum over all kinds of what `add` adds for a layer, over flop_repeats. */
static struct flop_curve sum_of(const struct model *model, enum pass pass,
                                void (*add)(struct flop_curve *curve, const struct model *model, int32_t kind,
                                            enum pass pass, int64_t n))
{
    int64_t n[MODEL_MAX_KINDS], repeats = flop_repeats(model);
    struct flop_curve sum = {0};
    model_count_kinds(model, n);
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        if (n[kind] > 0)
            add(&sum, model, kind, pass, n[kind] / repeats);
    return sum;
}

struct flop_curve flop_model_curve(const struct model *model, enum pass pass)
{
    return sum_of(model, pass, add_layers);
}

struct flop_curve flop_attention_curve(const struct model *model, enum pass pass)
{
    return sum_of(model, pass, add_attention);
}

bool flop_fits(const struct model *model, int64_t layers, int64_t tokens)
{
    int64_t n_layers[MODEL_MAX_KINDS];
    double n = (double)tokens, largest = 0;
    model_count_kinds(model, n_layers);
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        if (n_layers[kind] > 0) {
            struct flop_curve curve = flop_layer_curve(model, kind, PASS_BACKWARD); /* the larger pass */
            double flop = n * ((double)curve.q * n + (double)curve.l);
            if (curve.n_windows > 0)
                flop += (double)curve.windows[0].q * (double)flop_square(tokens, curve.windows[0].window);
            largest = fmax(largest, (double)layers * flop);
        }
    return largest < 0x1p63 &&
           4.0 * (double)model->hidden * (double)model->vocabulary * (double)(1 + model->mtp_layers) * n < 0x1p63;
}

int64_t flop_attention(const struct model *model, int32_t kind, enum pass pass, int64_t begin, int64_t end)
{
    return attention_width(model, kind, pass) * flop_twice_keys(model->kinds[kind].window, begin, end);
}

int64_t flop_head(const struct model *model, enum pass pass, int64_t tokens)
{
    int64_t factor = pass == PASS_FORWARD ? 2 : 4;
    return factor * model->hidden * model->vocabulary * (1 + model->mtp_layers) * tokens;
}

struct flop_model flop_model_of(const struct model *model)
{
    int64_t n[MODEL_MAX_KINDS];
    struct flop_model of = {.parameters =
                                (double)model->hidden * (double)model->vocabulary * (double)(1 + model->mtp_layers)};
    model_count_kinds(model, n);
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        if (n[kind] > 0) {
            of.parameters += (double)n[kind] * (double)layer_matrix_parameters(model, kind);
            of.parameters -= (double)n[kind] * (double)model->hidden * (double)model->kinds[kind].experts;
            double width = (double)n[kind] * (double)attention_width(model, kind, PASS_FORWARD) / 2;
            of.window[kind] = model->kinds[kind].window;
            *(of.window[kind] > 0 ? &of.windowed[kind] : &of.width) += width;
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
