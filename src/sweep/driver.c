/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/driver.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sweep/book.h"
#include "sweep/kept.h"
#include "sweep/pool.h"
#include "sweep/progress.h"

/** A sweep while it runs. */
struct driver {
    struct workshop *workshop;
    const struct manifest *manifest;
    const struct driver_options *options;
    struct driver_outcome *outcome;
    struct journal journal;
    struct ledger ledger;
    struct progress progress;
    char *build;
    bool own_build;    /* the frames that follow are of our build */
    bool *other_build; /* [n_points] another build has computed it */
    bool manifest_set; /* the journal's last manifest is ours */
    void *packed;      /* our manifest */
    size_t packed_bytes;
};

/** Add what is wrong with one point, unless another point had the same. */
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

bool driver_resolve(struct workshop *workshop, struct manifest *manifest, const volatile sig_atomic_t *stop,
                    struct error *err)
{
    for (int32_t i = 0; i < manifest->n_points; i++) {
        if (stop != NULL && *stop != 0)
            return false;
        struct scenario scenario = {0};
        const struct lengths *lengths;
        struct error wrong = {0};
        if (!workshop_point(workshop, i, &scenario, &lengths, &manifest->id[i], &wrong)) {
            add_point_error(manifest, i, &wrong, err);
            continue;
        }
        if (manifest->name == NULL)
            manifest->name = check_strdup(scenario.name);
        scenario_free(&scenario);
    }
    return err->status == ERROR_NONE;
}

static bool visit(void *context, enum journal_kind kind, int64_t offset, const void *payload, size_t n_bytes,
                  struct error *err)
{
    struct driver *driver = context;
    if (kind == JOURNAL_BUILD)
        driver->own_build = n_bytes == strlen(driver->build) && memcmp(payload, driver->build, n_bytes) == 0;
    if (kind == JOURNAL_MANIFEST)
        driver->manifest_set = n_bytes == driver->packed_bytes && memcmp(payload, driver->packed, n_bytes) == 0;
    int32_t point = kind == JOURNAL_RESULT ? ledger_find(&driver->ledger, payload, n_bytes) : -1;
    if (point >= 0 && driver->own_build)
        return ledger_enter(&driver->ledger, point, 0, offset, payload, n_bytes) ||
               ledger_damaged(driver->journal.path, offset, err);
    if (point >= 0)
        driver->other_build[point] = true;
    return true;
}

/** Open the journal and see what is finished; say in it who goes on with what. */
static bool open_journal(struct driver *driver, struct error *err)
{
    const struct shard *shard = &driver->options->shard;
    char part[64] = "";
    if (shard->n > 0)
        snprintf(part, sizeof part, ".shard-%d-of-%d", shard->k, shard->n);
    char *path = check_asprintf("%s/%s%s.journal", driver->options->directory, driver->manifest->name, part);
    FILE *file = check_memstream((char **)&driver->packed, &driver->packed_bytes);
    manifest_pack(file, driver->manifest);
    CHECK(fclose(file) == 0);
    driver->build = ledger_build();
    driver->other_build = check_calloc((size_t)driver->manifest->n_points, sizeof *driver->other_build);
    bool ok = journal_open(path, visit, driver, &driver->journal, err);
    free(path);
    return ok &&
           (driver->own_build ||
            journal_append(&driver->journal, JOURNAL_BUILD, driver->build, strlen(driver->build), err)) &&
           (driver->manifest_set ||
            journal_append(&driver->journal, JOURNAL_MANIFEST, driver->packed, driver->packed_bytes, err));
}

/** The points of this shard that are to be computed; and how many of them another build has computed. */
static int32_t *list_points(struct driver *driver, int32_t *n, int32_t *n_other)
{
    const struct driver_options *options = driver->options;
    struct driver_outcome *outcome = driver->outcome;
    int32_t *points = check_malloc((size_t)driver->manifest->n_points * sizeof *points);
    *n = *n_other = 0;
    for (int32_t i = 0; i < driver->manifest->n_points; i++) {
        const struct ledger_entry *entry = &driver->ledger.entries[i];
        bool failed = entry->journal >= 0 && entry->status != RESULT_DONE;
        if (!shard_has(&options->shard, i))
            continue;
        outcome->n_points++;
        if (entry->journal < 0 || entry->status == RESULT_KILLED || (failed && options->retry_failed)) {
            points[(*n)++] = i;
            *n_other += entry->journal < 0 && driver->other_build[i];
        } else {
            outcome->n_kept++;
            outcome->n_failed += failed;
        }
    }
    return points;
}

