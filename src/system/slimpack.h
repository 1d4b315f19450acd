/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * SlimPack's solver. FLOPs are forward FLOPs of one layer, in exact integers; ties go to the lower index.
 *
 *  1. f is a sample's FLOPs, C their sum over DP. Samples go to DP ranks by descending f.
 *  2. A sample is an outlier if f > merge_threshold C, or if its tokens exceed slimpack_rank_tokens.
 *  3. DP-Merge: an outlier's width g is the least divisor of the width before (at first DP) with f/g <= C and no more
 *     than slimpack_rank_tokens a rank. The aligned block of g ranks with the least load runs it with CP = g.
 *  4. Any other sample goes to the least loaded rank.
 *  5. Ranks that blocks link are a component. Each component chooses alone, the most loaded one first. Without
 *     replica_units all ranks are one component.
 *  6. A candidate is a factor i of 1, 2, 3, 4, 6, ..., max_factor, which gives m = i x stages MicroPacks a rank, and an
 *     injection policy.
 *  7. tau is the least work of a MicroPack for which m of them suffice on every rank of the component.
 *  8. Outliers come first, as placed: ceil((f/g) / tau) slices of equal FLOPs, each a MicroPack of its own.
 *  9. The other samples, by descending f, fill the n MicroPacks that are left: MicroPack k is full when the running sum
 *     reaches (k+1)/n of their FLOPs (packing/fill.h).
 * 10. Asymmetric: steps 7 to 9 again with backward FLOPs, each sample from its end. Otherwise forward MicroPacks run
 *     backward, those that share a sample in reverse.
 * 11. The order is 1F1B with injected forwards (plan/order.h).
 * 12. Candidates are resolved by ascending lower bound while the bound is below the best. The fastest that fits wins.
 * 13. A component after the first takes the first candidate that ends no later than the slowest so far.
 * 14. Steps 2 to 13 run for each merge rule, and the best plan stays: outliers by FLOPs and memory; by FLOPs alone,
 *     over C, C/2, C/4, ... until no rank has more than 1.1 C; with auto, by FLOPs and the memory that it leaves.
 *
 * Source: SlimPack section 4. Memory in steps 2 and 3, step 13 and C/2 to C/n in step 14 are ours.
 */
#ifndef SLIMSIM_SYSTEM_SLIMPACK_H
#define SLIMSIM_SYSTEM_SLIMPACK_H

#include "packing/fill.h"
#include "system/system.h"

/** How forwards that a backward needs early are ordered (plan/order.h). AUTO: the faster of the next two; NONE: a
 * warm-up so long that none is injected. */
enum slimpack_injection { SLIMPACK_AUTO, SLIMPACK_JUST_IN_TIME, SLIMPACK_PERSISTENT, SLIMPACK_NONE };

/** What MicroPacks have equal shares of. */
enum slimpack_balance { SLIMPACK_FLOP, SLIMPACK_TIME };

/** Whose recomputation and offload MicroPacks have: the plan's, or each its own so that the plan just fits. */
enum slimpack_setting { SLIMPACK_OF_PLAN, SLIMPACK_BY_UNIT };

/** Who places the boundaries of MicroPacks: fill_ends, or fill_milp after it. */
enum slimpack_packer { SLIMPACK_FILL, SLIMPACK_MILP };

/** The knobs; their table (slimpack.c) says what each means. */
struct slimpack_knobs {
    bool asymmetric, dp_merge, slicing, replica_units;
    double merge_threshold;
    int32_t injection;          /* enum slimpack_injection */
    int32_t packer;             /* enum slimpack_packer */
    int32_t balance;            /* enum slimpack_balance */
    int32_t offload, recompute; /* enum slimpack_setting */
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

/** What makes a sample an outlier: FLOPs, or memory as the plan has it; FLOPs until ranks are even; FLOPs, or memory
 * with what `auto` may offload and recompute; nothing. */
enum slimpack_merge { SLIMPACK_MERGE, SLIMPACK_MERGE_EVEN, SLIMPACK_MERGE_ADAPTED, SLIMPACK_MERGE_NONE };

/** The n-th merge rule that the knobs allow, from 0 on. @return false: there is none */
bool slimpack_nth_merge(const struct slimpack_knobs *knobs, int32_t n, enum slimpack_merge *merge);

/** Steps 1 to 4. With cp_type ulysses a width also divides the heads, and the groups of keys and values. */
void slimpack_split(const struct plan_request *request, enum slimpack_merge merge, struct slimpack_split *split);
void slimpack_split_free(struct slimpack_split *split);

/**
 * Tokens of one sample that a rank has memory for: (memory - states) / (bytes of a token as its sample's backward
 * begins), the least of all stages. At least 1; INT64_MAX if states alone exceed the memory.
 * @param adapted  with all that `offload: auto` and `recompute: auto` may take away; false: as the plan has it
 */
int64_t slimpack_rank_tokens(const struct plan_request *request, bool adapted);

/** Ranks of the component that begins at a rank: the width of its widest block, or 1. */
int32_t slimpack_linked_ranks(const struct slimpack_split *split, int32_t first_rank);

/** Ranks [first_rank, first_rank + n_ranks) of a split, which cut no block. */
struct slimpack_part {
    const struct plan_request *request;
    const struct slimpack_split *split;
    int32_t first_rank, n_ranks;
    struct fill_search *search; /* of packer milp; NULL: the exact fill */
};

/** Steps 7 to 10 with m MicroPacks a rank: the cuts of a phase without orders. Its groups are the part's blocks. */
void slimpack_build(const struct slimpack_part *part, int64_t m, struct plan_phase *phase);

/**
 * balance: time. Targets for fill_cut that make units equal in seconds of the pass on the last stage, which has the
 * head, with the plan's recomputation. From equal FLOPs on, six times: the seconds of each unit are spread evenly over
 * its FLOPs, and the boundaries move to equal shares of the sum. The round with the smallest largest unit is kept.
 * Caller frees.
 */
fill_flop *slimpack_time_targets(const struct plan_request *request, const struct fill *fill, int32_t context);

#endif
