/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module ranks the systems of a point and says where the time of their GPUs goes. */
#ifndef SLIMSIM_SIMULATE_STANDING_H
#define SLIMSIM_SIMULATE_STANDING_H

#include "simulate/summary.h"

struct standing {
    int32_t system; /* index in the point */
    int32_t rank;   /* from 1, ties share it; 0: the system does not fit */
};

/**
 * Rank the systems by model FLOPs a second. With the same samples this is the order of tokens a second.
 *
 * 1. Systems that fit tightly come after the others, unless the scenario has `fits: tight`. Systems that do not fit
 *    come last, in the order of the scenario.
 * 2. A system ties with the best one of a rank if the interval of their ratio includes 1 (simulate/interval.h).
 * 3. Without an interval, only equal rates tie.
 *
 * @param summaries  [n_systems], which get their ranks
 * @param standings  [n_systems], the best first
 */
void standings_of(const struct scenario *scenario, const struct point *point, struct trace_summary *summaries,
                  struct standing *standings);

/** The systems of a point with their summaries and ranks. {0} is empty. */
struct ranked_point {
    struct trace_summary *summaries; /* [n_systems], in the order of the scenario */
    struct standing *standings;      /* [n_systems], the best first */
};

struct ranked_point ranked_point_of(const struct scenario *scenario, const struct point *point);
void ranked_point_free(struct ranked_point *ranked);

/** Return the summaries of all systems with their ranks. The caller frees them. */
struct trace_summary *point_summaries_of(const struct scenario *scenario, const struct point *point);

/** Parts of the GPUs' time. The exposed collectives come after waiting. */
enum time_part {
    TIME_COMPUTE,
    TIME_WAITING,
    TIME_CONTEXT,
    TIME_TENSOR,
    TIME_SHARDS,
    TIME_EXPERTS,
    TIME_GRADIENTS,
    TIME_RESHARD,
    TIME_N_PARTS
};

/** Names for a sentence: "context parallelism", "tensor collectives". */
extern const char *const time_part_name[TIME_N_PARTS];

/** Shares of the GPUs' time over the measured iterations; their sum is 1. */
struct time_shares {
    double share[TIME_N_PARTS];
};

struct time_shares time_shares_of(const struct trace_summary *summary);

/** Return the sum of the exposed collectives. */
double time_exposed(const struct time_shares *shares);

#endif
