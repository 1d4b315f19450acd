/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module prices sizes of offers: time with failures, money, energy, carbon dioxide. It finds the frontier and the
 * answer among them.
 */
#ifndef SLIMSIM_CAPACITY_CANDIDATE_H
#define SLIMSIM_CAPACITY_CANDIDATE_H

#include "capacity/question.h"
#include "sweep/what_if.h"
#include "trace/table.h"

/** A size of an offer. Offers of the same hardware share results. */
struct size {
    int32_t offer;
    int64_t nodes;
    const struct what_if *results; /* [n_plans x n_phases]; NULL: not computed, since it cannot keep a limit */
    int32_t n_plans;               /* plans that all phases may have; 0: each phase has its own */
};

/** The rate and plan of a candidate in a phase. */
struct candidate_phase {
    double tokens_per_s_per_gpu, busy_fraction;
    char plan_text[TRACE_TEXT_BYTES];
};

/** A size of an offer with a system. */
struct candidate {
    struct trace_candidate row;
    struct candidate_phase phase[QUESTION_MOST_PHASES];
    double flash2;                 /* tokens/s/GPU with flash2; NaN: no attention curve is scaled */
    double token_delay;            /* iterations that tokens wait, the most of all phases */
    const char *refusal;           /* why the size cannot train; NULL: it ran; borrowed */
    const struct what_if *results; /* [n_phases], borrowed */
    double contention;             /* time on SimGrid / critical path - 1; NaN: SimGrid did not run it */
};

struct candidates {
    int32_t n;
    size_t capacity;
    struct candidate *at;
};

/**
 * Fill in goodput, days, money and energy of a row from its throughput, busy_fraction, offer, nodes and spare nodes.
 *
 * 1. days = tokens / (tokens/s x goodput). Without `reliability:` goodput is 1.
 * 2. Running GPUs compute for busy_fraction of the time and wait for the rest; so do GPUs whose work is lost or that
 *    run beside a slow GPU. While a checkpoint blocks, GPUs wait. During restarts they are idle, and so are spare
 *    nodes.
 * 3. Spare nodes cost as much as the others.
 *
 * @param offer  may differ from the question's, with other failures or prices
 */
void candidate_price(const struct question *question, const struct offer *offer, struct trace_candidate *row);

/**
 * Do the same with the spare nodes of the least expected cost among those that keep all limits. If none keeps them, the
 * least cost counts.
 *
 * 1. `reliability.spares` is the number, if it is given.
 * 2. Otherwise numbers from 0 up are tried while the cost falls or a limit is missed. A spare node costs as much as the
 *    others, and the training then waits less for repairs. The last one is offer_most_spares.
 *
 * With a number of spare nodes, more failures never end earlier. With searched ones they never cost less.
 */
void candidate_price_with_spares(const struct question *question, const struct offer *offer,
                                 struct trace_candidate *row);

/**
 * Append a candidate of each of the `n_systems` systems of a size that was computed.
 *
 * 1. The time of a training is the sum over its phases of tokens / (tokens/s). So tokens/s, and the shares of time, are
 *    means over it, and days, money and energy are the sums of the phases.
 * 2. The candidate fits if all phases do, tightly if one does. Degrees are those of the first phase.
 * 3. Intervals over batches are independent between phases.
 * 4. If all phases have one plan, it is the one that fits with the fewest days.
 */
void candidates_add(struct candidates *candidates, const struct question *question, const struct size *size,
                    int32_t n_systems);

/** Make the scenario of a candidate's phase: its system alone, with the plan that was found. */
void candidate_document(const struct candidate *candidate, int32_t phase, struct document *document);

/** Return the row of one phase of a candidate: its throughput, days, money and energy. */
struct trace_candidate candidate_phase_row(const struct question *question, const struct candidate *candidate,
                                           int32_t phase);

/** Return what a candidate takes of what a limit is about: days, $, MWh, GPUs with those of spares. NaN: unknown. */
double candidate_amount(const struct candidate *candidate, enum capacity_limit limit);

/** Return whether at least 1% of a priced candidate's time trains. */
bool candidate_trains(const struct candidate *candidate);

/** Return whether a candidate fits and keeps one limit, or all limits. */
bool candidate_keeps(const struct question *question, const struct candidate *candidate, enum capacity_limit limit);
bool candidate_meets(const struct question *question, const struct candidate *candidate);

/**
 * Return what a candidate costs: money if every offer has a price, otherwise GPU-hours.
 * @param in_money  see candidates_have_money
 */
double candidate_cost(const struct candidate *candidate, bool in_money);
bool candidates_have_money(const struct candidates *candidates);

/**
 * Mark candidates: meets, frontier, knee, and what a node adds. Then choose the answer.
 *
 * 1. With a limit of days or without any limit it is the cheapest candidate that keeps all limits, otherwise the
 * fastest.
 * 2. Ties: fewer days, then the first.
 *
 * @return index of the answer; -1: no candidate keeps all limits
 */
int32_t candidates_choose(struct candidates *candidates, const struct question *question);

/** Return the candidate that fits with the fewest days; -1: none fits. */
int32_t candidates_fastest(const struct candidates *candidates);

/** Return the candidate of an offer that candidates_choose would choose, or the offer's fastest one if none keeps all
 * limits; -1: none fits. */
int32_t candidates_best_of_offer(const struct candidates *candidates, const struct question *question, int32_t offer);

void candidates_free(struct candidates *candidates);

#endif
