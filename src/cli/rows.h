/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module chooses, orders and prints rows of a sweep's NAME.csv. */
#ifndef SLIMSIM_CLI_ROWS_H
#define SLIMSIM_CLI_ROWS_H

#include <stddef.h>

#include "validate/measured.h"

/** It has a file and the indices of the chosen rows, in order. */
struct rows {
    struct measured file;
    int32_t n, n_swept, first_swept; /* chosen rows; swept keys, which are columns from first_swept on */
    int32_t *row;
    bool grouped; /* by question, with a blank line between questions */
};

/** Read the file and choose all rows of points that did not fail. */
bool rows_open(const char *path, struct rows *rows, struct error *err);

/** Keep the rows that satisfy "COLUMN<VALUE" (also <= > >= = !=). X_gib is a column X_bytes in GiB. */
bool rows_where(struct rows *rows, const char *condition, struct error *err);

/** Order by a column of numbers, the largest first or the least first. Ties keep their order. */
bool rows_order(struct rows *rows, const char *column, bool least_first, struct error *err);

/**
 * List the swept keys that make rows answer different questions, separated by ", ". The list is truncated at `size`.
 * Empty: all rows answer the same question.
 *
 * 1. The question is the training (`model`, `data`), its draws (`seed`, `iterations`) and its simulation (`engine`,
 *    `all_tensor_ranks`, `faults`).
 * 2. Platform, device, systems, plans and settings of the training software are answers.
 */
void rows_mixed(const struct rows *rows, size_t size, char *keys);

/** Return whether a column of numbers is above 0 in some row. A missing column has no such row. */
bool rows_any(const struct rows *rows, const char *column);

/**
 * Keep the front of each question. No other row with at most as many GPUs beats these rows in tokens/s of the cluster.
 * Questions are in order of appearance, and their rows are ordered by GPUs.
 */
bool rows_pareto(struct rows *rows, struct error *err);

/** Print at most `most` rows, as a table or as JSON. */
void rows_print(const struct rows *rows, int32_t most);
void rows_print_json(const struct rows *rows, int32_t most);

void rows_close(struct rows *rows);

#endif
