/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module computes half widths of the 95% confidence intervals of a system's rate and of its speed-up.
 *
 * 1. Both are ratios of sums over the n measured iterations, which are independent draws of the batch.
 * 2. To first order in its deviations (delta method) a rate r = sum of x / sum of t moves by the mean of
 *
 *     e_i = r (x_i / mean x - t_i / mean t) = (x_i - r t_i) / mean t
 *
 * 3. A quotient of the rates of two systems on the same batches, s = r / r', moves by the mean of s (e_i / r - e'_i /
 *    r'). Deviations that both have from the batch cancel.
 * 4. The half width is t sd(e) / sqrt(n), t of Student with n - 1 degrees of freedom. It is 0 if all iterations are the
 *    same batch (fixed lengths) and NaN for one iteration.
 * 5. If samples wait for later iterations (token_delay > 0), iterations depend on those before them. The interval
 *    ignores that.
 */
#ifndef SLIMSIM_SIMULATE_INTERVAL_H
#define SLIMSIM_SIMULATE_INTERVAL_H

#include "simulate/point_runner.h"

/** Return the half width of the mean of n independent values; NaN: one value. */
double interval_of_mean(const double *value, int32_t n);

/** Return the half width of sum of tokens / sum of time [1/s]. @param measured  [n] */
double interval_of_tokens(const struct point_iteration *measured, int32_t n);

/**
 * Return the half width of model FLOPs a second over those of `base`. @param base  [n] iterations of
 * the same batches
 */
double interval_of_speed_up(const struct point_iteration *base, const struct point_iteration *measured, int32_t n);

#endif
