/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module fits a device's curves to its measured kernels and collectives. */
#ifndef SLIMSIM_VALIDATE_CALIBRATE_H
#define SLIMSIM_VALIDATE_CALIBRATE_H

#include <stdio.h>

#include "validate/fit.h"
#include "validate/sample.h"

/** Origin of one group of parameters. */
struct calibration_fit {
    const char *name;
    int32_t n_rows;            /* rows of the fit; 0: the curve was copied from the device `like` */
    int32_t n_found, n_needed; /* rows for it in the files; a curve with fewer rows than needed is not fitted */
    bool is_scaled;            /* the shape is that of the device `like`, and the rows determine one factor */
    char *rows;                /* identifiers, "K001-K003 K010" */
    struct fit_quality quality;
    char worst[32];
    int32_t n_open; /* rows of split open that the curve was compared with */
    struct fit_quality open;
    const char *note;
    char extra[96];       /* unknowns of the measurement that were fitted, too; "": none */
    char *residuals;      /* residual of each row; NULL: not kept */
    char constants[1024]; /* constants of training, each with its prior; "" for curves */
};

/** The rows of a file that belong to the device and to split calib. */
struct calibration_rows {
    const struct measured *file; /* borrowed; NULL: there is none */
    int32_t n, n_left;           /* n_left: rows to which no curve was fitted */
    char *left;                  /* identifiers of these rows, like calibration_fit.rows */
};

/** A GEMM curve with fewer rows for each unknown takes its shape from another device. */
enum { CALIBRATION_MAX_FITS = 28, CALIBRATION_ROWS_OF_UNKNOWN = 4 };

struct calibration {
    struct device device; /* data sheet and curves, rounded to 5 digits */
    int32_t n_fits;
    struct calibration_fit fit[CALIBRATION_MAX_FITS];
    struct calibration_rows kernels, collectives;
};

/**
 * Fit all curves. If the files have too few rows of the device for a curve, it is copied from `like`. Without `like`
 * (NULL) this is an error that names the curve. A copied curve of fp8 keeps the device's own share of adding to a sum.
 * A GEMM curve of few rows has the shape of `like` and an efficiency of its own. Collectives need the bandwidth of the
 * measured links in the data sheet. A GEMM or attention faster than the device's peak is an error that names its line.
 * A number of such a row is in another unit.
 */
bool calibrate(const struct sample_source *source, const struct device *like, struct calibration *calibration,
               struct error *err);

/** Write the curves as YAML that follows the data sheet. Under `fit:` it has rows, residuals and notes. */
void calibration_write(FILE *file, const struct calibration *calibration);

/** Print a table of the residuals for a person. */
void calibration_print(FILE *file, const struct calibration *calibration);

/** Round to the 5 digits that are written. */
double calibration_rounded(double value);

void calibration_free(struct calibration *calibration);

#endif
