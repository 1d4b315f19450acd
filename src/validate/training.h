/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The second stage of a calibration: what training reaches less than benchmarks, from whole training runs. */
#ifndef SLIMSIM_VALIDATE_TRAINING_H
#define SLIMSIM_VALIDATE_TRAINING_H

#include "validate/calibrate.h"
#include "validate/measured.h"
#include "validate/setting.h"

/** A constant to fit; the table of them is in training.c, in the order they are written. */
struct training_constant {
    const char *name;
    size_t offset; /* of a double in struct device */
    struct fit_parameter parameter;
    double prior, sigma; /* a row more: off the prior by sigma weighs like a measured row that is off by 5% */
    const char *source;  /* of the prior */
    const char *curve;   /* family whose efficiency it is: fitted here where the kernels had no row of it; else NULL:
                          * fitted here unless the device is `like` another one, whose constants it takes */
};

extern const struct training_constant training_constants[];
extern const int32_t n_training_constants;

/** Files of measurements as `slimsim validate` reads them. Borrowed. */
struct training_source {
    int32_t n_files;
    const struct measured *files;
};

/**
 * Fit the constants to rows of split calib (training throughput and layers' times), robustly, through whole simulations
 * with numerical derivatives. Rows of the device itself, and those of devices that are `like` it and have its chip
 * (peak and multiprocessors), which so share one set of constants. Such a device has no fit of its own: it takes
 * `like`'s. Adds a calibration_fit "training" with every residual.
 *
 * @param like  NULL for none
 * @return      false with err: a malformed row, a simulation that fails, a device to fit and no row of it
 */
bool training_fit(const struct training_source *source, const struct device *like, struct calibration *calibration,
                  struct error *err);

#endif
