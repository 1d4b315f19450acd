/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module names the known causes of wrong predictions. */
#ifndef SLIMSIM_VALIDATE_CAUSE_H
#define SLIMSIM_VALIDATE_CAUSE_H

#include "validate/measured.h"

enum { CAUSE_BYTES = 256 }; /* largest size of a cause, in bytes */

/** Read model/validation/causes.csv. A cause that does not fit into a row is refused. */
bool cause_read(struct measured *causes, struct error *err);

/**
 * Return the sentence of the first line of `causes` that matches a row.
 * 1. `id` equals the row's.
 * 2. `context_from` is at most the row's data.context.
 * 3. Every other column is contained in the row's cell of the same name.
 * 4. An empty cell matches all rows.
 *
 * @return "" if no line matches; borrowed from `causes`
 */
const char *cause_of(const struct measured *causes, const struct measured *measured, int32_t row);

#endif
