/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Lengths of the documents of global batches: a law, a quantile table, the user's own file, or all alike. */
#ifndef SLIMSIM_LENGTHS_LENGTHS_H
#define SLIMSIM_LENGTHS_LENGTHS_H

#include "lengths/law.h"
#include "lengths/table.h"
#include "scenario/scenario.h"

enum lengths_kind { LENGTHS_LAW, LENGTHS_TABLE, LENGTHS_FILE, LENGTHS_LISTED, LENGTHS_FIXED };

/** An open source of lengths. {0} is closed. */
struct lengths {
    enum lengths_kind kind;
    struct lengths_law law;
    struct lengths_table table;
    int64_t n;            /* lengths of the file or list */
    int32_t *file_tokens; /* lengths of the user's file or list, in its order */
    int32_t fixed_tokens; /* of every document: the context */
    uint64_t hash;        /* of the file read, law and table included (base/hash.h); without one, of no bytes */
};

/** Samples of one iteration, after long documents were cut, dropped or truncated. */
struct batch {
    int32_t n_samples;
    int32_t *tokens;   /* of each sample, 1..context */
    int32_t *document; /* each sample comes from; its chunks follow one another from its start */
    int64_t n_tokens;
    int32_t n_documents;
    int64_t n_dropped; /* documents over the context that were replaced by other draws */
};

/**
 * Open what data.lengths names: a law or table DATA_DIR/model/lengths/NAME.yaml (no dot or slash in NAME), or else a
 * path, or `fixed`: every document is as long as the context; or the lengths themselves ("8Ki 4400"), which are taken
 * in this order, over and over, from iteration to iteration. A path by its ending: .yaml (law or table), .csv,
 * .h5/.hdf5, .npy (lengths/reader.h); every other is text. Documents of a file are 1 to 2^31 - 1 tokens long.
 *
 * @param data      uses lengths, column, and context, global_batch, long_documents to refuse what cannot be drawn: with
 *                  `drop` at least one document in 10,000 must fit the context
 * @param lengths   {0}; left closed on failure
 * @return          false with err naming the file and, where there is one, the place and what is allowed
 */
bool lengths_open(const struct scenario_data *data, const char *data_dir, struct lengths *lengths, struct error *err);

/**
 * The global batch of one iteration. It depends on seed and iteration only: same pair, same batch. Laws and tables are
 * drawn by inverting their CDF and rounding to whole tokens, a file at random with replacement, a list in its order.
 *
 * @param data    the one lengths_open saw
 * @param batch   {0}; the caller frees
 */
void lengths_draw(const struct lengths *lengths, const struct scenario_data *data, int64_t seed, int64_t iteration,
                  struct batch *batch);

/** P(length <= tokens) of a document, before cutting and after rounding to whole tokens; closed form, exact for a file.
 */
double lengths_cdf(const struct lengths *lengths, double tokens);

/** Mean length of a document [tokens], before cutting. Closed form without the rounding (which moves it by less than
 * a thousandth of a token for the shipped laws); exact for a file. */
double lengths_mean(const struct lengths *lengths);

void batch_free(struct batch *batch);
void lengths_close(struct lengths *lengths);

#endif
