/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module says how sure the date of a candidate is. It draws many trainings.
 *
 * 1. The mean throughput is drawn from its 95% interval over batches (normal).
 * 2. The model's own error is drawn as in a source that nobody has seen (normal, with its bias). The throughput is the
 *    predicted one / (1 + error).
 * 3. All failures of the weeks are drawn (operation/training_run.h).
 *
 * Fewer than FINISH_DATE_LEAST_ITERATIONS measured iterations refuse an interval, since they do not say how much
 * batches differ. All batches of fixed lengths are alike, so any number will do.
 */
#ifndef SLIMSIM_CAPACITY_FINISH_DATE_H
#define SLIMSIM_CAPACITY_FINISH_DATE_H

#include "capacity/candidate.h"
#include "operation/training_run.h"
#include "simulate/model_error.h"

/** Parts that make the date unsure. */
enum date_part { DATE_BATCHES, DATE_FAILURES, DATE_MODEL, DATE_N_PARTS };

enum { FINISH_DATE_LEAST_ITERATIONS = 8 };

/** Percentiles of days. */
struct date_interval {
    double p5, p50, p95;
};

struct finish_date {
    struct model_error model_error;
    int32_t n;                               /* 0: refused, and all percentiles are NaN */
    struct trace_date *draws;                /* [n] */
    struct date_interval all;                /* with all parts */
    struct date_interval part[DATE_N_PARTS]; /* with one part alone */
    double missed;                           /* share of the draws that miss a limit; NaN: refused */
    struct training_run mean;                /* of the draws; without `reliability:` all is 0 */
};

/** Return whether the scenario has enough iterations for an interval of dates. */
bool finish_date_may_draw(const struct scenario *scenario);

/** Return about how many times its days a candidate takes at most with the question's confidence. Failures do not vary
 * here. NaN: an interval is refused. */
double finish_date_margin(const struct question *question, const struct candidate *candidate);

/** Draw TRAINING_RUNS_DEFAULT trainings with the scenario's seed. @return false with err: see model_error_read */
bool finish_date_draw(const struct question *question, const struct candidate *candidate, struct finish_date *date,
                      struct error *err);

/** Copy the draws of the same training. The caller frees both. */
void finish_date_copy(const struct finish_date *from, struct finish_date *date);

void finish_date_free(struct finish_date *date);

#endif
