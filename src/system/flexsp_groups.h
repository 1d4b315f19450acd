/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module is FlexSP's planner. It divides sequences into micro-batches, and each micro-batch into disjoint groups
 * of sequence-parallel ranks.
 */
#ifndef SLIMSIM_SYSTEM_FLEXSP_GROUPS_H
#define SLIMSIM_SYSTEM_FLEXSP_GROUPS_H

#include <stdint.h>

enum { FLEXSP_LEVELS = 16 }; /* degrees 2^0 .. 2^15 */

/** Seconds of a group of degree d = 2^level: constant_s + the sum over its sequences of flexsp_sequence_s. */
struct flexsp_cost {
    double quadratic_s, linear_s;     /* of a whole sequence: a token squared; a token */
    double constant_s;                /* of a micro-batch */
    double exchange_s[FLEXSP_LEVELS]; /* all-to-alls of a sequence that 2^level ranks share: a token */
};

struct flexsp_problem {
    struct flexsp_cost cost;
    int32_t n_ranks;                 /* N */
    int64_t capacity;                /* tokens that a rank has memory for */
    int32_t n_buckets, n_trials;     /* Q, at least; number of values of M that are tried */
    int64_t node_limit, max_columns; /* of branch and bound; programs with more columns keep the greedy's groups */
};

/** Sequences that 2^level ranks run together. */
struct flexsp_group {
    int32_t micro_batch, level;
    int32_t n, *sequence; /* indices of lengths, ascending */
    double seconds;       /* predicted from the sequences' own lengths */
};

struct flexsp_result {
    int32_t n_micro_batches, n_groups;
    struct flexsp_group *groups; /* by micro-batch, then widest first */
    double planned_s;            /* sum of C over micro-batches, with lengths rounded up to their buckets' */
    int64_t n_candidates;        /* values of M that were solved */
    int64_t n_nodes;             /* of branch and bound for all values of M */
    double gap;                  /* largest (C - bound) / C of a micro-batch of the chosen M */
};

/** Return (quadratic_s s^2 + linear_s s) / d + exchange_s s of a sequence of s tokens. */
double flexsp_sequence_s(const struct flexsp_cost *cost, double tokens, int32_t level);

/** Return the sum over micro-batches of C, with the sequences' own lengths. */
double flexsp_predicted_s(const struct flexsp_result *result);

/** Return the level of the widest group: the largest power of two of at most n_ranks. */
int32_t flexsp_widest(int32_t n_ranks);

/** Sequences of similar length, each counted as long as the first. */
struct flexsp_bucket {
    int32_t first, n, tokens;
};

/** A micro-batch: the number of sequences of each bucket in each group. */
struct flexsp_division {
    int32_t n_groups; /* at most n_ranks; groups without sequences are left out */
    int32_t *level;   /* [n_groups] */
    int32_t *count;   /* [n_groups][n_buckets] */
    double *load_s;   /* [n_groups] */
    int64_t *tokens;  /* [n_groups] */
    double longest_s; /* largest load, C */
};

/**
 * Improve a division by the paper's program, solved by GLPK. Its columns are virtual groups p (N/d of each degree d),
 * m_p in {0, 1} and integers A_qp >= 0 (none if bucket q does not fit the degree):
 *
 *     minimise C   subject to   sum_q A_qp c_q(d_p) + constant m_p <= C      for every p
 *                               sum_q A_qp tokens_q <= capacity d_p m_p      for every p
 *                               sum_p m_p d_p = N,   sum_p A_qp = b_q        for every q
 *
 * Groups of a degree are equal, so m_p >= m_p+1 holds among them. Branch and bound begins at the division and stops
 * after node_limit nodes; the result is never worse. With more than max_columns columns the division stays.
 *
 * @param bound_s  C is at least this
 * @param n_nodes  nodes are added to it
 * @return         (C - bound) / C; bound is the larger one of bound_s and branch and bound's
 */
double flexsp_milp(const struct flexsp_problem *problem, const struct flexsp_bucket *buckets, int32_t n_buckets,
                   double bound_s, struct flexsp_division *division, int64_t *n_nodes);

/**
 * Plan the groups of all sequences.
 *
 * 1. M runs from ceil(tokens / (N capacity)) over n_trials values, and further as long as none can be divided.
 * 2. The sequences, longest first, become at most M consecutive runs with the least largest sum of tokens. Each run is
 *    as long as that sum allows. The runs are the micro-batches.
 * 3. Each micro-batch becomes n_buckets buckets of consecutive sequences with the least sum of (longest - own length).
 *    Lengths are rounded up to the buckets' longest. While that takes more than half of the capacity left beside the
 *    sequences' own tokens, there are more buckets. The public code has this rule; otherwise a micro-batch that fits
 *    may seem not to.
 * 4. It is divided into groups greedily under a ceiling C. Longest first, each sequence goes to the least degree,
 *    except those below a floor, that has memory and time for it. It joins the fullest group of that degree with room,
 *    otherwise a new one if ranks are left. Otherwise the next degree is tried. Bisection finds C for every floor. With
 *    the highest floors all groups have one degree, as in the solutions that the public code starts its solver from.
 * 5. flexsp_milp improves the division if C exceeds its bound by more than a thousandth of C. The bound is b1 and the
 *    larger one of two times. One is the mean load of a rank if every sequence took its cheapest degree. The other is
 *    the longest sequence's seconds at its fastest.
 * 6. The M of the least flexsp_predicted_s is kept (ties: the fewest).
 *
 * A capacity below that which the longest sequence needs on the widest group is raised to it.
 *
 * @param tokens  of each sequence, descending
 */
void flexsp_solve(const struct flexsp_problem *problem, const int32_t *tokens, int32_t n, struct flexsp_result *result);

/**
 * Plan the paper's baseline. Best-fit decreasing fills groups of one degree with room for 9/10 of its memory (at least
 * for the longest sequence). A micro-batch has floor(N/d) groups in the order of the packs.
 */
void flexsp_fixed(const struct flexsp_problem *problem, const int32_t *tokens, int32_t n, int32_t level,
                  struct flexsp_result *result);

void flexsp_result_free(struct flexsp_result *result);

#endif
