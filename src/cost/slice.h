/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The piece of a sample that a unit computes. */
#ifndef SLIMSIM_COST_SLICE_H
#define SLIMSIM_COST_SLICE_H

#include <stdint.h>

/** Tokens [begin, end) of a sample of the batch. Its queries attend to [0, end) causally. */
struct slice {
    int32_t sample, begin, end;
};

static inline int32_t slice_tokens(struct slice slice)
{
    return slice.end - slice.begin;
}

#endif
