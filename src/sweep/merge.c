/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sweep/finished_points.h"
#include "sweep/shard.h"
#include "sweep/sweep_output.h"

/** These are the bytes of a journal's last manifest. */
struct packed {
    char *bytes;
    size_t n_bytes; /* 0: there is none */
};

static bool visit(void *context, enum journal_kind kind, int64_t offset, const void *payload, size_t n_bytes,
                  struct error *err)
{
    struct packed *packed = context;
    (void)offset;
    (void)err;
    if (kind != JOURNAL_MANIFEST)
        return true;
    packed->bytes = check_realloc(packed->bytes, n_bytes);
    memcpy(packed->bytes, payload, n_bytes);
    packed->n_bytes = n_bytes;
    return true;
}

static bool read_packed(const char *path, struct packed *packed, struct error *err)
{
    struct journal journal;
    bool ok = journal_read(path, visit, packed, &journal, err);
    journal_close(&journal);
    return ok && (packed->n_bytes > 0 || error_set(err, "%s: it holds no sweep yet", path));
}

/** Read the manifest, which must be the same in all journals. */
static bool read_manifest(int32_t n, const char *const *paths, struct manifest *manifest, struct error *err)
{
    struct packed first = {0};
    bool ok = read_packed(paths[0], &first, err);
    for (int32_t i = 1; i < n && ok; i++) {
        struct packed other = {0};
        ok = read_packed(paths[i], &other, err);
        if (ok && (other.n_bytes != first.n_bytes || memcmp(other.bytes, first.bytes, first.n_bytes) != 0))
            ok = error_set(err, "%s and %s are shards of different sweeps", paths[0], paths[i]);
        free(other.bytes);
    }
    ok = ok && (manifest_unpack(first.bytes, first.n_bytes, manifest) ||
                error_set(err, "%s: the list of points is damaged", paths[0]));
    free(first.bytes);
    return ok;
}

static bool read_points(int32_t n, const char *const *paths, struct finished_points *finished, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; i < n && ok; i++)
        ok = finished_points_read(finished, paths[i], err);
    return ok;
}

/** Return N of a path that ends in ".shard-K-of-N.journal", otherwise 0. */
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

/** Return the number of shards in the names of all journals. 0: the names do not agree. */
static int32_t n_shards(int32_t n_paths, const char *const *paths)
{
    int32_t n = n_of_path(paths[0]);
    for (int32_t i = 1; i < n_paths; i++)
        if (n_of_path(paths[i]) != n)
            return 0;
    return n;
}

/** The text lists a few numbers as "1, 4, ...". */
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

/** Require a result for every point. @param n  shards; 0: unknown */
static bool check_complete(const struct finished_points *finished, int32_t n, struct error *err)
{
    struct few points = {0}, shards = {0};
    int32_t n_points = finished->manifest->n_points;
    bool *seen = check_calloc((size_t)n + 1, sizeof *seen), outdated = false;
    char of_shards[256] = "";
    for (int32_t i = 0; i < n_points; i++)
        if (finished->entries[i].journal < 0) {
            few_add(&points, i);
            if (n > 0 && !seen[i % n])
                few_add(&shards, i % n + 1);
            seen[n > 0 ? i % n : 0] = true;
            outdated = outdated || finished->entries[i].outdated;
        }
    free(seen);
    if (points.n == 0)
        return true;
    if (outdated)
        return error_set(err, "%d of %d points are missing: they were computed by %s, and this is %s", points.n,
                         n_points, finished->other_build, finished->build);
    if (n > 0)
        snprintf(of_shards, sizeof of_shards, ", of shard %s of %d", shards.text, n);
    return error_set(err,
                     "%d of %d points are missing (%s)%s: a shard is missing or has not ended; repeat the same "
                     "`slimsim run` or `slimsim submit` to compute them",
                     points.n, n_points, points.text, of_shards);
}

static bool fill_outcome(const struct finished_points *finished, const char *directory, struct merge_outcome *outcome,
                         struct error *err)
{
    const struct manifest *manifest = finished->manifest;
    *outcome = (struct merge_outcome){.n_points = manifest->n_points};
    snprintf(outcome->name, sizeof outcome->name, "%s", manifest->name);
    for (int32_t i = 0; i < outcome->n_points; i++)
        outcome->n_failed += finished->entries[i].status != RESULT_DONE;
    char *file = check_asprintf("%s/%s.points.csv", directory, manifest->name);
    bool ok = finished_points_failures(finished, outcome->n_points, file, &outcome->failures, err);
    free(file);
    return ok;
}

bool merge_journals(int32_t n, const char *const *paths, const char *directory, const volatile sig_atomic_t *stop,
                    struct merge_outcome *outcome, struct error *err)
{
    struct manifest manifest = {0};
    struct finished_points finished = {0};
    bool ok = read_manifest(n, paths, &manifest, err) && finished_points_open(&manifest, &finished, err) &&
              read_points(n, paths, &finished, err) && check_complete(&finished, n_shards(n, paths), err) &&
              sweep_output_may_be_replaced(directory, manifest.name, &manifest, err) &&
              sweep_output_write(directory, &finished, stop, err) && fill_outcome(&finished, directory, outcome, err);
    finished_points_close(&finished);
    manifest_free(&manifest);
    return ok;
}
