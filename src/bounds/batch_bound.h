/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module bounds the seconds that the passes of any plan for a batch take at least. Systems name its functions as
 * their lower_bound_s (system/system.h). docs/model/simulation.md, "Lower bounds" proves them.
 *
 * A bound counts the last stage, which has the head. A stage is all chunks of a rank. The seconds of a pass are:
 *
 * 1. GEMMs at the peak times their efficiency, and memory-bound kernels at the bandwidth, without launches.
 * 2. Attention, sample by sample, at the rate of the longest keys and queries that the sample gives a kernel.
 * 3. Tensor-parallel collectives that no GEMM hides, in one message of all tokens.
 * 4. All-to-alls to experts and back, in one message of all tokens each.
 * 5. The forward once more under full recomputation. Selective recomputation is left out.
 *
 * Padding, bubbles, rings and transfers only add to these. So does the last rank of a contiguous ring, which computes
 * more than an even share.
 */
#ifndef SLIMSIM_BOUNDS_BATCH_BOUND_H
#define SLIMSIM_BOUNDS_BATCH_BOUND_H

#include "plan/request.h"

/**
 * Return the bound if all DP x CP ranks of the stage share the batch's work evenly. It holds if every sample runs in
 * its iteration, in the requested layout.
 */
double batch_bound_shared_s(const struct plan_request *request);

/**
 * Return batch_bound_shared_s and the seconds of the shortest sample through the virtual stages before the last rank
 * and back. If the seconds of the longest sample through all stages and back are more, return these. It holds if,
 * besides, every sample runs whole, in one micro-batch.
 */
double batch_bound_whole_samples_s(const struct plan_request *request);

/**
 * Return the batch's model FLOPs at the least seconds a FLOP of any sample up to the context. It suits systems that
 * leave samples to later iterations.
 */
double batch_bound_any_samples_s(const struct plan_request *request);

/**
 * Fill in the seconds that each sample of the batch takes on one rank of the stage. Systems use it that know which
 * ranks run a sample.
 * @param seconds  [n_samples]
 */
void batch_bound_samples_s(const struct plan_request *request, double *seconds);

/** Seconds of one pass on one rank of the stage. */
struct batch_bound_pass {
    double token_s;      /* of a token, without attention */
    double *attention_s; /* [kind of layer][n_samples] of each whole sample */
    const struct model *model;
};

/** Return the seconds of a pass. The seconds of both passes add up to batch_bound_samples_s. The caller frees
 * attention_s. */
struct batch_bound_pass batch_bound_pass_of(const struct plan_request *request, enum pass pass);

/** Return the seconds that a micro-batch of slices takes at least in this pass. */
double batch_bound_micro_batch_s(const struct batch_bound_pass *of, const struct batch *batch,
                                 const struct plan_partition *partition, int32_t micro_batch);

/**
 * Return a reduce-scatter or all-gather of `bytes` in all among n ranks, with the fastest number of
 * them in an NVLink domain [s].
 */
double batch_bound_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                           int32_t n);

/** Return the setting of a stage. It holds all chunks of its rank. */
struct cost_setting batch_bound_setting(const struct cost_setting *setting, const struct scenario_plan *layout,
                                        int32_t stage);

#endif
