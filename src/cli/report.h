/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints every number of `slimsim run`: a column for each system, then the assumptions. */
#ifndef SLIMSIM_CLI_REPORT_H
#define SLIMSIM_CLI_REPORT_H

#include "cli/plan_search.h"
#include "simulate/summary.h"

/**
 * Print the table for a person, with the results of plan searches. Speed-ups are in model FLOPs a second, relative to
 * the first system.
 */
void report_print(const struct scenario *scenario, const struct point *point, const struct plan_search *search);

/** Return a point's results for --json, in SI units: rows of `summary` and what belongs to them, and the assumptions.
 */
json_t *report_json(const struct scenario *scenario, const struct point *point, const struct plan_search *search);

#endif
