/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sweep/book.h"
#include "sweep/kept.h"
#include "sweep/ledger.h"
#include "sweep/shard.h"

/** All shards while they are read: first for the manifest, then for the points. */
struct merge {
    int32_t n, at; /* journals, and the one in hand */
    const char *const *paths;
    struct journal *journals;
    char *build, *other_build; /* ours; one that is not, or NULL */
    bool own_build;
    char *packed; /* manifest of the journal in hand, its last */
    size_t packed_bytes;
    struct manifest manifest;
    struct ledger ledger;
    int32_t n_other; /* points of another build */
};

static bool visit_manifest(void *context, enum journal_kind kind, int64_t offset, const void *payload, size_t n_bytes,
                           struct error *err)
{
    struct merge *merge = context;
    (void)offset;
    (void)err;
    if (kind != JOURNAL_MANIFEST)
        return true;
    merge->packed = check_realloc(merge->packed, n_bytes);
    memcpy(merge->packed, payload, n_bytes);
    merge->packed_bytes = n_bytes;
    return true;
}

static bool visit_result(void *context, enum journal_kind kind, int64_t offset, const void *payload, size_t n_bytes,
                         struct error *err)
{
    struct merge *merge = context;
    if (kind == JOURNAL_BUILD) {
        merge->own_build = n_bytes == strlen(merge->build) && memcmp(payload, merge->build, n_bytes) == 0;
        if (!merge->own_build && merge->other_build == NULL)
            merge->other_build = check_strndup(payload, n_bytes);
    }
    int32_t point = kind == JOURNAL_RESULT ? ledger_find(&merge->ledger, payload, n_bytes) : -1;
    if (point < 0)
        return true;
    int32_t before = merge->ledger.entries[point].journal;
    if (before >= 0 && before != merge->at)
        return error_set(err, "%s: point %d stands in %s too; each shard is given once", merge->paths[merge->at], point,
                         merge->paths[before]);
    merge->n_other += !merge->own_build;
    return !merge->own_build || ledger_enter(&merge->ledger, point, merge->at, offset, payload, n_bytes) ||
           ledger_damaged(merge->paths[merge->at], offset, err);
}

/** The manifest of each journal; all must be the same. */
static bool read_manifests(struct merge *merge, struct error *err)
{
    char *first = NULL;
    size_t first_bytes = 0;
    bool ok = true;
    for (merge->at = 0; merge->at < merge->n && ok; merge->at++) {
        struct journal journal;
        merge->packed_bytes = 0;
        ok = journal_read(merge->paths[merge->at], visit_manifest, merge, &journal, err);
        journal_close(&journal);
        if (ok && merge->packed_bytes == 0)
            ok = error_set(err, "%s: holds no sweep yet", merge->paths[merge->at]);
        else if (ok && merge->at == 0) {
            first = merge->packed;
            first_bytes = merge->packed_bytes;
            merge->packed = NULL;
        } else if (ok && (first_bytes != merge->packed_bytes || memcmp(first, merge->packed, first_bytes) != 0))
            ok = error_set(err, "%s and %s are shards of different sweeps", merge->paths[0], merge->paths[merge->at]);
    }
    ok = ok && (manifest_unpack(first, first_bytes, &merge->manifest) ||
                error_set(err, "%s: the list of points is damaged", merge->paths[0]));
    free(first);
    return ok;
}

static bool read_results(struct merge *merge, struct error *err)
{
    merge->journals = check_calloc((size_t)merge->n, sizeof *merge->journals);
    for (int32_t i = 0; i < merge->n; i++)
        merge->journals[i].descriptor = -1;
    bool ok = ledger_open(&merge->manifest, &merge->ledger, err);
    for (merge->at = 0; merge->at < merge->n && ok; merge->at++) {
        merge->own_build = false;
        ok = journal_read(merge->paths[merge->at], visit_result, merge, &merge->journals[merge->at], err);
    }
    return ok;
}

/** N of a path that ends in ".shard-K-of-N.journal", else 0. */
static int32_t n_of_path(const char *path)
{
    const char *mark = NULL, *next = path;
    while ((next = strstr(next, ".shard-")) != NULL)
        mark = next += strlen(".shard-");
    if (mark == NULL)
        return 0;
    char *end;
    strtol(mark, &end, 10);
    if (strncmp(end, "-of-", 4) != 0)
        return 0;
    long n = strtol(end + 4, &end, 10);
    return strcmp(end, ".journal") == 0 && 1 <= n && n <= SHARD_MAX ? (int32_t)n : 0;
}

/** Into how many parts the sweep was divided, as the names of all journals say; 0: they do not. */
static int32_t n_shards(const struct merge *merge)
{
    int32_t n = n_of_path(merge->paths[0]);
    for (int32_t i = 1; i < merge->n; i++)
        if (n_of_path(merge->paths[i]) != n)
            return 0;
    return n;
}

/** A few numbers as "1, 4, ...". */
struct few {
    int32_t n;
    char text[160];
};

static void few_add(struct few *few, int32_t number)
{
    size_t used = strlen(few->text);
    if (++few->n <= 8)
        snprintf(few->text + used, sizeof few->text - used, "%s%d", few->n > 1 ? ", " : "", number);
    else if (few->n == 9)
        snprintf(few->text + used, sizeof few->text - used, ", ...");
}

static bool check_complete(const struct merge *merge, struct error *err)
{
    struct few points = {0}, shards = {0};
    int32_t n_points = merge->manifest.n_points, n = n_shards(merge);
    bool *seen = check_calloc((size_t)n + 1, sizeof *seen);
    char of_shards[256] = "";
    for (int32_t i = 0; i < n_points; i++)
        if (merge->ledger.entries[i].journal < 0) {
            few_add(&points, i);
            if (n > 0 && !seen[i % n])
                few_add(&shards, i % n + 1);
            seen[n > 0 ? i % n : 0] = true;
        }
    free(seen);
    if (points.n == 0)
        return true;
    if (merge->n_other > 0)
        return error_set(err, "%d of %d points are missing: they were computed by %s, and this is %s", points.n,
                         n_points, merge->other_build, merge->build);
    if (n > 0)
        snprintf(of_shards, sizeof of_shards, ", of shard %s of %d", shards.text, n);
    return error_set(err,
                     "%d of %d points are missing (%s)%s: a shard is missing or has not ended; the same `slimsim run` "
                     "or `slimsim submit` again computes what is missing",
                     points.n, n_points, points.text, of_shards);
}

bool merge_journals(int32_t n, const char *const *paths, const char *directory, const volatile sig_atomic_t *stop,
                    struct merge_outcome *outcome, struct error *err)
{
    struct merge merge = {.n = n, .paths = paths, .build = ledger_build()};
    bool ok = read_manifests(&merge, err) && read_results(&merge, err) && check_complete(&merge, err) &&
              kept_may_replace(directory, merge.manifest.name, &merge.manifest, err);
    if (ok) {
        merge.ledger.journals = merge.journals;
        merge.ledger.stop = stop;
        outcome->n_points = merge.manifest.n_points;
        snprintf(outcome->name, sizeof outcome->name, "%s", merge.manifest.name);
        ok = book_write(directory, &merge.manifest, ledger_source, &merge.ledger, &outcome->n_failed, err);
    }
    for (int32_t i = 0; merge.journals != NULL && i < n; i++)
        journal_close(&merge.journals[i]);
    free(merge.journals);
    ledger_close(&merge.ledger);
    manifest_free(&merge.manifest);
    free(merge.packed);
    free(merge.build);
    free(merge.other_build);
    return ok;
}
