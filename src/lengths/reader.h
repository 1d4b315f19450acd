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

/** Lengths read so far, each 1 .. 2^31 - 1 [tokens]. The caller frees tokens, also after an error. */
struct reader_lengths {
    int32_t *tokens;
    size_t n, capacity;
};

/** A whole file in memory. */
struct reader_bytes {
    unsigned char *bytes;
    size_t n;
};

/** This text tells in messages what a length must be. */
#define READER_ALLOWED "a length is a whole number of tokens from 1 to 2147483647"

/** Read integers in decimal digits with blanks, commas or line ends between them. */
bool reader_text(const char *path, struct reader_lengths *lengths, struct error *err);

/**
 * Read one column of a comma-separated file (base/csv_rows.h) with a header. These are errors:
 *
 * 1. a row whose number of fields is not the header's
 * 2. a blank line before the last row
 *
 * @param column   its name. "" takes the only column, or otherwise the one named length or tokens
 */
bool reader_csv(const char *path, const char *column, struct reader_lengths *lengths, struct error *err);

/**
 * Read a one-dimensional data set of integers.
 *
 * @param dataset  its path. "" takes the only such data set of the file
 */
bool reader_hdf5(const char *path, const char *dataset, struct reader_lengths *lengths, struct error *err);

/**
 * Read NumPy's .npy, version 1 or 2. It must have one dimension of <i4, <i8, <u4 or <u8.
 *
 * Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 */
bool reader_npy(const char *path, struct reader_lengths *lengths, struct error *err);

/**
 * Load a regular file that is not empty.
 *
 * @return false with err; the caller frees bytes->bytes in any case
 */
bool reader_load(const char *path, struct reader_bytes *bytes, struct error *err);

/**
 * Append a length.
 *
 * @return false if it is not 1 .. 2^31 - 1
 */
bool reader_add(struct reader_lengths *lengths, int64_t tokens);

/**
 * Append the length written in [begin, end).
 *
 * @return false if the text is not decimal digits of 1 .. 2^31 - 1
 */
bool reader_add_text(struct reader_lengths *lengths, const unsigned char *begin, const unsigned char *end);

#endif
