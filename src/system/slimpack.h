/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * SlimPack's solver, in three files: phase 1 with DP-Merge (slimpack_merge.c), phase 2 and the asymmetric partition
 * (slimpack.c), candidates (slimpack_candidates.c). FLOPs are those of one layer, without the head; all decisions are
 * made in exact integers, ties go to the lower index.
 *
 * Source: SlimPack section 4; where it is silent, the reading is stated here.
 */
#ifndef SLIMSIM_SYSTEM_SLIMPACK_H
#define SLIMSIM_SYSTEM_SLIMPACK_H

#include "plan/order.h"
#include "system/fill.h"
#include "system/system.h"

enum slimpack_injection { SLIMPACK_AUTO, SLIMPACK_JUST_IN_TIME, SLIMPACK_PERSISTENT };

struct slimpack_knobs {
    bool asymmetric, dp_merge, slicing, replica_units;
    double merge_threshold;
    int32_t injection; /* enum slimpack_injection */
    int64_t units, max_factor, min_slice;
};

/** A sample that the aligned block of ranks [first_rank, first_rank + width) shares. */
struct slimpack_outlier {
    int32_t sample, first_rank, width;
};

/** Phase 1: which DP ranks run which samples. */
struct slimpack_split {
    int32_t n_ranks, n_outliers;
    struct slimpack_outlier *outliers; /* as placed: widest first, then most FLOPs first */
    int32_t *local_first;              /* [n_ranks + 1] into local */
    int32_t *local;                    /* the other samples of each rank, most FLOPs first */
    fill_flop total;                   /* forward FLOPs of the batch */
    fill_flop *load;                   /* of each rank, forward FLOPs x n_ranks (so that shares stay whole numbers) */
};

/**
 * Phase 1 and DP-Merge. With f(x) the forward FLOPs of a sample and C = sum f / DP, samples go by descending f:
 *
 * - f > merge_threshold x C (the paper says f >> C; read in steps of 1/1000): an outlier. Its width g is the least
 *   divisor, among those of the g of the outlier before (of DP at first), with f/g <= C: widths form a chain of
 *   divisors, so aligned blocks are nested or apart and cannot wait for each other in a circle (plan/order.h). It goes
 *   to the aligned block of g ranks whose most loaded rank has the least load; each rank of it carries f/g. With g = 1
 *   (merge_threshold < 1) it is no outlier.
 * - else to the least loaded rank (longest processing time first).
 */
void slimpack_split(const struct system_request *request, struct slimpack_split *split);

void slimpack_split_free(struct slimpack_split *split);

/**
 * Phase 2: the forward and backward cuts of ranks [first_rank, first_rank + n_ranks), no orders yet. The range must not
 * cut a block; groups are numbered inside the phase, one per distinct block, as placed.
 *
 * Of the m units of a rank, outliers take the first, as placed: each n = ceil((f/g) / (C/m)) units (at least 1, at most
 * its tokens) of equal FLOPs, of one slice each, CP = g. The local samples, most FLOPs first, share what is left of m,
 * at least one unit and at most one for each token (without slicing: for each sample), by fill_cut.
 *
 * Backward, asymmetric: the same walk over the same samples in the same number of units by backward FLOPs, each sample
 * from its end. Else the forward units, in this order: a chain is a run of units each of which shares a sample with the
 * next; chains keep their order, the units of a chain run in reverse (a sample must run backward from its last slice).
 */
void slimpack_build(const struct system_request *request, const struct slimpack_split *split, int32_t first_rank,
                    int32_t n_ranks, int64_t m, struct plan_phase *phase);

/**
 * Candidates: each component (ranks that blocks link, all ranks without replica_units) chooses its own m = i x stages
 * and injection policy, or takes the `units` it is told. i runs over 1, 2, 3, 4, 6, 8, 12, ... 128 up to max_factor; a
 * candidate is resolved alone, by its critical path and memory without the gradients' traffic. The default stops at 64:
 * for 13B on 128 GPUs (TP 4, PP 4, DP 8; 512 samples of GitHub's law, 256K) all candidates take some 50 ms of one core,
 * up to 128 some 100 ms, and none above 24 was chosen by the rank with most work; with 2048 samples and 8 stages 48
 * beats 32 by a tenth. The fastest that fits the memory wins (ties: fewer units, then just-in-time); if none fits, the
 * one with the least peak.
 */
bool slimpack_choose(const struct system_request *request, const struct slimpack_split *split, struct plan *plan,
                     struct error *err);

#endif
