/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module solves robust nonlinear least squares of relative errors (GSL's trust region). */
#ifndef SLIMSIM_VALIDATE_FIT_H
#define SLIMSIM_VALIDATE_FIT_H

#include <stdbool.h>
#include <stdint.h>

/** An unknown between 0 and `max`; the search begins at `start`, 0 < start < max. */
struct fit_parameter {
    double start, max;
};

struct fit_problem {
    int32_t n_parameters, n_rows; /* at least as many rows as parameters */
    const struct fit_parameter *parameters;
    const double *measured; /* > 0 */
    /** Computes the model's value of each row. */
    void (*predict)(void *context, const double *values, double *predicted);
    void *context;
};

/** Errors |predicted / measured - 1| of the rows. */
struct fit_quality {
    double median, max, bias; /* bias: mean of predicted / measured - 1 */
    int32_t worst;            /* row with the largest error */
};

/**
 * Find the values that minimize predicted / measured - 1. A row counts 1 / (1 + (error / 5%)^2) times, so a few wrong
 * rows do not bend a curve. These are Cauchy's weights, reweighted until they settle. The result is deterministic.
 */
void fit_robust(const struct fit_problem *problem, double *values);

struct fit_quality fit_quality_of(const struct fit_problem *problem, const double *values);

#endif
