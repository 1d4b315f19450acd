/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads a measured row as the scenario that it ran. */
#ifndef SLIMSIM_VALIDATE_SETTING_H
#define SLIMSIM_VALIDATE_SETTING_H

#include "scenario/scenario.h"
#include "validate/measured.h"

enum { SETTING_ASSUMED = 384, SETTING_REFUSAL = 192 }; /* bytes of texts */

struct setting {
    struct scenario scenario; /* has no device; it has a document and a system if the row names a system */
    struct scenario_plan plan;
    bool varies;                   /* the row names a system, which packs the documents of data.lengths */
    int64_t micro_batch;           /* whole sequences of a micro-batch */
    char refusal[SETTING_REFUSAL]; /* why no run can have these keys; "": one can, and the rest holds */
    char assumed[SETTING_ASSUMED]; /* assumptions about values that the row does not give; "; " separates them */
};

/**
 * Return whether a column is a key:
 * - of scenarios, with plan.KEY for systems.N.plan.KEY
 * - model.KEY of a model's file
 * - platform.KEY
 * - micro_batch
 * - system, and its knobs.KEY
 */
bool setting_is_key(const char *column);

/**
 * Fill a setting from the keys of a row, as if --set gave each cell. An empty cell takes the key's default. `model` is
 * a file of model/llm, and model.KEY replaces its values. All sequences have data.context tokens. data.global_batch
 * counts sequences.
 *
 * A row that names a `system` is a scenario with this system, data.lengths and iterations.measured. Its micro_batch is
 * the system's knob.
 *
 * Keys that cannot go together, such as a TP degree that does not divide a node, are a refusal.
 *
 * @param err  {0}
 * @return     false with a line of err for each malformed cell: file, line, key, value and what is allowed
 */
bool setting_read(const struct measured *measured, int32_t row, struct setting *setting, struct error *err);

void setting_free(struct setting *setting);

#endif
