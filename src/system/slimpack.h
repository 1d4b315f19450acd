/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * SlimPack's solver: phase 1 with DP-Merge (slimpack_merge.c), phase 2 and the asymmetric partition (slimpack.c), units
 * for merged samples beside others (slimpack_deal.c), units of equal time (slimpack_balance.c), the candidates of ranks
 * that choose together: listed (slimpack_list.c), ruled out by bounds (slimpack_bounds.c) or tried
 * (slimpack_candidates.c), all components together (slimpack_solve.c), the choice among ways to merge and parts
 * (slimpack_choose.c). FLOPs are those of one layer, without the head; all decisions are made in exact integers, ties
 * go to the lower index.
 *
 * Source: SlimPack section 4; where it is silent, the reading is stated here.
 */
#ifndef SLIMSIM_SYSTEM_SLIMPACK_H
#define SLIMSIM_SYSTEM_SLIMPACK_H

#include "packing/fill.h"
#include "plan/order.h"
#include "system/system.h"

/** How forwards that a backward needs early are ordered (plan/order.h). AUTO: the fastest of the others; NONE: a
 * warm-up so long that none is injected. */
enum slimpack_injection { SLIMPACK_AUTO, SLIMPACK_JUST_IN_TIME, SLIMPACK_PERSISTENT, SLIMPACK_NONE };

/** What units have equal shares of: FLOPs, or seconds (slimpack_time_targets). */
enum slimpack_balance { SLIMPACK_FLOP, SLIMPACK_TIME };

/** Whose recomputation and offload units have: the plan's, or each its own (`auto`, packing/memory_fit.h). */
enum slimpack_setting { SLIMPACK_OF_PLAN, SLIMPACK_BY_UNIT };

/** Who places the boundaries of units: fill_ends, or fill_milp after it. */
enum slimpack_packer { SLIMPACK_FILL, SLIMPACK_MILP };

