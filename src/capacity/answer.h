/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module answers a question of capacity.
 *
 * 1. It computes sizes of offers (capacity/size_search.h) and chooses among them (candidates_choose).
 * 2. Unless the scenario's engine is critical-path, SimGrid runs the chosen plan. Its throughput replaces that of the
 *    critical path, and step 1's choice is made again until SimGrid has run the chosen one.
 * 3. It draws dates of the subject, and changes one thing at a time. The subject is the answer, or the fastest
 * candidate if none keeps all limits.
 */
#ifndef SLIMSIM_CAPACITY_ANSWER_H
#define SLIMSIM_CAPACITY_ANSWER_H

#include "capacity/change.h"
#include "capacity/finish_date.h"
#include "capacity/size_search.h"
#include "simulate/validated_range.h"

struct answer {
    const struct question *question;
    struct size_search search;
    int32_t chosen;    /* of search.candidates; -1: no candidate keeps all limits */
    int32_t subject;   /* the chosen one, or the fastest; -1: nothing fits */
    double contention; /* time on SimGrid / critical path - 1 of the subject; NaN: SimGrid did not run it */
    struct finish_date date;
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
