/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file draws the lengths of the documents of global batches. They come from a law, a quantile table, the
 * user's file or list, or are all equal. */
#ifndef SLIMSIM_LENGTHS_LENGTHS_H
#define SLIMSIM_LENGTHS_LENGTHS_H

#include "lengths/law.h"
#include "lengths/table.h"
#include "scenario/scenario.h"

enum lengths_kind {
    LENGTHS_LAW,
    LENGTHS_TABLE,
    LENGTHS_FILE,
    LENGTHS_LISTED,
    LENGTHS_FIXED,
    LENGTHS_MIX,     /* each document is drawn from one of the parts */
    LENGTHS_SCHEDULE /* the parts follow one another from iteration to iteration */
};

/** An open source of lengths. {0} is closed. */
struct lengths {
    enum lengths_kind kind;
    struct lengths_law law;
    struct lengths_table table;
    int64_t n;                      /* number of lengths in the file or list */
    int32_t *file_tokens;           /* lengths of the user's file or list, in its order */
    double *weight_up_to;           /* [n] sum of the weights up to each length; NULL: all weigh alike */
    char *read;                     /* what was read of the user's file, for the user; NULL: nothing */
    int64_t n_beginnings, repeated; /* iterations whose beginnings in a list are known, 0: multiples of global_batch;
                                       the one that follows the last */
    int64_t *beginning;             /* [n_beginnings] position in the list at which an iteration begins */
    int32_t fixed_tokens;           /* length of every document */
    int32_t n_parts;
    struct lengths *part; /* [n_parts] sources of a mix or schedule */
    double *documents;    /* [n_parts] share of each part in all documents */
    double scale;         /* factor of the lengths that a law or table gives; those above are scaled already */
    uint64_t
        hash; /* hash of the file that was read, also of a law's or table's (base/hash.h); without a file HASH_START */
};

/** Samples of one iteration. Long documents were already cut, dropped or truncated. */
struct batch {
    int32_t n_samples;
    int32_t *tokens;   /* tokens of each sample, 1..context */
    int32_t *document; /* document that each sample comes from; its chunks follow one another from its start */
    int64_t n_tokens;
    int32_t n_documents;
    int64_t n_dropped;       /* documents over the context that were replaced by other draws */
    struct batch_memo *memo; /* lengths/batch_memo.h; NULL: it keeps nothing */
};

/**
 * Open the lengths that data.lengths names. It is one of these:
 *
 * 1. the name of a law or table: DATA_DIR/model/lengths/NAME.yaml (NAME has no dot or slash)
 * 2. `fixed`: every document is as long as the context
 * 3. the lengths themselves ("8Ki 4400"), taken in this order, over and over, from iteration to iteration
 * 4. a path. Its ending tells the format: .yaml (law or table), or one of lengths/reader.h; otherwise text
 *
 * Documents of a file are 1 to 2^31 - 1 tokens long. Each document of n tokens then has max(1, round(n length_scale)).
 *
 * With data.mix or data.schedule the parts are opened like this, and their hashes are hashed.
 *
 * @param data      its keys lengths, column, weights and length_scale are used. By context, size of the batch and
 * long_documents, a batch that cannot be drawn is refused. With `drop` at least one document in 10,000 must fit the
 * context
 * @param lengths   {0}; closed on failure
 * @return          false with err, which names the file, the line if there is one, and what is allowed
 */
bool lengths_open(const struct scenario_data *data, const char *data_dir, struct lengths *lengths, struct error *err);

/**
 * Draw the global batch of one iteration. It depends on seed and iteration only.
 *
 * 1. Laws and tables are drawn by inverting their CDF. The result is rounded to whole tokens.
 * 2. A file is drawn at random with replacement, each length in proportion to its weight.
 * 3. A list is taken in its order.
 * 4. Each document of a mix is drawn from a part, with a probability in proportion to its share of tokens, divided by
 *    its mean length.
 * 5. An iteration of a schedule is drawn from one part. Behind the last iteration the schedule begins again.
 * 6. With data.global_batch_tokens samples are drawn as long as best-fit decreasing packs them into
 *    floor(data.global_batch_tokens / data.context) bins of data.context tokens. The next sample would open another
 *    bin. The rest of a document that this cuts is in no batch.
 *
 * @param data    the data that lengths_open received
 * @param batch   {0}; the caller frees it
 */
void lengths_draw(const struct lengths *lengths, const struct scenario_data *data, int64_t seed, int64_t iteration,
                  struct batch *batch);

/** Return P(length <= tokens) of a document, before cutting and after rounding to whole tokens. It has a closed form
 * and is exact for a file. */
double lengths_cdf(const struct lengths *lengths, double tokens);

/** Return the mean length of a document before cutting [tokens]. It is exact for a file. For laws it has a closed
 * form without the rounding. The rounding moves it by less than a thousandth of a token for the shipped laws. */
double lengths_mean(const struct lengths *lengths);

void batch_free(struct batch *batch);
void lengths_close(struct lengths *lengths);

#endif
