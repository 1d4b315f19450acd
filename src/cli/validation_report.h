/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints and writes the results of `slimsim validate`. */
#ifndef SLIMSIM_CLI_VALIDATION_REPORT_H
#define SLIMSIM_CLI_VALIDATION_REPORT_H

#include "validate/validate.h"

/**
 * Print tables for a person: every row, the worst first; skipped rows with reasons; errors by source
 * and over all rows.
 */
void validation_print(const struct validate *validate);

/** Print the same as JSON, with errors as fractions. */
void validation_print_json(const struct validate *validate);

/** Return whether DIRECTORY/validation.h5 may be written (trace/output.h). */
bool validation_may_write(const char *directory, struct error *err);

/** Write DIRECTORY/validation.h5 with the table of trace/validation.def and the data sets that it refers to. */
bool validation_write(const struct validate *validate, const char *directory, struct error *err);

#endif
