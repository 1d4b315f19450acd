/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/scenario.h"
#include "validate/predict.h"
#include "validate/row.h"

#define FIELD(field) offsetof(struct device, field)

const struct training_constant training_constants[] = {
    {"gemm.efficiency", FIELD(gemm[PRECISION_BF16].efficiency), {0.7, 1}, 0.75, 0.2, "of like", "gemm"},
    {"sustained.products",
     FIELD(training.products),
     {0.05, 1},
     0.05,
     0.1,
     "assumed: a power limit costs some clock under lasting load",
     NULL},
    {"sustained.flash1",
     FIELD(training.flash1),
     {1, 5},
     1,
     0.5,
     "flash-attention 2 is about twice as fast as 1 (arXiv:2307.08691, abstract)",
     NULL},
};
const int32_t n_training_constants = sizeof training_constants / sizeof *training_constants;
enum { MAX_CONSTANTS = sizeof training_constants / sizeof *training_constants, MAX_STEPS = 8 };

/** A row to which the constants are fitted. */
struct run {
    struct setting setting;
    struct validate_row row;
};

/** A fit in progress. */
struct training {
    int32_t n_runs, n_free, n_priors; /* n_priors: n_free, or 0 to judge only by the measured rows */
    struct run *runs;
    const struct training_constant *free[MAX_CONSTANTS];
    struct device *device;
    double at[MAX_CONSTANTS], *seconds,
        *slope; /* seconds: seconds of each row at `at`; slope: [n_free x n_runs] their derivatives */
};

static double *value_at(struct device *device, size_t offset)
{
    return (double *)(void *)((char *)device + offset);
}

static bool same_chip(const struct device *a, const struct device *b)
{
    return a->peak_flop_per_s[PRECISION_BF16] == b->peak_flop_per_s[PRECISION_BF16] &&
           a->multiprocessors == b->multiprocessors;
}

/** Find whether rows of the device `name` are fitted with those of `device`. */
static bool belongs(const char *name, const struct device *device, bool *yes, struct error *err)
{
    struct device other;
    char path[1024];
    *yes = strcmp(name, device->name) == 0;
    if (*yes)
        return true;
    if (!device_read_sheet(scenario_data_dir(), name, &other, path, err))
        return false;
    *yes = strcmp(other.like, device->name) == 0 && same_chip(&other, device);
    return true;
}

static double predicted_of(const struct run *run, const struct device *device, struct error *err)
{
    struct predict_result result = {0};
    if (run->row.quantity == VALIDATE_LAYER_FORWARD)
        return predict_layer_s(&run->setting, device, PASS_FORWARD);
    if (run->row.quantity == VALIDATE_LAYER_BACKWARD)
        return predict_layer_s(&run->setting, device, PASS_BACKWARD);
    if (!predict_run(&run->setting, device, &result, err))
        return 0;
    return result.tokens_per_s_per_gpu;
}

static bool fits_here(const struct validate_row *row)
{
    return row->calibration && row->reason[0] == '\0' &&
           (row->quantity == VALIDATE_THROUGHPUT || row->quantity == VALIDATE_LAYER_FORWARD ||
            row->quantity == VALIDATE_LAYER_BACKWARD);
}

/** Append the rows of one file that belong to the fit. */
static bool read_runs(const struct measured *file, struct training *training, struct error *err)
{
    for (int32_t i = 0; i < file->n_rows; i++) {
        struct run run = {0};
        bool yes = false;
        if (!row_read(file, i, &run.setting, &run.row, err))
            return false;
        if (fits_here(&run.row) && !belongs(run.setting.scenario.device_name, training->device, &yes, err))
            return false;
        if (!yes)
            continue;
        if (predicted_of(&run, training->device, err) <= 0)
            return error_add(err, "%s:%d: row %s cannot be simulated", file->path, file->lines[i], run.row.id), false;
        training->runs = check_realloc(training->runs, (size_t)(training->n_runs + 1) * sizeof *training->runs);
        training->runs[training->n_runs++] = run;
    }
    return true;
}

