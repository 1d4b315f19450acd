/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What a system ran with, in words: the part of a result's assumptions that comes from its plan and knobs. */
#ifndef SLIMSIM_CLI_PLAN_TEXT_H
#define SLIMSIM_CLI_PLAN_TEXT_H

#include "sweep/point.h"

enum { PLAN_TEXT_LINES = 3, PLAN_TEXT_SIZE = 768 };

/** Micro-batches and knobs; stages and chunks; recomputation, sharding and precision. */
void plan_text_lines(const struct scenario *scenario, const struct point_system *system,
                     char lines[PLAN_TEXT_LINES][PLAN_TEXT_SIZE]);

#endif
