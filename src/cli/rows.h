/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Rows of a sweep's NAME.csv, chosen, ordered and printed. */
#ifndef SLIMSIM_CLI_ROWS_H
#define SLIMSIM_CLI_ROWS_H

#include <stddef.h>

#include "validate/measured.h"

/** A file and the numbers of the rows that are wanted, in order. */
struct rows {
    struct measured file;
    int32_t n, n_swept, first_swept; /* rows wanted; swept keys are columns from first_swept on */
    int32_t *row;
    bool grouped; /* by question: a blank line stands between */
};

/** All rows of points that did not fail. */
bool rows_open(const char *path, struct rows *rows, struct error *err);

/** Keep the rows that satisfy "COLUMN<VALUE" (also <= > >= = !=). A column X_bytes is X_gib too. */
bool rows_where(struct rows *rows, const char *condition, struct error *err);

/** Order by a column of numbers, the largest first, or the least; ties keep their order. */
bool rows_order(struct rows *rows, const char *column, bool least_first, struct error *err);

/**
 * The swept keys, separated by ", ", in which the rows ask different questions: what is trained (`model`, `data`), on
 * which draws and how it is simulated (`seed`, `iterations`, `engine`, `all_tensor_ranks`, `faults`). Platform, device,
 * systems, plans and settings of the training software answer it. Cut at `size`; empty: all ask the same.
 */
void rows_mixed(const struct rows *rows, size_t size, char *keys);

/** Whether a column of numbers is above 0 in some row; a file without it has none. */
bool rows_any(const struct rows *rows, const char *column);

/** Of each question, in order of appearance, keep the rows that no other of it beats in tokens/s of the whole cluster
 * with as few GPUs; by GPUs. */
bool rows_pareto(struct rows *rows, struct error *err);

/** At most `most` rows as a table, or all as JSON. */
void rows_print(const struct rows *rows, int32_t most);
void rows_print_json(const struct rows *rows, int32_t most);

void rows_close(struct rows *rows);

#endif
