/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Files of published measurements: comma-separated values (RFC 4180) with a header. */
#ifndef SLIMSIM_VALIDATE_MEASURED_H
#define SLIMSIM_VALIDATE_MEASURED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/** One file in memory. {0} is empty. */
struct measured {
    char *path;
    int32_t n_columns, n_rows;
    char **columns; /* names in the header */
    char **cells;   /* [n_rows x n_columns] */
    int32_t *lines; /* where each row begins */
};

/**
 * Read a file. Lines that begin with '#' before the header are comments (`# source:`), and behind it those without
 * commas; rows of empty fields are left out; fields may be quoted and hold commas, quotes and line ends; blanks around
 * a field are cut.
 * @return false with err naming the file and line: a quote that is not closed or stands inside a plain field, a row
 *         with another number of fields than the header, a column that stands twice, a file without rows
 */
bool measured_read(const char *path, struct measured *measured, struct error *err);

/** A file of model/validation. */
bool measured_read_shipped(const char *name, struct measured *measured, struct error *err);

/** Index of a column, -1: the file has none of this name. */
int32_t measured_column(const struct measured *measured, const char *name);

/** A cell; "" where it is empty or the file has no such column. */
const char *measured_text(const struct measured *measured, int32_t row, const char *name);

/**
 * A cell's number, from 0, "1024" or "1,024"; 0 where it is empty.
 * @return false with a line added to err that names file, line and column
 */
bool measured_number(const struct measured *measured, int32_t row, const char *name, double *value, struct error *err);

void measured_free(struct measured *measured);

#endif
