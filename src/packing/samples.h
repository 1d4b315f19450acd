/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file orders samples for several systems. */
#ifndef SLIMSIM_PACKING_SAMPLES_H
#define SLIMSIM_PACKING_SAMPLES_H

#include "lengths/lengths.h"

/** Return the samples of a batch, longest first (so with the most FLOPs first), ties by index. The caller frees the
 * result. */
int32_t *samples_by_length(const struct batch *batch);

/**
 * Sort samples by the bin or rank that each was given. Inside a bin they keep their order.
 *
 * @param order    n samples
 * @param bin      bin of order[i], 0..n_bins-1; -1: in none, the sample is left out
 * @param first    [n_bins + 1] start of each bin's samples in `sample`
 * @param sample   [n] result
 */
void samples_by_bin(int32_t n, const int32_t *order, const int32_t *bin, int32_t n_bins, int32_t *first,
                    int32_t *sample);

#endif
