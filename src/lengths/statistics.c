/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lengths/statistics.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"

enum { FIRST_END = 1024 };

static int32_t bucket_of(int32_t tokens)
{
    int32_t i = 0;
    for (int64_t end = FIRST_END; i < STATISTICS_N_BUCKETS - 1 && tokens > end; end *= 2)
        i++;
    return i;
}

static void fill_quantiles(const int32_t *tokens, int64_t n, struct statistics *statistics)
{
    double *sorted = check_malloc((size_t)n * sizeof *sorted);
    for (int64_t i = 0; i < n; i++)
        sorted[i] = tokens[i];
    gsl_sort(sorted, 1, (size_t)n);
    statistics->p5_tokens = gsl_stats_quantile_from_sorted_data(sorted, 1, (size_t)n, 0.05);
    statistics->median_tokens = gsl_stats_quantile_from_sorted_data(sorted, 1, (size_t)n, 0.5);
    statistics->p95_tokens = gsl_stats_quantile_from_sorted_data(sorted, 1, (size_t)n, 0.95);
    statistics->p99_tokens = gsl_stats_quantile_from_sorted_data(sorted, 1, (size_t)n, 0.99);
    statistics->longest_tokens = sorted[n - 1];
    free(sorted);
}

struct statistics statistics_of(const int32_t *tokens, const double *flop, int64_t n)
{
    CHECK(n >= 1);
    struct statistics statistics = {.n_samples = n};
    struct statistics_bucket *bucket = statistics.bucket;
    for (int64_t i = 0; i < n; i++) {
        int32_t b = bucket_of(tokens[i]);
        bucket[b].n_samples++;
        bucket[b].token_share += tokens[i];
        bucket[b].flop_share += flop[i];
        statistics.n_tokens += tokens[i];
        statistics.flop += flop[i];
    }
    for (int32_t b = 0; b < STATISTICS_N_BUCKETS; b++) {
        bucket[b].longest_tokens = b < STATISTICS_N_BUCKETS - 1 ? ldexp(FIRST_END, b) : INFINITY;
        bucket[b].sample_share = (double)bucket[b].n_samples / (double)n;
        bucket[b].token_share /= (double)statistics.n_tokens;
        bucket[b].flop_share /= statistics.flop;
    }
    statistics.mean_tokens = (double)statistics.n_tokens / (double)n;
    fill_quantiles(tokens, n, &statistics);
    return statistics;
}
