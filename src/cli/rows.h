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
    int32_t *replicates;             /* [rows of the file] number of rows that a chosen row joins */
    int32_t n_compared, compared[2]; /* columns by which rows were ranked last */
    bool grouped;                    /* by question, with a blank line between questions */
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

/** Return whether a swept key changes no time: rows that differ in nothing else have equal ones. With over a thousand
 * rows nobody knows. */
bool rows_unchanged(const struct rows *rows, const char *key);

/**
 * Join chosen rows that differ in the seed only into the first of them.
 *
 * 1. Numbers that are not whole become their mean. X_interval becomes the half width of the 95% interval of X over the
 *    rows, by Student's t.
 * 2. The joined row fits if all rows fit, and is over a exceeded_limit if any row is. `seed` lists their seeds. `point`
 * and `id` are those of the first row.
 * 3. Any other cell that differs becomes "various".
 */
void rows_join(struct rows *rows);

/**
 * Keep the rows of each question that no other row beats in one of two columns and equals or beats in the other.
 * Questions are in order of appearance. Their rows are ordered by the first column, the best first.
 *
 * @param columns  "COLUMN,COLUMN"; less is better, except in tokens/s, FLOPs a second, MFU, HFU and speed-up. A sign
 *                 replaces this: +COLUMN: more is better; -COLUMN: less is better
 */
bool rows_pareto(struct rows *rows, const char *columns, struct error *err);

/** Print at most `most` rows, as a table or as JSON. */
void rows_print(const struct rows *rows, int32_t most);

/**
 * Print what +/- means, and which row has most tokens/s/GPU. Rows whose intervals overlap with its own are named.
 * Nothing is ranked if rows answer different questions.
 */
void rows_print_most(const struct rows *rows);

void rows_print_json(const struct rows *rows, int32_t most);

/** Print all rows of the file as JSON of points, in the shape of `run --json`. @param name  of the sweep */
void rows_print_points(const struct rows *rows, const char *name);

void rows_close(struct rows *rows);

#endif
