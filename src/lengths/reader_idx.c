/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Read lengths from the index of a data set of Megatron-LM. */
#include "lengths/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { HEADER_BYTES = 34, SEQUENCE_BYTES = 4 + 8, DOCUMENT_BYTES = 8 };

/** An index in memory. */
struct idx {
    const struct reader_choice *choice;
    const unsigned char *sequences; /* [n_sequences] int32: tokens of each */
    const unsigned char *documents; /* [n_bounds] int64: first sequence of each, and the end of the last */
    uint64_t n_sequences, n_bounds;
};

/** Find the arrays. The array between them points into the .bin file. */
static bool read_header(const struct file_bytes *file, struct idx *idx, struct error *err)
{
    static const char magic[] = "MMIDIDX\0";
    const char *path = idx->choice->path;
    if (file->n < HEADER_BYTES || memcmp(file->bytes, magic, 9) != 0)
        return error_set(err, "%s: is no index of Megatron-LM, which begins with MMIDIDX", path);
    uint64_t version = reader_word(file->bytes + 9, 8), n_bytes = file->n - HEADER_BYTES;
    if (version != 1)
        return error_set(err, "%s: version %llu of the index is not supported, only 1", path,
                         (unsigned long long)version);
    idx->n_sequences = reader_word(file->bytes + 18, 8);
    idx->n_bounds = reader_word(file->bytes + 26, 8);
    if (idx->n_sequences > n_bytes / SEQUENCE_BYTES ||
        idx->n_bounds > (n_bytes - SEQUENCE_BYTES * idx->n_sequences) / DOCUMENT_BYTES)
        return error_set(err, "%s: its header promises %llu sequences and %llu documents, and only %llu bytes follow",
                         path, (unsigned long long)idx->n_sequences, (unsigned long long)idx->n_bounds,
                         (unsigned long long)n_bytes);
    idx->sequences = file->bytes + HEADER_BYTES;
    idx->documents = idx->sequences + SEQUENCE_BYTES * idx->n_sequences;
    return true;
}

/** Add the sum of the sequences [begin, end). @param number  of the document or sequence, from 0 */
static bool add_sum(const struct idx *idx, uint64_t begin, uint64_t end, uint64_t number,
                    struct reader_lengths *lengths, struct error *err)
{
    const char *what = strncmp(lengths->part, "seq", 3) == 0 ? "sequence" : "document";
    double tokens = 0;
    if (begin > end || end > idx->n_sequences)
        return error_set(err, "%s: document %llu (from 0) has the sequences %llu to %llu, of %llu; the file is damaged",
                         idx->choice->path, (unsigned long long)number, (unsigned long long)begin,
                         (unsigned long long)end, (unsigned long long)idx->n_sequences);
    for (uint64_t i = begin; i < end; i++)
        tokens += (double)(int32_t)reader_word(idx->sequences + 4 * i, 4);
    return reader_add(lengths, tokens) || error_set(err, "%s: %s %llu (from 0) has %.0f: " READER_ALLOWED,
                                                    idx->choice->path, what, (unsigned long long)number, tokens);
}

static bool read_lengths(const struct idx *idx, struct reader_lengths *lengths, struct error *err)
{
    const char *unit = *idx->choice->column != '\0' ? idx->choice->column : "documents";
    bool by_sequence = strcmp(unit, "sequences") == 0, ok = true;
    if (!by_sequence && strcmp(unit, "documents") != 0)
        return error_set(err, "%s: data.column '%s' is not known of an index; allowed: documents, sequences",
                         idx->choice->path, unit);
    snprintf(lengths->part, sizeof lengths->part, "%s", unit);
    for (uint64_t i = 0; ok && by_sequence && i < idx->n_sequences; i++)
        ok = add_sum(idx, i, i + 1, i, lengths, err);
    for (uint64_t i = 0; ok && !by_sequence && i + 1 < idx->n_bounds; i++)
        ok = add_sum(idx, reader_word(idx->documents + 8 * i, 8), reader_word(idx->documents + 8 * (i + 1), 8), i,
                     lengths, err);
    return ok && (lengths->n > 0 || error_set(err, "%s: holds no length, at least one is needed", idx->choice->path));
}

bool reader_idx(const struct reader_choice *choice, struct reader_lengths *lengths, struct error *err)
{
    struct file_bytes file = {0};
    struct idx idx = {.choice = choice};
    bool ok = reader_load(choice, &file, err) && read_header(&file, &idx, err) && read_lengths(&idx, lengths, err);
    free(file.bytes);
    return ok;
}
