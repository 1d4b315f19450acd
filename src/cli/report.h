/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints every number of `slimsim run`: a column for each system, then the assumptions. */
#ifndef SLIMSIM_CLI_REPORT_H
#define SLIMSIM_CLI_REPORT_H

#include "cli/plan_search.h"
#include "simulate/summary.h"
#include "simulate/validated_range.h"

/**
 * Print the table for a person, with the results of plan searches. Speed-ups are in model FLOPs a second, relative to
 * the first system.
 */
void report_print(const struct scenario *scenario, const struct point *point, const struct plan_search *search);

/** Print the same numbers under the keys of metrics.def, in SI units, and the assumptions. */
void report_print_json(const struct scenario *scenario, const struct point *point, const struct plan_search *search,
                       const struct validated_range *range);

#endif
