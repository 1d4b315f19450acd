/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * SlimPack's solver. FLOPs are forward FLOPs of one layer, in exact integers; ties go to the lower index.
 *
 *  1. f is a sample's FLOPs and C their sum over DP. Samples go to DP ranks by descending f.
 *  2. A sample is an outlier if f > merge_threshold C, or if its tokens exceed the capacity of the merge rule.
 *  3. DP-Merge: the width g of an outlier divides the width before, at first DP. It is the least for which f/g <= C and
 *     tokens/g are within the capacity.
 *  4. The aligned block of g ranks with the least load runs it with CP = g. Any other sample goes to the least loaded
 *     rank.
 *  5. A component is a rank, or all ranks that blocks link. Each chooses for itself, the most loaded one first. Without
 *     replica_micro_packs all ranks choose together.
 *  6. A candidate is m MicroPacks, a form (enum slimpack_form) and a lead. m is `micro_packs`, or i x stages with i =
 * 1, 2, 3, 4, 6, ... up to max_factor. While nothing fits, m doubles until a rank has as many as samples.
 *  7. tau is the least work of a MicroPack for which m suffice on every rank of a component, or one for each outlier.
 *  8. Outliers come first, in order of step 3: ceil((f/g) / tau) slices of equal FLOPs, each a MicroPack of its own.
 *     So a rank with outliers may have fewer than m MicroPacks, no multiple of the stages.
 *  9. Form any: the other samples, by descending f, fill the n MicroPacks that are left. MicroPack k is full when the
 *     running sum reaches (k+1)/n of their FLOPs (packing/fill.h).
 * 10. Form long: samples with f > tau are sliced as in step 8, and the others stay whole. Form none: all stay whole.
 *     Whole samples are packed by slimpack_pack.
 * 11. Asymmetric: backward MicroPacks are cut by backward FLOPs, each sample from its end. Otherwise they are cut
 *     likewise by forward FLOPs.
 * 12. The order is 1F1B with injected forwards and a lead of at most 0, 2, 8, or any number (plan/order.h).
 * 13. Candidates are resolved by ascending lower bound while it is below the best by 0.1%, those of small m first.
 *     Candidates whose orders by themselves exceed memory (packing/memory_bound.h) come last. The fastest that fits
 *     wins, otherwise the one of least excess.
 * 14. A component after the first takes the first candidate that fits and ends no later than 0.1% after the slowest so
 *     far. It tries that one's candidate first.
 * 15. Steps 2 to 14 run for each merge rule (slimpack_nth_split), and the best plan stays.
 *
 * Source: SlimPack section 4. Added here are memory in step 2, divisors, the least tau, whole samples by FLOPs, leads,
 * bounds, step 14 and merge rules.
 */
#ifndef SLIMSIM_SYSTEM_SLIMPACK_H
#define SLIMSIM_SYSTEM_SLIMPACK_H

#include "packing/fill.h"
#include "system/system.h"

/**
 * Order of forwards that a backward needs early (plan/order.h). AUTO: the fastest of the next two and leads of at most
 * 2 and 8; NONE: a warm-up so long that no forward is injected.
 */
enum slimpack_injection { SLIMPACK_AUTO, SLIMPACK_JUST_IN_TIME, SLIMPACK_PERSISTENT, SLIMPACK_NONE };

/** The quantity that is equal in all MicroPacks: FLOPs or seconds. */
enum slimpack_balance { SLIMPACK_FLOP, SLIMPACK_TIME };

/** Source of the MicroPacks' recomputation: the plan's, or each its own so that the plan just fits. */
enum slimpack_setting { SLIMPACK_OF_PLAN, SLIMPACK_BY_UNIT };

/** Function that chooses the boundaries of MicroPacks: fill_ends, or fill_milp after it. */
enum slimpack_packer { SLIMPACK_FILL, SLIMPACK_MILP };

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
    int32_t *shared_first;             /* [n_ranks + 1] into shared */
    int32_t *shared;                   /* indices of the outliers of each rank, in their order */
    int32_t *local_first;              /* [n_ranks + 1] into local */
    int32_t *local;                    /* the other samples of each rank, most FLOPs first */
    fill_flop total;                   /* forward FLOPs of the batch */
    fill_flop *load;                   /* of each rank, forward FLOPs x n_ranks, so that shares are whole numbers */
};

/** Rules that make a sample an outlier. The capacity is a rank's memory (slimpack_rank_tokens), or infinite. */
enum slimpack_merge {
    SLIMPACK_MERGE, /* FLOPs, or memory with the plan's recomputation and offload, rounded down to a level */
    /* FLOPs over C / k: k = 1, 2, 4, ..., DP until no rank has more than 1.1 C; the most even k stays */
    SLIMPACK_MERGE_EVEN,
    SLIMPACK_MERGE_ADAPTED, /* FLOPs, or memory with all that `auto` may offload and recompute */
    SLIMPACK_MERGE_LEVEL,   /* FLOPs, or a level: tokens of the longest sample over 2^(n / 2), n = 0, 1, 2, ... */
    SLIMPACK_MERGE_NONE     /* no sample is */
};

/** Return the request without the plan's offload if MicroPacks have their own. */
struct plan_request slimpack_request(const struct plan_request *request);

/**
 * Run steps 1 to 4. With cp_type ulysses a width also divides the heads. It divides those of keys and values or copies
 * them.
 * @param level  of SLIMPACK_MERGE_LEVEL, from 1 on
 */
void slimpack_split(const struct plan_request *request, enum slimpack_merge merge, int32_t level,
                    struct slimpack_split *split);

/** The first merge rule that is a level, and most levels. */
enum { SLIMPACK_LEVELS = 4, SLIMPACK_N_LEVELS = 64 };

/**
 * Run steps 1 to 4 for the n-th merge rule, from 0 on.
 *
 * 1. Rules are SLIMPACK_MERGE, EVEN, NONE and ADAPTED. Without dp_merge there is only NONE.
 * 2. If ranks have at most 64 samples on average, levels follow, down to half of the longest sample over DP. The
 *    third with even ranks ends them. They do not depend on memory, so more memory makes no plan slower.
 *
 * @return false: there is no such rule
 */
bool slimpack_nth_split(const struct plan_request *request, int32_t n, struct slimpack_split *split);

/** Return whether no rank has more than 1.1 C. */
bool slimpack_is_even(const struct slimpack_split *split);

void slimpack_split_free(struct slimpack_split *split);

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

/** The samples of a single rank that may be cut. */
enum slimpack_form {
    SLIMPACK_CUT_ANY,  /* all */
    SLIMPACK_CUT_LONG, /* those with more FLOPs than a MicroPack */
    SLIMPACK_CUT_NONE,
};

/** The division of a rank's samples into MicroPacks. */
struct slimpack_cut {
    int64_t m; /* MicroPacks of a rank */
    enum slimpack_form form;
};

/** Run steps 7 to 11: the MicroPacks of a phase without orders. Its groups are the blocks inside. */
void slimpack_build(const struct slimpack_rank_group *rank_group, const struct slimpack_cut *cut,
                    struct plan_phase *phase);

/**
 * Put whole samples into n MicroPacks. Each, most FLOPs first, goes into the MicroPack of the fewest FLOPs that stays
 * within `context` tokens. If there is none, it goes into that of the fewest tokens.
 */
void slimpack_pack(const struct slimpack_rank_group *rank_group, const int32_t *sample, int32_t n_samples, int32_t n,
                   struct plan_partition *partition);

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
