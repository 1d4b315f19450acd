/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * These readers read the user's own lengths, one function a file format. Every reader appends the lengths of one file
 * in their order.
 *
 * These are errors. Each message names the file, the position and what is allowed:
 *
 * 1. the first wrong length
 * 2. a file that cannot be read
 * 3. a file without a length
 */
#ifndef SLIMSIM_LENGTHS_READER_H
#define SLIMSIM_LENGTHS_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file_bytes.h"

/** It says what to read. */
struct reader_choice {
    const char *path;
    const char *column;  /* name of a column, field, data set or unit; "": the reader finds the only one */
    const char *weights; /* name of the column or field of weights; "": one called count or weight; "none": none */
};

/** Lengths read so far, each 1 .. 2^31 - 1 [tokens]. The caller frees the arrays, also after an error. */
struct reader_lengths {
    int32_t *tokens;
    double *weight; /* NULL: all lengths weigh alike */
    size_t n, capacity, weight_capacity;
    char part[160]; /* which part of the file was read: "column 'tokens'"; "": all of it */
};

/** A column of a table, or a field of records. */
struct reader_column {
    char name[64];
    size_t n_seen;
    bool has_number;
    bool counts_rows; /* so far its values are 0, 1, 2 ... or 1, 2, 3 ..., so it numbers rows */
    double first;
};

/** The columns of a table whose rows are read. The caller frees `at`. */
struct reader_columns {
    struct reader_column *at;
    int32_t n;
    int32_t lengths, weights; /* columns that were chosen; weights -1: none */
    size_t capacity, n_rows;
    const char *kind; /* its word in messages: "column", "field" */
};

/** These texts tell in messages what a length and a weight must be. */
#define READER_ALLOWED        "a length is a whole number of tokens from 1 to 2147483647"
#define READER_WEIGHT_ALLOWED "a weight is a number from 0 on"

/** These texts name the formats that have columns or weights. */
#define READER_WITH_COLUMNS ".csv, .tsv, .json, .jsonl, .h5, .hdf5 and .idx"
#define READER_WITH_WEIGHTS ".csv, .tsv, .json and .jsonl"

/** Return whether a path has this ending, in any case of letters. */
bool reader_ends_in(const char *path, const char *ending);

/** A function that reads one format. */
typedef bool reader_function(const struct reader_choice *choice, struct reader_lengths *lengths, struct error *err);

/** Read a file in the format that its ending names, without a .gz behind it. Any other ending means text. */
reader_function reader_read;

/** Read numbers with blanks, commas or line ends between them. From '#' to the line end is a comment. */
reader_function reader_text;

/**
 * Read one column of a comma-separated file (base/csv_rows.h) with a header. Another one may weigh its lengths, as in a
 * histogram. These are errors:
 *
 * 1. a row whose number of fields is not the header's
 * 2. a blank line before the last row
 */
reader_function reader_csv;

/** Read the same with tabs between fields. */
reader_function reader_tsv;

/**
 * Read a JSON list. Its elements are numbers, lists of tokens, whose number counts, or records. One field of records,
 * which is a number or a list of tokens, is the length. Another one may weigh it.
 */
reader_function reader_json;

/** Read such elements from JSON Lines, one a line. */
reader_function reader_jsonl;

/**
 * Read the index of a data set of Megatron-LM. data.column is `documents`, whose sequences are summed up, or
 * `sequences`.
 *
 * Source: Megatron-LM's megatron/core/datasets/indexed_dataset.py, class _IndexReader
 */
reader_function reader_idx;

/** Read a one-dimensional data set of integers. */
reader_function reader_hdf5;

/**
 * Read NumPy's .npy, version 1 or 2. It must have one dimension of little-endian integers or floats of 4 or 8 bytes.
 *
 * Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 */
reader_function reader_npy;

/**
 * Load a regular file that is not empty. If gzip packed it, unpack it. A Parquet file is refused.
 *
 * @return false with err; the caller frees bytes->bytes in any case
 */
bool reader_load(const struct reader_choice *choice, struct file_bytes *bytes, struct error *err);

/** Return the little-endian number of `width` bytes. */
uint64_t reader_word(const unsigned char *bytes, size_t width);

/**
 * Append a length.
 *
 * @return false if it is not a whole number from 1 to 2^31 - 1
 */
bool reader_add(struct reader_lengths *lengths, double tokens);

/**
 * Give the length that was appended last a weight.
 *
 * @return false if it is negative or not finite
 */
bool reader_weigh(struct reader_lengths *lengths, double weight);

/**
 * Read a number: 2274, 2274.0, 2.274e+03, or 2,274 with commas between thousands.
 *
 * @return false if the text is no decimal number
 */
bool reader_number(const char *text, double *number);

/** Note a value of the column at an index in the current row. @param number  NULL: the value is no number */
void reader_columns_see(struct reader_columns *columns, int32_t index, const double *number);

/** Add a column that no row has shown yet. */
void reader_columns_add(struct reader_columns *columns, const char *name);

/** Return the index of a column with this name, from `from` on; -1: there is none. */
int32_t reader_columns_find(const struct reader_columns *columns, const char *name, int32_t from);

/**
 * Choose the column of lengths, and that of weights, once all rows were seen.
 *
 * 1. A named column is taken.
 * 2. Weights are otherwise the column called count, counts, weight, weights or frequency, if it has numbers.
 * 3. Lengths are otherwise the only column that has numbers. Weights and numbers of rows do not count.
 *
 * @param where  place of the columns' names for messages
 * @param part   receives their names for the user
 */
bool reader_columns_choose(struct reader_columns *columns, const struct reader_choice *choice, const char *where,
                           char part[160], struct error *err);

#endif
