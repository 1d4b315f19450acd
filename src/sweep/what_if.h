/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module is the one way to ask again: it runs scenarios that differ in one thing, and keeps each result in a
 * journal.
 *
 * 1. Each question is read, checked and searched, if its plans are `auto`, and run in a worker process. A refusal of
 * the scenario is a result. Any other failure ends the answer and is not kept, for example a worker that died.
 *    Questions that are the same scenario run once. No result depends on the number of workers.
 * 2. The journals are DIRECTORY/NAME.journal and, of shards, DIRECTORY/NAME.shard-*-of-*.journal. All of them are read.
 * 3. Questions without a result by this build go to the journal of this process. So an answer that stopped goes on, and
 *    another answer with the same questions runs nothing again.
 * 4. The lock of DIRECTORY/NAME.answer holds from the first questions of an answer to its end.
 */
#ifndef SLIMSIM_SWEEP_WHAT_IF_H
#define SLIMSIM_SWEEP_WHAT_IF_H

#include "sweep/driver.h"

/** A question, and its result. */
struct what_if {
    char *name;                 /* "NIC x0.5" */
    char *set;                  /* assignments of --set that make it, separated by blanks */
    struct document document;   /* the changed scenario; a `sweep:` is left out */
    double memory;              /* factor of the memory of a GPU */
    bool priced;                /* the result has free_costs */
    struct point_result result; /* RESULT_FAILED: a refusal; RESULT_KILLED: no process computed it */
};

/** {0} is empty. */
struct what_ifs {
    int32_t n;
    size_t capacity;
    struct what_if *at;
};

struct what_if_options {
    const char *directory;
    const char *name; /* of the journals */
    int32_t jobs;
    struct shard shard;                /* {0}: all questions */
    struct journal *lock;              /* of the whole answer; {.descriptor = -1}: the first questions take it */
    bool critical_path;                /* only the critical path runs, and iterations are kept */
    struct progress *progress;         /* of the whole answer */
    const volatile sig_atomic_t *stop; /* not 0: end; the journal keeps the finished questions */
};

/** Append a question about a copy of a document. The pointer holds until the next call. */
struct what_if *what_if_add(struct what_ifs *questions, const char *name, const struct document *document);

/** Append a question for each point of a document with `sweep:`, which is taken over. */
bool what_if_add_sweep(struct what_ifs *questions, struct document *document, struct error *err);

/** Set a key of a question. A wrong value is a refusal. */
void what_if_set(struct what_if *question, const char *key, const char *value);

/** Refuse a question, unless it is refused already. */
void what_if_refuse(struct what_if *question, const char *reason);

/** Return why a question has no results; NULL: it ran. */
const char *what_if_refusal(const struct what_if *question);

/**
 * Compute the results of all questions.
 * @return false with err, or with err untouched if *stop ended it
 */
bool what_if_run(struct what_ifs *questions, const struct what_if_options *options, struct error *err);

/** Free one question that was moved out of its list. */
void what_if_clear(struct what_if *question);

void what_if_free(struct what_ifs *questions);

#endif
