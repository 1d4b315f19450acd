/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Tables of a trace as CSV: a header, then a row a line; indices with names are written as their names. */
#ifndef SLIMSIM_TRACE_CSV_H
#define SLIMSIM_TRACE_CSV_H

#include <stdio.h>

#include "trace/trace.h"

/** One cell: text in quotes where it needs them, the shortest number that reads back to the same bits, nothing for NaN.
 */
void csv_print_text(const char *text, FILE *file);
void csv_print_double(double value, FILE *file);

/** The columns that the file has. Numbers are the shortest that read back to the same bits. A table that the trace does
 * not hold is an error. */
bool csv_print(struct trace_reader *reader, enum trace_table_id table, FILE *file, struct error *err);

#endif
