/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Lengths of the documents of global batches: a law, a quantile table, or the user's own file. */
#ifndef SLIMSIM_LENGTHS_LENGTHS_H
#define SLIMSIM_LENGTHS_LENGTHS_H

#include "scenario/scenario.h"

/** A lognormal body and a Pareto tail, design of systems.md "Length laws"; all lengths in tokens. */
struct lengths_law {
    double mu, sigma; /* of the natural logarithm of the body's lengths */
    double shortest;  /* the body is truncated to [shortest, join] */
    double join;      /* xt: the tail starts here */
    double tail;      /* pt: probability of the tail */
    double alpha;     /* Pareto exponent */
    double longest;   /* the tail is capped here */
};

enum lengths_kind { LENGTHS_LAW, LENGTHS_TABLE, LENGTHS_FILE };

/** An open source of lengths. {0} is closed. */
struct lengths {
    enum lengths_kind kind;
    char source[512];
    struct lengths_law law;
    int64_t n;            /* rows of the quantile table, or lengths of the file */
    double *p, *tokens;   /* quantile table: probability and length */
    int32_t *file_tokens; /* lengths of the user's file, in its order */
    uint64_t hash;        /* of the input file */
};

/** Samples of one iteration, after long documents were cut, dropped or truncated. */
struct batch {
    int32_t n_samples;
    int32_t *tokens;   /* of each sample, 1..context */
    int32_t *document; /* each sample comes from */
    int64_t n_tokens;
    int32_t n_documents;
    int32_t n_dropped; /* documents over the context that were replaced by other draws */
};

/** Open what data.lengths names. Text (one a line or blanks between), .csv column, .h5/.hdf5 data set, .npy; a length
 * below 1, NaN, or no length at all is an error naming file and row. */
bool lengths_open(const struct scenario_data *data, const char *data_dir, struct lengths *lengths, struct error *err);

/** The global batch of one iteration: same seed and iteration, same batch. A file is drawn from without order, with
 * replacement. */
void lengths_draw(const struct lengths *lengths, const struct scenario_data *data, int64_t seed, int64_t iteration,
                  struct batch *batch);

/** P(length <= tokens) of the source, before cutting. */
double lengths_cdf(const struct lengths *lengths, double tokens);

/** Mean length of the source [tokens], before cutting. */
double lengths_mean(const struct lengths *lengths);

void batch_free(struct batch *batch);
void lengths_close(struct lengths *lengths);

#endif
