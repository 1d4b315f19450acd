/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What moves a point's numbers and was not measured by the user, in words. */
#ifndef SLIMSIM_SWEEP_ASSUMED_H
#define SLIMSIM_SWEEP_ASSUMED_H

#include "sweep/plan_text.h"

enum { ASSUMED_SIZE = PLAN_TEXT_SIZE };

/** Whether the platform's NVLink is not that of the device's data sheet; then a sentence says so. */
bool assumed_unlike_nvlink(const struct platform *platform, const struct device *device, char line[ASSUMED_SIZE]);

/** A sentence each, for people, for JSON and for the trace. The caller frees. */
char (*assumed_lines(const struct scenario *scenario, const struct point *point, int32_t *n))[ASSUMED_SIZE];

#endif
