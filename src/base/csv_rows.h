/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Comma-separated values (RFC 4180, by libcsv), row by row. */
#ifndef SLIMSIM_BASE_CSV_ROWS_H
#define SLIMSIM_BASE_CSV_ROWS_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum { CSV_LINE_BYTES = 1 << 20 }; /* or a file that is no table would fill the memory */

/** A row; a blank line outside quotes is one of no fields. */
struct csv_row {
    int64_t line; /* it begins in, from 1 */
    int32_t n_fields;
    char **fields;
};

/** Called with each row in order, the header among them; what it points to holds for this call. @return false to stop
 * with err */
typedef bool csv_rows_visitor(void *context, const struct csv_row *row, struct error *err);

/**
 * Visit the rows of a file. Fields may be quoted and hold commas, quotes and line ends; blanks around a field and a
 * byte order mark before the first, as spreadsheets write it, are cut.
 *
 * @param path      in messages
 * @param comments  lines that begin with '#' before the first row are passed over
 * @return          false with err, which names the file and line: of the visitor; a quote that is not closed or stands
 *                  inside a plain field, a NUL byte, a line of more than CSV_LINE_BYTES, a file that cannot be read
 */
bool csv_rows_visit(FILE *file, const char *path, bool comments, csv_rows_visitor *visitor, void *context,
                    struct error *err);

#endif
