/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The piece of a sample that a unit computes, and how ranks of context parallelism divide a unit. */
#ifndef SLIMSIM_COST_SLICE_H
#define SLIMSIM_COST_SLICE_H

#include <stdint.h>

/** Tokens [begin, end) of a sample of the batch. Its queries attend to [0, end) causally. */
struct slice {
    int32_t sample, begin, end;
};

/**
 * What of a unit each of its c context ranks computes: 1/c of every slice, work and tokens alike; or of the packed
 * sequence of all slices, cut into 2c even chunks, rank i chunks i and 2c-1-i, so that ranks have as many tokens but
 * not as much attention (WLB-LLM, arXiv:2503.17924, section 5). A contiguous ring (cost/attention.h) has the first
 * alone, of which its ranks have as many tokens but not as much attention.
 */
enum slice_sharding { SLICE_PER_DOCUMENT, SLICE_PER_SEQUENCE };

static inline int32_t slice_tokens(struct slice slice)
{
    return slice.end - slice.begin;
}

#endif
