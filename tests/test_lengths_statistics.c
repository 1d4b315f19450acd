/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check statistics of lengths. */
#include "harness.h"
#include "lengths/statistics.h"

#include <math.h>

enum { K = 1024 };

/* F(x) = x^2 + 2 x is given 10, 1024 | 1025 | 2048 K | 2048 K + 1 tokens. Edges belong to the bucket below. */
TEST(statistics_of__match_buckets_counted_by_hand)
{
    const int32_t tokens[] = {2048 * K, 10, 1025, 2048 * K + 1, 1024};
    double flop[5], sum = 0;
    for (int i = 0; i < 5; i++) {
        flop[i] = (double)tokens[i] * tokens[i] + 2.0 * tokens[i];
        sum += flop[i];
    }
    struct statistics s = statistics_of(tokens, flop, 5);
    CHECK_EQUAL(s.n_tokens, 2048 * K + 10 + 1025 + 2048 * K + 1 + 1024);
    CHECK_CLOSE(s.flop, sum, 1e-15);
    CHECK_EQUAL(s.bucket[0].n_samples, 2);
    CHECK_EQUAL(s.bucket[1].n_samples, 1);
    CHECK_EQUAL(s.bucket[11].n_samples, 1);
    CHECK_EQUAL(s.bucket[12].n_samples, 1);
    CHECK_CLOSE(s.bucket[0].sample_share, 0.4, 1e-15);
    CHECK_CLOSE(s.bucket[0].token_share, 1034.0 / (double)s.n_tokens, 1e-15);
    CHECK_CLOSE(s.bucket[0].flop_share, (flop[1] + flop[4]) / sum, 1e-15);
    CHECK_CLOSE(s.bucket[11].flop_share, flop[0] / sum, 1e-15);
    CHECK_TRUE(s.bucket[0].longest_tokens == K && s.bucket[11].longest_tokens == 2048 * K);
    CHECK_TRUE(isinf(s.bucket[12].longest_tokens));
}

/* Ranks p (n - 1) of 1, 2, ..., 101 fall on samples, so the p-quantile is 1 + 100 p. */
TEST(statistics_of__give_quantiles_of_ranks)
{
    int32_t tokens[101];
    double flop[101] = {1};
    for (int i = 0; i < 101; i++)
        tokens[i] = 1 + (i * 37) % 101; /* 37 and 101 share no factor, so each number comes once */
    struct statistics s = statistics_of(tokens, flop, 101);
    CHECK_CLOSE(s.p5_tokens, 6, 1e-14);
    CHECK_CLOSE(s.median_tokens, 51, 1e-14);
    CHECK_CLOSE(s.p95_tokens, 96, 1e-14);
    CHECK_CLOSE(s.p99_tokens, 100, 1e-14);
    CHECK_CLOSE(s.longest_tokens, 101, 1e-15);
    CHECK_CLOSE(s.mean_tokens, 51, 1e-15);
}

/* Without the quadratic term FLOPs are tokens. Without the linear one they are squares. */
TEST(statistics_of__give_shares_that_sum_to_one)
{
    int32_t tokens[1000];
    double seven[1000], squares[1000];
    for (int i = 0; i < 1000; i++) {
        tokens[i] = 1 + (int32_t)exp2(i * 31.0 / 1000);
        seven[i] = 7.0 * tokens[i];
        squares[i] = 3.0 * tokens[i] * tokens[i];
    }
    struct statistics linear = statistics_of(tokens, seven, 1000), square = statistics_of(tokens, squares, 1000);
    double samples = 0, tokens_share = 0, flop = 0;
    for (int i = 0; i < STATISTICS_N_BUCKETS; i++) {
        CHECK_CLOSE(linear.bucket[i].flop_share, linear.bucket[i].token_share, 1e-12);
        samples += square.bucket[i].sample_share;
        tokens_share += square.bucket[i].token_share;
        flop += square.bucket[i].flop_share;
    }
    CHECK_CLOSE(samples, 1, 1e-12);
    CHECK_CLOSE(tokens_share, 1, 1e-12);
    CHECK_CLOSE(flop, 1, 1e-12);
}