/** Compute the seconds of every row by whole simulations at these values of the constants. */
static void simulate(struct training *training, const double *values, double *seconds)
{
    for (int32_t i = 0; i < training->n_free; i++)
        *value_at(training->device, training->free[i]->offset) = values[i];
    for (int32_t i = 0; i < training->n_runs; i++) {
        struct error err = {0};
        double predicted = predicted_of(&training->runs[i], training->device, &err);
        CHECK(err.status == ERROR_NONE); /* the row ran when it was read, and only times have changed */
        seconds[i] = training->runs[i].row.quantity == VALIDATE_THROUGHPUT ? 1 / predicted : predicted;
    }
}

/** Compute seconds and their numerical derivatives at `values`. */
static void linearize(struct training *training, const double *values)
{
    int32_t n = training->n_runs;
    double moved[MAX_CONSTANTS];
    memcpy(training->at, values, (size_t)training->n_free * sizeof *values);
    simulate(training, values, training->seconds);
    for (int32_t j = 0; j < training->n_free; j++) {
        double *slope = training->slope + j * n, step = 0.01 * training->free[j]->parameter.start;
        memcpy(moved, values, sizeof moved);
        moved[j] += step;
        simulate(training, moved, slope);
        for (int32_t i = 0; i < n; i++)
            slope[i] = (slope[i] - training->seconds[i]) / step;
    }
}

/** Predict the measured rows, whose times are linear around `at`, then one row for each prior. */
static void predict(void *context, const double *values, double *predicted)
{
    const struct training *training = context;
    int32_t n = training->n_runs;
    for (int32_t i = 0; i < n; i++) {
        double seconds = training->seconds[i];
        for (int32_t j = 0; j < training->n_free; j++)
            seconds += training->slope[j * n + i] * (values[j] - training->at[j]);
        seconds = fmax(seconds, 1e-3 * training->seconds[i]);
        predicted[i] = training->runs[i].row.quantity == VALIDATE_THROUGHPUT ? 1 / seconds : seconds;
    }
    for (int32_t i = 0; i < training->n_priors; i++) {
        const struct training_constant *constant = training->free[i];
        predicted[n + i] = 1 + 0.05 * (values[i] - constant->prior) / constant->sigma;
    }
}

static char *residuals_text(const struct training *training, const double *predicted)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = check_memstream(&text, &bytes);
    for (int32_t i = 0; i < training->n_runs; i++)
        fprintf(file, "%s%s %+.4f", i > 0 ? ", " : "", training->runs[i].row.id,
                predicted[i] / training->runs[i].row.measured - 1);
    CHECK(fclose(file) == 0);
    return text;
}

static char *rows_text(const struct training *training)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = check_memstream(&text, &bytes);
    for (int32_t i = 0; i < training->n_runs; i++)
        fprintf(file, "%s%s", i > 0 ? " " : "", training->runs[i].row.id);
    CHECK(fclose(file) == 0);
    return text;
}

static void describe(const struct training *training, const double *values, struct calibration_fit *fit)
{
    int used = 0;
    for (int32_t i = 0; i < training->n_free; i++)
        used += snprintf(fit->constants + used, sizeof fit->constants - (size_t)used, "%s%s %g (prior %g +- %g, %s)",
                         i > 0 ? "; " : "", training->free[i]->name, values[i], training->free[i]->prior,
                         training->free[i]->sigma, training->free[i]->source);
}

/** Fit robustly to times that are linear in the constants. The times are linearized again at each result until it no
 * longer changes. */
