/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Which batches a plan search decides on, so that five tell the mean of many. */
#ifndef SLIMSIM_SEARCH_DECIDING_H
#define SLIMSIM_SEARCH_DECIDING_H

#include "lengths/lengths.h"

enum { SEARCH_DECIDING_ITERATIONS = 5, SEARCH_CANDIDATES = 256 };

/** An iteration of the search's seed. */
struct search_iteration {
    int64_t iteration; /* 0 .. SEARCH_CANDIDATES - 1 */
    double weight;     /* in the mean; all together 1 */
    double model_flop; /* of its batch */
};

/**
 * Iterations 0 .. SEARCH_CANDIDATES - 1 of the seed are drawn and sorted by the model FLOPs of their batches, attention
 * included (ties by iteration), and cut into SEARCH_DECIDING_ITERATIONS strata of equal sums of FLOPs: a batch belongs
 * to the stratum that the middle of its own FLOPs lies in; where that leaves one empty, its neighbours give. Each
 * stratum is represented by the batch nearest to its mean FLOPs (ties: the lighter), with the stratum's share of the
 * batches as weight. So rare batches of many long documents, which may take most of the time, have a stratum of their
 * own that is as small as they are rare.
 *
 * even: strata of equal numbers of batches, so the weights are equal: for systems that keep a state, whose iterations
 * run samples of one another.
 *
 * @param iterations  [SEARCH_DECIDING_ITERATIONS] that of the middle stratum, then the others, iterations ascending
 */
void deciding_iterations(const struct lengths *lengths, const struct scenario *scenario, int64_t seed, bool even,
                         struct search_iteration *iterations);

#endif
