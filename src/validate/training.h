/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module is the second stage of a calibration: it fits, from whole training runs, how much slower training is
 * than benchmarks. */
#ifndef SLIMSIM_VALIDATE_TRAINING_H
#define SLIMSIM_VALIDATE_TRAINING_H

#include "validate/calibrate.h"
#include "validate/measured.h"
#include "validate/setting.h"

/** A constant to fit. The table in training.c has them in the order in which they are written. */
struct training_constant {
    const char *name;
    size_t offset; /* offset of a double in struct device */
    struct fit_parameter parameter;
    double prior,
        sigma; /* one more row: an error of sigma from the prior counts like a measured row with an error of 5% */
    const char *source; /* source of the prior */
    const char
        *curve; /* family whose efficiency it is. Such a constant is fitted here if the kernels had no row of the
                   family. NULL: it is fitted unless the device is `like` another one, whose constants it takes */
};

extern const struct training_constant training_constants[];
extern const int32_t n_training_constants;

/** Files of measurements that `slimsim validate` reads. Borrowed. */
struct training_source {
    int32_t n_files;
    const struct measured *files;
};

/**
 * Fit the constants robustly to rows of split calib (training throughput and layers' times). The fit uses whole
 * simulations with numerical derivatives.
 * 1. The rows are those of the device and of devices that are `like` it and have its chip (peak and multiprocessors).
 *    These devices share one set of constants.
 * 2. A device that is `like` another one with its chip has no fit. It takes the constants of `like`.
 * 3. A calibration_fit "training" with every residual is added.
 *
 * @param like  NULL for none
 * @return      false with err: a malformed row, a simulation that fails, a device to fit without a row
 */
bool training_fit(const struct training_source *source, const struct device *like, struct calibration *calibration,
                  struct error *err);

#endif
