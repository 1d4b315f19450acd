/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file defines the piece of a sample that a micro-batch computes, the passes that compute it, and how
 * context-parallel ranks divide a micro-batch. */
#ifndef SLIMSIM_COST_SLICE_H
#define SLIMSIM_COST_SLICE_H

#include <stdint.h>

/**
 * Passes of a micro-batch through layers. N_PASSES of them cut samples into micro-batches of their own.
 *
 * A backward may be split into two steps of one backward micro-batch (Qi et al. 2023, arXiv:2401.10241, section 2). The
 * first computes the gradients of the inputs. The second computes those of the weights at any time after it, and no
 * other pass waits for it. Attention has no weights.
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

/** Tokens [begin, end) of a sample of the batch. Its queries attend to [0, end) causally. */
struct slice {
    int32_t sample, begin, end;
};

/**
 * Share of a micro-batch that each of its c context ranks computes.
 *
 * 1. SLICE_PER_DOCUMENT: 1/c of every slice. Ranks have equal work and equal tokens. In a contiguous ring
 *    (cost/attention.h), which has only this sharding, they have equal tokens but not equal attention.
 * 2. SLICE_PER_SEQUENCE: the packed sequence of all slices is cut into 2c even chunks. Rank i has chunks i and 2c-1-i.
 *    Ranks have equal tokens but not equal attention (WLB-LLM, arXiv:2503.17924, section 5).
 * 3. SLICE_PLACED: ranks have equal tokens, and blocks of the plan say where attention runs (DistCA). They alone send
 *    anything. Without its blocks a rank counts 1/c of the attention.
 */
enum slice_sharding { SLICE_PER_DOCUMENT, SLICE_PER_SEQUENCE, SLICE_PLACED };

static inline int32_t slice_tokens(struct slice slice)
{
    return slice.end - slice.begin;
}

#endif
