/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/finished_points.h"

#include <gsl/gsl_version.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/hash.h"
#include "dag/graph.h"
#include "execute/execute.h"
#include "scenario/scenario.h"
#include "trace/trace.h"

const char *const result_status_name[RESULT_N] = {"done", "failed", "time limit", "killed"};

enum { MAX_SCENARIO_BYTES = 1 << 24, MAX_SYSTEMS = 1 << 16 };

void point_result_pack(FILE *file, const struct point_result *result)
{
    journal_put_integer(file, (int64_t)result->id);
    journal_put_integer(file, result->status);
    journal_put_text(file, result->message != NULL ? result->message : "");
    journal_put_text(file, result->scenario != NULL ? result->scenario : "");
    journal_put_integer(file, result->longest_tokens);
    journal_put_integer(file, result->n_systems);
    for (int32_t i = 0; i < result->n_systems; i++)
        journal_put_text(file, result->label[i]);
    journal_put_block(file, result->summary, (size_t)result->n_systems * sizeof *result->summary);
    journal_put_block(file, result->standings, (size_t)result->n_systems * sizeof *result->standings);
    journal_put_block(file, result->iterations, (size_t)result->n_iterations * sizeof *result->iterations);
    journal_put_block(file, result->free_costs, (size_t)result->n_priced * sizeof *result->free_costs);
    journal_put_block(file, result->image.bytes, result->image.n_bytes);
}

bool point_result_fits(const struct point_result *result)
{
    bool fit = true;
    for (int32_t i = 0; i < result->n_systems && fit; i++) {
        const struct standing *standing = &result->standings[i];
        fit = trace_row_fits(&trace_tables[TRACE_SUMMARY], &result->summary[i], result->n_systems) &&
              0 <= standing->system && standing->system < result->n_systems && 0 <= standing->rank &&
              standing->rank <= result->n_systems;
    }
    for (int32_t i = 0; i < result->n_iterations && fit; i++)
        fit = trace_row_fits(&trace_tables[TRACE_ITERATIONS], &result->iterations[i], result->n_systems);
    return fit;
}

bool point_result_unpack(const void *bytes, size_t n_bytes, struct point_result *result)
{
    struct journal_fields fields = {.at = bytes, .n_left = n_bytes, .ok = true};
    size_t n_summaries, n_standings, n_iterations, n_priced;
    *result = (struct point_result){.id = (uint64_t)journal_take_integer(&fields, INT64_MIN, INT64_MAX)};
    result->status = (enum result_status)journal_take_integer(&fields, 0, RESULT_N - 1);
    result->message = journal_take_text(&fields, sizeof((struct error *)NULL)->text);
    result->scenario = journal_take_text(&fields, MAX_SCENARIO_BYTES);
    result->longest_tokens = journal_take_integer(&fields, 0, INT64_MAX);
    result->n_systems = (int32_t)journal_take_integer(&fields, 0, MAX_SYSTEMS);
    result->label = check_calloc((size_t)result->n_systems, sizeof *result->label);
    for (int32_t i = 0; i < result->n_systems; i++)
        result->label[i] = journal_take_text(&fields, sizeof((struct scenario_system *)NULL)->label);
    result->summary = journal_take_rows(&fields, sizeof *result->summary, MAX_SYSTEMS, &n_summaries);
    result->standings = journal_take_rows(&fields, sizeof *result->standings, MAX_SYSTEMS, &n_standings);
    result->iterations = journal_take_rows(&fields, sizeof *result->iterations, INT32_MAX, &n_iterations);
    result->free_costs = journal_take_rows(&fields, sizeof *result->free_costs, MAX_SYSTEMS, &n_priced);
    result->image.bytes = journal_take_rows(&fields, 1, SIZE_MAX, &result->image.n_bytes);
    result->n_iterations = (int32_t)n_iterations;
    result->n_priced = (int32_t)n_priced;
    bool done = result->status == RESULT_DONE;
    return journal_took_all(&fields) && n_summaries == (size_t)result->n_systems && (result->n_systems > 0) == done &&
           (done || (n_iterations == 0 && result->image.n_bytes == 0)) && n_standings == n_summaries &&
           (n_priced == 0 || n_priced == n_summaries) && point_result_fits(result);
}

