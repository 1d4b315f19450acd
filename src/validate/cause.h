/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Why a prediction is off, where that is known. */
#ifndef SLIMSIM_VALIDATE_CAUSE_H
#define SLIMSIM_VALIDATE_CAUSE_H

#include "validate/measured.h"

enum { CAUSE_BYTES = 256 }; /* a row has room for */

/** Read model/validation/causes.csv. A cause that is longer than a row has room for is refused. */
bool cause_read(struct measured *causes, struct error *err);

/**
 * The sentence of the first line of `causes` that fits a row: `id` is the row's, its other columns are parts of the
 * row's cells of the same name, `context_from` is at most its data.context; empty cells fit all.
 * @return "" when none does; borrowed from `causes`
 */
const char *cause_of(const struct measured *causes, const struct measured *measured, int32_t row);

#endif
