/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/driver.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/clock.h"
#include "sweep/pool.h"
#include "sweep/sweep_output.h"

/** A driver runs one sweep. */
struct driver {
    struct sweep_runner *runner;
    const struct manifest *manifest;
    const struct driver_options *options;
    struct driver_outcome *outcome;
    struct finished_points finished;
    double shown_s; /* clock_wall_s of the last text */
    double *share;  /* [manifest->n_points] what workers have done of each point, in memory shared with them */
};

/** Add the error of one point, unless another point had the same. */
static void add_point_error(const struct manifest *manifest, int32_t point, const struct error *wrong,
                            struct error *err)
{
    char where[256] = "";
    if (strstr(err->text, wrong->text) != NULL)
        return;
    for (int32_t c = 0; c < manifest->n_columns; c++) {
        size_t used = strlen(where);
        snprintf(where + used, sizeof where - used, "%s%s=%s", c > 0 ? ", " : "", manifest->column[c],
                 manifest_value(manifest, point, c));
    }
    error_add(err, "%s", wrong->text);
    error_add(err, "  at point %d of the sweep: %s; `exclude:` leaves points out", point, where);
}

bool driver_resolve(struct sweep_runner *runner, struct manifest *manifest, const volatile sig_atomic_t *stop,
                    struct error *err)
{
    for (int32_t i = 0; i < manifest->n_points; i++) {
        if (stop != NULL && *stop != 0)
            return false;
        struct scenario scenario = {0};
        const struct lengths *lengths;
        struct error wrong = {0};
        if (!sweep_runner_point(runner, i, &scenario, &lengths, &manifest->id[i], &wrong)) {
            add_point_error(manifest, i, &wrong, err);
            continue;
        }
        if (manifest->name == NULL)
            manifest->name = check_strdup(scenario.name);
        scenario_free(&scenario);
    }
    return err->status == ERROR_NONE;
}

/** Read the journals with a pattern, except one. */
static bool read_others(struct driver *driver, const char *end, const char *own, struct error *err)
{
    char *pattern = check_asprintf("%s/%s%s", driver->options->directory, driver->manifest->name, end);
    glob_t found;
    bool ok = true;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; ok && i < found.gl_pathc; i++)
            ok = strcmp(found.gl_pathv[i], own) == 0 || finished_points_read(&driver->finished, found.gl_pathv[i], err);
        globfree(&found);
    }
    free(pattern);
    return ok;
}

/**
 * Open the journal of this shard and read the finished points. If results are asked for, read those of other shards,
 * too. The own one comes first, since a killed process may have left an incomplete end, which is removed.
 */
static bool open_journals(struct driver *driver, struct error *err)
{
    const struct driver_options *options = driver->options;
    char *path = shard_path(&options->shard, options->directory, driver->manifest->name, "journal");
    bool ok = finished_points_resume(&driver->finished, path, err);
    if (ok && options->results != NULL)
        ok = read_others(driver, ".shard-*-of-*.journal", path, err) && read_others(driver, ".journal", path, err);
    free(path);
    return ok;
}

/** Give out the results of all points. */
static bool collect(const struct driver *driver, struct error *err)
{
    struct point_result *results = driver->options->results;
    bool ok = true;
    for (int32_t i = 0; ok && results != NULL && i < driver->manifest->n_points; i++)
        if (driver->finished.entries[i].journal >= 0)
            ok = finished_points_result(&driver->finished, i, &results[i], err);
        else
            results[i] = (struct point_result){.status = RESULT_KILLED, .message = check_strdup("not computed")};
    return ok;
}

/**
 * List the points of this shard that must be computed. The caller frees the list.
 * @param n_outdated  number of these points that another build has computed
 */
static int32_t *list_points(struct driver *driver, int32_t *n, int32_t *n_outdated)
{
    const struct driver_options *options = driver->options;
    struct driver_outcome *outcome = driver->outcome;
    int32_t *points = check_malloc((size_t)driver->manifest->n_points * sizeof *points);
    *n = *n_outdated = 0;
    for (int32_t i = 0; i < driver->manifest->n_points; i++) {
        const struct finished_point *entry = &driver->finished.entries[i];
        bool failed = entry->journal >= 0 && entry->status != RESULT_DONE;
        if (!shard_has(&options->shard, i))
            continue;
        outcome->n_points++;
        if (entry->journal < 0 || entry->status == RESULT_KILLED || (failed && options->retry_failed)) {
            points[(*n)++] = i;
            *n_outdated += entry->outdated;
        } else {
            outcome->n_kept++;
            outcome->n_failed += failed;
        }
    }
    return points;
}

/** Compute one point in a worker. */
static void work(void *context, int32_t point, FILE *answer)
{
    struct driver *driver = context;
    struct point_result result;
    finished_points_close(&driver->finished); /* otherwise the locks would outlive a killed driver */
    if (driver->options->lock != NULL)
        journal_close(driver->options->lock);
    driver->runner->share = &driver->share[point];
    *driver->runner->share = 1e-6; /* it runs */
    sweep_runner_run(driver->runner, point, &result);
    point_result_pack(answer, &result);
    point_result_free(&result);
}

static bool fail_fast(const struct driver *driver, int32_t point, struct error *err)
{
    struct point_result result;
    if (finished_points_result(&driver->finished, point, &result, err)) {
        char *command = manifest_command(driver->manifest, point);
        error_set_status(err, ERROR_FAILED, "point %d failed: %.4000s\nto repeat it: %.2000s", point, result.message,
                         command);
        free(command);
    }
    point_result_free(&result);
    return false;
}

