/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The layout that a scenario gives a system, against its model and platform. */
#ifndef SLIMSIM_SCENARIO_LAYOUT_H
#define SLIMSIM_SCENARIO_LAYOUT_H

#include "scenario/scenario.h"

/** Degrees, stages, shards, schedule and recomputation go together, and with the model and the GPUs; dp is filled in.
 * Of an entry that was read without errors. Every error is a line of err with its place. */
bool layout_check(const struct scenario *scenario, struct scenario_system *system, struct error *err);

#endif
