/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Quantile tables: between two rows ln(tokens) is linear in p. Continuous. */
#ifndef SLIMSIM_LENGTHS_TABLE_H
#define SLIMSIM_LENGTHS_TABLE_H

#include "scenario/document.h"

/** {0} is empty; table_free() resets it. */
struct lengths_table {
    int64_t n;
    double *p, *tokens; /* [n] probability and length */
};

/** Fill a table from the root mapping of a file of kind `table`; adds an error with its place for everything wrong:
 * `p` must rise from 0 to 1, `tokens` never fall and stay in 1 .. 2^31 - 1, both be equally long. */
bool table_read(const struct document *document, struct lengths_table *table, struct error *err);

/** P(X <= x); a row whose tokens equal the next row's is an atom. */
double table_cdf(const struct lengths_table *table, double tokens);

/** Inverse of table_cdf for p in (0, 1). */
double table_quantile(const struct lengths_table *table, double p);

/** Mean of the interpolated distribution: sum of (p2 - p1) (t2 - t1) / ln(t2/t1) over the rows [tokens]. */
double table_mean(const struct lengths_table *table);

void table_free(struct lengths_table *table);

#endif
