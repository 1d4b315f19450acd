/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * The memory of a sweep: one file to which the driver appends every finished point. It is what a resumed sweep goes on
 * from, and what shards hand to `slimsim merge`.
 *
 * Frames with checksums follow one another. Frames that do not end, as a killed driver or a full disk leaves them, are
 * cut off when the journal is opened again. One driver at a time holds the lock; a single run, which has no journal,
 * holds that of its name.
 */
#ifndef SLIMSIM_SWEEP_JOURNAL_H
#define SLIMSIM_SWEEP_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum journal_kind {
    JOURNAL_BUILD,    /* text: program and libraries that computed what follows */
    JOURNAL_MANIFEST, /* of the sweep that the driver then ran */
    JOURNAL_RESULT,   /* of one point */
    JOURNAL_N_KINDS
};

struct journal {
    int descriptor; /* -1: not open */
    char *path;
    int64_t end;       /* of the last whole frame [bytes] */
    int64_t n_dropped; /* bytes behind it when it was opened */
    bool guarded;      /* of journal_hold: it holds no frame and goes with the lock */
    double synced_s;   /* clock_wall_s of the last sync */
};

/** Called with each whole frame and the place of its payload. @return false to stop with err */
typedef bool journal_visitor(void *context, enum journal_kind kind, int64_t offset, const void *payload, size_t n_bytes,
                             struct error *err);

/** Hold the lock alone, until journal_release: what stands in the file stays. One that is made gets the begin of a
 * journal, so that the next run knows it if this one is killed. Errors as of journal_open. */
bool journal_hold(const char *path, struct journal *journal, struct error *err);

/** Leaves no file that journal_hold made, here or in a run that was killed. Takes {.descriptor = -1}. */
void journal_release(struct journal *journal);

/**
 * Open for appending, made where it is missing; visit what is there, drop a torn end. ERROR_BUSY: another driver holds
 * it; ERROR_CANT_CREATE, ERROR_IO; ERROR_INVALID: not a journal.
 */
bool journal_open(const char *path, journal_visitor *visitor, void *context, struct journal *journal,
                  struct error *err);

/** Open for reading only. Anything but whole frames to the end is an error: truncated or damaged at a byte. */
bool journal_read(const char *path, journal_visitor *visitor, void *context, struct journal *journal,
                  struct error *err);

/** Append a frame; it survives the death of the process at once, and that of the machine after a second or
 * journal_sync. On failure the journal is as before. */
bool journal_append(struct journal *journal, enum journal_kind kind, const void *payload, size_t n_bytes,
                    struct error *err);

bool journal_sync(struct journal *journal, struct error *err);

/** Read a payload again, as visited. @return a block that the caller frees, NULL with err */
void *journal_payload(const struct journal *journal, int64_t offset, size_t n_bytes, struct error *err);

/** Takes {.descriptor = -1}. */
void journal_close(struct journal *journal);

#endif
