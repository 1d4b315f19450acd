/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/point_results.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/** A sweep and what its journals hold. */
struct collection {
    struct sweep sweep;
    struct sweep_runner *runner;
    struct manifest manifest;
    const struct point_results_options *options;
};

static struct shard shard_of(const struct collection *collection)
{
    return collection->options->shard.n > 0 ? collection->options->shard : (struct shard){1, 1};
}

/**
 * Read all journals of the sweep's name. The one of this process comes first, since a killed process may have left an
 * incomplete end, which is removed.
 */
static bool read_journals(const struct collection *collection, struct finished_points *finished, struct error *err)
{
    const char *directory = collection->options->directory, *name = collection->manifest.name;
    struct shard shard = shard_of(collection);
    char *own = check_asprintf("%s/%s.shard-%d-of-%d.journal", directory, name, shard.k, shard.n);
    char *pattern = check_asprintf("%s/%s.shard-*-of-*.journal", directory, name);
    glob_t found;
    bool ok = finished_points_open(&collection->manifest, finished, err) && finished_points_resume(finished, own, err);
    int status = glob(pattern, 0, NULL, &found);
    for (size_t i = 0; status == 0 && ok && i < found.gl_pathc; i++)
        ok = strcmp(found.gl_pathv[i], own) == 0 || finished_points_read(finished, found.gl_pathv[i], err);
    if (status == 0)
        globfree(&found);
    free(pattern);
    free(own);
    return ok;
}

/** Return whether a journal holds the result of a point by this build. */
static bool is_finished(const struct finished_points *finished, int32_t point)
{
    const struct finished_point *entry = &finished->entries[point];
    return entry->journal >= 0 && entry->status != RESULT_KILLED;
}

/** Leave only the points that no journal holds. */
static bool drop_finished(struct collection *collection, struct error *err)
{
    struct finished_points finished = {0};
    struct sweep *sweep = &collection->sweep;
    int32_t n = 0;
    bool ok = read_journals(collection, &finished, err);
    for (int32_t i = 0; ok && i < sweep->n_points; i++)
        if (!is_finished(&finished, i))
            sweep->combination[n++] = sweep->combination[i];
    sweep->n_points = n;
    finished_points_close(&finished);
    return ok;
}

/** Compute the points that no journal holds, as a sweep of these points alone. Shards divide all points. */
static bool compute(struct collection *collection, struct error *err)
{
    const struct point_results_options *options = collection->options;
    struct driver_outcome outcome;
    struct driver_options driver = {
        .directory = options->directory,
        .jobs = options->jobs,
        .shard = shard_of(collection),
        .progress = options->progress,
        .stop = options->stop,
    };
    struct manifest rest = {0};
    if (options->shard.n == 0 && !drop_finished(collection, err))
        return false;
    if (collection->sweep.n_points == 0)
        return true;
    manifest_of_sweep(&collection->sweep, &rest);
    rest.command = check_strdup(collection->manifest.command);
    bool ok = driver_resolve(collection->runner, &rest, options->stop, err) &&
              driver_run(collection->runner, &rest, &driver, &outcome, err);
    manifest_free(&rest);
    return ok;
}

static bool collect(const struct collection *collection, struct point_results *results, struct error *err)
{
    struct finished_points finished = {0};
    bool ok = read_journals(collection, &finished, err);
    results->result = check_calloc((size_t)collection->manifest.n_points, sizeof *results->result);
    results->n = collection->manifest.n_points;
    for (int32_t i = 0; ok && i < results->n; i++)
        if (is_finished(&finished, i))
            ok = finished_points_result(&finished, i, &results->result[i], err);
        else
            results->result[i] =
                (struct point_result){.status = RESULT_KILLED, .message = check_strdup("not computed")};
    finished_points_close(&finished);
    return ok;
}

bool point_results_compute(struct document *document, const struct point_results_options *options,
                           struct point_results *results, struct error *err)
{
    struct collection collection = {.options = options};
    *results = (struct point_results){0};
    bool ok = sweep_read(document, &collection.sweep, err);
    collection.runner = check_calloc(1, sizeof *collection.runner); /* too large for the stack */
    collection.runner->sweep = &collection.sweep;
    if (ok) {
        manifest_of_sweep(&collection.sweep, &collection.manifest);
        collection.manifest.command = check_strdup("slimsim capacity");
        ok = driver_resolve(collection.runner, &collection.manifest, options->stop, err) && compute(&collection, err) &&
             collect(&collection, results, err);
    }
    sweep_runner_close(collection.runner);
    free(collection.runner);
    manifest_free(&collection.manifest);
    sweep_free(&collection.sweep);
    return ok;
}

void point_results_free(struct point_results *results)
{
    for (int32_t i = 0; i < results->n; i++)
        point_result_free(&results->result[i]);
    free(results->result);
    *results = (struct point_results){0};
}
