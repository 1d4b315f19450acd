/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Whole samples in packs: what systems without slices share, from bins to plans. */
#ifndef SLIMSIM_PACKING_PACKING_H
#define SLIMSIM_PACKING_PACKING_H

#include "plan/request.h"

/** Those of pack b are sample[first[b]..first[b+1]). */
struct packing {
    int32_t n_packs;
    int32_t *first, *sample;
};

/**
 * Best-fit decreasing (Ding et al. 2024, arXiv:2404.10830): each sample into the fullest pack of at most `capacity`
 * tokens that still holds it (ties: the lowest), else into a new one. O(n log capacity).
 *
 * @param tokens    of each sample, 1..capacity
 * @param order     n samples, longest first
 * @param capacity  below 2^30
 */
void packing_best_fit(const int32_t *tokens, int32_t n, const int32_t *order, int32_t capacity,
                      struct packing *packing);

/**
 * Longest processing time first: each of the samples, by length, into the pack of the least sum of weights (by sample)
 * that has room for its tokens (ties: the lowest). Packs may stay empty. There are as few packs as hold all, of:
 * multiples of packing_multiple from ceil(tokens / context), or of the capacity if that is less, or from the samples if
 * these are fewer, on. A sample above the capacity has a pack to itself. Capacity 0, where states alone exceed the
 * memory: the context.
 */
void packing_balance(const struct plan_request *request, const double *weight, int64_t capacity,
                     struct packing *packing);

/**
 * Karmarkar-Karp's largest differencing: n weights into k sets of near-equal sums. Each weight begins as a partition of
 * its own; the two partitions whose sums spread most are joined, largest sums with smallest (ties: the lower ones),
 * until one is left.
 *
 * @param set  [n] 0..k-1, sets by descending sum
 * Source: Karmarkar, Karp 1982, The differencing method of set partitioning (UCB/CSD-83-113).
 */
void packing_differencing(const double *weight, int32_t n, int32_t k, int32_t *set);

void packing_free(struct packing *packing);

/** What the number of packs must be a multiple of: DP, with interleaved stages DP x PP. */
int32_t packing_multiple(const struct scenario_plan *layout);

/**
 * Tokens of a unit that each rank has memory for if all units were as long: on every stage 1F1B's units in flight (of
 * interleaved stages: chunks) hold their activations but what plan.offload takes away, the one in work all of them, but
 * for what streams, and its workspace, the last stage the head's of one unit. Of all `cp` ranks of the layout together;
 * 0: states alone exceed the memory. The scores of unfused attention are left out. [tokens]
 */
int64_t packing_memory_tokens(const struct plan_request *request);

/** What stage_memory_standing_bytes leaves on the fullest stage; negative: it exceeds the memory [bytes]. */
double packing_room_bytes(const struct plan_request *request);

/**
 * The same for one unit of which `share` of the activations goes to the host while its pass runs (plan_unit.streams),
 * beside others of `capacity` tokens a rank. [tokens]
 */
double packing_streamed_tokens(const struct plan_request *request, double capacity, double share);

/** A unit of the slices that were added to a cut, with the layout's recomputation and offload, context of the pipeline.
 */
struct plan_unit *packing_close_unit(const struct plan_request *request, const struct plan_pipeline *pipeline,
                                     struct plan_cut *cut);

/** Append samples as whole slices and a unit of them to both cuts. */
void packing_add_unit(const struct plan_request *request, const int32_t *tokens, const int32_t *sample, int32_t n,
                      struct plan_pipeline *pipeline);

/** The group of pipelines [first, first + width), made if there is none. @return its number */
int32_t packing_block(struct plan_phase *phase, int32_t first, int32_t width);

/**
 * One phase of Megatron's layout: pack k is a unit of DP rank k mod DP, in order; empty packs are left out. Order by
 * plan.schedule (plan/schedule.h, whose error it is).
 *
 * @param tokens  of each sample of the packing, carried ones included
 */
bool packing_plan(const struct plan_request *request, const int32_t *tokens, const struct packing *packing,
                  struct plan *plan, struct error *err);

#endif
