/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Orders of samples that several systems start from. */
#ifndef SLIMSIM_PACKING_SAMPLES_H
#define SLIMSIM_PACKING_SAMPLES_H

#include "lengths/lengths.h"

/** Samples of a batch, longest first (so the most FLOPs first), ties by index. Caller frees. */
int32_t *samples_by_length(const struct batch *batch);

/**
 * Sort samples by the place (bin, rank) each was given, keeping their order inside a place.
 *
 * @param order    n samples
 * @param place    of order[i], 0..n_places-1; -1: in none, left out
 * @param first    [n_places + 1] where each place's samples begin in `sample`
 * @param sample   [n] result
 */
void samples_by_place(int32_t n, const int32_t *order, const int32_t *place, int32_t n_places, int32_t *first,
                      int32_t *sample);

#endif
