/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These functions read comma-separated values (RFC 4180, by libcsv) row by row. */
#ifndef SLIMSIM_BASE_CSV_ROWS_H
#define SLIMSIM_BASE_CSV_ROWS_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/** Ways in which files differ. They are added up. */
enum csv_rows_dialect {
    CSV_ROWS_PLAIN = 0,
    CSV_ROWS_COMMENTS = 1, /* lines before the first row that begin with '#' are skipped */
    CSV_ROWS_TABS = 2      /* fields are separated by tabs */
};

enum { CSV_LINE_BYTES = 1 << 20 }; /* limit, so that a file of another kind cannot fill the memory */

/** A row. A blank line outside quotes is a row without fields. */
struct csv_row {
    int64_t line; /* line on which it begins, counted from 1 */
    int32_t n_fields;
    char **fields;
};

/**
 * It is called with each row in order, including the header. Its pointers hold during this call only.
 *
 * @return false to stop, with err
 */
typedef bool csv_rows_visitor(void *context, const struct csv_row *row, struct error *err);

/**
 * Visit the rows of a file.
 *
 * 1. Fields may be quoted. Quoted fields may hold commas, quotes and line ends.
 * 2. Blanks around a field are removed.
 * 3. A byte order mark before the first field, which spreadsheets write, is removed.
 *
 * @param path      name of the file in messages
 * @param dialect   enum csv_rows_dialect
 * @return          false with err, which names the file and the line. Causes:
 *                  - the visitor returned false
 *                  - a quote is not closed, or is inside a plain field
 *                  - the file holds a NUL byte
 *                  - a line is longer than CSV_LINE_BYTES
 *                  - the file cannot be read
 */
bool csv_rows_visit(FILE *file, const char *path, int dialect, csv_rows_visitor *visitor, void *context,
                    struct error *err);

#endif
