/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Orders for qsort and bsearch. */
#ifndef SLIMSIM_BASE_COMPARE_H
#define SLIMSIM_BASE_COMPARE_H

#include <stdint.h>

/** -1, 0 or 1: x is below, equal to or above y. Each is evaluated twice; no NaN. */
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
