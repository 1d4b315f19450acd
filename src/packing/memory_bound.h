/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file bounds what memory_fit can reach, from a plan's orders only. */
#ifndef SLIMSIM_PACKING_MEMORY_BOUND_H
#define SLIMSIM_PACKING_MEMORY_BOUND_H

#include "packing/memory_fit.h"

/**
 * Return the least share by which a plan of one phase exceeds GPU or host after any changes of memory_fit. 0: it may
 * fit.
 *
 * 1. A rank holds a micro-batch's activations from its forward to its backwards. The order of the stage's steps gives
 * the most tokens that it holds at once, without times.
 * 2. These tokens and the permanent memory (bounds/stage_memory.h) need room. With rule.recompute tokens count as under
 *    full recomputation.
 * 3. Without rule.offload the GPU holds everything except the plan's own offload. With it, all that exceeds the GPU's
 *    memory is on the node's host.
 */
double memory_bound_excess(const struct plan_request *request, struct memory_fit_rule rule, const struct plan *plan);

#endif
