/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lengths/law.h"

#include <gsl/gsl_cdf.h>
#include <math.h>

#include "base/check.h"
#include "document/schema.h"

struct law_file {
    int32_t kind;
    char source[512];
    struct lengths_law law;
};

#define LAW(field) offsetof(struct law_file, law.field)
static const struct schema_key keys[] = {
    {"kind", SCHEMA_CHOICE, "-", 0, 0, NULL, "law|table", "what the file holds", offsetof(struct law_file, kind)},
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "where the numbers come from", offsetof(struct law_file, source)},
    {"mu", SCHEMA_REAL, "-", -100, 100, NULL, NULL, "mean of the body's ln(length)", LAW(mu)},
    {"sigma", SCHEMA_REAL, "-", 1e-3, 100, NULL, NULL, "standard deviation of the body's ln(length)", LAW(sigma)},
    {"shortest", SCHEMA_REAL, "tokens", 1, INT32_MAX, NULL, NULL, "the body starts here", LAW(shortest)},
    {"join", SCHEMA_REAL, "tokens", 1, INT32_MAX, NULL, NULL, "the body ends and the tail starts here", LAW(join)},
    {"tail", SCHEMA_REAL, "-", 0, 1, NULL, NULL, "probability of the tail", LAW(tail)},
    {"alpha", SCHEMA_REAL, "-", 1e-3, 100, NULL, NULL, "Pareto exponent of the tail", LAW(alpha)},
    {"longest", SCHEMA_REAL, "tokens", 1, INT32_MAX, NULL, NULL, "the tail is capped here", LAW(longest)},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

/** Return the standard score of a length in the body's lognormal. */
static double score(const struct lengths_law *law, double tokens)
{
    return (log(tokens) - law->mu) / law->sigma;
}

/** Return the share of the whole lognormal that the body keeps. */
static double kept(const struct lengths_law *law)
{
    return gsl_cdf_ugaussian_P(score(law, law->join)) - gsl_cdf_ugaussian_P(score(law, law->shortest));
}

bool law_read(const struct document *document, struct lengths_law *result, struct error *err)
{
    static const char *const others[] = {"notes", NULL};
    struct law_file file = {0};
    if (!schema_read(document, 0, keys, N_KEYS, others, &file, err))
        return false;
    const struct lengths_law *law = &file.law;
    if (!(law->shortest < law->join && law->join <= law->longest))
        return document_error(document, document_find(document, 0, "join"), err,
                              "join: shortest < join <= longest must hold; they are %g, %g and %g", law->shortest,
                              law->join, law->longest);
    /* The body is inverted, which needs digits. With a smaller share the draws would be visibly coarse. */
    if (!(kept(law) >= 1e-6))
        return document_error(document, document_find(document, 0, "mu"), err,
                              "mu: the lognormal has less than a millionth between shortest and join");
    *result = *law;
    return true;
}

double law_cdf(const struct lengths_law *law, double tokens)
{
    if (tokens < law->shortest)
        return 0;
    if (tokens >= law->longest)
        return 1;
    if (tokens >= law->join)
        return 1 - law->tail * pow(law->join / tokens, law->alpha);
    double below = gsl_cdf_ugaussian_P(score(law, tokens)) - gsl_cdf_ugaussian_P(score(law, law->shortest));
    return (1 - law->tail) * below / kept(law);
}

double law_quantile(const struct lengths_law *law, double p)
{
    CHECK(0 < p && p < 1);
    if (p > 1 - law->tail)
        return fmin(law->join * pow((1 - p) / law->tail, -1 / law->alpha), law->longest);
    double below = gsl_cdf_ugaussian_P(score(law, law->shortest)) + p / (1 - law->tail) * kept(law);
    double tokens = exp(law->mu + law->sigma * gsl_cdf_ugaussian_Pinv(below));
    return fmax(law->shortest, fmin(tokens, law->join));
}

/** Return E[X; join <= X <= x] of the tail: alpha join (1 - (join/x)^(alpha - 1)) / (alpha - 1), and the cap's atom. */
static double tail_mean_up_to(const struct lengths_law *law, double tokens)
{
    double x = fmin(tokens, law->longest);
    double t = log(x / law->join), excess = law->alpha - 1;
    double sum = law->alpha * law->join * (fabs(excess) < 1e-12 ? t : -expm1(-excess * t) / excess);
    if (tokens >= law->longest)
        sum += law->longest * pow(law->join / law->longest, law->alpha);
    return law->tail * sum;
}

double law_mean_up_to(const struct lengths_law *law, double tokens)
{
    if (tokens < law->shortest)
        return 0;
    /* x times the lognormal density is a lognormal density with a mu that is larger by sigma^2. */
    double to = gsl_cdf_ugaussian_P(score(law, fmin(tokens, law->join)) - law->sigma);
    double from = gsl_cdf_ugaussian_P(score(law, law->shortest) - law->sigma);
    double body = (1 - law->tail) * exp(law->mu + law->sigma * law->sigma / 2) * (to - from) / kept(law);
    return tokens > law->join ? body + tail_mean_up_to(law, tokens) : body;
}
