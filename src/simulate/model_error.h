/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module says how far predictions of throughput may be off: model/model_error.yaml has the errors of measured runs
 * by source. docs/model/errors.md, "How sure", derives them.
 */
#ifndef SLIMSIM_SIMULATE_MODEL_ERROR_H
#define SLIMSIM_SIMULATE_MODEL_ERROR_H

#include <stdio.h>

#include "scenario/scenario.h"
#include "simulate/validated_range.h"

enum { MODEL_ERROR_BASIS_BYTES = 256 };

/** Errors of throughput, predicted / measured - 1, in a source that nobody has seen. Runs with varying lengths have
 * errors of their own, and so have those in fp8 and those with experts. */
struct model_error {
    int64_t rows, sources;
    bool varying, fp8, experts,
        blackwell;                /* they are of runs with varying lengths, in fp8, with experts, on Blackwell */
    double bias, between, within; /* mean; standard deviations between sources, and within one */
    double deviation;             /* of a run; wider outside the measured range */
    int32_t n_wider;
    const char *wider[RANGE_N_RESPECTS];
    char basis[MODEL_ERROR_BASIS_BYTES]; /* "406 measured runs of 16 sources, wider for device, cp" */
};

/** Percentiles of a measured throughput. */
struct model_interval {
    double p5, p95;
};

/**
 * Read the errors: those of runs with experts if the model has some, otherwise those of varying lengths if
 * validated_range_varies, otherwise those on Blackwell, otherwise those in fp8 if GEMMs are. The variance grows by that
 * between sources for each respect in which the scenario lies outside the measured range (model/validated_range.yaml).
 *
 * @param cp        largest context-parallel degree of the systems
 * @param sharding  of the plan whose rate is told
 * @return    false with err: a file cannot be read
 */
bool model_error_read(const char *data_dir, const struct scenario *scenario, int64_t cp, int32_t sharding,
                      struct model_error *error, struct error *err);

/** Return what a run would measure if its error were so many deviations off the bias. */
double model_error_measured(const struct model_error *error, double predicted, double deviations);

/** Return the range of what a run would measure, from p5 to p95. */
struct model_interval model_error_interval(const struct model_error *error, double predicted);

/** Write "650 to 760". */
void model_interval_write(FILE *file, const struct model_interval *interval);

/**
 * Write a predicted throughput with both its ranges: "700 tokens/s/GPU, batches ± 20, model 650 to 760 (-7% to +9%, p5
 * to p95 of 406 measured runs of 16 sources)".
 * @param half  half of its 95% interval over batches; NaN or 0 is left out
 */
void model_error_write(FILE *file, const struct model_error *error, double predicted, double half);

#endif
