/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module orders resolved plans, and finds the times that others must reach (search/search.h, steps 1 and 2). */
#ifndef SLIMSIM_SEARCH_RANKING_H
#define SLIMSIM_SEARCH_RANKING_H

#include "search/search_result.h"

/** Return whether TP, PP, CP and DP are the same. */
bool ranking_same_layout(const struct scenario_plan *a, const struct scenario_plan *b);

/**
 * Return the expected time of a plan that takes time_s on the iteration that ranks (search/search.h). It is never less
 * than time_s, and grows with it.
 */
double ranking_expected_s(const struct search_result *result, const struct search_plan *plan, double time_s);

/** Return the longest time on the iteration that ranks whose expected time is at most limit_s. */
double ranking_time_within_s(const struct search_result *result, const struct search_plan *plan, double limit_s);

/**
 * Rank anew the fastest plan that fits of each variant of a layout and recomputation. @return the time of the
 * SEARCH_FEW-th fastest layout; INFINITY: fewer layouts fit so far
 */
double ranking_few_s(struct search_result *result);

/**
 * Return the time that a plan of the layout must reach to be decided on. It is near the time of the layout's fastest
 * plan and of the SEARCH_FEW-th fastest layout, few_s. Faster plans only lower it.
 */
double ranking_near_s(const struct search_result *result, const struct scenario_plan *layout, double few_s);

/**
 * Return the expected time that an open plan must reach to be decided on as the fastest of its variant and
 * recomputation.
 */
double ranking_limit_s(const struct search_result *result, int32_t which, double few_s);

/** Return the fastest plan of those that were decided on; NULL: there is none. */
struct search_plan *ranking_fastest(struct search_result *result);

/** Set verdicts of the plans that were decided on, the ranking of search_result and the counts. */
void ranking_conclude(struct search_result *result);

#endif