/** The knobs; what each means stands in their table (slimpack.c). */
struct slimpack_knobs {
    bool asymmetric, dp_merge, merge_even, slicing, replica_units;
    double merge_threshold, merge_memory, unit_spread;
    int32_t injection;          /* enum slimpack_injection */
    int32_t packer;             /* enum slimpack_packer */
    int32_t balance;            /* enum slimpack_balance */
    int32_t offload, recompute; /* enum slimpack_setting */
    int64_t units, max_factor, min_slice, unit_tokens;
    int64_t milp_window, milp_nodes;
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

/** Which samples ranks share: by FLOPs and by memory, with all that `offload: auto` and `recompute: auto` may change
 * taken as offloaded and recomputed; by FLOPs alone; none; by FLOPs and (`merge_even`) so that ranks are evenly loaded;
 * by FLOPs and by memory with the plan's own offload, recomputation, or both. */
enum slimpack_merge {
    SLIMPACK_MERGE,
    SLIMPACK_MERGE_FLOP,
    SLIMPACK_APART,
    SLIMPACK_MERGE_EVEN,
    SLIMPACK_MERGE_OWN_OFFLOAD,
    SLIMPACK_MERGE_OWN_RECOMPUTE,
    SLIMPACK_MERGE_OWN,
    SLIMPACK_N_MERGES
};

static inline bool slimpack_own_offload(enum slimpack_merge merge)
{
    return merge == SLIMPACK_MERGE_OWN_OFFLOAD || merge == SLIMPACK_MERGE_OWN;
}

static inline bool slimpack_own_recompute(enum slimpack_merge merge)
{
    return merge == SLIMPACK_MERGE_OWN_RECOMPUTE || merge == SLIMPACK_MERGE_OWN;
}

/** The n-th of those, from 0, that the knobs allow and that they tell apart. false: there is none */
bool slimpack_nth_merge(const struct slimpack_knobs *knobs, int32_t n, enum slimpack_merge *merge);

/**
 * Tokens of one sample that a rank has memory for, at least 1: on each stage (memory - states) / (bytes of a token),
 * the least of first and last stage; the more of two ways to run it. What is offloaded is left out, of all its tokens
 * no more than a GPU's even share of its node's host memory.
 *
 *   sliced   as its first backward slice begins: activations, keys and values, which are not offloaded, and the
 *            gradients of these; on the last stage probabilities
 *   whole    in its own pass: all activations (of units that stream: what is not offloaded), the layer's or head's
 *            work; on the last stage probabilities
 *
 * Knob slicing does not count: without it the same samples are shared, so a plan with it is no slower. INT64_MAX if
 * states alone exceed the memory.
 */
int64_t slimpack_rank_tokens(const struct plan_request *request, enum slimpack_merge merge);

/**
 * Phase 1 and DP-Merge. With f(x) the forward FLOPs of a sample and C = sum f / DP, samples go by descending f:
 *
 * - f > merge_threshold x C (the paper says f >> C; read in steps of 1/1000): an outlier. Its width g is the least
 *   divisor, among those of the g of the outlier before (of DP at first), with f/g <= C, else the largest: widths form
 *   a chain of divisors, so aligned blocks are nested or apart and cannot wait in a circle for each other
 *   (plan/order.h). With cp_type ulysses TP x g divides the heads and the groups of keys and values: ranks get whole
 *   ones. It goes to the aligned block of g ranks whose most loaded rank has the least load; each rank of it carries
 *   f/g. With g = 1 (merge_threshold < 1) it is no outlier. With SLIMPACK_APART none is.
 * - With SLIMPACK_MERGE_EVEN the same with C/k for C, k a power of two up to DP: the least k by which no rank's load
 *   is above 1.1 C, else that by which the fullest has least (ties: the least k). Few samples, each below C, may else
 *   load one rank twice as much as another; the paper's DP-Merge is to bring ranks near alignment (the section on its
 *   DP-level balance).
 * - Memory-driven, an extension by the same rule: with more than merge_memory x K tokens (K: slimpack_rank_tokens) it
 *   is an outlier too, and of any outlier also tokens/g <= merge_memory x K; if no divisor can have both, g is the
 *   largest.
 * - else to the least loaded rank (longest processing time first).
 */
void slimpack_split(const struct plan_request *request, enum slimpack_merge merge, struct slimpack_split *split);

void slimpack_split_free(struct slimpack_split *split);

/**
 * balance: time. Targets for fill_cut that make units equal in seconds of the pass on the last stage (the one that all
 * wait for: it has the head; where stages have unequal layers, as many as the first one's) with the plan's
 * recomputation, launches, efficiencies and head as the cost model has them. From equal FLOPs on, six times: the
 * seconds of each unit are spread evenly over its FLOPs, and the boundaries moved to equal shares of the sum; the round
 * with the smallest largest unit is kept, so no unit takes longer than the longest of equal FLOPs. Loads of ranks and
 * an outlier's number of units stay those of equal FLOPs. Caller frees.
 */
fill_flop *slimpack_time_targets(const struct plan_request *request, const struct fill *fill, int32_t context);

/** Ranks [first_rank, first_rank + n_ranks) of a split; the range must not cut a block. Ranks that blocks link are a
 * component, and any other rank is. */
struct slimpack_part {
    const struct plan_request *request;
    const struct slimpack_split *split;
    int32_t first_rank, n_ranks;
    struct fill_search *search; /* of packer milp; NULL: the exact fill */
};

bool slimpack_holds(const struct slimpack_outlier *outlier, int32_t rank);

/** An outlier's work on each rank of its block, and that of a rank's local samples [FLOPs x DP, whole numbers]. */
fill_flop slimpack_outlier_flop(const struct plan_request *request, const struct slimpack_split *split, enum pass pass,
                                const struct slimpack_outlier *outlier);
fill_flop slimpack_local_flop(const struct plan_request *request, const struct slimpack_split *split, enum pass pass,
                              int32_t rank);

/**
 * Budgets of a unit [FLOPs x DP] with m units of a rank, m = least .. most: budget[m - least] is the least for which m
 * units of each rank of the part are enough (or one for each of its outliers and one for its local samples), where none
 * of these shares a unit with another. Units dealt one by one, each to what has the largest ones, make it so.
 */
void slimpack_budgets(const struct slimpack_part *part, enum pass pass, int64_t least, int64_t most, fill_flop *budget);

/**
 * How uneven `even` units are with m units of a rank, m = 1 .. most: uneven[m - 1] is the budget over the mean unit, of
 * the rank and pass where that is most; 1: all are equal, as without outliers.
 */
void slimpack_unevenness(const struct slimpack_part *part, int64_t most, double *uneven);

/** The largest p95/p5 over ranks of such units of one pass, as units_spread_of (simulate/units.h) counts it but for the
 * rounding to whole tokens: spread[m - 1] with m units of a rank, m = 1 .. most. */
void slimpack_spreads(const struct slimpack_part *part, enum pass pass, int64_t most, double *spread);

/** The number in (above, most] with the least unevenness (ties: the lower). */
int64_t slimpack_even_units(const double *uneven, int64_t above, int64_t most);

/** Ranks that blocks link from `first_rank` on, where such a component begins: a part has one or several. */
int32_t slimpack_linked_ranks(const struct slimpack_split *split, int32_t first_rank);

/** What phase 2 makes of a part. */
struct slimpack_shape {
    int64_t m; /* units of a rank */
    bool asymmetric, slicing;
    bool even;          /* local samples beside outliers take no more units than the budget asks for */
    int64_t above;      /* of several components, even: each takes its most even number above this, up to m; 0: m */
    int64_t m_backward; /* asymmetric: units of a rank in the backward pass; 0: m */
};

/**
 * Phase 2: the forward and backward cuts of the ranks of a part, no orders yet. Groups are numbered inside the phase,
 * one per distinct block, as placed.
 *
 * Of the m units of a rank, outliers take the first, as placed: each n = ceil((f/g) / tau) units (at most its tokens)
 * of equal FLOPs, of one slice each, CP = g. The local samples, most FLOPs first, share what is left of m (`even`: of
 * that, what tau asks for), at least one unit and at most one for each token (without slicing: for each sample), by
 * fill_cut. Outliers and local samples share no unit, so the paper's tau, a rank's work over m, would take more than m
 * units: tau is slimpack_budgets' of the component. Then the largest unit is as small as m units can make it.
 *
 * Backward, asymmetric: the same walk over the same samples by backward FLOPs, with a tau of its own, each sample from
 * its end. Else the forward units, in this order: a chain is a run of units each of which shares a sample with the
 * next; chains keep their order, the units of a chain run in reverse (a sample must run backward from its last slice).
 */
void slimpack_build(const struct slimpack_part *part, const struct slimpack_shape *shape, struct plan_phase *phase);

/** Make of an asymmetric phase what slimpack_build would have built symmetric: the forward cuts stay. */
void slimpack_make_symmetric(struct plan_phase *phase);

/** What all units of a bound have: recomputation, the share of their activations that goes to the host, and how much
 * of it a GPU can have there (INFINITY: any). */
struct slimpack_kind {
    enum recompute recompute;
    double offload, host_bytes;
};

/** As the plan has them; or all offloaded, or all recomputed, where these are `auto`. Of the host any. */
struct slimpack_kind slimpack_kind_of(const struct plan_request *request, bool offloads, bool recomputes);

/**
 * A pipeline's share of a bound on the makespan [s]: with first and last the first forward and the last backward unit,
 *
 *     forward   (p - 1) F(first) + sum of F       backward   (p - 1) B(last) + sum of B
 *
 * the sums over all units with the head. No order ends before both shares together: on the last of p stages the compute
 * stream runs every unit forward and backward, one after the other; before it begins, the first forward unit has passed
 * p - 1 stages, and when it has ended the last backward unit still has to (all orders keep the cuts' order on every
 * stage, so the stream begins with the one and ends with the other). Seconds are those of the passes alone; stages
 * before the last lack only the head. With equal units and a free network 1F1B reaches it: (m + p - 1)(F + B).
 *
 * @param enough_s  once the share exceeds it, what has been summed up is returned
 */
double slimpack_pass_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                       double enough_s);