struct point_result point_result_copy(const struct point_result *result)
{
    struct point_result copy;
    char *bytes = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&bytes, &n_bytes);
    point_result_pack(file, result);
    CHECK(fclose(file) == 0);
    CHECK(point_result_unpack(bytes, n_bytes, &copy));
    free(bytes);
    return copy;
}

void point_result_free(struct point_result *result)
{
    for (int32_t i = 0; i < result->n_systems; i++)
        free(result->label[i]);
    free(result->label);
    free(result->message);
    free(result->scenario);
    free(result->summary);
    free(result->standings);
    free(result->iterations);
    free(result->free_costs);
    free(result->image.bytes);
    *result = (struct point_result){0};
}

struct sorted_id {
    uint64_t id;
    int32_t point;
};

static int compare_ids(const void *a, const void *b)
{
    const struct sorted_id *left = a, *right = b;
    return left->id != right->id ? COMPARE(left->id, right->id) : COMPARE(left->point, right->point);
}

/** Compare by id only, as bsearch needs it. Every id occurs once. */
static int compare_id(const void *key, const void *entry)
{
    return COMPARE(*(const uint64_t *)key, ((const struct sorted_id *)entry)->id);
}

/** Name the build that computes results: version, hash of the program, its libraries. The caller frees the text. */
static char *build_text(void)
{
    struct error err = {0};
    uint64_t hash = HASH_START;
    hash_file("/proc/self/exe", &hash, &err); /* without /proc the versions must suffice */
    return check_asprintf("slimsim %s (program %016" PRIx64 ", SimGrid %s, igraph %s, GSL %s, HDF5 %s)",
                          SLIMSIM_VERSION, hash, execute_simgrid_version(), graph_igraph_version(), gsl_version,
                          trace_hdf5_version());
}

bool finished_points_open(const struct manifest *manifest, struct finished_points *points, struct error *err)
{
    size_t n = (size_t)manifest->n_points;
    *points = (struct finished_points){.manifest = manifest, .build = build_text()};
    points->sorted = check_calloc(n, sizeof *points->sorted);
    points->entries = check_calloc(n, sizeof *points->entries);
    for (int32_t i = 0; i < manifest->n_points; i++) {
        points->sorted[i] = (struct sorted_id){manifest->id[i], i};
        points->entries[i].journal = -1;
    }
    qsort(points->sorted, n, sizeof *points->sorted, compare_ids);
    for (size_t i = 1; i < n; i++)
        if (points->sorted[i].id == points->sorted[i - 1].id)
            return error_set(err,
                             "sweep: points %d and %d are the same scenario; a list has a value twice, or one key "
                             "overrides another",
                             points->sorted[i - 1].point, points->sorted[i].point);
    return true;
}

static bool report_damage(const struct journal *journal, int64_t offset, struct error *err)
{
    return error_set(err,
                     "%s: the result at byte %" PRId64 " is damaged; remove this file, and its sweep computes the "
                     "points again",
                     journal->path, offset);
}

/** Return the point of a packed result; -1: it is no point of this manifest. */
static int32_t find_point(const struct finished_points *points, const void *payload, size_t n_bytes)
{
    struct journal_fields fields = {.at = payload, .n_left = n_bytes, .ok = true};
    uint64_t id = (uint64_t)journal_take_integer(&fields, INT64_MIN, INT64_MAX);
    const struct sorted_id *found =
        bsearch(&id, points->sorted, (size_t)points->manifest->n_points, sizeof *points->sorted, compare_id);
    return fields.ok && found != NULL ? found->point : -1;
}

