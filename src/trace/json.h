/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module makes JSON of rows of tables and of numbers. */
#ifndef SLIMSIM_TRACE_JSON_H
#define SLIMSIM_TRACE_JSON_H

#include <jansson.h>

#include "trace/table.h"

/** Every object that a verb prints has it as `format_version`. It grows when a key goes or changes its meaning. */
enum { JSON_FORMAT_VERSION = 1 };

/** Return a number, or null for NaN and infinity. */
json_t *json_of_number(double value);

/** Return a text as the number that it reads as, null if it is empty, otherwise as text. */
json_t *json_of_cell(const char *text);

json_t *json_of_texts(int32_t n, const char *const *texts);

/**
 * Return a row as an object with the names of its columns. An index with names is its name.
 * @param namer  NULL: only columns with fixed names have names
 */
json_t *json_of_row(enum trace_table_id table, const void *row, trace_namer *namer, const void *context);

#endif