static void iterate(struct training *training, const double *measured, double *values)
{
    struct fit_parameter parameters[MAX_CONSTANTS];
    struct fit_problem problem = {training->n_free, training->n_runs + training->n_free, parameters, measured, predict,
                                  training};
    double change = 1;
    for (int32_t i = 0; i < training->n_free; i++) {
        parameters[i] = training->free[i]->parameter;
        values[i] = parameters[i].start;
    }
    for (int step = 0; step < MAX_STEPS && change > 1e-5; step++) {
        linearize(training, values);
        fit_robust(&problem, values);
        change = 0;
        for (int32_t i = 0; i < training->n_free; i++)
            change = fmax(change, fabs(values[i] - training->at[i]));
    }
    for (int32_t i = 0; i < training->n_free; i++)
        values[i] = values[i] < 1e-9 ? 0 : calibration_rounded(values[i]);
    linearize(training, values);
}

static void solve(struct training *training, struct calibration_fit *fit)
{
    int32_t n = training->n_runs, n_free = training->n_free;
    double *measured = check_malloc((size_t)(n + n_free) * sizeof *measured), values[MAX_CONSTANTS] = {0};
    double *predicted = check_malloc((size_t)n * sizeof *predicted);
    training->seconds = check_malloc((size_t)n * sizeof *training->seconds);
    training->slope = check_malloc((size_t)(n * n_free) * sizeof *training->slope);
    for (int32_t i = 0; i < n + n_free; i++)
        measured[i] = i < n ? training->runs[i].row.measured : 1;
    training->n_priors = n_free;
    iterate(training, measured, values);
    training->n_priors = 0; /* a prior is no row to judge by */
    struct fit_problem problem = {n_free, n, NULL, measured, predict, training};
    fit->quality = fit_quality_of(&problem, values);
    predict(training, values, predicted);
    fit->n_rows = n;
    fit->rows = rows_text(training);
    fit->residuals = residuals_text(training, predicted);
    snprintf(fit->worst, sizeof fit->worst, "%s", training->runs[fit->quality.worst].row.id);
    describe(training, values, fit);
    for (int32_t i = 0; i < n_free; i++)
        *value_at(training->device, training->free[i]->offset) = values[i];
    free(training->slope);
    free(training->seconds);
    free(predicted);
    free(measured);
}

/** Choose the constants that are fitted. The others are set. */
static void choose(const struct device *like, const struct calibration *calibration, struct training *training)
{
    bool shared = like != NULL && same_chip(like, training->device);
    struct device other = like != NULL ? *like : (struct device){0};
    for (int32_t i = 0; i < n_training_constants; i++) {
        const struct training_constant *constant = &training_constants[i];
        bool measured = false;
        for (int32_t j = 0; constant->curve != NULL && j < calibration->n_fits; j++)
            measured =
                measured || (strcmp(calibration->fit[j].name, constant->curve) == 0 && calibration->fit[j].n_rows > 0);
        if (!shared && (constant->curve != NULL ? !measured : like == NULL))
            training->free[training->n_free++] = constant;
        else if (constant->curve == NULL && like != NULL)
            *value_at(training->device, constant->offset) = *value_at(&other, constant->offset);
    }
}

bool training_fit(const struct training_source *source, const struct device *like, struct calibration *calibration,
                  struct error *err)
{
    struct training training = {.device = &calibration->device};
    bool ok = true;
    CHECK(calibration->n_fits < CALIBRATION_MAX_FITS);
    choose(like, calibration, &training);
    for (int32_t i = 0; ok && training.n_free > 0 && i < source->n_files; i++)
        ok = read_runs(&source->files[i], &training, err);
    if (ok && training.n_runs == 0 && like != NULL)
        training.n_free = 0; /* the curves of `like`, as shares of this device's peaks, stay */
    if (ok && training.n_free > 0 && training.n_runs == 0)
        ok = error_set(err, "training: no row of split calib%s%s%s ran on %s", source->n_files > 0 ? " of " : "",
                       source->n_files > 0 ? source->files[0].path : "",
                       source->n_files > 1 ? " and the other files" : "", calibration->device.name);
    struct calibration_fit *fit = &calibration->fit[calibration->n_fits++];
    *fit = (struct calibration_fit){.name = "training"};
    if (ok && training.n_free > 0)
        solve(&training, fit);
    free(training.runs);
    return ok;
}
