/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints the verdict of `slimsim run`: at most VERDICT_LINES lines of at most VERDICT_COLUMNS columns. */
#ifndef SLIMSIM_CLI_VERDICT_H
#define SLIMSIM_CLI_VERDICT_H

#include <jansson.h>

#include "simulate/summary.h"
#include "simulate/validated_range.h"

/** The line about written files, on stderr, is the last one of 25. */
enum { VERDICT_LINES = 24, VERDICT_COLUMNS = 100 };

/**
 * Print what was asked and the ranking of the systems. Sentences below say why the first is first, what would fit, and
 * what lies outside the measured runs.
 */
void verdict_print(const struct scenario *scenario, const struct lengths *lengths, const struct point *point,
                   const struct validated_range *range);

/** Return what lies outside the measured runs, a list of texts. */
json_t *verdict_json_of_outside(const struct validated_range *range, const struct scenario *scenario,
                                const struct point *point);

#endif
