/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file holds comparison functions for qsort and bsearch. */
#ifndef SLIMSIM_BASE_COMPARE_H
#define SLIMSIM_BASE_COMPARE_H

#include <stdint.h>

/** The result is -1, 0 or 1 if x is below, equal to or above y. Each argument is evaluated twice and must not be
 * NaN. */
#define COMPARE(x, y) (((x) > (y)) - ((x) < (y)))

static inline int compare_int32s(const void *a, const void *b)
{
    return COMPARE(*(const int32_t *)a, *(const int32_t *)b);
}

static inline int compare_doubles(const void *a, const void *b)
{
    return COMPARE(*(const double *)a, *(const double *)b);
}

#endif
