/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module computes errors of predictions by group of rows. */
#ifndef SLIMSIM_VALIDATE_STATISTICS_H
#define SLIMSIM_VALIDATE_STATISTICS_H

#include "validate/validate.h"

/** Pairs with a smaller measured difference have no order, since releases of one framework differ as much. */
#define STATISTICS_NOISE 0.07
#define STATISTICS_SMALL 0.1

/** Statistics of rows that were simulated. All are 0 if there are none. */
struct validate_statistics {
    int32_t n, n_small;       /* n_small: |error| of at most STATISTICS_SMALL */
    double mape, bias, max;   /* mean |error|, mean error, largest |error| */
    int32_t worst;            /* row of max, the first of equal ones; -1: none */
    int32_t n_pairs, n_right; /* pairs of a family whose measured values differ by more than STATISTICS_NOISE; pairs in
                                 the right order */
    int32_t n_families;       /* families of at least three rows */
    double spearman;          /* mean of the families' rank correlations */
    int32_t n_below;          /* rows whose prediction is not above the measured value */
};

/** The rows of a group. */
struct validate_group {
    enum validate_quantity quantity;
    const char *group;       /* NULL: rows that name no group; "": rows that name one; otherwise those of this group */
    const char *source;      /* NULL: all */
    const char *device;      /* NULL: all */
    bool full_plan;          /* only trust A or A- */
    bool calibration;        /* the calibration rows instead of the others */
    bool varies;             /* the rows of varying lengths instead of the others; a group's name has both */
    enum validate_kind kind; /* likewise */
    /* rows i with first <= part[i] < end; part NULL: all */
    const int32_t *part;
    int32_t first, end;
};

/**
 * Return the statistics of a group. A family has the rows of one model on one number of GPUs, of all sources. Rank
 * correlation is Spearman's, computed by GSL, and ties get their mean rank. A family whose values are all equal has
 * none.
 */
struct validate_statistics validate_statistics_of(const struct validate *validate, struct validate_group group);

/** Runs of a group of throughput. n counts the runs that are predicted to fit tightly. n_slow counts those of them that
 * are predicted more than pressure.slower_least too fast. n_others and n_slow_others count the other runs in the same
 * manner. */
struct validate_full_runs {
    int32_t n, n_slow, n_others, n_slow_others;
};

struct validate_full_runs validate_full_runs_of(const struct validate *validate, struct validate_group group);

/** Simulated runs whose row says whether they fitted into memory, or shows it by a measured value. */
struct validate_outcomes {
    int32_t n, n_ran_out;            /* n_ran_out: those of them that ran out of memory */
    int32_t n_false_alarm;           /* runs that fitted and are predicted not to fit */
    int32_t n_missed;                /* runs that ran out of memory and are predicted to fit */
    int32_t n_tight, n_missed_tight; /* runs that fitted, and those of n_missed, that are predicted to fit tightly */
};

/** Return whether it was wrongly predicted that a run fits, or that it does not. It is false if the row has no such
 * prediction. */
bool validate_misjudged(const struct validate_row *row);

/** Return the outcomes of a group's dense rows in bf16. @param group  as in struct validate_group */
struct validate_outcomes validate_outcomes_of(const struct validate *validate, const char *group);

/** Return the outcomes of all rows of another kind. */
struct validate_outcomes validate_outcomes_of_kind(const struct validate *validate, enum validate_kind kind);

/** List the indices of simulated rows of one quantity, including calibration rows. The largest |error| comes first,
 * then the smaller index. The caller frees the list. */
int32_t *validate_worst_first(const struct validate *validate, enum validate_quantity quantity, int32_t *n);

#endif
