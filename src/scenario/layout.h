/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The layout that a scenario gives a system, against its model and platform. */
#ifndef SLIMSIM_SCENARIO_LAYOUT_H
#define SLIMSIM_SCENARIO_LAYOUT_H

#include "scenario/scenario.h"

/** Degrees, stages, shards, schedule and recomputation go together, and with the model and the GPUs; dp is filled in,
 * and layout_fit applied.
 * Of an entry that was read without errors. Every error is a line of err with its place. */
bool layout_check(const struct scenario *scenario, struct scenario_system *system, struct error *err);

/**
 * A value that comes from the framework counts only in a plan that can have it: `early_stop` with recompute full,
 * `fsdp` with sharding zero2 or zero3, `fsdp_ends` and `fsdp_prefetch` with their version of FSDP. Keys of the entry
 * stay.
 *
 * @param node  of the entry in the scenario's document, -1: the search's
 */
void layout_fit(const struct scenario *scenario, int32_t node, struct scenario_plan *plan);

#endif
