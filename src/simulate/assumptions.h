/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What moves a point's numbers and was not measured by the user, in words. */
#ifndef SLIMSIM_SIMULATE_ASSUMPTIONS_H
#define SLIMSIM_SIMULATE_ASSUMPTIONS_H

#include "simulate/plan_text.h"

enum { ASSUMPTIONS_SIZE = PLAN_TEXT_SIZE };

/** Whether the platform's NVLink is not that of the device's data sheet; then a sentence says so. */
bool assumptions_unlike_nvlink(const struct platform *platform, const struct device *device,
                               char line[ASSUMPTIONS_SIZE]);

/** A sentence each, for people, for JSON and for the trace. The caller frees. */
char (*assumptions_lines(const struct scenario *scenario, const struct point *point, int32_t *n))[ASSUMPTIONS_SIZE];

#endif