/** Write the failed result of a point whose worker gave none. The caller frees it. */
static void *pack_failure(const struct driver *driver, const struct pool_answer *answer, size_t *n_bytes)
{
    struct point_result result = {
        .id = driver->manifest->id[answer->task],
        .status = answer->ending == POOL_TIME_LIMIT ? RESULT_TIME_LIMIT
                  : answer->ending == POOL_KILLED   ? RESULT_KILLED
                                                    : RESULT_FAILED,
        .message = check_strdup(answer->said),
    };
    char *bytes = NULL;
    FILE *file = check_memstream(&bytes, n_bytes);
    point_result_pack(file, &result);
    CHECK(fclose(file) == 0);
    point_result_free(&result);
    return bytes;
}

/** Check that an answer is a result of its point: done, or refused by the scenario. */
static bool check_result(const struct driver *driver, const struct pool_answer *answer, struct error *err)
{
    struct point_result result = {.status = RESULT_KILLED};
    CHECK(answer->ending != POOL_ANSWERED || point_result_unpack(answer->bytes, answer->n_bytes, &result));
    const char *said = answer->ending == POOL_ANSWERED ? result.message : answer->said;
    bool ok = result.status != RESULT_KILLED;
    if (!ok)
        error_set_status(err, ERROR_FAILED, "%s: %.*s; the same command computes it again",
                         manifest_value(driver->manifest, answer->task, 0), (int)strcspn(said, "\n"), said);
    point_result_free(&result);
    return ok;
}

static bool take(void *context, const struct pool_answer *answer, struct error *err)
{
    struct driver *driver = context;
    const struct finished_point *entry = &driver->finished.entries[answer->task];
    size_t n_bytes = answer->n_bytes;
    if (driver->options->results != NULL && !check_result(driver, answer, err))
        return false;
    void *failure = answer->ending != POOL_ANSWERED ? pack_failure(driver, answer, &n_bytes) : NULL;
    bool ok = finished_points_append(&driver->finished, failure != NULL ? failure : answer->bytes, n_bytes, err);
    free(failure);
    if (!ok)
        return false;
    bool failed = entry->status != RESULT_DONE;
    driver->outcome->n_computed++;
    driver->outcome->n_failed += failed;
    driver->share[answer->task] = 0;
    progress_count(driver->options->progress, failed);
    return !failed || !driver->options->fail_fast || fail_fast(driver, answer->task, err);
}

/** Show the points at work with their keys. */
static void idle(void *context)
{
    struct driver *driver = context;
    const struct manifest *manifest = driver->manifest;
    double now_s = clock_wall_s();
    if (now_s - driver->shown_s < 0.2) /* a sweep may have a million points */
        return;
    driver->shown_s = now_s;
    char names[STATUS_LINE_BYTES] = "";
    double share = 0;
    for (int32_t i = 0; i < manifest->n_points; i++) {
        double done = ((volatile double *)driver->share)[i];
        share += done;
        for (int32_t c = 0; done > 0 && c < manifest->n_columns; c++) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%s",
                     *names == '\0' ? ""
                     : c == 0       ? ", "
                                    : " ",
                     manifest_value(manifest, i, c));
        }
    }
    progress_show(driver->options->progress, share, names);
}

/** Compute the points that the journal lacks. */
static bool compute(struct driver *driver, struct error *err)
{
    const struct driver_options *options = driver->options;
    int32_t n, n_outdated, *points = list_points(driver, &n, &n_outdated);
    struct pool pool = {
        .jobs = options->jobs,
        .time_limit_s = options->time_limit_s,
        .memory_bytes = options->memory_bytes,
        .work = work,
        .take = take,
        .idle = idle,
        .context = driver,
        .stop = options->stop,
    };
    if (options->progress->status.shown && n_outdated > 0)
        fprintf(stderr, "another build of slimsim computed %d points in %s; they are computed again\n", n_outdated,
                driver->finished.journals[0].path);
    size_t n_bytes = (size_t)driver->manifest->n_points * sizeof *driver->share;
    driver->share = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(driver->share != MAP_FAILED);
    progress_stage(options->progress, driver->outcome->n_points, driver->outcome->n_kept, driver->outcome->n_failed);
    bool ok = n == 0 || pool_run(&pool, n, points, err);
    munmap(driver->share, n_bytes);
    struct error late = {0};
    bool synced = journal_sync(&driver->finished.journals[0], ok ? err : &late);
    free(points);
    return ok && synced;
}

static bool writes_files(const struct driver_options *options)
{
    return options->shard.n == 0 && options->results == NULL;
}

/** Say why points failed. One of several shards has written no table of them. */
static bool list_failures(const struct driver *driver, struct error *err)
{
    const struct driver_options *options = driver->options;
    char *file =
        writes_files(options) ? check_asprintf("%s/%s.points.csv", options->directory, driver->manifest->name) : NULL;
    bool ok =
        finished_points_failures(&driver->finished, driver->outcome->n_points, file, &driver->outcome->failures, err);
    free(file);
    return ok;
}

bool driver_run(struct sweep_runner *runner, const struct manifest *manifest, const struct driver_options *options,
                struct driver_outcome *outcome, struct error *err)
{
    struct driver driver = {.runner = runner, .manifest = manifest, .options = options, .outcome = outcome};
    *outcome = (struct driver_outcome){0};
    bool ok =
        (options->results != NULL || sweep_output_may_be_replaced(options->directory, manifest->name, manifest, err)) &&
        finished_points_open(manifest, &driver.finished, err) && open_journals(&driver, err) && compute(&driver, err);
    if (ok && writes_files(options))
        ok = sweep_output_write(options->directory, &driver.finished, options->stop, err);
    ok = ok && collect(&driver, err) && list_failures(&driver, err);
    finished_points_close(&driver.finished);
    return ok;
}