/** Enter the place of a point's result. It replaces an earlier entry. @param place  journal, offset and size */
static bool enter(struct finished_points *points, int32_t point, struct finished_point place, const void *payload,
                  struct error *err)
{
    struct point_result result;
    bool ok = point_result_unpack(payload, place.n_bytes, &result);
    if (ok) {
        place.status = result.status;
        place.message_bytes = strlen(result.message);
        place.scenario_bytes = strlen(result.scenario);
        points->entries[point] = place;
    }
    point_result_free(&result);
    return ok || report_damage(&points->journals[place.journal], place.offset, err);
}

static bool visit_result(struct finished_points *points, int64_t offset, const void *payload, size_t n_bytes,
                         struct error *err)
{
    int32_t point = find_point(points, payload, n_bytes), last = points->n_journals - 1;
    int32_t before = point >= 0 ? points->entries[point].journal : -1;
    if (point < 0)
        return true;
    if (points->same_build && before >= 0 && before != last)
        return error_set(err, "%s: point %d is also in %s; give each shard once", points->journals[last].path, point,
                         points->journals[before].path);
    if (points->same_build)
        return enter(points, point, (struct finished_point){.journal = last, .offset = offset, .n_bytes = n_bytes},
                     payload, err);
    points->entries[point].outdated = before < 0;
    return true;
}

/** Return whether a payload equals these bytes. */
static bool is_same(const void *payload, size_t n_bytes, const void *bytes, size_t n)
{
    return n_bytes == n && memcmp(payload, bytes, n) == 0;
}

static bool visit(void *context, enum journal_kind kind, int64_t offset, const void *payload, size_t n_bytes,
                  struct error *err)
{
    struct finished_points *points = context;
    if (kind == JOURNAL_RESULT)
        return visit_result(points, offset, payload, n_bytes, err);
    if (kind == JOURNAL_BUILD)
        points->same_build = is_same(payload, n_bytes, points->build, strlen(points->build));
    if (kind == JOURNAL_BUILD && !points->same_build && points->other_build == NULL)
        points->other_build = check_strndup(payload, n_bytes);
    return true;
}

/** Add a journal, which is not open yet. */
static struct journal *add_journal(struct finished_points *points)
{
    size_t n = (size_t)points->n_journals++;
    points->journals = check_realloc(points->journals, (n + 1) * sizeof *points->journals);
    points->journals[n] = (struct journal){.descriptor = -1};
    points->same_build = false;
    return &points->journals[n];
}

/** This is the journal that is resumed, while it is read. */
struct resumed {
    struct finished_points *points;
    char *manifest; /* of this sweep, packed */
    size_t n_bytes;
    bool same_manifest; /* the last manifest in the journal equals this one */
};

static bool visit_resumed(void *context, enum journal_kind kind, int64_t offset, const void *payload, size_t n_bytes,
                          struct error *err)
{
    struct resumed *resumed = context;
    if (kind == JOURNAL_MANIFEST)
        resumed->same_manifest = is_same(payload, n_bytes, resumed->manifest, resumed->n_bytes);
    return visit(resumed->points, kind, offset, payload, n_bytes, err);
}

bool finished_points_resume(struct finished_points *points, const char *path, struct error *err)
{
    struct journal *journal = add_journal(points);
    struct resumed resumed = {.points = points};
    FILE *file = check_memstream(&resumed.manifest, &resumed.n_bytes);
    manifest_pack(file, points->manifest);
    CHECK(fclose(file) == 0);
    bool ok = journal_open(path, visit_resumed, &resumed, journal, err);
    if (ok && !points->same_build)
        ok = journal_append(journal, JOURNAL_BUILD, points->build, strlen(points->build), err);
    if (ok && !resumed.same_manifest)
        ok = journal_append(journal, JOURNAL_MANIFEST, resumed.manifest, resumed.n_bytes, err);
    free(resumed.manifest);
    return ok;
}

bool finished_points_append(struct finished_points *points, const void *payload, size_t n_bytes, struct error *err)
{
    struct journal *journal = &points->journals[0];
    int32_t point = find_point(points, payload, n_bytes);
    CHECK(point >= 0);
    if (!journal_append(journal, JOURNAL_RESULT, payload, n_bytes, err))
        return false;
    struct finished_point place = {.offset = journal->end - (int64_t)n_bytes, .n_bytes = n_bytes};
    CHECK(enter(points, point, place, payload, err));
    return true;
}

