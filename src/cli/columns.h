/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints aligned columns. */
#ifndef SLIMSIM_CLI_COLUMNS_H
#define SLIMSIM_CLI_COLUMNS_H

#include <stdint.h>

/** Cells of rows with the same number of columns. The first row is the header. A row begins in `cells` where the one
 * before ends. */
struct columns {
    int32_t n; /* columns; the caller sets it */
    int32_t n_cells;
    char **cells;
};

/** Append a cell. */
void columns_add(struct columns *columns, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Print the rows and free the cells. The first column and columns with a text that is no number in their second row
 * are aligned to the left. */
void columns_print(struct columns *columns);

#endif
