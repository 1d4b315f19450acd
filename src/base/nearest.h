/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These functions find the known name that is closest to a mistyped one ("did you mean"). */
#ifndef SLIMSIM_BASE_NEAREST_H
#define SLIMSIM_BASE_NEAREST_H

#include <stdint.h>

/**
 * Find the candidate with the smallest edit distance.
 *
 * 1. One edit inserts, deletes or replaces a letter, or swaps two neighbours. Capitals equal small letters.
 * 2. A candidate counts if at most a third of the longer name is wrong. One wrong letter is always allowed.
 * 3. Among equal candidates the first one is taken.
 *
 * @return one of the candidates, or NULL if none is near
 */
const char *nearest_name(const char *name, const char *const *candidates, int32_t n_candidates);

enum { NEAREST_HINT_BYTES = 96 };

/** Write "did you mean 'x'? " ("'x' or 'y'"). The candidates are those that begin with the name, if it has three
 * letters or more. Otherwise the nearest candidate is written. If none is near, write "". */
void nearest_hint(const char *name, const char *const *candidates, int32_t n_candidates, char hint[NEAREST_HINT_BYTES]);

#endif
