/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module draws by how much passes differ that do the same work (`jitter:`). */
#ifndef SLIMSIM_SCENARIO_JITTER_H
#define SLIMSIM_SCENARIO_JITTER_H

#include <stdbool.h>
#include <stdint.h>

/** Coefficients of variation of equal passes: their standard deviation over their mean. 0: all take the mean. */
struct jitter {
    double forward, backward;
    uint64_t seed; /* of an iteration */
};

/** Return the shares with the seed of an iteration. Every system of a scenario has the same draws. */
struct jitter jitter_of(struct jitter shares, int64_t seed, int64_t iteration);

/**
 * Return the factor of one pass. It is lognormal with a mean of 1. The same pass always has the same factor, in
 * whatever order passes are asked for.
 *
 * @param gpu    the first GPU of the tensor-parallel group, whose GPUs wait for each other in every layer
 * @param stage  virtual stage
 */
double jitter_factor(const struct jitter *jitter, bool backward, int32_t gpu, int32_t stage, int32_t micro_batch);

#endif
