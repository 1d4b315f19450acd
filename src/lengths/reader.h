/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * The user's own lengths, by file format. Every reader appends the lengths of one file in their order; the first wrong
 * one, a file that cannot be read or holds no length is an error that names the file, the place and what is allowed.
 */
#ifndef SLIMSIM_LENGTHS_READER_H
#define SLIMSIM_LENGTHS_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/** Lengths read so far, each 1 .. 2^31 - 1 [tokens]. Caller frees tokens, also after an error. */
struct reader_lengths {
    int32_t *tokens;
    size_t n, capacity;
};

/** A whole file in memory. */
struct reader_bytes {
    unsigned char *bytes;
    size_t n;
};

/** What a length must be, for messages. */
#define READER_ALLOWED "a length is a whole number of tokens from 1 to 2147483647"

/** Integers in decimal digits with blanks, commas or line ends between. */
bool reader_text(const char *path, struct reader_lengths *lengths, struct error *err);

/**
 * One column of a comma-separated file (base/csv_rows.h) with a header. A row with another number of fields than the
 * header, or a blank line before the last row, is an error.
 * @param column   its name; "": the only column, else the one named length or tokens
 */
bool reader_csv(const char *path, const char *column, struct reader_lengths *lengths, struct error *err);

/** A one-dimensional data set of integers. @param dataset its path; "": the only such data set of the file */
bool reader_hdf5(const char *path, const char *dataset, struct reader_lengths *lengths, struct error *err);

/** NumPy's .npy, version 1 or 2: one dimension of <i4, <i8, <u4 or <u8.
 * Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
bool reader_npy(const char *path, struct reader_lengths *lengths, struct error *err);

/** Load a regular file, not empty. @return false with err; free bytes->bytes in any case */
bool reader_load(const char *path, struct reader_bytes *bytes, struct error *err);

/** Append a length. @return false: it is not 1 .. 2^31 - 1 */
bool reader_add(struct reader_lengths *lengths, int64_t tokens);

/** Append the length written in [begin, end). @return false: it is not decimal digits of 1 .. 2^31 - 1 */
bool reader_add_text(struct reader_lengths *lengths, const unsigned char *begin, const unsigned char *end);

#endif
