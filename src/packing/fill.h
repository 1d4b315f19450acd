/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file cuts a chain of samples into micro-batches of equal FLOPs, in exact integers (SlimPack phase 2 and
 * asymmetric partition). */
#ifndef SLIMSIM_PACKING_FILL_H
#define SLIMSIM_PACKING_FILL_H

#include "cost/flop.h"
#include "plan/plan.h"

/** Sums and products of FLOPs. One layer's work of a batch may exceed 63 bits, and its products do. */
__extension__ typedef __int128 fill_flop;

/** Limits of the MILP, and its results, added up over the chains that share it. */
struct fill_search {
    int64_t window;     /* tokens by which a boundary may differ from the exact fill's in each direction; 0: any */
    int64_t node_limit; /* nodes of branch and bound for each chain; branching adds two, so there may be one more */
    int64_t n_nodes;
    double gap; /* largest gap left: (incumbent - bound) / incumbent; 0: all solved to the end; 1: of one chain nothing
                   is known */
    double deviation; /* of the last chain: its largest |micro-batch - share|, in FLOPs of its most expensive token */
    int64_t n_solved_nodes; /* nodes of the last chain */
};

/** A chain of samples one after the other, and the way to cut it. */
struct fill {
    enum pass pass;          /* backward: each sample from its end to its start */
    struct flop_curve curve; /* curve of that pass */
    const int32_t *tokens;   /* tokens of each sample of the batch */
    const int32_t *sample;   /* samples of the chain */
    int32_t n_samples;       /* number of samples in the chain, at least 1 */
    int64_t n_micro_batches; /* number of micro-batches, 1 up to the chain's tokens */
    int64_t min_slice;       /* [tokens]; 0: a slice may have any length */
    const fill_flop *target; /* [n_micro_batches] work before each micro-batch's end x n_micro_batches, ascending; NULL:
                                equal micro-batches */
    struct fill_search *search; /* NULL: the exact fill; otherwise fill_milp */
};

/** Return the token boundary x that is nearest to the real root of F(x) = target / parts, by bisection. x is in [0,
 * tokens]. A root half-way between two goes up. 0 <= target / parts <= F(tokens). */
int64_t fill_root(struct flop_curve curve, int64_t tokens, fill_flop target, int64_t parts);

/**
 * Compute the ends of the micro-batches as tokens from the chain's start: end[n_micro_batches], ascending.
 *
 * 1. MicroPack k takes tokens until the running sum of FLOPs reaches (k+1)/n_micro_batches of the chain's total. The
 * boundary is at the nearest token (fill_root), so each micro-batch is within a token's work of its share.
 * 2. If tokens are so few that a micro-batch would be empty, it takes one.
 * 3. `min_slice`: boundaries are checked from the chain's start. If a boundary would end a shorter slice, it moves back
 *    to the start of the slice. The slice then joins the next one of its sample.
 * 4. Otherwise, if it would leave a shorter rest of the sample, it moves on to the sample's end. The rest then joins
 *    the slice before.
 * 5. So a sample below min_slice is never cut. Micro-batches may become empty.
 */
void fill_ends(const struct fill *fill, int64_t *end);

/** Return the FLOPs of the chain's first `position` tokens, in the order in which they run. */
fill_flop fill_flop_before(const struct fill *fill, int64_t position);

/**
 * Solve the paper's mixed-integer program for phase 2, in chain order: "translate FLOPs targets into sequence lengths".
 *
 * 1. C(t) are the FLOPs of the chain's first t tokens, and tau = C(n)/m. The binary z[k][t] is 1 if micro-batch k ends
 * at token t, with t in the window of boundary k:
 *
 *     minimise D   subject to   sum_t z[k][t] = 1                                       each micro-batch ends once
 *                               |sum_t C(t) (z[k][t] - z[k-1][t]) - tau| <= D           for every micro-batch
 *                               sum_t t (z[k][t] - z[k-1][t]) >= 1                      no micro-batch is empty
 *
 * 2. C is no line, but here it is a table over tokens. So the program is linear and exact.
 * 3. Its numbers are differences to (k+1) tau, in FLOPs of the most expensive token. So they are small.
 * 4. GLPK's branch and bound starts from the exact fill's solution and stops after node_limit nodes. The result is
 *    never worse than the fill, and it is the same on every machine.
 * 5. The exact fill is within D <= 1 of it by construction, since each boundary is within half a token.
 *
 * @param end  the exact fill's ends (before min_slice), which better ones replace
 * Source: SlimPack section 4.1.1, which states no formulation. This one is ours.
 */
void fill_milp(const struct fill *fill, int64_t *end);

/**
 * Append the chain's slices and micro-batches to a partition, without empty micro-batches. A micro-batch's slices are
 * in the order in which they run: samples in chain order. Backward, tokens count from each sample's end.
 *
 * @return number of micro-batches appended
 */
int32_t fill_partition(const struct fill *fill, struct plan_partition *partition);

#endif
