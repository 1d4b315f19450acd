/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file makes seeded random numbers. Every purpose of every iteration has its own generator, so no draw depends
 * on another's. */
#ifndef SLIMSIM_BASE_RNG_H
#define SLIMSIM_BASE_RNG_H

#include <stdint.h>

/** Purpose of the numbers. With equal seeds and iterations, each purpose gets other numbers. */
enum rng_stream {
    RNG_LENGTHS,
    RNG_TEST,
    RNG_WLB_TRIALS,
    RNG_DYNAPIPE_ORDERS,
    RNG_FAULTS,
    RNG_FAILURES,
    RNG_DATES,
    RNG_JITTER,
    RNG_DOCUMENT_ORDER
};

struct rng;

/**
 * Create GSL's mt19937. Its seed is the low 32 bits, which are all that it takes, of
 *
 *     mix(mix(mix(seed) ^ iteration) ^ stream),   mix = rng_mix
 */
struct rng *rng_create(int64_t seed, int64_t iteration, enum rng_stream stream);

/** Draw a number from the open interval (0, 1). It is uniform and a multiple of 2^-32. */
double rng_uniform(struct rng *rng);

/** Draw uniformly from 0 .. n - 1. n must be in 1 .. 2^32 - 1. */
int64_t rng_index(struct rng *rng, int64_t n);

/** Free a generator. It accepts NULL. */
void rng_free(struct rng *rng);

/**
 * Do one step of splitmix64. It maps 64-bit words one to one, and every input bit moves half of the output bits.
 *
 * Source: Steele, Lea, Flood 2014, Fast splittable pseudorandom number generators (doi:10.1145/2660193.2660195).
 */
uint64_t rng_mix(uint64_t word);

/** Return the standard normal number that a random word stands for, by the quantile of its high 52 bits. */
double rng_normal_of(uint64_t word);

#endif
