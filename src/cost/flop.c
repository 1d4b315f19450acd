/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/flop.h"

const char *const pass_name[N_COST_PASSES] = {"forward", "backward", "weight", "input"};

struct flop_curve flop_layer_curve(const struct model *model, enum pass pass)
{
    int64_t w = model_query_width(model), p = model_layer_parameters(model);
    if (pass == PASS_FORWARD)
        return (struct flop_curve){.q = 2 * w, .l = 2 * p + 2 * w};
    return (struct flop_curve){.q = 5 * w, .l = 4 * p + 5 * w};
}

bool flop_fits(const struct model *model, int64_t layers, int64_t tokens)
{
    struct flop_curve curve = flop_layer_curve(model, PASS_BACKWARD); /* the larger one */
    double n = (double)tokens, body = (double)layers * n * ((double)curve.q * n + (double)curve.l);
    return body < 0x1p63 && 4.0 * (double)model->hidden * (double)model->vocabulary * n < 0x1p63;
}

int64_t flop_attention(const struct model *model, enum pass pass, int64_t begin, int64_t end)
{
    int64_t factor = pass == PASS_FORWARD ? 2 : 5;
    return factor * model_query_width(model) * (end * (end + 1) - begin * (begin + 1));
}

int64_t flop_head(const struct model *model, enum pass pass, int64_t tokens)
{
    int64_t factor = pass == PASS_FORWARD ? 2 : 4;
    return factor * model->hidden * model->vocabulary * tokens;
}

double flop_model_of_sample(const struct model *model, int64_t tokens)
{
    double h = (double)model->hidden, l = (double)model->layers, s = (double)tokens;
    double weights = l * (double)model_layer_parameters(model) + h * (double)model->vocabulary;
    return s * (6 * weights + 6 * l * (double)model_query_width(model) * s);
}

double flop_model_of_samples(const struct model *model, const int32_t *tokens, int32_t n)
{
    double sum_flop = 0;
    for (int32_t i = 0; i < n; i++)
        sum_flop += flop_model_of_sample(model, tokens[i]);
    return sum_flop;
}
