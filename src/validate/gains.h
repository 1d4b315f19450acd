/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module compares what a measured row gains over another, its pair, with what is predicted. */
#ifndef SLIMSIM_VALIDATE_GAINS_H
#define SLIMSIM_VALIDATE_GAINS_H

#include "validate/validate.h"

/** A row and its partner, whose throughputs are compared. A gain is the row's over its partner's, less 1. */
struct validate_pair {
    int32_t row, partner;
    double measured, predicted; /* gains */
};

/** List the pairs of simulated rows. The caller frees the list. */
struct validate_pair *validate_pairs_of(const struct validate *validate, int32_t *n);

#define GAINS_NULL 0.05

/** How far predicted gains are from measured ones. A pair is null if its measured gain is at most GAINS_NULL. */
struct validate_gains {
    int32_t n, n_null;
    int32_t n_ahead;      /* other pairs whose faster row is also predicted to be faster */
    int32_t n_null_right; /* null pairs whose predicted gain is null, too */
    double median;        /* of |predicted - measured| */
};

struct validate_gains validate_gains_of(const struct validate_pair *pairs, int32_t n);

#endif
