/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module scores a plan by the iterations that decide, and compares it with the chosen plan. */
#ifndef SLIMSIM_SEARCH_SCORE_H
#define SLIMSIM_SEARCH_SCORE_H

#include "search/plan_evaluation.h"

/**
 * Add the outcome of the next deciding iteration. The score has the weighted mean of times, shares of the weighted sum
 * of the GPUs' time, and largest memories.
 */
void score_add(const struct search_result *result, const struct plan_outcome *outcome, struct search_score *score);

/** Return whether a score has all deciding iterations. */
static inline bool score_is_whole(const struct search_score *score)
{
    return score->n_iterations == SEARCH_DECIDING_ITERATIONS;
}

/** Return a lower bound of the weighted mean of a plan's times, from the bounds of the iterations that it lacks. */
double score_least_s(const struct search_result *result, const struct search_plan *plan);

/** Return the longest time of the next iteration with which score_least_s keeps the limit. It may be below 0. */
double score_limit_s(const struct search_result *result, const struct search_plan *plan, double limit_s);

/**
 * Compare a runner-up with the chosen plan. Its `slower` is the ratio q of their weighted means of times, less 1. Its
 * `slower_error` is the standard error of that ratio. Residuals are r_i = a_i - q b_i of the runner-up's and the chosen
 * plan's time of each batch, relative to the mean of b:
 *
 *     error^2 = n / (n - 1) sum_i w_i^2 r_i^2 / (sum_i w_i b_i)^2
 *
 * It assumes that batches are drawn at random with these weights. The choice by work makes the error smaller. For a
 * plan that stopped early `slower` is a lower bound, and its error is NaN.
 */
void score_compare(const struct search_result *result, const struct search_score *chosen, struct search_score *score);

#endif
