/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file reads quantile tables. Between two rows ln(tokens) is linear in p. The distribution is continuous. */
#ifndef SLIMSIM_LENGTHS_TABLE_H
#define SLIMSIM_LENGTHS_TABLE_H

#include "document/document.h"

/** A quantile table. {0} is empty, and table_free() resets it. */
struct lengths_table {
    int64_t n;
    double *p, *tokens; /* [n] probability and length */
};

/**
 * Fill a table from the root mapping of a file of kind `table`. Each fault adds an error that names its line.
 *
 * 1. `p` must rise from 0 to 1.
 * 2. `tokens` must never fall and must stay in 1 .. 2^31 - 1.
 * 3. Both must be equally long.
 */
bool table_read(const struct document *document, struct lengths_table *table, struct error *err);

/** Return P(X <= x). A row with the same tokens as the next row is an atom. */
double table_cdf(const struct lengths_table *table, double tokens);

/** Return the inverse of table_cdf for p in (0, 1). */
double table_quantile(const struct lengths_table *table, double p);

/** Return the mean of the interpolated distribution: the sum of (p2 - p1) (t2 - t1) / ln(t2/t1) over the rows
 * [tokens]. */
double table_mean(const struct lengths_table *table);

void table_free(struct lengths_table *table);

#endif
