/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module answers a question of capacity.
 *
 * 1. It computes sizes of offers (capacity/size_search.h) and chooses among them (candidates_choose).
 * 2. Two more answers stand beside the chosen one: the fewest GPUs that keep all limits, and the cheapest whose drawn
 *    trainings keep them with the question's confidence. Both may have other numbers of spare nodes than the
 * candidates.
 * 3. Unless the scenario's engine is critical-path, SimGrid runs the plans of the answers. Its throughput replaces that
 *    of the critical path, and steps 1 and 2 are made again until SimGrid has run all answers.
 * 4. It draws dates of the answers and of the best size of each other offer.
 * 5. It changes one thing of the subject at a time. The subject is the chosen candidate, or the fastest one if none
 *    keeps all limits.
 */
#ifndef SLIMSIM_CAPACITY_ANSWER_H
#define SLIMSIM_CAPACITY_ANSWER_H

#include "capacity/change.h"
#include "capacity/finish_date.h"
#include "capacity/size_search.h"
#include "simulate/validated_range.h"

enum pick_kind { PICK_SUBJECT, PICK_FEWEST, PICK_SAFE, PICK_N_KINDS };

/** A candidate with its own number of spare nodes, and its dates. */
struct pick {
    int32_t index; /* of search.candidates; -1: there is none */
    struct candidate candidate;
    struct finish_date date;
};

struct answer {
    const struct question *question;
    struct size_search search;
    int32_t chosen;                 /* of search.candidates; -1: no candidate keeps all limits */
    struct pick pick[PICK_N_KINDS]; /* without a chosen one only the subject; no subject: nothing fits */
    struct pick *other;             /* [n_offers] best of each offer but the subject's; NULL: nothing fits */
    struct changes changes;
    int32_t n_outside; /* respects in which the subject lies outside the measured runs */
    char outside[OUTSIDE_MOST][OUTSIDE_SIZE];
};

/** @return false with err, or with err untouched if *stop ended it; the caller frees in any case */
bool answer_find(const struct question *question, const struct what_if_options *options, struct answer *answer,
                 struct error *err);

/** Return the subject; NULL: nothing fits. */
const struct candidate *answer_subject(const struct answer *answer);

void answer_free(struct answer *answer);

#endif
