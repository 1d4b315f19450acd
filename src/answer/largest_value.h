/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module finds the largest value of a key with which each system fits, with few trials. */
#ifndef SLIMSIM_ANSWER_LARGEST_VALUE_H
#define SLIMSIM_ANSWER_LARGEST_VALUE_H

#include "sweep/what_if.h"

enum { LARGEST_NEIGHBOURS = 4 }; /* values above the boundary that are tried */

/** The values that a key may take. */
struct largest_range {
    bool quarters; /* four values from a power of two to the next: 64, 80, 96, 112; otherwise all integers */
    int64_t start, least, most; /* the first trial, at least 1, and the bounds */
};

struct largest_value {
    int64_t value; /* 0: no tried value fits */
    int64_t next;  /* the least value above it that does not fit; 0: the bound is reached */
};

/** Return whether a value fits. A value may be asked for twice. @return false with err to stop */
typedef bool largest_trial(void *context, int64_t value, bool *fits, struct error *err);

/** Return the largest value of the range's kind that is at most `value`. */
int64_t largest_at_most(const struct largest_range *range, int64_t value);

/** Return the next larger value of the range's kind. */
int64_t largest_next(const struct largest_range *range, int64_t value);

/**
 * Find the largest value that fits. Fitting need not be monotone.
 *
 * 1. From `start`, double while the value fits; if it does not fit, halve until one does.
 * 2. Bisect between the last value that fits and the first that does not.
 * 3. Try the LARGEST_NEIGHBOURS values above, the largest first. If one fits, repeat the step from it.
 */
bool largest_value_find(const struct largest_range *range, largest_trial *trial, void *context,
                        struct largest_value *largest, struct error *err);

/** A value that was tried for a system. */
struct value_trial {
    int64_t value;
    bool fits, tight;        /* tight: it fits, but only tightly */
    struct what_if question; /* its result has one system unless it is a refusal */
};

/** The search of one system. */
struct largest_of_system {
    const char *label;                   /* borrowed */
    bool found;                          /* the search is finished */
    struct largest_value largest, tight; /* value that fits surely, and one that may also fit tightly */
    int32_t n_trials;                    /* in the order in which they were tried */
    size_t capacity;
    struct value_trial *trials;
};

/** A key, and the range in which its largest value is asked for. */
struct largest_key {
    const char *key; /* borrowed */
    struct largest_range range;
};

/** The answer for all systems of a scenario. {0} is empty. */
struct largest_values {
    struct largest_key asked;
    int32_t fits; /* enum scenario_fits of the scenario */
    int32_t n, n_trials;
    struct largest_of_system *systems; /* [n] */
};

/**
 * Find the largest value of a key for each system of a scenario, first one that fits surely, then one that fits. With
 * `fits: tight` both are the same. Values run on the critical path and over its own iterations. A plan that is `auto`
 * is searched again for each value. A value that cannot run does not fit. A round tries one value of each system, side
 * by side. So a system alone keeps one core busy.
 *
 * @param document  the scenario as scenario_read_document returned it
 * @return          false with err, or with err untouched if *stop ended it; the caller frees in any case
 */
bool largest_values_find(const struct document *document, const struct scenario *scenario,
                         const struct largest_key *asked, const struct what_if_options *options,
                         struct largest_values *values, struct error *err);

/** Return the trial of a value; NULL: it was not tried. */
const struct value_trial *largest_trial_of(const struct largest_of_system *system, int64_t value);

void largest_values_free(struct largest_values *values);

#endif
