/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A measured row as the scenario that it ran. */
#ifndef SLIMSIM_VALIDATE_SETTING_H
#define SLIMSIM_VALIDATE_SETTING_H

#include "scenario/scenario.h"
#include "validate/measured.h"

enum { SETTING_ASSUMED = 384 }; /* bytes */

struct setting {
    struct scenario scenario; /* without device, lengths and systems */
    struct scenario_plan plan;
    int64_t micro_batch;           /* whole sequences of a micro-batch */
    char assumed[SETTING_ASSUMED]; /* what the row leaves open, as it was taken; "; " between */
};

/** Whether a column is a key: of scenarios, with plan.KEY for systems.N.plan.KEY; model.KEY, of a model's file;
 * platform.KEY; or micro_batch. */
bool setting_is_key(const char *column);

/**
 * Fill a setting from the keys of a row, as if each cell stood behind --set. An empty cell takes the key's default.
 * `model` is a file of model/llm, and model.KEY is set over it. Sequences are all of data.context tokens, and
 * data.global_batch counts them.
 *
 * @param err  {0}
 * @return     false with a line of err for each fault: file, line, key, value and what is allowed
 */
bool setting_read(const struct measured *measured, int32_t row, struct setting *setting, struct error *err);

#endif
