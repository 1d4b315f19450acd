/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file defines a micro-batch as one rank computes it. */
#ifndef SLIMSIM_COST_UNIT_H
#define SLIMSIM_COST_UNIT_H

#include "cost/slice.h"
#include "scenario/scenario.h"

/** One micro-batch (SlimPack: MicroPack) as one of its `context` ranks computes it. If ranks are unequal, it is the
 * slowest. */
struct cost_micro_batch {
    const struct slice *slices;
    int32_t n_slices;
    int32_t padding_tokens; /* tokens that GEMMs compute and attention does not; context parallelism sends them */
    int32_t context;        /* CP degree */
    enum recompute recompute;
    enum slice_sharding sharding; /* share of the micro-batch that the rank computes */
    int32_t parts;                /* nano-batches of its tokens, one after the other in every layer; 0 is 1 */
    bool first;                   /* its backward makes the rank's first gradients of the step */
};

/** Return the tokens of all slices and padding on one of the `context` ranks. It is a real number, since ranks share
 * evenly. */
double cost_micro_batch_tokens(const struct cost_micro_batch *micro_batch);

/** Return the number of nano-batches. */
static inline int32_t cost_parts(const struct cost_micro_batch *micro_batch)
{
    return micro_batch->parts > 1 ? micro_batch->parts : 1;
}

/** Return the tokens whose keys and values all context ranks hold together: the slices' prefixes, and padding. */
double cost_prefix_tokens(const struct cost_micro_batch *micro_batch);

#endif
