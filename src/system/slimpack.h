/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * SlimPack's solver. FLOPs are forward FLOPs of one layer, in exact integers; ties go to the lower index.
 *
 *  1. f is a sample's FLOPs, C their sum over DP. Samples go to DP ranks by descending f.
 *  2. A sample is an outlier if f > merge_threshold C, or if its tokens exceed slimpack_rank_tokens.
 *  3. DP-Merge: the width g of an outlier divides the width before, at first DP. It is the least for which f/g <= C and
 *     a rank has memory for its tokens. The aligned block of g ranks with the least load runs it with CP = g.
 *  4. Any other sample goes to the least loaded rank.
 *  5. A component is a rank, or all ranks that blocks link. Each component chooses for itself, the most loaded one
 *     first. Without replica_micro_packs all ranks choose together.
 *  6. A candidate is m MicroPacks a rank and an injection policy. m is `micro_packs`, or i x stages with i = 1, 2, 3,
 * 4, 6,
 *     ... up to max_factor.
 *  7. tau is the least work of a MicroPack for which m suffice on every rank of a component, or one for each outlier.
 *  8. Outliers come first, in order of step 3: ceil((f/g) / tau) slices of equal FLOPs, each a MicroPack of its own.
 *  9. The other samples, by descending f, fill the n MicroPacks that are left. MicroPack k is full when the running sum
 *     reaches (k+1)/n of their FLOPs (packing/fill.h).
 * 10. Asymmetric: steps 7 to 9 again with backward FLOPs, each sample from its end. Otherwise forward MicroPacks run
 *     backward, those that share a sample in reverse.
 * 11. The order is 1F1B with injected forwards (plan/order.h).
 * 12. Candidates are resolved by ascending lower bound while it is not above the best. Candidates whose orders by
 *     themselves exceed memory (packing/memory_bound.h) come last. The fastest that fits wins, otherwise the one of
 *     least excess.
 * 13. A component after the first takes the first candidate that fits and ends no later than the slowest so far. It
 *     tries that one's candidate first.
 * 14. Steps 2 to 13 run for each merge rule (enum slimpack_merge), and the best plan stays. If it exceeds memory by
 *     less than 5%, they run once more, with 5% less memory in step 2.
 *
 * Source: SlimPack section 4. Added here are memory in step 2, divisors, the least tau, bounds, step 13 and two merge
 * rules.
 */
#ifndef SLIMSIM_SYSTEM_SLIMPACK_H
#define SLIMSIM_SYSTEM_SLIMPACK_H

#include "packing/fill.h"
#include "system/system.h"

/**
 * Order of forwards that a backward needs early (plan/order.h). AUTO: the faster of the next two; NONE: a warm-up so
 * long that no forward is injected.
 */
enum slimpack_injection { SLIMPACK_AUTO, SLIMPACK_JUST_IN_TIME, SLIMPACK_PERSISTENT, SLIMPACK_NONE };

/** The quantity that is equal in all MicroPacks: FLOPs or seconds. */
enum slimpack_balance { SLIMPACK_FLOP, SLIMPACK_TIME };

/** Source of the MicroPacks' recomputation: the plan's, or each its own so that the plan just fits. */
enum slimpack_setting { SLIMPACK_OF_PLAN, SLIMPACK_BY_UNIT };

/** Function that chooses the boundaries of MicroPacks: fill_ends, or fill_milp after it. */
enum slimpack_packer { SLIMPACK_FILL, SLIMPACK_MILP };

/** If the best plan exceeds memory by less than this share, step 14 runs once more. */
#define SLIMPACK_SMALL_EXCESS 0.05

/** The knobs; their table (slimpack.c) gives the meaning of each. */
struct slimpack_knobs {
    bool asymmetric, dp_merge, slicing, replica_micro_packs;
    double merge_threshold;
    int32_t injection; /* enum slimpack_injection */
    int32_t packer;    /* enum slimpack_packer */
    int32_t balance;   /* enum slimpack_balance */
    int32_t recompute; /* enum slimpack_setting */
    int64_t micro_packs, max_factor, min_slice;
};

