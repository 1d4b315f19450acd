/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/gains.h"

#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/** Return the simulated row of throughput with this id; -1: there is none. */
static int32_t find_row(const struct validate *validate, const char *id)
{
    for (int32_t i = 0; i < validate->n_rows; i++)
        if (validate->rows[i].quantity == VALIDATE_THROUGHPUT && validate->rows[i].reason[0] == '\0' &&
            strcmp(validate->rows[i].id, id) == 0)
            return i;
    return -1;
}

struct validate_pair *validate_pairs_of(const struct validate *validate, int32_t *n)
{
    struct validate_pair *pairs = check_malloc((size_t)validate->n_rows * sizeof *pairs);
    *n = 0;
    for (int32_t i = 0; i < validate->n_rows; i++) {
        const struct validate_row *row = &validate->rows[i];
        int32_t partner = row->pair[0] != '\0' && find_row(validate, row->id) == i ? find_row(validate, row->pair) : -1;
        if (partner < 0)
            continue;
        const struct validate_row *other = &validate->rows[partner];
        pairs[(*n)++] = (struct validate_pair){i, partner, row->measured / other->measured - 1,
                                               row->predicted / other->predicted - 1};
    }
    return pairs;
}

struct validate_gains validate_gains_of(const struct validate_pair *pairs, int32_t n)
{
    struct validate_gains gains = {.n = n};
    double *off = check_malloc((size_t)n * sizeof *off);
    for (int32_t i = 0; i < n; i++) {
        bool null = fabs(pairs[i].measured) <= GAINS_NULL;
        gains.n_null += null;
        gains.n_null_right += null && fabs(pairs[i].predicted) <= GAINS_NULL;
        gains.n_ahead += !null && pairs[i].measured * pairs[i].predicted > 0;
        off[i] = fabs(pairs[i].predicted - pairs[i].measured);
    }
    gains.median = n > 0 ? gsl_stats_median(off, 1, (size_t)n) : 0;
    free(off);
    return gains;
}
