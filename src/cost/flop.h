/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These are exact floating-point operations in integers. Nothing is rounded, and samples of the shipped models do
 * not overflow up to 2^23 tokens. */
#ifndef SLIMSIM_COST_FLOP_H
#define SLIMSIM_COST_FLOP_H

#include "cost/slice.h"
#include "scenario/model.h"

/**
 * Passes of a unit through layers. N_PASSES of them cut samples into units of their own.
 *
 * A backward may be split into two steps of one backward unit (Qi et al. 2023, arXiv:2401.10241, section 2). The first
 * computes the gradients of the inputs. The second computes those of the weights at any time after it, and no other
 * pass waits for it. Attention has no weights.
 */
enum pass {
    PASS_FORWARD,
    PASS_BACKWARD, /* in plans, graphs and traces of a pipeline that splits it: the pass that PASS_INPUT names */
    N_PASSES,
    PASS_WEIGHT = N_PASSES, /* gradients of the weights only */
    N_STEP_PASSES,
    PASS_INPUT = N_STEP_PASSES, /* in cost/ only: the backward without PASS_WEIGHT */
    N_COST_PASSES
};

/** "forward", "backward", "weight", "input". */
extern const char *const pass_name[N_COST_PASSES];

/**
 * Work of one layer on the tokens [0, x) of one sample: F(x) = q x^2 + l x.
 *
 *     forward  q = 2w, l = 2P + 2w      backward  q = 5w, l = 4P + 5w
 *
 * 1. w is model_query_width, mostly h. P is model_layer_parameters.
 * 2. Causal attention counts 4w for each query and key that it sees, backward 2.5 times that.
 * 3. GEMMs count 2P a token, backward 4P. The head is left out.
 *
 * Source: SlimPack, section 2.2 (factors 2 and 2.5).
 */
struct flop_curve {
    int64_t q, l;
};

struct flop_curve flop_layer_curve(const struct model *model, enum pass pass);

/** Return F(x). */
static inline int64_t flop_of_prefix(struct flop_curve curve, int64_t tokens)
{
    return tokens * (curve.q * tokens + curve.l);
}

/** Return F(end) - F(begin), one layer's work on a slice [FLOP]. */
static inline int64_t flop_of_slice(struct flop_curve curve, int64_t begin, int64_t end)
{
    return flop_of_prefix(curve, end) - flop_of_prefix(curve, begin);
}

/** Return whether FLOPs of `layers` layers, and of the head, on a sample of `tokens` are below 2^63 in both passes. */
bool flop_fits(const struct model *model, int64_t layers, int64_t tokens);

/** Return the FLOPs of attention in a slice of one layer: forward 2w(b(b+1) - a(a+1)), backward 2.5 times that. */
int64_t flop_attention(const struct model *model, enum pass pass, int64_t begin, int64_t end);

/** Return the FLOPs of the head on `tokens` tokens: 2hV each forward, 4hV backward. */
int64_t flop_head(const struct model *model, enum pass pass, int64_t tokens);

/**
 * Return the model FLOPs of a causal sample of s tokens for MFU. A token counts 6(l P + hV) + 3 l 2w s. The backward
 * counts twice the forward.
 *
 * Source: inferred. It reproduces the MFUs that the group of SlimPack's authors prints.
 */
double flop_model_of_sample(const struct model *model, int64_t tokens);

/** Return the model FLOPs of n samples together. */
double flop_model_of_samples(const struct model *model, const int32_t *tokens, int32_t n);

#endif
