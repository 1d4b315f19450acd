/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file defines the piece of a sample that a unit computes, and how context-parallel ranks divide a unit. */
#ifndef SLIMSIM_COST_SLICE_H
#define SLIMSIM_COST_SLICE_H

#include <stdint.h>

/** Tokens [begin, end) of a sample of the batch. Its queries attend to [0, end) causally. */
struct slice {
    int32_t sample, begin, end;
};

/**
 * Share of a unit that each of its c context ranks computes.
 *
 * 1. SLICE_PER_DOCUMENT: 1/c of every slice. Ranks have equal work and equal tokens. In a contiguous ring
 *    (cost/attention.h), which has only this sharding, they have equal tokens but not equal attention.
 * 2. SLICE_PER_SEQUENCE: the packed sequence of all slices is cut into 2c even chunks. Rank i has chunks i and 2c-1-i.
 *    Ranks have equal tokens but not equal attention (WLB-LLM, arXiv:2503.17924, section 5).
 */
enum slice_sharding { SLICE_PER_DOCUMENT, SLICE_PER_SEQUENCE };

static inline int32_t slice_tokens(struct slice slice)
{
    return slice.end - slice.begin;
}

#endif