/** A sample that the aligned block of ranks [first_rank, first_rank + width) shares. */
struct slimpack_outlier {
    int32_t sample, first_rank, width;
};

/** Result of phase 1: the samples of each DP rank. */
struct slimpack_split {
    struct flop_curve curve[N_PASSES]; /* work of samples */
    int32_t n_ranks, n_outliers;
    struct slimpack_outlier *outliers; /* in order of step 3: widest first, then most FLOPs first */
    int32_t *local_first;              /* [n_ranks + 1] into local */
    int32_t *local;                    /* the other samples of each rank, most FLOPs first */
    fill_flop total;                   /* forward FLOPs of the batch */
    fill_flop *load;                   /* of each rank, forward FLOPs x n_ranks, so that shares are whole numbers */
};

/** Rules that make a sample an outlier. */
enum slimpack_merge {
    SLIMPACK_MERGE, /* FLOPs, or memory with the plan's recomputation and offload */
    /* FLOPs over C / k: k = 1, 2, 4, ..., DP until no rank has more than 1.1 C; the most even k stays */
    SLIMPACK_MERGE_EVEN,
    SLIMPACK_MERGE_ADAPTED, /* FLOPs, or memory with all that `auto` may offload and recompute */
    SLIMPACK_MERGE_NONE     /* dp_merge: false */
};

/** Return the n-th merge rule that knobs and offload allow, from 0 on. @return false: there is none */
bool slimpack_nth_merge(const struct plan_request *request, int32_t n, enum slimpack_merge *merge);

/** Return the request without the plan's offload if MicroPacks have their own. */
struct plan_request slimpack_request(const struct plan_request *request);

/** Run steps 1 to 4. With cp_type ulysses a width also divides the heads. It divides those of keys and values or copies
 * them. */
void slimpack_split(const struct plan_request *request, enum slimpack_merge merge, struct slimpack_split *split);
void slimpack_split_free(struct slimpack_split *split);

/**
 * Return the seconds of the most loaded rank, for the merge rule and the memory of step 14 with which
 * these are least.
 */
double slimpack_lower_bound_s(const struct plan_request *request);

/**
 * Return the tokens of one sample that a rank has memory for, the minimum over stages. A stage has memory for (memory -
 * states) / (bytes of a token when its sample's backward begins). At least 1; INT64_MAX if states by themselves exceed
 * the memory.
 * @param adapted  with all that `offload: auto` and `recompute: auto` may remove; false: as in the plan
 */
int64_t slimpack_rank_tokens(const struct plan_request *request, bool adapted);

/** Return the number of ranks that blocks link from first_rank on: the width of its widest block, or 1. */
int32_t slimpack_linked_ranks(const struct slimpack_split *split, int32_t first_rank);

/** Ranks [first_rank, first_rank + n_ranks) of a split; blocks are inside or outside it. */
struct slimpack_rank_group {
    const struct plan_request *request;
    const struct slimpack_split *split;
    int32_t first_rank, n_ranks;
    struct fill_search *search; /* of packer milp; NULL: the exact fill */
};

/**
 * Run steps 7 to 10 with m MicroPacks a rank: the MicroPacks of a phase without orders. Its groups are the
 * blocks inside.
 */
void slimpack_build(const struct slimpack_rank_group *rank_group, int64_t m, struct plan_phase *phase);

/**
 * Return targets for fill_cut that make MicroPacks equal in seconds of the pass on the last stage (balance: time). The
 * last stage has the head; recomputation is the plan's. Caller frees.
 *
 * 1. Targets begin at equal FLOPs and move five times.
 * 2. The seconds of each MicroPack are spread evenly over its FLOPs, and boundaries move to equal shares of the sum.
 * 3. The round whose largest MicroPack is smallest is kept.
 */
fill_flop *slimpack_time_targets(const struct plan_request *request, const struct fill *fill, int32_t context);

#endif
