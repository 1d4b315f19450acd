/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file packs whole samples. Systems without slices share it, from bins to plans. */
#ifndef SLIMSIM_PACKING_PACKING_H
#define SLIMSIM_PACKING_PACKING_H

#include "plan/request.h"

/** Samples in packs. Pack b holds sample[first[b]..first[b+1]). */
struct packing {
    int32_t n_packs;
    int32_t *first, *sample;
};

/** Make the packing from the pack of each of n samples in order. A sample of pack -1 is left out. */
void packing_of(const int32_t *order, const int32_t *pack, int32_t n, int32_t n_packs, struct packing *packing);

/** Pack by best-fit decreasing. The parameters are those of bins_pack. */
void packing_best_fit(const int32_t *tokens, int32_t n, const int32_t *order, int32_t capacity,
                      struct packing *packing);

/** Pack all samples of a batch likewise. A batch that keeps values is packed once for each capacity. */
void packing_best_fit_batch(const struct batch *batch, int32_t capacity, struct packing *packing);

/**
 * Pack by longest processing time first.
 *
 * 1. Samples are taken by length. Each goes into the pack with the least sum of weights that has room for its tokens
 *    (ties: the lowest). weight is by sample.
 * 2. Packs may stay empty.
 * 3. The number of packs is the smallest that holds all samples, among multiples of packing_multiple. It starts at
 *    ceil(tokens / min(context, capacity)), or at the number of samples if that is smaller.
 * 4. A sample above the capacity has a pack to itself.
 * 5. Capacity 0 counts as the context. It means that states without activations exceed the memory.
 */
void packing_balance(const struct plan_request *request, const double *weight, int64_t capacity,
                     struct packing *packing);

/**
 * Pack in a random order, drawn by seed and iteration.
 *
 * 1. The number of packs is the least multiple of packing_multiple with at most `most` samples in a pack.
 * 2. Packs differ by at most one sample.
 */
void packing_random(const struct plan_request *request, int64_t most, struct packing *packing);

/**
 * Divide n weights into k sets of near-equal sums by Karmarkar-Karp's largest differencing.
 *
 * 1. Each weight begins as a partition of its own. With `equal` the k largest weights begin as one partition, with a
 *    weight in each set, and so do the next k. Sets then have equally many weights, or one less.
 * 2. The two partitions with the largest spread of sums are joined, largest sums with smallest (ties: the lower ones).
 *    This goes on until one is left.
 *
 * @param set  [n] 0..k-1, sets by descending sum
 * Source: Karmarkar, Karp 1982, The differencing method of set partitioning (UCB/CSD-83-113).
 */
void packing_differencing(const double *weight, int32_t n, int32_t k, bool equal, int32_t *set);

void packing_free(struct packing *packing);

/** Return the divisor of the number of packs: DP, with interleaved stages DP x PP. */
int32_t packing_multiple(const struct scenario_plan *layout);

/**
 * Return the tokens of a micro-batch that fit the memory of each rank if all micro-batches are equally long [tokens].
 * They count all `cp` ranks of the layout together. 0: states without activations exceed the memory.
 *
 * 1. On every stage 1F1B's micro-batches in flight (of interleaved stages: chunks) hold their activations without those
 * that plan.offload takes away.
 * 2. The micro-batch in work holds all of them, except streamed ones, and its workspace.
 * 3. The last stage also holds the head's memory of one micro-batch.
 * 4. The scores of unfused attention are left out.
 */
int64_t packing_memory_tokens(const struct plan_request *request);

/** Return the memory that stage_memory_standing_bytes leaves on the fullest stage. Negative: it exceeds the memory
 * [bytes]. */
double packing_room_bytes(const struct plan_request *request);

/** Return the same tokens for one micro-batch beside others of `capacity` tokens a rank. `share` of its activations
 * goes to the host while its pass runs (plan_micro_batch.streams). [tokens] */
double packing_streamed_tokens(const struct plan_request *request, double capacity, double share);

/** Close a micro-batch of the slices that were added to a partition. It has the layout's recomputation and offload, and
 * the pipeline's context. */
struct plan_micro_batch *packing_close_micro_batch(const struct plan_request *request,
                                                   const struct plan_pipeline *pipeline,
                                                   struct plan_partition *partition);

/** Append samples as whole slices, and a micro-batch of them, to both partitions. */
void packing_add_micro_batch(const struct plan_request *request, const int32_t *tokens, const int32_t *sample,
                             int32_t n, struct plan_pipeline *pipeline);

/** Return the number of the group of pipelines [first, first + width). It is made if there is none. */
int32_t packing_block(struct plan_phase *phase, int32_t first, int32_t width);

/**
 * Append samples of the batch as one whole micro-batch that neighbouring ranks share by context parallelism. The layout
 * has no context parallelism of its own.
 *
 * @param first  first of `width` ranks; with width 1 the micro-batch is of no group
 */
void packing_add_shared(const struct plan_request *request, const int32_t *sample, int32_t n, int32_t first,
                        int32_t width, struct plan_phase *phase);

/** Open a plan of one phase of Megatron's layout, whose pipelines have no micro-batches yet. */
void packing_open_plan(const struct plan_request *request, struct plan *plan);

/** Order all pipelines of a plan's only phase by plan.schedule (plan/schedule.h, which also sets the error). If that
 * fails, the plan is freed. */
bool packing_schedule(const struct plan_request *request, struct plan *plan, struct error *err);

/**
 * Make one phase of Megatron's layout. Pack k is a micro-batch of DP rank k mod DP, in order. Empty packs are left out.
 * The order follows plan.schedule (plan/schedule.h, which also sets the error).
 *
 * @param tokens  of each sample of the packing, including carried ones
 */
bool packing_plan(const struct plan_request *request, const int32_t *tokens, const struct packing *packing,
                  struct plan *plan, struct error *err);

#endif
