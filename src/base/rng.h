/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Seeded random numbers. Every purpose of every iteration has its own generator, so no draw depends on another's. */
#ifndef SLIMSIM_BASE_RNG_H
#define SLIMSIM_BASE_RNG_H

#include <stdint.h>

/** What the numbers are for: equal seeds and iterations give each purpose other numbers. */
enum rng_stream { RNG_LENGTHS, RNG_TEST, RNG_WLB_TRIALS, RNG_DYNAPIPE_ORDERS, RNG_FAULTS };

struct rng;

/**
 * GSL's mt19937, seeded with the low 32 bits (all it takes) of
 *
 *     mix(mix(mix(seed) ^ iteration) ^ stream),   mix = rng_mix
 */
struct rng *rng_create(int64_t seed, int64_t iteration, enum rng_stream stream);

/** Uniform in the open interval (0, 1), a multiple of 2^-32. */
double rng_uniform(struct rng *rng);

/** Uniform in 0 .. n - 1; n in 1 .. 2^32 - 1. */
int64_t rng_index(struct rng *rng, int64_t n);

/** Takes NULL. */
void rng_free(struct rng *rng);

/**
 * One step of splitmix64: a bijection of 64-bit words in which every input bit moves half of the output bits.
 * Source: Steele, Lea, Flood 2014, Fast splittable pseudorandom number generators (doi:10.1145/2660193.2660195).
 */
uint64_t rng_mix(uint64_t word);

#endif