bool finished_points_read(struct finished_points *points, const char *path, struct error *err)
{
    return journal_read(path, visit, points, add_journal(points), err);
}

bool finished_points_result(const struct finished_points *points, int32_t point, struct point_result *result,
                            struct error *err)
{
    const struct finished_point *entry = &points->entries[point];
    const struct journal *journal = &points->journals[entry->journal];
    void *payload = journal_payload(journal, entry->offset, entry->n_bytes, err);
    *result = (struct point_result){0};
    if (payload == NULL)
        return false;
    bool ok = point_result_unpack(payload, entry->n_bytes, result) && result->id == points->manifest->id[point] &&
              strlen(result->message) == entry->message_bytes && strlen(result->scenario) == entry->scenario_bytes &&
              (result->image.n_bytes == 0 || trace_image_fits(result->image.bytes, result->image.n_bytes));
    free(payload);
    return ok || report_damage(journal, entry->offset, err);
}

/** A message of failed points. */
struct failure {
    char *message;
    int32_t first, n; /* its first point, and their number */
};

enum { MOST_FAILURES = 5 };

/** Count a failed point's message. @return the number of different messages, at most MOST_FAILURES */
static int32_t count_failure(struct failure failures[MOST_FAILURES], int32_t n, int32_t point, const char *message)
{
    int32_t i = 0;
    while (i < n && strcmp(failures[i].message, message) != 0)
        i++;
    if (i < n)
        failures[i].n++;
    else if (n < MOST_FAILURES)
        failures[n++] = (struct failure){check_strdup(message), point, 1};
    return n;
}

static void add_failure(const struct manifest *manifest, const struct failure *failure, struct error *failures)
{
    char keys[256] = "", number[64] = "";
    for (int32_t c = 0; c < manifest->n_columns; c++) {
        size_t used = strlen(keys);
        snprintf(keys + used, sizeof keys - used, "%s%s=%s", c > 0 ? ", " : "", manifest->column[c],
                 manifest_value(manifest, failure->first, c));
    }
    if (failure->n > 1)
        snprintf(number, sizeof number, " and %d more", failure->n - 1);
    error_add(failures, "point %d (%s)%s: %.*s", failure->first, keys, number, (int)strcspn(failure->message, "\n"),
              failure->message);
}

bool finished_points_failures(const struct finished_points *points, int32_t n_points, const char *file,
                              struct error *failures, struct error *err)
{
    struct failure list[MOST_FAILURES];
    int32_t n = 0, n_failed = 0, n_listed = 0;
    bool ok = true;
    for (int32_t i = 0; ok && i < points->manifest->n_points; i++) {
        struct point_result result;
        if (points->entries[i].journal < 0 || points->entries[i].status == RESULT_DONE)
            continue;
        ok = finished_points_result(points, i, &result, err);
        n_failed++;
        if (ok)
            n = count_failure(list, n, i, result.message);
        point_result_free(&result);
    }
    if (ok && n_failed > 0)
        error_set_status(failures, ERROR_FAILED, "%d of %d points failed", n_failed, n_points);
    for (int32_t i = 0; i < n; i++) {
        n_listed += list[i].n;
        if (ok)
            add_failure(points->manifest, &list[i], failures);
        free(list[i].message);
    }
    if (ok && n_listed < n_failed)
        error_add(failures, "%d more points have other messages", n_failed - n_listed);
    if (ok && n_failed > 0 && file != NULL)
        error_add(failures, "%s has the messages of all points", file);
    return ok;
}

void finished_points_close(struct finished_points *points)
{
    for (int32_t i = 0; i < points->n_journals; i++)
        journal_close(&points->journals[i]);
    free(points->journals);
    free(points->sorted);
    free(points->entries);
    free(points->build);
    free(points->other_build);
    *points = (struct finished_points){0};
}
