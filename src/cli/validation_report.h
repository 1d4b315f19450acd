/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What `slimsim validate` prints and writes. */
#ifndef SLIMSIM_CLI_VALIDATION_REPORT_H
#define SLIMSIM_CLI_VALIDATION_REPORT_H

#include "validate/validate.h"

/** Tables for a person: every row, worst first; what was skipped and why; errors by source and over all. */
void validation_print(const struct validate *validate);

/** The same as JSON, errors as fractions. */
void validation_print_json(const struct validate *validate);

/** Whether DIRECTORY/validation.h5 may be written: trace/output.h. */
bool validation_may_write(const char *directory, struct error *err);

/** DIRECTORY/validation.h5 with the table of trace/validation.def and what it refers to. */
bool validation_write(const struct validate *validate, const char *directory, struct error *err);

#endif
