/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Which points of a manifest are finished, and where in which journal their results lie. */
#ifndef SLIMSIM_SWEEP_LEDGER_H
#define SLIMSIM_SWEEP_LEDGER_H

#include <signal.h>

#include "sweep/journal.h"
#include "sweep/manifest.h"
#include "sweep/result.h"

struct ledger_entry {
    int32_t journal; /* -1: not finished */
    enum result_status status;
    int64_t offset;
    size_t n_bytes;
};

struct ledger_id;

struct ledger {
    const struct manifest *manifest;
    struct ledger_id *sorted;
    struct ledger_entry *entries; /* [n_points] */
    const struct journal *journals;
    const volatile sig_atomic_t *stop; /* ledger_source ends when it is not 0; NULL: never */
};

/** All points unfinished. Two points that are the same scenario are an error that names both. */
bool ledger_open(const struct manifest *manifest, struct ledger *ledger, struct error *err);

/** The point of a packed result; -1: none of this manifest. */
int32_t ledger_find(const struct ledger *ledger, const void *payload, size_t n_bytes);

/** Enter where a point's packed result lies, in place of what was entered before. @return false: it is no result */
bool ledger_enter(struct ledger *ledger, int32_t point, int32_t journal, int64_t offset, const void *payload,
                  size_t n_bytes);

/** Say that a journal's frame holds no result, as somebody else may have written it. @return false */
bool ledger_damaged(const char *path, int64_t offset, struct error *err);

/** A book_source; `context` is the ledger, whose points are all finished. */
bool ledger_source(void *context, int32_t point, struct result *result, struct error *err);

void ledger_close(struct ledger *ledger);

/** What computed a result, as it stands in JOURNAL_BUILD: version, hash of the program, its libraries. Caller frees. */
char *ledger_build(void);

#endif
