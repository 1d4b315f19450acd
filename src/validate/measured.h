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

/** As measured_text, and "" where the cell says that nobody knows: "-", "?", "N/A", "unknown", "not stated". */
const char *measured_known(const struct measured *measured, int32_t row, const char *name);

/** What follows `name` in a text that begins with it, but for case, blanks, - and _; text where it does not. */
const char *measured_past_name(const char *text, const char *name);

/**
 * A cell's number: not negative, "1024", "1,024" or "1,024.5", alone, with a remark in brackets behind it ("256000
 * (padded)"), or with a unit of the column: step_time_s "s", "ms"; seq_len "K", "M" (2^10, 2^20 tokens), "tokens";
 * n_gpus "GPUs"; tokens_per_s "K", "M" and tps_per_gpu "K" (10^3, 10^6); tflops_per_gpu "TFLOP/s". A cell that is
 * empty, or says that nobody knows, is 0.
 * @return false with a line added to err that names file, line and column
 */
bool measured_number(const struct measured *measured, int32_t row, const char *name, double *value, struct error *err);

void measured_free(struct measured *measured);

#endif
