/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module chooses the batches on which a plan search decides, so that five give the mean of many. */
#ifndef SLIMSIM_SEARCH_DECIDING_H
#define SLIMSIM_SEARCH_DECIDING_H

#include "lengths/lengths.h"

enum { SEARCH_DECIDING_ITERATIONS = 5, SEARCH_CANDIDATES = 256 };

/** An iteration of the search's seed. */
struct search_iteration {
    int64_t iteration; /* below SEARCH_CANDIDATES */
    double weight;     /* in the mean; weights add up to 1 */
    double model_flop; /* of its batch */
};

/**
 * Choose the iterations that decide.
 *
 * 1. Iterations 0 .. SEARCH_CANDIDATES - 1 of the seed are drawn. They are sorted by the model FLOPs of their batches,
 *    with attention (ties by iteration).
 * 2. They form SEARCH_DECIDING_ITERATIONS strata of equal sums of FLOPs. A batch belongs to the stratum that contains
 *    the middle of its own FLOPs. An empty stratum takes a batch from its neighbours.
 * 3. The batch nearest to the mean FLOPs of a stratum represents it (ties: the lighter). Its weight is the stratum's
 *    share of the batches.
 *
 * Rare batches of many long documents may take most of the time. So they have a stratum of their own, which is as small
 * as they are rare. With `even` strata have equal numbers of batches, so weights are equal. Systems with a state need
 * this, because their iterations run samples of each other.
 *
 * @param iterations  [SEARCH_DECIDING_ITERATIONS] the middle stratum's, then the others, iterations ascending
 */
void deciding_iterations(const struct lengths *lengths, const struct scenario *scenario, int64_t seed, bool even,
                         struct search_iteration *iterations);

#endif
