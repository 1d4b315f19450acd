/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These are exact floating-point operations in integers. Nothing is rounded, and samples of the shipped models do
 * not overflow up to 2^23 tokens. */
#ifndef SLIMSIM_COST_FLOP_H
#define SLIMSIM_COST_FLOP_H

#include "cost/slice.h"
#include "scenario/model.h"

/** Return the square of x tokens under a window W: x^2 up to W, then (2W - 1) x - W(W - 1). With it, the queries
 * [0, x) see (square + x) / 2 keys. @param window  0: none */
static inline int64_t flop_square(int64_t tokens, int64_t window)
{
    return window == 0 || tokens <= window ? tokens * tokens : (2 * window - 1) * tokens - window * (window - 1);
}

/** FLOPs of attention under one window. */
struct flop_window {
    int64_t q, window;
};

/**
 * Work of layers on the tokens [0, x) of one sample: F(x) = q x^2 + l x + the sum of q_W flop_square(x, W) over
 * windows. For one layer without a window it is
 *
 *     forward  q = 2w, l = 2P + 2w      backward  q = 5w, l = 4P + 5w
 *
 * 1. w is model_query_width, mostly h. P is layer_matrix_parameters: with experts, those that compute a token.
 * 2. Causal attention counts 4w for each query and key that it sees, backward 2.5 times that. Latent attention with
 *    keys of width w and values of width v counts 2w + 2v, backward 6w + 4v.
 * 3. With a window W a query at position p sees min(p + 1, W) keys. Then q is q_W.
 * 4. GEMMs count 2P a token, backward 4P. The head is left out.
 *
 * Source: SlimPack, section 2.2 (factors 2 and 2.5).
 */
struct flop_curve {
    int64_t q, l;
    int32_t n_windows;
    struct flop_window windows[MODEL_MAX_KINDS];
};

/** Return the work of one layer of a kind. */
struct flop_curve flop_layer_curve(const struct model *model, int32_t kind, enum pass pass);

/**
 * Return the work of the model's layers over flop_repeats, the greatest common divisor of the numbers of layers of each
 * kind. With one kind it is the work of one layer. Systems cut samples by it, as only shares matter to them.
 */
struct flop_curve flop_model_curve(const struct model *model, enum pass pass);

/** Return the work of attention in flop_model_curve. */
struct flop_curve flop_attention_curve(const struct model *model, enum pass pass);
int64_t flop_repeats(const struct model *model);

/** Return F(x). */
static inline int64_t flop_of_prefix(struct flop_curve curve, int64_t tokens)
{
    int64_t flop = tokens * (curve.q * tokens + curve.l);
    for (int32_t i = 0; i < curve.n_windows; i++)
        flop += curve.windows[i].q * flop_square(tokens, curve.windows[i].window);
    return flop;
}

/** Return F(end) - F(begin), the work on a slice [FLOP]. */
static inline int64_t flop_of_slice(struct flop_curve curve, int64_t begin, int64_t end)
{
    return flop_of_prefix(curve, end) - flop_of_prefix(curve, begin);
}

/** Return whether FLOPs of `layers` layers of any kind, and of the head, on a sample of `tokens` are below 2^63 in both
 * passes. */
bool flop_fits(const struct model *model, int64_t layers, int64_t tokens);

/** Return the keys that the queries [begin, end) of a sample see together, times two: b(b+1) - a(a+1) without a window.
 */
static inline int64_t flop_twice_keys(int64_t window, int64_t begin, int64_t end)
{
    return flop_square(end, window) + end - flop_square(begin, window) - begin;
}

/** Return the FLOPs of attention in a slice of one layer (flop_curve). */
int64_t flop_attention(const struct model *model, int32_t kind, enum pass pass, int64_t begin, int64_t end);

/** Return the FLOPs of the head on `tokens` tokens: 2hV each forward, 4hV backward. With MTP it runs once more for each
 * of its layers. */
int64_t flop_head(const struct model *model, enum pass pass, int64_t tokens);

/** Parameters of all matrices and the head, and widths of queries, summed over layers; the latter by windows, too. */
struct flop_model {
    double parameters, width;
    double windowed[MODEL_MAX_KINDS]; /* widths of layers with `window` */
    int64_t window[MODEL_MAX_KINDS];
};

struct flop_model flop_model_of(const struct model *model);

/**
 * Return the model FLOPs of a causal sample of s tokens for MFU. A token counts 6 parameters and 6 width s. The
 * backward counts twice the forward. Under a window flop_square replaces s^2. Routers do not count, as in Megatron-LM.
 *
 * Source: inferred. It reproduces the MFUs that the group of SlimPack's authors prints.
 */
static inline double flop_model_of_sample(const struct flop_model *model, int64_t tokens)
{
    double s = (double)tokens, flop = s * (6 * model->parameters + 6 * model->width * s);
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        if (model->window[kind] > 0)
            flop += 6 * model->windowed[kind] * (double)flop_square(tokens, model->window[kind]);
    return flop;
}

/** Return the model FLOPs of n samples together. */
double flop_model_of_samples(const struct model *model, const int32_t *tokens, int32_t n);

#endif
