/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The comparison that `slimsim run` prints: a column a system, then what was assumed. */
#ifndef SLIMSIM_CLI_REPORT_H
#define SLIMSIM_CLI_REPORT_H

#include "cli/plan_search.h"
#include "simulate/summary.h"

/** The table for a person, with what was searched. Speed-ups are of model FLOPs a second, against the first system. */
void report_print(const struct scenario *scenario, const struct point *point, const struct plan_search *search);

/** The same numbers under the keys of metrics.def, in SI units, and the assumptions. */
void report_print_json(const struct scenario *scenario, const struct point *point, const struct plan_search *search);

#endif
