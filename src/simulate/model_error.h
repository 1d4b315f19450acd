/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module says how far predictions were from the measured runs like a scenario: model/model_error.yaml. */
#ifndef SLIMSIM_SIMULATE_MODEL_ERROR_H
#define SLIMSIM_SIMULATE_MODEL_ERROR_H

#include "scenario/scenario.h"

enum { MODEL_ERROR_BASIS_BYTES = 256 };

/** Errors of throughput, predicted / measured - 1, of some measured runs. Nothing is corrected by the bias. */
struct model_error {
    int32_t n_rows;
    double bias, deviation;              /* mean and sample standard deviation */
    char basis[MODEL_ERROR_BASIS_BYTES]; /* "22 measured runs of nemo on Ampere, none on h200" */
};

/**
 * Find the errors of the measured runs that are most like a scenario. The first of these that the file has is taken:
 *
 * 1. runs of its framework on its family of devices
 * 2. runs of its framework on all devices
 * 3. all runs
 *
 * @return false with err: the file cannot be read, or has no group for the scenario
 */
bool model_error_read(const char *data_dir, const struct scenario *scenario, struct model_error *error,
                      struct error *err);

#endif
