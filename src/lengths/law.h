/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This is the law of lengths in closed form: a truncated lognormal body and a capped Pareto tail. It is continuous. */
#ifndef SLIMSIM_LENGTHS_LAW_H
#define SLIMSIM_LENGTHS_LAW_H

#include "document/document.h"

/** A lognormal body and a Pareto tail. All lengths are in tokens. */
struct lengths_law {
    double mu, sigma; /* mean and standard deviation of the natural logarithm of the body's lengths */
    double shortest;  /* start of the body, which is truncated to [shortest, join] */
    double join;      /* start of the tail */
    double tail;      /* probability of the tail */
    double alpha;     /* Pareto exponent */
    double longest;   /* cap of the tail */
};

/** Fill a law from the root mapping of a file of kind `law`. Each wrong key adds an error that names its line. */
bool law_read(const struct document *document, struct lengths_law *law, struct error *err);

/**
 * Return P(X <= x).
 *
 *     shortest <= x < join:   (1 - tail) (Phi(z(x)) - Phi(z(shortest))) / (Phi(z(join)) - Phi(z(shortest)))
 *     join <= x < longest:    1 - tail (join / x)^alpha                  z(x) = (ln x - mu) / sigma
 */
double law_cdf(const struct lengths_law *law, double tokens);

/** Return the inverse of law_cdf for p in (0, 1). It is at most `longest`. */
double law_quantile(const struct lengths_law *law, double p);

/** Return E[X; X <= x], the tokens per document in documents of at most x tokens. For x >= longest it is the mean
 * [tokens]. */
double law_mean_up_to(const struct lengths_law *law, double tokens);

#endif
