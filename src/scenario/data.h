/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads what `data:` says of several sources of lengths: a list, `data.mix` and `data.schedule`. */
#ifndef SLIMSIM_SCENARIO_DATA_H
#define SLIMSIM_SCENARIO_DATA_H

#include "scenario/scenario.h"

/**
 * Give `data.lengths` the text that the other keys mean, before the keys are read.
 *
 * 1. A list, [8Ki, 4400], becomes the text "8192 4400".
 * 2. With `data.mix` or `data.schedule` a missing `data.lengths` becomes that word.
 */
bool data_prepare(struct document *document, struct error *err);

/** Read `data.mix` or `data.schedule` once the other keys are read. Shares must sum to 1. */
bool data_read_parts(struct scenario *scenario, struct error *err);

/** Write them below the other keys of `data:`. */
void data_write_parts(FILE *file, const struct scenario_data *data);

/** List the keys of an entry. */
void data_list_keys(const struct schema_listing *listing);

#endif
