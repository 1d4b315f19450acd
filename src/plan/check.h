/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What every plan must obey, whatever system made it. */
#ifndef SLIMSIM_PLAN_CHECK_H
#define SLIMSIM_PLAN_CHECK_H

#include "plan/plan.h"

/**
 * - Each token of each sample of the batch (but delayed ones, and with carried ones) is in exactly one forward and one
 *   backward slice. A group's shared slices count once and stand alike in all its pipelines.
 * - Padding of each forward unit is in the backward unit that names it.
 * - On each stage every unit runs once a pass and chunk: a backward after the forwards it needs, the weights' gradients
 *   after those of the inputs, a sample's slices forward in order and backward in reverse.
 * - need[] is what plan_fill_need says.
 * - A unit's context degree is its group's size times the layout's; shares of offload are 0 to 1.
 * - No GPU is in two pipelines of a phase.
 * - A unit is in one set of exchanges and gives away no more than its attention.
 *
 * @param n_samples  of the batch
 * @param tokens     of each of them
 * @return           false with the first breach in err (ERROR_FAILED): a bug of the system that made the plan
 */
bool plan_check(const struct plan *plan, int32_t n_samples, const int32_t *tokens, struct error *err);

#endif
