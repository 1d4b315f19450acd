/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module is the journal of a sweep, an append-only file of records. A resumed sweep continues it, and `slimsim
 * merge` reads the journals of all shards.
 *
 * 1. A new journal gets its name when its first bytes are on disk. A file without them belongs to another program.
 * 2. A record has a kind, a size, a hash and a payload of fields: integers, texts, blocks.
 * 3. A killed driver or a full disk may leave an incomplete record at the end. journal_open removes it.
 * 4. The driver holds a lock on the journal. A single run holds the same lock of its name and writes no record.
 */
#ifndef SLIMSIM_SWEEP_JOURNAL_H
#define SLIMSIM_SWEEP_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum journal_kind {
    JOURNAL_BUILD,    /* text: program and libraries that computed the following results */
    JOURNAL_MANIFEST, /* of the sweep that the driver then ran */
    JOURNAL_RESULT,   /* of one point */
    JOURNAL_N_KINDS
};

struct journal {
    int descriptor; /* -1: not open */
    char *path;
    int64_t end;     /* of the last whole record [bytes] */
    bool removed;    /* by journal_release, as it holds no record */
    double synced_s; /* clock_wall_s of the last sync */
};

/** Called with each whole record and the offset of its payload. @return false to stop with err */
typedef bool journal_visitor(void *context, enum journal_kind kind, int64_t offset, const void *payload, size_t n_bytes,
                             struct error *err);

/** Hold the lock exclusively until journal_release, and do not change the file. Errors are those of journal_open. */
bool journal_hold(const char *path, struct journal *journal, struct error *err);

/**
 * Close the journal. Remove it if it has no records, even if another process created it.
 * {.descriptor = -1} is allowed.
 */
void journal_release(struct journal *journal);

/**
 * Open a journal for appending, or create it. Visit its records and drop an incomplete end. Statuses of errors:
 *
 *  - ERROR_BUSY: another driver holds it;
 *  - ERROR_CANT_CREATE, ERROR_IO: the file system refuses;
 *  - ERROR_INVALID: the file is no journal.
 */
bool journal_open(const char *path, journal_visitor *visitor, void *context, struct journal *journal,
                  struct error *err);

/**
 * Open only for reading. If the file does not end with a whole record, the error names the damaged byte. While a driver
 * holds the journal, an incomplete end is no error: the record is being written.
 */
bool journal_read(const char *path, journal_visitor *visitor, void *context, struct journal *journal,
                  struct error *err);

/**
 * Append a record. It survives the death of the process at once. It survives that of the machine after a second or
 * journal_sync. After a failure the journal is as before.
 */
bool journal_append(struct journal *journal, enum journal_kind kind, const void *payload, size_t n_bytes,
                    struct error *err);

bool journal_sync(struct journal *journal, struct error *err);

/** Read a visited payload again. @return a block that the caller frees; NULL with err */
void *journal_payload(const struct journal *journal, int64_t offset, size_t n_bytes, struct error *err);

/** Close the file. {.descriptor = -1} is allowed. */
void journal_close(struct journal *journal);

/** Append a field to a payload in a memory stream. */
void journal_put_integer(FILE *file, int64_t value);
void journal_put_block(FILE *file, const void *bytes, size_t n_bytes);
void journal_put_text(FILE *file, const char *text);

/** These are the fields of a payload that remain to be read. `ok` becomes false at the first one out of its range. */
struct journal_fields {
    const char *at;
    size_t n_left;
    bool ok;
};

/** Read an integer from `least` to `most`. Otherwise return `least`. */
int64_t journal_take_integer(struct journal_fields *fields, int64_t least, int64_t most);

/**
 * Read at most `most` rows of `size` bytes each. The caller frees them. @param n  number of rows; 0 if
 * they do not fit
 */
void *journal_take_rows(struct journal_fields *fields, size_t size, size_t most, size_t *n);

/** Read a text of less than `size` bytes. Otherwise return "". The caller frees it. */
char *journal_take_text(struct journal_fields *fields, size_t size);

/** Return whether all fields were in their ranges and none is left. */
bool journal_took_all(const struct journal_fields *fields);

#endif
