/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file packs samples into bins by best-fit decreasing (Ding et al. 2024, arXiv:2404.10830). */
#ifndef SLIMSIM_LENGTHS_BINS_H
#define SLIMSIM_LENGTHS_BINS_H

#include <stdint.h>

/** Return n samples, longest first (so with the most FLOPs first), ties by index. The caller frees the result. */
int32_t *bins_order(const int32_t *tokens, int32_t n);

/**
 * Pack samples in O(n log capacity). Each goes into the fullest bin that still holds it (ties: the lowest). Otherwise
 * it opens a new bin.
 *
 * @param tokens    of each sample, 1..capacity
 * @param order     n samples, longest first
 * @param capacity  tokens of a bin, below 2^30
 * @param bin       [n] bin of each sample in `order`
 * @return          the number of bins
 */
int32_t bins_pack(const int32_t *tokens, const int32_t *order, int32_t n, int32_t capacity, int32_t *bin);

/**
 * Return how many of the first samples fill `n_bins` bins, so that the next one would open another.
 *
 * @param n  samples whose tokens are at most those of the bins
 */
int32_t bins_prefix(const int32_t *tokens, int32_t n, int32_t capacity, int32_t n_bins);

#endif
