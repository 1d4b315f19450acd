/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These statistics describe a list of lengths. They tell how few samples hold how much of the work. */
#ifndef SLIMSIM_LENGTHS_STATISTICS_H
#define SLIMSIM_LENGTHS_STATISTICS_H

#include <stdint.h>

/** Buckets end at 1K, 2K, ..., 2M tokens (inclusive). The last one holds all longer samples. */
enum { STATISTICS_N_BUCKETS = 13 };

/** Shares are of all samples, tokens or FLOPs. Each kind sums to 1. */
struct statistics_bucket {
    double longest_tokens; /* the bucket's end, infinite for the last */
    int64_t n_samples;
    double sample_share, token_share, flop_share;
};

struct statistics {
    int64_t n_samples, n_tokens;
    double flop; /* sum of the samples' FLOPs */
    double mean_tokens, p5_tokens, median_tokens, p95_tokens, p99_tokens, longest_tokens;
    struct statistics_bucket bucket[STATISTICS_N_BUCKETS];
};

/**
 * Compute statistics of samples. Quantiles are interpolated between ranks at p (n - 1), as in GSL.
 *
 * @param flop  work of each sample
 * @param n     number of samples, at least 1
 */
struct statistics statistics_of(const int32_t *tokens, const double *flop, int64_t n);

#endif
