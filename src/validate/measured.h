/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads files of published measurements: comma-separated values (RFC 4180) with a header. */
#ifndef SLIMSIM_VALIDATE_MEASURED_H
#define SLIMSIM_VALIDATE_MEASURED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/** A file in memory. {0} is empty. */
struct measured {
    char *path;
    int32_t n_columns, n_rows;
    char **columns; /* names in the header */
    char **cells;   /* [n_rows x n_columns] */
    int32_t *lines; /* first line of each row */
};

/**
 * Read a file.
 * 1. Lines that begin with '#' before the header are comments (`# source:`).
 * 2. Lines after the header that begin with '#' and have no commas are comments, too.
 * 3. Rows of empty fields are left out.
 * 4. Fields may be quoted and hold commas, quotes and line ends. Blanks around a field are removed.
 *
 * @return false with err naming the file and line:
 *         - a quote that is not closed, or is inside a plain field
 *         - a row with another number of fields than the header
 *         - a column that appears twice
 *         - a file without rows
 */
bool measured_read(const char *path, struct measured *measured, struct error *err);

/** Read a file of model/validation. */
bool measured_read_shipped(const char *name, struct measured *measured, struct error *err);

/** Return the index of a column; -1: the file has no such column. */
int32_t measured_column(const struct measured *measured, const char *name);

/** Return a cell. It is "" if it is empty or the file has no such column. */
const char *measured_text(const struct measured *measured, int32_t row, const char *name);

/**
 * Read a cell's number, at least 0, "1024" or "1,024". An empty cell is 0.
 * @return false with a line added to err that names file, line and column
 */
bool measured_number(const struct measured *measured, int32_t row, const char *name, double *value, struct error *err);

void measured_free(struct measured *measured);

#endif
