/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/fit.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"

static const double half_weight_error = 0.05; /* a row with this error counts half */
enum { N_REWEIGHTINGS = 40, N_STEPS = 200 };

/** The problem with unknowns over all of R^n: value = max u^2 / (1 + u^2). */
struct unbounded {
    const struct fit_problem *problem;
    double *values, *predicted;
    const double *weights;
};

static void bound(const struct fit_problem *problem, const gsl_vector *u, double *values)
{
    for (int32_t i = 0; i < problem->n_parameters; i++) {
        double square = gsl_vector_get(u, (size_t)i) * gsl_vector_get(u, (size_t)i);
        values[i] = problem->parameters[i].max * square / (1 + square);
    }
}

static int residuals(const gsl_vector *u, void *context, gsl_vector *f)
{
    struct unbounded *unbounded = context;
    const struct fit_problem *problem = unbounded->problem;
    bound(problem, u, unbounded->values);
    problem->predict(problem->context, unbounded->values, unbounded->predicted);
    for (int32_t i = 0; i < problem->n_rows; i++) {
        double error = unbounded->predicted[i] / problem->measured[i] - 1;
        gsl_vector_set(f, (size_t)i, sqrt(unbounded->weights[i]) * error);
    }
    return GSL_SUCCESS;
}

/** Solve one least-squares problem with fixed weights. `u` is the start and the result. */
static void solve(struct unbounded *unbounded, gsl_vector *u)
{
    const struct fit_problem *problem = unbounded->problem;
    gsl_multifit_nlinear_parameters options = gsl_multifit_nlinear_default_parameters();
    options.solver = gsl_multifit_nlinear_solver_svd; /* an unknown at its limit has no column in the Jacobian */
    options.scale = gsl_multifit_nlinear_scale_levenberg;
    gsl_multifit_nlinear_fdf system = {
        .f = residuals, .n = (size_t)problem->n_rows, .p = (size_t)problem->n_parameters, .params = unbounded};
    gsl_multifit_nlinear_workspace *workspace =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &options, system.n, system.p);
    int info;
    CHECK(workspace != NULL);
    gsl_multifit_nlinear_init(u, &system, workspace);
    gsl_multifit_nlinear_driver(N_STEPS, 1e-10, 1e-10, 1e-10, NULL, NULL, &info, workspace);
    gsl_vector_memcpy(u, gsl_multifit_nlinear_position(workspace));
    gsl_multifit_nlinear_free(workspace);
}

static void reweigh(struct unbounded *unbounded, const gsl_vector *u, double *weights)
{
    const struct fit_problem *problem = unbounded->problem;
    bound(problem, u, unbounded->values);
    problem->predict(problem->context, unbounded->values, unbounded->predicted);
    for (int32_t i = 0; i < problem->n_rows; i++) {
        double error = (unbounded->predicted[i] / problem->measured[i] - 1) / half_weight_error;
        weights[i] = 1 / (1 + error * error);
    }
}

void fit_robust(const struct fit_problem *problem, double *values)
{
    CHECK(0 < problem->n_parameters && problem->n_parameters <= problem->n_rows);
    size_t n_rows = (size_t)problem->n_rows;
    double *weights = check_malloc(n_rows * sizeof *weights), *predicted = check_malloc(n_rows * sizeof *predicted);
    gsl_vector *u = gsl_vector_alloc((size_t)problem->n_parameters);
    struct unbounded unbounded = {problem, values, predicted, weights};
    for (int32_t i = 0; i < problem->n_parameters; i++) {
        const struct fit_parameter *parameter = &problem->parameters[i];
        CHECK(0 < parameter->start && parameter->start < parameter->max);
        gsl_vector_set(u, (size_t)i, sqrt(parameter->start / (parameter->max - parameter->start)));
    }
    for (size_t i = 0; i < n_rows; i++)
        weights[i] = 1;
    for (int i = 0; i < N_REWEIGHTINGS; i++) {
        solve(&unbounded, u);
        reweigh(&unbounded, u, weights);
    }
    bound(problem, u, values);
    gsl_vector_free(u);
    free(predicted);
    free(weights);
}

struct fit_quality fit_quality_of(const struct fit_problem *problem, const double *values)
{
    size_t n = (size_t)problem->n_rows;
    double *error = check_malloc(n * sizeof *error);
    struct fit_quality quality = {0};
    problem->predict(problem->context, values, error);
    for (int32_t i = 0; i < problem->n_rows; i++) {
        double relative = error[i] / problem->measured[i] - 1;
        quality.bias += relative / (double)n;
        error[i] = fabs(relative);
        if (error[i] > quality.max) {
            quality.max = error[i];
            quality.worst = i;
        }
    }
    gsl_sort(error, 1, n);
    quality.median = gsl_stats_median_from_sorted_data(error, 1, n);
    free(error);
    return quality;
}
