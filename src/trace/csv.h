/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module writes tables of a trace as CSV: a header, then a line for each row. Indices with names are written as
 * their names.
 */
#ifndef SLIMSIM_TRACE_CSV_H
#define SLIMSIM_TRACE_CSV_H

#include <stdio.h>

#include "trace/trace.h"

/**
 * Print one cell. Text has quotes if it needs them, and an apostrophe before it if a spreadsheet would compute it
 * (OWASP, "CSV Injection"). A number is the shortest that reads back to the same bits. NaN prints nothing.
 */
void csv_print_text(const char *text, FILE *file);
void csv_print_double(double value, FILE *file);

/** Print the names of the columns, with commas between them. */
void csv_print_heads(const struct trace_table *table, FILE *file);

/** Print the cells of a row, with commas between them. @param namer  NULL: only columns with fixed names have names */
void csv_print_row(const struct trace_table *table, const void *row, trace_namer *namer, const void *context,
                   FILE *file);

/** Return a field that was read without the apostrophe of csv_print_text. */
const char *csv_text(const char *field);

/** Print the columns that the file has, as cells. A table that is missing in the trace is an error. */
bool csv_print(struct trace_reader *reader, enum trace_table_id table, FILE *file, struct error *err);

#endif
