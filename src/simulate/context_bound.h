/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module bounds what DCP (SOSP'25, arXiv:2510.10620) could gain. DCP places blocks of attention freely on the
 * ranks of a context-parallel group. It is not built here. Its bound is the same plan with perfect balance and without
 * communication in these groups.
 *
 * 1. The graph of the iteration's plan is built again. Context parallelism sends nothing and has no collectives, so its
 *    ranks do not wait for each other in a pass (context_of_layers adds nothing).
 * 2. If c ranks share a micro-batch, its attention takes each of them 1/c of the time on one rank alone, by the same
 *    curve. If the plan's own share takes less, it takes that (attention_add_kernels).
 * 3. Everything else stays: GEMMs, tensor parallelism, gradients, order of passes, padding, faults, jitter.
 * 4. Attention by blocks is no context group, so it stays as well (SlimPipe, DistCA).
 * 5. Its time is that of the critical path.
 *
 * Each rank has 1/c of a micro-batch's attention. A placement that evens out other work, or slow GPUs, is beyond it.
 */
#ifndef SLIMSIM_SIMULATE_CONTEXT_BOUND_H
#define SLIMSIM_SIMULATE_CONTEXT_BOUND_H

#include "cost/cache.h"
#include "simulate/iteration_run.h"

/** Costs and graph that the iterations of a system share. {0} is empty. */
struct context_bound {
    struct cost_cache costs;
    struct evaluator evaluator;
};

/** Compute the critical path of an iteration that ran, with the bound [s]. The iteration replays no step. */
bool context_bound_s(struct context_bound *bound, const struct iteration_run *run, double *seconds, struct error *err);

void context_bound_free(struct context_bound *bound);

#endif
