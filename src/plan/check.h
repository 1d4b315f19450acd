/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file checks the rules that the plans of all systems must obey. */
#ifndef SLIMSIM_PLAN_CHECK_H
#define SLIMSIM_PLAN_CHECK_H

#include "plan/plan.h"

/**
 * Check a plan.
 *
 * 1. Each token of each sample of the batch is in exactly one forward and one backward slice. Delayed samples are
 *    excluded, carried ones included. A group's shared slices count once and are equal in all its pipelines.
 * 2. Padding of each forward micro-batch is in the backward micro-batch that names it.
 * 3. On each stage every micro-batch runs once a pass and chunk. A backward follows the forwards that it needs, the
 * weights' gradients follow those of the inputs. A sample's slices run forward in order and backward in reverse.
 * 4. need[] has the values of plan_fill_need.
 * 5. A micro-batch's context degree is its group's size times the layout's. Shares of offload are 0 to 1.
 * 6. No GPU is in two pipelines of a phase.
 * 7. A micro-batch is in one attention of a pass and stage, and gives away no more than its attention. Blocks have each
 *    query of a SLICE_PLACED micro-batch once.
 *
 * @param n_samples  samples of the batch
 * @param tokens     tokens of each of them
 * @return           false with the first violation in err (ERROR_FAILED), which is a bug of the system that made the
 *                   plan
 */
bool plan_check(const struct plan *plan, int32_t n_samples, const int32_t *tokens, struct error *err);

#endif
