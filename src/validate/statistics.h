/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Errors of predictions, by group of rows. */
#ifndef SLIMSIM_VALIDATE_STATISTICS_H
#define SLIMSIM_VALIDATE_STATISTICS_H

#include "validate/validate.h"

/** Pairs that were measured closer than this cannot be put in order: releases of one framework differ as much. */
#define STATISTICS_NOISE 0.07

/** Statistics of rows that were simulated. All 0 without any. */
struct validate_statistics {
    int32_t n;
    double mape, bias, max;   /* mean |error|, mean error, largest |error| */
    int32_t worst;            /* the row of max; ties: the first; -1: none */
    int32_t n_pairs, n_right; /* pairs of a family measured more than STATISTICS_NOISE apart; in the right order */
    int32_t n_families;       /* of at least three rows */
    double spearman;          /* mean of their rank correlations */
    int32_t n_below;          /* rows predicted not above the measured value */
};

/** Whose rows count. */
struct validate_group {
    enum validate_quantity quantity;
    const char *source; /* NULL: all */
    const char *device; /* NULL: all */
    bool full_plan;     /* trust A or A- only */
    bool calibration;   /* the calibration rows instead of the others */
};

/**
 * Statistics of a group. A family is the rows of one model on one number of GPUs, of all sources.
 * Rank correlation: Spearman's, by GSL, ties by mean rank; a family whose values are all equal has none.
 */
struct validate_statistics validate_statistics_of(const struct validate *validate, struct validate_group group);

/** Runs of a group of throughput that are predicted to fill at least pressure.share of the memory they may use, and of
 * them those predicted more than pressure.slower_least too fast; likewise of the others. */
struct validate_full_runs {
    int32_t n, n_slow, n_others, n_slow_others;
};

struct validate_full_runs validate_full_runs_of(const struct validate *validate, struct validate_group group);

/** Simulated runs of which a row says, or shows by a measured value, whether they fitted into memory. */
struct validate_outcomes {
    int32_t n, n_ran_out;  /* n_ran_out: of them those that ran out of memory */
    int32_t n_false_alarm; /* fitted and are predicted not to */
    int32_t n_missed;      /* ran out of memory and are predicted to fit */
};

/** Whether the prediction whether a run fits is wrong; false if the row has none. */
bool validate_misjudged(const struct validate_row *row);

struct validate_outcomes validate_outcomes_of(const struct validate *validate);

/** Indices of the rows of one quantity that were simulated, calibration included, largest |error| first (ties: by
 * index). Caller frees. */
int32_t *validate_worst_first(const struct validate *validate, enum validate_quantity quantity, int32_t *n);

#endif
