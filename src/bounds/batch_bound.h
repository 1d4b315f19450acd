/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Seconds that the passes of no plan for a batch can beat: what systems name as their lower_bound_s (system/system.h).
 * docs/model.md proves them.
 *
 * Each is of the last stage, which has the head. A stage is all chunks of a rank. If stages are unequal, it is counted
 * with as few layers as any has. The seconds of a pass are:
 *
 * 1. GEMMs at the peak times their efficiency, and memory-bound kernels at the bandwidth, without launches.
 * 2. Attention, sample by sample, at the rate of the longest keys and queries that the sample gives a kernel.
 * 3. Tensor-parallel collectives that no GEMM hides, in one message of all tokens.
 * 4. The forward once more under full recomputation. Selective recomputation is left out.
 *
 * Padding, bubbles, rings and transfers only add to these. So does the last rank of a contiguous ring, which computes
 * more than an even share.
 */
#ifndef SLIMSIM_BOUNDS_BATCH_BOUND_H
#define SLIMSIM_BOUNDS_BATCH_BOUND_H

#include "plan/request.h"

/** All DP x CP ranks of the stage share the batch's work evenly. It holds if every sample runs in its iteration, in
 * the layout that is asked for. */
double batch_bound_shared_s(const struct plan_request *request);

/** The same, or the longest sample's way through all stages and back if that is longer. It holds if besides every
 * sample runs whole, in one unit. */
double batch_bound_whole_samples_s(const struct plan_request *request);

/** The batch's model FLOPs at the least seconds a FLOP of any sample up to the context. It suits systems that leave
 * samples to later iterations. */
double batch_bound_any_samples_s(const struct plan_request *request);

/** Seconds that each sample of the batch takes one dag_rank of the stage, for systems that know which ranks run it.
 * @param seconds  [n_samples] */
void batch_bound_samples_s(const struct plan_request *request, double *seconds);

/** A reduce-scatter or all-gather of n ranks, `bytes` whole, with as many of them on a node as is fastest [s]. */
double batch_bound_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                           int32_t n);

/** Layers of all chunks of a rank, on the stage that has the fewest. */
int32_t batch_bound_layers(const struct cost_setting *setting, const struct scenario_plan *layout);

#endif
