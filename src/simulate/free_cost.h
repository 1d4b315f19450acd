/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module prices plans again: what their iterations would take if one cost were zero, and what their work consists
 * of.
 *
 * 1. A plan's graph is built with costs in which one is zero. Its time is that of the critical path.
 * 2. Recomputation takes the seconds of kernels that the same plan saves without it. Padding takes those that the plan
 *    then saves without padding.
 * 3. Without padding there are no micro-batches of padding only. An iteration may then be longer by some 0.1%, since
 *    padding hides collectives.
 * 4. Without waiting each pipeline of a phase ends its passes at the mean of all.
 */
#ifndef SLIMSIM_SIMULATE_FREE_COST_H
#define SLIMSIM_SIMULATE_FREE_COST_H

#include "bounds/path_time.h"
#include "simulate/point_runner.h"

enum free_cost {
#define FREE(id, key, name) FREE_COST_##id,
#include "simulate/free_cost.def"
#undef FREE
    N_FREE_COSTS
};

/** Keys of results in this order, and names for a person. */
extern const char *const free_cost_key[N_FREE_COSTS], *const free_cost_name[N_FREE_COSTS];

/** Sums over the measured iterations of a system. */
struct free_costs {
    double base_s, free_s[N_FREE_COSTS];       /* critical paths, as they are and without each cost */
    struct work least;                         /* without padding and recomputation */
    double kernels_s, padding_s, recomputed_s; /* of all kernels, and what these two add */
    struct work imbalance;                     /* of experts: the busiest rank's work beyond the mean rank's */
    double combine_s;                          /* outputs of experts back */
    double wait_s;                             /* for the host's launches */
    struct path_time path;
};

/** The costs of one system, as they are and with each at zero. */
struct pricing;

/** The scenario and its entry are borrowed. */
struct pricing *pricing_open(const struct scenario *scenario, const struct scenario_system *entry);

/** Add the plan of an iteration to the sums. */
bool pricing_add(struct pricing *pricing, const struct plan *plan, struct free_costs *sums, struct error *err);

/** NULL is allowed. */
void pricing_close(struct pricing *pricing);

#endif
