/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/rng.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_rng.h>
#include <stdlib.h>

#include "base/check.h"

struct rng {
    gsl_rng generator; /* gsl_rng_alloc would seed it twice, and thousands of trainings are drawn with one each */
};

uint64_t rng_mix(uint64_t word)
{
    word += UINT64_C(0x9e3779b97f4a7c15);
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

double rng_normal_of(uint64_t word)
{
    return gsl_cdf_ugaussian_Pinv(((double)(word >> 12) + 0.5) * 0x1p-52);
}

struct rng *rng_create(int64_t seed, int64_t iteration, enum rng_stream stream)
{
    struct rng *rng = check_malloc(sizeof *rng);
    rng->generator = (gsl_rng){gsl_rng_mt19937, check_malloc(gsl_rng_mt19937->size)};
    uint64_t word = rng_mix(rng_mix(rng_mix((uint64_t)seed) ^ (uint64_t)iteration) ^ (uint64_t)stream);
    gsl_rng_set(&rng->generator, word & UINT64_C(0xffffffff));
    return rng;
}

double rng_uniform(struct rng *rng)
{
    return gsl_rng_uniform_pos(&rng->generator);
}

int64_t rng_index(struct rng *rng, int64_t n)
{
    CHECK(1 <= n && n <= INT64_C(0xffffffff));
    return (int64_t)gsl_rng_uniform_int(&rng->generator, (unsigned long)n);
}

void rng_free(struct rng *rng)
{
    if (rng == NULL)
        return;
    free(rng->generator.state);
    free(rng);
}
