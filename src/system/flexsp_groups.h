/* SPDX-License-Identifier: GPL-3.0-or-later */
/** FlexSP's planner: sequences into micro-batches, and in each into disjoint groups of sequence-parallel ranks. */
#ifndef SLIMSIM_SYSTEM_FLEXSP_GROUPS_H
#define SLIMSIM_SYSTEM_FLEXSP_GROUPS_H

#include <stdint.h>

enum { FLEXSP_LEVELS = 16 }; /* degrees 2^0 .. 2^15 */

/** Seconds of a group of degree d = 2^level: constant_s + the sum over its sequences of flexsp_sequence_s. */
struct flexsp_cost {
    double quadratic_s, linear_s;     /* of a whole sequence, per token squared and per token */
    double constant_s;                /* of a micro-batch */
    double exchange_s[FLEXSP_LEVELS]; /* all-to-alls, per token of a sequence that 2^level ranks share */
};

struct flexsp_problem {
    struct flexsp_cost cost;
    int32_t n_ranks;                 /* N */
    int64_t capacity;                /* tokens of a rank */
    int32_t n_buckets, n_trials;     /* Q, at least; values of M that are tried */
    int64_t node_limit, max_columns; /* of branch and bound; a program with more columns is left to the greedy */
};

/** Sequences that 2^level ranks run together. */
struct flexsp_group {
    int32_t micro_batch, level;
    int32_t n, *sequence; /* into the lengths given, ascending */
    double seconds;       /* predicted, with the sequences' own lengths */
};

struct flexsp_result {
    int32_t n_micro_batches, n_groups;
    struct flexsp_group *groups; /* by micro-batch, then widest first */
    double planned_s;            /* sum of C over micro-batches: with lengths rounded up to their buckets' */
    int64_t n_candidates;        /* values of M that were solved */
    int64_t n_nodes;             /* of branch and bound, in all of them */
    double gap;                  /* the largest left of a micro-batch of the chosen M: (C - bound) / C */
};

/** (quadratic_s s^2 + linear_s s) / d + exchange_s s of a sequence of s tokens. */
double flexsp_sequence_s(const struct flexsp_cost *cost, double tokens, int32_t level);

/** Their sum: with the sequences' own lengths. */
double flexsp_predicted_s(const struct flexsp_result *result);

/** The widest group: the largest power of two of at most n_ranks. */
int32_t flexsp_widest(int32_t n_ranks);

/** Some sequences of like lengths, all counted as long as the first. */
struct flexsp_bucket {
    int32_t first, n, tokens;
};

/** Of a micro-batch: sequences of each bucket in each group. */
struct flexsp_division {
    int32_t n_groups; /* at most n_ranks; those without sequences are left out */
    int32_t *level;   /* [n_groups] */
    int32_t *count;   /* [n_groups][n_buckets] */
    double *load_s;   /* [n_groups] */
    int64_t *tokens;  /* [n_groups] */
    double longest_s; /* the largest load: C */
};

/**
 * Improve a division by the paper's program, solved by GLPK: with the virtual groups p (N/d of each degree d), m_p in
 * {0, 1} and integers A_qp >= 0 (none where bucket q does not fit the degree)
 *
 *     minimise C   subject to   sum_q A_qp c_q(d_p) + constant m_p <= C      for every p
 *                               sum_q A_qp tokens_q <= capacity d_p m_p      for every p
 *                               sum_p m_p d_p = N,   sum_p A_qp = b_q        for every q
 *
 * and, since groups of a degree are alike, m_p >= m_p+1 among them. Branch and bound begins at the division and stops
 * after node_limit nodes; never worse than it. With more than max_columns columns the division stays.
 *
 * @param bound_s  C is no less
 * @param n_nodes  added to
 * @return         (C - bound) / C, bound the larger one of bound_s and branch and bound's
 */
double flexsp_milp(const struct flexsp_problem *problem, const struct flexsp_bucket *buckets, int32_t n_buckets,
                   double bound_s, struct flexsp_division *division, int64_t *n_nodes);

/**
 * 1. M from ceil(tokens / (N capacity)) on: n_trials values, and more as long as none can be divided.
 * 2. The sequences, longest first, in at most M consecutive runs with the least largest sum of tokens, each run as long
 *    as that sum allows: the micro-batches.
 * 3. Each in n_buckets buckets of consecutive sequences with the least sum of (longest - own length); in more while the
 *    sequences, each as long as its bucket's longest, take more than halfway from their own tokens to all ranks'
 *    capacity (the public code's rule: else a micro-batch that memory holds seems not to fit).
 * 4. Divided into groups greedily, then by flexsp_milp if C exceeds its bound by more than a thousandth of C. Greedily:
 *    under a ceiling C, longest first, each sequence goes to the least degree, but for those below a floor, that has
 *    memory and time for it: to the fullest group of that degree with room, else to a new one if ranks are left, else
 *    the next degree is tried. C is found by bisection, for every floor: with the widest ones the groups are all of one
 *    degree, as in the solutions that the public code starts its solver from. The bound: b1 and the mean load of a rank
 *    if every sequence took its cheapest degree, or the longest sequence's seconds at its fastest.
 * 5. The M of the least flexsp_predicted_s (ties: the fewest).
 *
 * A capacity below what the longest sequence needs on the widest group is raised to it.
 *
 * @param tokens  of each sequence, descending
 */
void flexsp_solve(const struct flexsp_problem *problem, const int32_t *tokens, int32_t n, struct flexsp_result *result);

/**
 * The paper's baseline: best-fit decreasing into groups of one degree with room for 9/10 of its memory (at least for
 * the longest sequence), floor(N/d) groups a micro-batch in the order of the packs.
 */
void flexsp_fixed(const struct flexsp_problem *problem, const int32_t *tokens, int32_t n, int32_t level,
                  struct flexsp_result *result);

void flexsp_result_free(struct flexsp_result *result);

#endif
