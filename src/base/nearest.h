/* SPDX-License-Identifier: GPL-3.0-or-later */
/** "Did you mean": the known name that a mistyped one is closest to. */
#ifndef SLIMSIM_BASE_NEAREST_H
#define SLIMSIM_BASE_NEAREST_H

#include <stdint.h>

/**
 * The candidate with the least edit distance (insert, delete, replace or swap neighbours; capitals count as small
 * letters), if at most a third of the longer name, and at least one letter, is wrong. Ties: the first.
 *
 * @return one of the candidates, or NULL when none is near
 */
const char *nearest_name(const char *name, const char *const *candidates, int32_t n_candidates);

enum { NEAREST_HINT_BYTES = 96 };

/** "did you mean 'x'? " of the candidates that begin with the name's three letters or more ("'x' or 'y'"), else of the
 * nearest one; "" when none is near. */
void nearest_hint(const char *name, const char *const *candidates, int32_t n_candidates, char hint[NEAREST_HINT_BYTES]);

#endif
