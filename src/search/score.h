/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What the iterations that decide tell of a plan, and how far one plan is behind another. */
#ifndef SLIMSIM_SEARCH_SCORE_H
#define SLIMSIM_SEARCH_SCORE_H

#include "search/trial.h"

/** Add the outcome of the next of the iterations that decide: the weighted mean of times, shares
 * of the weighted sum of the GPUs' time, and the largest memories. */
void score_add(const struct search_result *result, const struct trial_outcome *outcome, struct search_score *score);

/**
 * How far a runner-up is behind the chosen plan: the ratio q of their weighted means of times less 1, and the standard
 * error of that ratio from what it leaves of each batch, r_i = a_i - q b_i of the runner-up's and the chosen plan's
 * time, relative to the mean of b:
 *
 *     error^2 = n / (n - 1) sum_i w_i^2 r_i^2 / (sum_i w_i b_i)^2
 *
 * as if the batches had been drawn at random, with these weights; that they were chosen by their work makes it smaller.
 */
void score_compare(const struct search_result *result, const struct search_score *chosen, struct search_score *score);

#endif
