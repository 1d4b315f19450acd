/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * The journal of a sweep: an append-only file of records. A resumed sweep goes on from it, and `slimsim merge` reads
 * those of all shards.
 *
 * 1. A new journal gets its name when its first bytes are on disk. A file without them belongs to somebody else.
 * 2. A record has a kind, a size, a hash and a payload of fields: integers, texts, blocks.
 * 3. journal_open cuts off an end that is no whole record, as a killed driver or a full disk leaves it.
 * 4. The driver holds a lock on it. A single run holds the same lock of its name and writes no record.
 */
#ifndef SLIMSIM_SWEEP_JOURNAL_H
#define SLIMSIM_SWEEP_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum journal_kind {
    JOURNAL_BUILD,    /* text: program and libraries that computed the results behind it */
    JOURNAL_MANIFEST, /* of the sweep that the driver then ran */
    JOURNAL_RESULT,   /* of one point */
    JOURNAL_N_KINDS
};

struct journal {
    int descriptor; /* -1: not open */
    char *path;
    int64_t end;     /* of the last whole record [bytes] */
    bool removed;    /* by journal_release: it holds no record */
    double synced_s; /* clock_wall_s of the last sync */
};

/** Called with each whole record and the place of its payload. @return false to stop with err */
typedef bool journal_visitor(void *context, enum journal_kind kind, int64_t offset, const void *payload, size_t n_bytes,
                             struct error *err);

/** Hold the lock alone, until journal_release. The file stays as it is. Errors are those of journal_open. */
bool journal_hold(const char *path, struct journal *journal, struct error *err);

/** Remove a journal without records, whoever made it, and close it. Takes {.descriptor = -1}. */
void journal_release(struct journal *journal);

/**
 * Open for appending, made where it is missing; visit what is there, drop a torn end. ERROR_BUSY: another driver holds
 * it; ERROR_CANT_CREATE, ERROR_IO; ERROR_INVALID: not a journal.
 */
bool journal_open(const char *path, journal_visitor *visitor, void *context, struct journal *journal,
                  struct error *err);

/** Open for reading only. Anything but whole records to the end is an error: truncated or damaged at a byte. */
bool journal_read(const char *path, journal_visitor *visitor, void *context, struct journal *journal,
                  struct error *err);

/** Append a record; it survives the death of the process at once, and that of the machine after a second or
 * journal_sync. On failure the journal is as before. */
bool journal_append(struct journal *journal, enum journal_kind kind, const void *payload, size_t n_bytes,
                    struct error *err);

bool journal_sync(struct journal *journal, struct error *err);

/** Read a payload again, as visited. @return a block that the caller frees, NULL with err */
void *journal_payload(const struct journal *journal, int64_t offset, size_t n_bytes, struct error *err);

/** Takes {.descriptor = -1}. */
void journal_close(struct journal *journal);

/** Append a field to a payload in a memory stream. */
void journal_put_integer(FILE *file, int64_t value);
void journal_put_block(FILE *file, const void *bytes, size_t n_bytes);
void journal_put_text(FILE *file, const char *text);

/** The fields of a payload that are still to be taken. `ok` turns false at the first that is out of its range. */
struct journal_fields {
    const char *at;
    size_t n_left;
    bool ok;
};

/** An integer from `least` to `most`; else `least`. */
int64_t journal_take_integer(struct journal_fields *fields, int64_t least, int64_t most);

/** Rows of `size` bytes each, at most `most` of them. The caller frees. @param n  rows; 0 where they do not fit */
void *journal_take_rows(struct journal_fields *fields, size_t size, size_t most, size_t *n);

/** A text of less than `size` bytes; else "". The caller frees. */
char *journal_take_text(struct journal_fields *fields, size_t size);

/** Whether all fields were in their ranges and none is left. */
bool journal_took_all(const struct journal_fields *fields);

#endif