/** p (F + B) of a sample in a unit of its own, without head, recomputation and the ends of attention's kernels
 * (cost_attention_least_s) [s]: no plan that keeps the sample whole and on one rank ends earlier, for its forward and
 * backward go through all p stages, and a unit with more in it takes no less. */
double slimpack_chain_s(const struct plan_request *request, int32_t tokens);

/** What slimpack_bound_bytes walks of a pipeline: tokens of a rank in each unit; and the order, as order_leads has it,
 * which others set and free. */
struct slimpack_walk {
    double *tokens[N_PASSES];
    int32_t *lead;
};

/** [n_pipelines], without the order; and freed. */
struct slimpack_walk *slimpack_walks(const struct plan_phase *phase);
void slimpack_walks_free(struct slimpack_walk *walks, int32_t n);

/**
 * No rank of the phase needs less than this, whatever the times [bytes]: states, and at the worst step of its order
 * the activations of all forward units that have begun less what backward units have consumed, with the workspace that
 * the step has without recomputation (zero2, zero3: that of a forward pass, without what is whole). Of what the step
 * itself does not run or consume the share kind->offload may be on the host, but no more than kind->host_bytes; its own
 * is all there, before the copy out and after the copy in. Of units that stream its own may be away, too, and
 * kind->host_bytes says nothing: what waits for its copy out is on neither. Left out: keys and values kept beside full
 * recomputation, or of sliced samples, which are not offloaded, gradients of keys and values, logits in work, what is
 * offloaded even while it is copied. In such orders a stage has before no backward run more forwards than the stage
 * before it.
 */
double slimpack_bound_bytes(const struct cost_setting *setting, const struct plan_phase *phase,
                            const struct slimpack_walk *walks, const struct slimpack_kind *kind, int32_t shards);

/**
 * No plan that runs a sample of so many tokens of a rank has a slimpack_bound_bytes below this [bytes]: as the backward
 * of the sample begins, all its slices have run forward and none backward. What the step itself runs has no tokens
 * here, so all of the sample may be on the host.
 */
