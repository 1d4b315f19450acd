/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/jitter.h"

#include <math.h>

#include "base/rng.h"

struct jitter jitter_of(struct jitter shares, int64_t seed, int64_t iteration)
{
    shares.seed = rng_mix(rng_mix(rng_mix((uint64_t)seed) ^ (uint64_t)iteration) ^ (uint64_t)RNG_JITTER);
    return shares;
}

double jitter_factor(const struct jitter *jitter, bool backward, int32_t gpu, int32_t stage, int32_t micro_batch)
{
    double cv = backward ? jitter->backward : jitter->forward;
    const uint64_t words[] = {backward, (uint64_t)gpu, (uint64_t)stage, (uint64_t)micro_batch};
    uint64_t word = jitter->seed;
    if (cv <= 0)
        return 1;
    for (int i = 0; i < 4; i++)
        word = rng_mix(word ^ words[i]);
    double sigma = sqrt(log1p(cv * cv));
    return exp(sigma * rng_normal_of(word) - sigma * sigma / 2);
}
