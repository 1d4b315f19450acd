/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The law of lengths in closed form: a truncated lognormal body and a capped Pareto tail. Continuous. */
#ifndef SLIMSIM_LENGTHS_LAW_H
#define SLIMSIM_LENGTHS_LAW_H

#include "scenario/document.h"

/** A lognormal body and a Pareto tail; all lengths in tokens. */
struct lengths_law {
    double mu, sigma; /* of the natural logarithm of the body's lengths */
    double shortest;  /* the body is truncated to [shortest, join] */
    double join;      /* the tail starts here */
    double tail;      /* probability of the tail */
    double alpha;     /* Pareto exponent */
    double longest;   /* the tail is capped here */
};

/** Fill a law from the root mapping of a file of kind `law`; adds an error with its place for every wrong key. */
bool law_read(const struct document *document, struct lengths_law *law, struct error *err);

/**
 * P(X <= x).
 *
 *     shortest <= x < join:   (1 - tail) (Phi(z(x)) - Phi(z(shortest))) / (Phi(z(join)) - Phi(z(shortest)))
 *     join <= x < longest:    1 - tail (join / x)^alpha                  z(x) = (ln x - mu) / sigma
 */
double law_cdf(const struct lengths_law *law, double tokens);

/** Inverse of law_cdf for p in (0, 1); what would pass `longest` is `longest`. */
double law_quantile(const struct lengths_law *law, double p);

/** E[X; X <= x], the tokens in documents of at most x tokens, per document; the mean for x >= longest [tokens]. */
double law_mean_up_to(const struct lengths_law *law, double tokens);

#endif