/** In a worker. */
static void work(void *context, int32_t point, FILE *answer)
{
    struct driver *driver = context;
    struct result result;
    if (driver->journal.descriptor >= 0) /* or the lock would outlive a killed driver */
        journal_close(&driver->journal);
    workshop_run(driver->workshop, point, &result);
    result_pack(answer, &result);
    result_free(&result);
}

static bool fail_fast(const struct driver *driver, int32_t point, const char *message, struct error *err)
{
    char *command = manifest_command(driver->manifest, point);
    error_set_status(err, ERROR_FAILED, "point %d failed: %.4000s\nto repeat it: %.2000s", point, message, command);
    free(command);
    return false;
}

/** A result of our own about a point that gave none. */
static void *pack_failure(const struct driver *driver, const struct pool_answer *answer, size_t *n_bytes)
{
    struct result result = {
        .id = driver->manifest->id[answer->task],
        .status = answer->ending == POOL_TIME_LIMIT ? RESULT_TIME_LIMIT
                  : answer->ending == POOL_KILLED   ? RESULT_KILLED
                                                    : RESULT_FAILED,
        .message = check_strdup(answer->said),
    };
    char *bytes = NULL;
    FILE *file = check_memstream(&bytes, n_bytes);
    result_pack(file, &result);
    CHECK(fclose(file) == 0);
    result_free(&result);
    return bytes;
}

static bool take(void *context, const struct pool_answer *answer, struct error *err)
{
    struct driver *driver = context;
    size_t n_bytes = answer->n_bytes;
    void *own = answer->ending != POOL_ANSWERED ? pack_failure(driver, answer, &n_bytes) : NULL;
    const void *payload = own != NULL ? own : answer->bytes;
    CHECK(ledger_find(&driver->ledger, payload, n_bytes) == answer->task);
    bool ok = journal_append(&driver->journal, JOURNAL_RESULT, payload, n_bytes, err);
    if (ok) {
        CHECK(ledger_enter(&driver->ledger, answer->task, 0, driver->journal.end - (int64_t)n_bytes, payload, n_bytes));
        bool failed = driver->ledger.entries[answer->task].status != RESULT_DONE;
        driver->outcome->n_computed++;
        driver->outcome->n_failed += failed;
        progress_count(&driver->progress, failed);
        if (failed && driver->options->fail_fast) {
            struct result result;
            CHECK(result_unpack(payload, n_bytes, &result));
            ok = fail_fast(driver, answer->task, result.message, err);
            result_free(&result);
        }
    }
    free(own);
    return ok;
}

static void idle(void *context)
{
    struct driver *driver = context;
    progress_tell(&driver->progress);
}

/** Compute the points that the journal lacks. */
static bool compute(struct driver *driver, struct error *err)
{
    const struct driver_options *options = driver->options;
    int32_t n, n_other, *points = list_points(driver, &n, &n_other);
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
    if (options->progress && n_other > 0)
        fprintf(stderr, "%d points in %s are another build's of slimsim: they are computed again\n", n_other,
                driver->journal.path);
    progress_begin(&driver->progress, options->progress, driver->outcome->n_points, driver->outcome->n_kept,
                   driver->outcome->n_failed);
    bool ok = n == 0 || pool_run(&pool, n, points, err);
    progress_end(&driver->progress);
    struct error late = {0};
    bool synced = journal_sync(&driver->journal, ok ? err : &late);
    free(points);
    return ok && synced;
}

bool driver_run(struct workshop *workshop, const struct manifest *manifest, const struct driver_options *options,
                struct driver_outcome *outcome, struct error *err)
{
    struct driver driver = {.workshop = workshop,
                            .manifest = manifest,
                            .options = options,
                            .outcome = outcome,
                            .journal = {.descriptor = -1}};
    *outcome = (struct driver_outcome){0};
    bool ok = kept_may_replace(options->directory, manifest->name, manifest, err) &&
              ledger_open(manifest, &driver.ledger, err) && open_journal(&driver, err) && compute(&driver, err);
    if (ok && options->shard.n == 0) {
        int32_t n_failed;
        driver.ledger.journals = &driver.journal;
        driver.ledger.stop = options->stop;
        book_clean(options->directory, manifest->name);
        ok = book_write(options->directory, manifest, ledger_source, &driver.ledger, &n_failed, err);
    }
    ledger_close(&driver.ledger);
    journal_close(&driver.journal);
    free(driver.packed);
    free(driver.build);
    free(driver.other_build);
    return ok;
}