double slimpack_sample_bytes(const struct plan_request *request, double tokens, const struct slimpack_kind *kind);

/** Places that packer milp gives each boundary, and the units of a rank that it can have: so many that the program has
 * at most 300 binaries, which takes GLPK under a second. INT64_MAX without it. */
int64_t slimpack_milp_places(const struct plan_request *request);
int64_t slimpack_milp_units(const struct plan_request *request);

/**
 * Candidates. Each component (ranks that blocks link, or any other rank) chooses its own: m = i x stages,
 * i over 1, 2, 3, 4, 6, 8, 12, ... 128 up to max_factor, or the `units` it is told; what the knobs allow of asymmetric
 * or not, sliced or not; and the injection policy. With outliers, between each m and the one before also that
 * whose `even` units are least uneven (slimpack_unevenness), sliced. So of these a part that does not pay is not used,
 * and having it never makes a component slower. Without replica_units all choose one candidate together: the factor,
 * the forms and the policy are common, budgets and the even m below the factor's each component's own, so that it is
 * among those that each could choose. A candidate is resolved alone, by its critical path and memory without the
 * gradients' traffic: the fastest that fits the memory wins (ties: the earlier one, fewer units first); if none fits,
 * the one with the least peak. With `offload: auto` or `recompute: auto` memory_fit changes its units until it fits,
 * unless its bound says it cannot; with both, the two together and each alone are weighed.
 *
 * Only what can win is resolved: candidates that may fit by slimpack_bound_bytes first, by ascending bound of their
 * seconds (of what cannot be enough, see below, that of its steps alone, bounds/lower_bound.h), then the others, with
 * their units as they are, by ascending bound of their bytes; none whose bounds, or whose steps alone, the best so far
 * already beats. plan.n_candidates counts those that were listed, plan.n_resolved those that were resolved, but for
 * those tried on the heaviest component alone. Components go by descending load, and since the worst decides, one is
 * content with the first candidate that takes no longer than the slowest so far and fits, or where another does not,
 * needs no more memory; it first tries what that one chose, but last if its steps alone take longer.
 *
 * A part is switched off, and units are left uneven, only for seconds: in the end each component that ends before the
 * slowest, if that fits, takes instead what uses all parts that the knobs allow and has the least uneven units, of what
 * has no more units, fits and ends no later than the slowest. This changes no makespan. More units would be evener, but
 * each slice of a shared sample exchanges all keys and values before it: pipelines would send more and use up the time
 * that they have left, and what slow GPUs and links cost would grow with it.
 *
 * With unit_spread a component has other candidates, sliced and asymmetric, with `even` units and a number of them for
 * each pass: for each factor, of those from the m of the factor before (exclusive) to that of the last, the lowest
 * whose units spread (slimpack_spreads) by no more; if none does, that of the factor before, and for the first factor
 * the one of all that spreads least (ties: the lowest). Some of these are among no candidates without a limit, so a
 * component may be faster with one.
 * None is taken for another, and neither slicing, asymmetric nor replica_units is switched off.
 *
 * With packer milp candidates have at most slimpack_milp_units, and what a component has chosen is cut anew by
 * fill_milp and taken unless it is slower or needs more memory than there is.
 *
 * The same is done for each way to merge (enum slimpack_merge) that shares other samples, with offload and recompute of
 * the plan where samples are merged for that. The one whose slowest component is fastest wins (or fits, where others do
 * not, or at least needs the least memory; ties: the first); one is given up as soon as a component, or its bounds all,
 * exceed what another has reached: its seconds, or where that does not fit, its bytes.
 *
 * Components offload as if each were alone on its nodes. Where they then need more of a node's host than there is, and
 * do so before evening out, too, its memory binds, and all is solved again: with even shares for its GPUs
 * (memory_fit_rule); and, by the first rule, without each set of parts that are on (replica_units, offload: auto,
 * recompute: auto, slicing, asymmetric, and with injection: auto all policies but one), for what components have on the
 * host then may fit together. A set is left out if with one part of it on the solution fits, or is no faster than the
 * best so far: alone on their nodes components come to no less with fewer candidates. What still needs more does not
 * fit.
 *
 * So each part switched off is itself a candidate, and no plan that fits is slower, or ceases to fit, for having it:
 * its candidates are among those of the components, and where the host binds what it would come to is itself solved.
 * This is to the last bit of the makespan without gradient traffic (with it: what of it shows depends on the last
 * passes, which differ); it is never so of the peak where nothing fits.
 */
bool slimpack_choose(const struct plan_request *request, struct plan *plan, struct error *err);

#endif
