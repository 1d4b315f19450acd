/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints the errors of `slimsim validate` as a table that fits a screen. */
#ifndef SLIMSIM_CLI_VALIDATION_SUMMARY_H
#define SLIMSIM_CLI_VALIDATION_SUMMARY_H

#include "validate/validate.h"

/**
 * Print at most 20 lines of at most 100 columns.
 *
 * 1. Throughput has a line for each framework and GPU, those with most rows first. At most 10 such lines are printed,
 *    and the last one then holds all others.
 * 2. Each other quantity has one line.
 * 3. Calibration rows do not count.
 */
void validation_print_summary(const struct validate *validate);

/** Print one table of kinds of runs with known settings (trust A, A-). Its last column, "held", is of the shipped rows:
 * the share of runs inside the printed range of p5 to p95 if their source is left out (model/model_error.yaml). */
void validation_print_kinds(const struct validate *validate);

#endif
