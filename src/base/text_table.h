/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints tables: cells in aligned columns, with two blanks between columns and none at the end of a line.
 */
#ifndef SLIMSIM_BASE_TEXT_TABLE_H
#define SLIMSIM_BASE_TEXT_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "base/colour.h"

/** {0} is an empty table. */
struct text_table {
    int32_t n_columns, n_cells, n_lines;
    struct text_column {
        char *heading;
        char align;
        int32_t least, most; /* width; longer cells widen the column, or are clipped to `most` unless it is 0 */
    } * columns;
    struct text_cell {
        char *text;
        enum colour colour;
    } * cells; /* of all rows */
    struct text_table_line {
        int32_t cells; /* number of cells before it */
        char *text;
    } * lines;
};

/**
 * Append columns, "system<;GiB>6;plan<26.26": heading, alignment, least width, most width.
 * Cells are at the left (<), at the right (>), or at the right if the first one begins with a digit (?).
 */
void text_table_columns(struct text_table *table, const char *columns);

/** Append a column with any heading. @param form  what stands behind the heading in text_table_columns */
void text_table_column(struct text_table *table, const char *heading, const char *form);

/** Append a cell. A row begins where the one before ends. */
void text_table_cell(struct text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Append cells, with tabs between them. */
void text_table_row(struct text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Colour the last n cells on a terminal. */
void text_table_colour(struct text_table *table, int32_t n, enum colour colour);

/** Append a line of its own below the rows so far. */
void text_table_line(struct text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Return the width of the first n columns. */
int32_t text_table_width(const struct text_table *table, int32_t n);

/** Print the table and free it. The headings are left out if all are empty. Lines are clipped to `columns` unless it is
 * 0. */
void text_table_print(struct text_table *table, FILE *file, int32_t columns);

void text_table_free(struct text_table *table);

#endif
