/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check random numbers. */
#include "base/rng.h"
#include "harness.h"

/* The authors' reference code gives these first words of splitmix64 started at 0. */
TEST(rng_mix__gives_the_published_words)
{
    CHECK_TRUE(rng_mix(0) == UINT64_C(0xe220a8397b1dcdaf));
    CHECK_TRUE(rng_mix(UINT64_C(0x9e3779b97f4a7c15)) == UINT64_C(0x6e789e6aa1b965f4));
}

/* The numbers are the same on every machine and in every version. NumPy's MT19937, seeded with the mixed seed,
 * agrees. */
TEST(rng__gives_the_pinned_numbers)
{
    struct rng *rng = rng_create(1, 0, RNG_LENGTHS);
    CHECK_EQUAL(rng_index(rng, 1000000), 597925);
    CHECK_EQUAL(rng_index(rng, 1000000), 177225);
    rng_free(rng);
}

TEST(rng__changes_with_seed_iteration_and_stream)
{
    const int64_t cases[][3] = {{1, 0, 0}, {2, 0, 0}, {1, 1, 0}, {1, 0, 1}, {0, 1, 0}, {-1, 0, 0}, {1, -1, 0}};
    enum { N = sizeof cases / sizeof cases[0] };
    double first[N];
    for (int i = 0; i < N; i++) {
        struct rng *rng = rng_create(cases[i][0], cases[i][1], (enum rng_stream)cases[i][2]);
        struct rng *again = rng_create(cases[i][0], cases[i][1], (enum rng_stream)cases[i][2]);
        first[i] = rng_uniform(rng);
        CHECK_TRUE(rng_uniform(again) == first[i]);
        for (int j = 0; j < i; j++)
            CHECK_TRUE(first[j] != first[i]);
        rng_free(rng);
        rng_free(again);
    }
}

/* The mean of n uniform numbers has standard error 1/sqrt(12 n) = 0.00029 for a million. Four of them are allowed. */
TEST(rng__is_uniform)
{
    enum { N = 1000000 };
    struct rng *rng = rng_create(7, 3, RNG_TEST);
    double sum = 0, sum_index = 0;
    for (int i = 0; i < N; i++) {
        double u = rng_uniform(rng);
        if (!(0 < u && u < 1))
            CHECK_TRUE(0 < u && u < 1);
        sum += u;
        sum_index += (double)rng_index(rng, 101);
    }
    CHECK_CLOSE(sum / N, 0.5, 4 * 0.00029 / 0.5);
    CHECK_CLOSE(sum_index / N, 50.0, 4 * 29.2 / 1000 / 50.0); /* sqrt((101^2 - 1)/12) = 29.15 */
    rng_free(rng);
}
