/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A device's curves from its measured kernels and collectives. */
#ifndef SLIMSIM_VALIDATE_CALIBRATE_H
#define SLIMSIM_VALIDATE_CALIBRATE_H

#include <stdio.h>

#include "validate/fit.h"
#include "validate/sample.h"

/** How one group of parameters came about. */
struct calibration_fit {
    const char *name;
    int32_t n_rows;            /* 0: copied from the device `like` */
    int32_t n_found, n_needed; /* rows for it in the files; fewer than needed are not fitted to */
    char *rows;                /* identifiers, "K001-K003 K010" */
    struct fit_quality quality;
    char worst[32];
    int32_t n_open; /* rows of split open that the curve was then held against */
    struct fit_quality open;
    const char *note;
    char extra[96];       /* what was fitted beside and belongs to the measurement, "" for nothing */
    char *residuals;      /* of each row, NULL: not kept */
    char constants[1024]; /* of training: each with its prior; "" for curves */
};

/** The rows of a file that are of the device and of split calib. */
struct calibration_rows {
    const struct measured *file; /* borrowed; NULL: there is none */
    int32_t n, n_left;           /* n_left: that no curve was fitted to */
    char *left;                  /* their identifiers, as calibration_fit.rows */
};

enum { CALIBRATION_MAX_FITS = 24 };

struct calibration {
    struct device device; /* data sheet and curves, rounded to 5 digits */
    int32_t n_fits;
    struct calibration_fit fit[CALIBRATION_MAX_FITS];
    struct calibration_rows kernels, collectives;
};

/**
 * Fit all curves. Where the files have too few rows of the device for one, it is `like`'s (NULL for none; then that is
 * an error that names the curve). Collectives need the bandwidth of the measured links in the data sheet. A GEMM or
 * attention faster than the device's peak is an error that names its line: a number of the row is in another unit.
 */
bool calibrate(const struct sample_source *source, const struct device *like, struct calibration *calibration,
               struct error *err);

/** The curves and, under `fit:`, rows, residuals and notes, as YAML to stand behind the data sheet. */
void calibration_write(FILE *file, const struct calibration *calibration);

/** A table of the residuals for a person. */
void calibration_print(FILE *file, const struct calibration *calibration);

/** To the 5 digits that are written. */
double calibration_rounded(double value);

void calibration_free(struct calibration *calibration);

#endif
