/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/interval.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"

/** Sums over iterations. */
struct sums {
    double tokens, model_flop, time_s;
};

static struct sums sums_of(const struct point_iteration *measured, int32_t n)
{
    struct sums sums = {0};
    for (int32_t i = 0; i < n; i++) {
        sums.tokens += (double)measured[i].row.tokens;
        sums.model_flop += measured[i].row.model_flop;
        sums.time_s += measured[i].row.time_s;
    }
    return sums;
}

double interval_of_mean(const double *value, int32_t n)
{
    return n > 1 ? gsl_cdf_tdist_Pinv(0.975, n - 1) * gsl_stats_sd(value, 1, (size_t)n) / sqrt(n) : NAN;
}

/** Return the half width of the mean of n values, which are freed. */
static double half_width(double *value, int32_t n)
{
    double half = interval_of_mean(value, n);
    free(value);
    return half;
}

double interval_of_tokens(const struct point_iteration *measured, int32_t n)
{
    struct sums sums = sums_of(measured, n);
    double *moved = check_malloc((size_t)n * sizeof *moved), rate = sums.tokens / sums.time_s;
    for (int32_t i = 0; i < n; i++)
        moved[i] = n * ((double)measured[i].row.tokens - rate * measured[i].row.time_s) / sums.time_s;
    return half_width(moved, n);
}

/** Return the relative deviation of an iteration's rate from that of all n, to first order. */
static double off(const struct point_iteration *iteration, const struct sums *sums, int32_t n)
{
    return n * (iteration->row.model_flop / sums->model_flop - iteration->row.time_s / sums->time_s);
}

double interval_of_speed_up(const struct point_iteration *base, const struct point_iteration *measured, int32_t n)
{
    struct sums sums = sums_of(measured, n), of_base = sums_of(base, n);
    double *moved = check_malloc((size_t)n * sizeof *moved);
    double quotient = sums.model_flop / sums.time_s / (of_base.model_flop / of_base.time_s);
    for (int32_t i = 0; i < n; i++)
        moved[i] = quotient * (off(&measured[i], &sums, n) - off(&base[i], &of_base, n));
    return half_width(moved, n);
}
