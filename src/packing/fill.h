/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Cut a chain of samples into units of equal FLOPs, in exact integers (SlimPack phase 2 and asymmetric partition). */
#ifndef SLIMSIM_PACKING_FILL_H
#define SLIMSIM_PACKING_FILL_H

#include "cost/flop.h"
#include "plan/plan.h"

/** Sums and products of FLOPs: one layer's work of a batch may exceed 63 bits, its products do. */
__extension__ typedef __int128 fill_flop;

/** The MILP's limits, and what it came to; added up over the chains that share it. */
struct fill_search {
    int64_t window;     /* tokens that a boundary may stand from the exact fill's, each way; 0: any */
    int64_t node_limit; /* of branch and bound, for each chain; branching adds two, so one more may be made */
    int64_t n_nodes;
    double gap;             /* the largest left: (incumbent - bound) / incumbent; 0: all solved to the end;
                               1: of one nothing is known */
    double deviation;       /* of the last chain: its largest |unit - share|, in its dearest token's FLOPs */
    int64_t n_solved_nodes; /* of the last chain */
};

/** Samples one behind the other, and how to cut them. */
struct fill {
    enum pass pass;             /* backward: each sample from its end to its start */
    struct flop_curve curve;    /* of that pass */
    const int32_t *tokens;      /* of each sample of the batch */
    const int32_t *sample;      /* the chain */
    int32_t n_samples;          /* of the chain, at least 1 */
    int64_t n_units;            /* 1 up to the chain's tokens */
    int64_t min_slice;          /* [tokens]; 0: a slice may be as short as it comes */
    bool whole;                 /* never cut a sample */
    const fill_flop *target;    /* [n_units] work before each unit's end x n_units, ascending; NULL: equal units */
    struct fill_search *search; /* NULL: the exact fill; else fill_milp (with `whole` the exact fill all the same) */
};

/**
 * The token boundary x in [0, tokens] nearest to the real root of q x^2 + l x = target / parts; half-way goes up.
 * 0 <= target / parts <= F(tokens).
 */
int64_t fill_root(struct flop_curve curve, int64_t tokens, fill_flop target, int64_t parts);

/**
 * Where the units end, as tokens from the chain's begin: end[n_units], ascending.
 *
 * Unit k takes tokens until the running sum of FLOPs reaches (k+1)/n_units of the chain's total. The boundary stands at
 * the token nearest to that (fill_root), so each unit is within a token's work of its share; where tokens are so few
 * that a unit would be empty, it takes one. `whole`: the boundary moves on to the end of its sample; units that this
 * leaves empty are kept here, empty. `min_slice`: from the chain's begin, a boundary that would end a shorter slice
 * moves back to where the slice begins (the slice joins the next of its sample), else one that would leave a shorter
 * rest of the sample moves on to the sample's end (the rest joins the slice before). A sample below min_slice is thus
 * never cut; units may become empty.
 */
void fill_ends(const struct fill *fill, int64_t *end);

/** FLOPs of the chain's first `place` tokens, in the order they run. */
fill_flop fill_flop_before(const struct fill *fill, int64_t place);

/**
 * The paper's mixed-integer program for phase 2, in chain order: "translate FLOPs targets into sequence lengths".
 *
 * With C(t) the FLOPs of the chain's first t tokens, tau = C(n)/m, and the binary z[k][t] = 1 where unit k ends at
 * token t (t over the window of boundary k):
 *
 *     minimise D   subject to   sum_t z[k][t] = 1                                       each unit ends once
 *                               |sum_t C(t) (z[k][t] - z[k-1][t]) - tau| <= D           for every unit
 *                               sum_t t (z[k][t] - z[k-1][t]) >= 1                      no unit is empty
 *
 * C is quadratic, but a table over tokens here, so the program is linear and exact. In FLOPs of the dearest token, as
 * differences to (k+1) tau, its numbers are small. GLPK's branch and bound starts from the exact fill's solution and
 * stops once it has made node_limit nodes: never worse than the fill, the same on every machine. The exact fill is
 * within D <= 1 of it by construction, each boundary being within half a token.
 *
 * @param end  the exact fill's ends (before min_slice); replaced by better ones
 * Source: SlimPack section 4.1.1, which states no formulation; this is ours.
 */
void fill_milp(const struct fill *fill, int64_t *end);

/**
 * Append the chain's slices and units to a cut, without empty units. A unit's slices stand in the order they run:
 * samples in chain order; backward, tokens counted from each sample's end.
 *
 * @return units appended
 */
int32_t fill_cut(const struct fill *fill, struct plan_cut *cut);

#endif
