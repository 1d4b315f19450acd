/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module finds the largest value of a key that fits, with few trials. */
#ifndef SLIMSIM_SWEEP_LARGEST_VALUE_H
#define SLIMSIM_SWEEP_LARGEST_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { LARGEST_NEIGHBOURS = 4 }; /* values above the boundary that are tried */

/** The values that a key may take. */
struct largest_range {
    bool quarters; /* four values from a power of two to the next: 64, 80, 96, 112; otherwise all integers */
    int64_t start, least, most; /* the first trial, at least 1, and the bounds */
};

struct largest_value {
    int64_t value; /* 0: no tried value fits */
    int64_t next;  /* the least value above it that does not fit; 0: the bound is reached */
};

/** Return whether a value fits. A value may be asked for twice. @return false with err to stop */
typedef bool largest_trial(void *context, int64_t value, bool *fits, struct error *err);

/** Return the largest value of the range's kind that is at most `value`. */
int64_t largest_at_most(const struct largest_range *range, int64_t value);

/** Return the next larger value of the range's kind. */
int64_t largest_next(const struct largest_range *range, int64_t value);

/**
 * Find the largest value that fits. Fitting need not be monotone.
 *
 * 1. From `start`, double while the value fits; if it does not fit, halve until one does.
 * 2. Bisect between the last value that fits and the first that does not.
 * 3. Try the LARGEST_NEIGHBOURS values above, the largest first. If one fits, repeat the step from it.
 */
bool largest_value_find(const struct largest_range *range, largest_trial *trial, void *context,
                        struct largest_value *largest, struct error *err);

#endif
