/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/csv_rows.h"
#include "base/file_bytes.h"

enum { STEP, RANK, STAGE, MICRO_BATCH, N_PLACES, FORWARD = N_PLACES, BACKWARD, N_COLUMNS };
static const char *const columns[N_COLUMNS] = {"step", "dp_rank", "stage", "microbatch", "forward_ms", "backward_ms"};

/** A row: step, DP rank, stage and micro-batch; the milliseconds of both passes. */
struct row {
    int64_t place[N_PLACES], line;
    double ms[2];
};

struct table {
    const char *path;
    int32_t n_fields, field[N_COLUMNS]; /* of the header; the field of each column */
    struct row *rows;
    size_t n, capacity;
};

static bool take_header(struct table *table, const struct csv_row *header, struct error *err)
{
    table->n_fields = header->n_fields;
    for (int c = 0; c < N_COLUMNS; c++) {
        int32_t i = 0;
        while (i < header->n_fields && strcmp(header->fields[i], columns[c]) != 0)
            i++;
        if (i == header->n_fields)
            return error_set(err,
                             "%s:%" PRId64 ": no column is called %s; allowed: step, dp_rank, stage, microbatch, "
                             "forward_ms and backward_ms, in any order",
                             table->path, header->line, columns[c]);
        for (int32_t k = i + 1; k < header->n_fields; k++)
            if (strcmp(header->fields[k], columns[c]) == 0)
                return error_set(err, "%s:%" PRId64 ": %s stands twice; allowed: each column once", table->path,
                                 header->line, columns[c]);
        table->field[c] = i;
    }
    return true;
}

static bool take_row(void *context, const struct csv_row *row, struct error *err)
{
    struct table *table = context;
    if (row->n_fields == 0)
        return true;
    if (table->n_fields == 0)
        return take_header(table, row, err);
    if (row->n_fields != table->n_fields)
        return error_set(err, "%s:%" PRId64 ": the row has %d fields, the header has %d", table->path, row->line,
                         row->n_fields, table->n_fields);
    table->rows = check_grow(table->rows, table->n, &table->capacity, sizeof *table->rows);
    struct row *taken = &table->rows[table->n++];
    taken->line = row->line;
    for (int c = 0; c < N_COLUMNS; c++) {
        static const double most[N_COLUMNS] = {0x1p53, 1e6, 1e6, 1e6, 1e9, 1e9};
        const char *text = row->fields[table->field[c]];
        char *end;
        double number = strtod(text, &end);
        bool whole = c < N_PLACES;
        if (*text == '\0' || *end != '\0' || !(number >= 0 && number <= most[c]) || (whole && number != floor(number)))
            return error_set(err, "%s:%" PRId64 ": %s: '%.100s' is not allowed; allowed: a %s from 0 to %g",
                             table->path, row->line, columns[c], text, whole ? "whole number" : "number", most[c]);
        if (whole)
            taken->place[c] = (int64_t)number;
        else
            taken->ms[c - FORWARD] = number;
    }
    return true;
}

static int by_place(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    for (int c = 0; c < N_PLACES; c++)
        if (x->place[c] != y->place[c])
            return COMPARE(x->place[c], y->place[c]);
    return COMPARE(x->line, y->line);
}

/** Check that the sorted rows of a step, n of them, are those of all its places. */
static bool check_places(const struct table *table, const struct row *rows, size_t n, const int64_t size[N_PLACES],
                         struct error *err)
{
    int64_t n_all = size[RANK] * size[STAGE] * size[MICRO_BATCH], missing = 0;
    for (size_t i = 1; i < n; i++)
        if (memcmp(rows[i - 1].place, rows[i].place, sizeof rows->place) == 0)
            return error_set(err,
                             "%s:%" PRId64 ": step %" PRId64 ", dp_rank %" PRId64 ", stage %" PRId64
                             ", microbatch %" PRId64 " stand on line %" PRId64
                             ", too; allowed: one row each, of one job",
                             table->path, rows[i].line, rows[i].place[STEP], rows[i].place[RANK], rows[i].place[STAGE],
                             rows[i].place[MICRO_BATCH], rows[i - 1].line);
    for (size_t i = 0; i < n; i++) {
        const int64_t *place = rows[i].place;
        missing += (place[RANK] * size[STAGE] + place[STAGE]) * size[MICRO_BATCH] + place[MICRO_BATCH] == missing;
    }
    return missing == n_all ||
           error_set(err,
                     "%s: step %" PRId64 " has no row of dp_rank %" PRId64 ", stage %" PRId64 ", microbatch %" PRId64
                     "; allowed: one for each of %" PRId64 " dp_ranks x %" PRId64 " stages x %" PRId64 " microbatches",
                     table->path, rows->place[STEP], missing / size[MICRO_BATCH] / size[STAGE],
                     missing / size[MICRO_BATCH] % size[STAGE], missing % size[MICRO_BATCH], size[RANK], size[STAGE],
                     size[MICRO_BATCH]);
}

/** Return the median of n values, each `stride` behind the one before. */
static double median(const double *values, int32_t stride, int32_t n)
{
    double *sorted = check_malloc((size_t)n * sizeof *sorted);
    for (int32_t i = 0; i < n; i++)
        sorted[i] = values[i * stride];
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    double middle = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    free(sorted);
    return middle;
}

/** Replace a pass's seconds by those of equal passes. */
static void equalise(const struct replay_step *step, enum replay_equal equal, double *seconds)
{
    int32_t n_cells = step->stages * step->micro_batches, n = step->ranks * n_cells;
    bool ranks = equal != REPLAY_EQUAL_STAGES, stages = equal >= REPLAY_EQUAL_STAGES;
    bool micro_batches = equal == REPLAY_EQUAL_LENGTHS || equal == REPLAY_EQUAL_ALL;
    if (equal == REPLAY_EQUAL_NONE)
        return;
    double *sum = check_calloc((size_t)n, sizeof *sum);
    int32_t *first = check_malloc((size_t)n * sizeof *first), *n_equal = check_calloc((size_t)n, sizeof *n_equal);
    for (int32_t i = 0; i < n; i++) {
        int32_t rank = i / n_cells, stage = i % n_cells / step->micro_batches, micro_batch = i % step->micro_batches;
        first[i] = ((ranks ? 0 : rank) * step->stages + (stages ? 0 : stage)) * step->micro_batches +
                   (micro_batches ? 0 : micro_batch);
        sum[first[i]] += seconds[i];
        n_equal[first[i]]++;
    }
    for (int32_t i = 0; i < n_cells && equal == REPLAY_EQUAL_WORKERS; i++)
        sum[i] = step->ranks * median(seconds + i, n_cells, step->ranks);
    for (int32_t i = 0; i < n; i++)
        seconds[i] = sum[first[i]] / n_equal[first[i]];
    free(sum);
    free(first);
    free(n_equal);
}

/** Add the step of n rows. */
static bool add_step(const struct table *table, const struct row *rows, size_t n, struct scenario_replay *replay,
                     struct error *err)
{
    int64_t size[N_PLACES] = {0};
    for (size_t i = 0; i < n; i++)
        for (int c = RANK; c < N_PLACES; c++)
            size[c] = rows[i].place[c] >= size[c] ? rows[i].place[c] + 1 : size[c];
    if (!check_places(table, rows, n, size, err))
        return false;
    replay->steps = check_realloc(replay->steps, (size_t)(replay->n_steps + 1) * sizeof *replay->steps);
    struct replay_step *step = &replay->steps[replay->n_steps++];
    *step = (struct replay_step){.number = rows->place[STEP],
                                 .ranks = (int32_t)size[RANK],
                                 .stages = (int32_t)size[STAGE],
                                 .micro_batches = (int32_t)size[MICRO_BATCH],
                                 .modelled = replay->communication == REPLAY_MODELLED};
    for (int pass = 0; pass < 2; pass++) {
        step->seconds[pass] = check_malloc(n * sizeof *step->seconds[pass]);
        for (size_t i = 0; i < n; i++)
            step->seconds[pass][i] = rows[i].ms[pass] / 1e3;
        equalise(step, (enum replay_equal)replay->equal, step->seconds[pass]);
    }
    return true;
}

static bool add_steps(struct table *table, struct scenario_replay *replay, struct error *err)
{
    bool ok = true;
    if (table->n == 0)
        return error_set(err, "%s: holds no step; allowed: at least one row below the header", table->path);
    qsort(table->rows, table->n, sizeof *table->rows, by_place);
    for (size_t first = 0, end; ok && first < table->n; first = end) {
        int64_t number = table->rows[first].place[STEP];
        end = first;
        while (end < table->n && table->rows[end].place[STEP] == number)
            end++;
        if (replay->step < 0 || replay->step == number)
            ok = add_step(table, table->rows + first, end - first, replay, err);
    }
    if (!ok || replay->n_steps > 0)
        return ok;
    return error_set(err, "%s: holds no step %" PRId64 "; allowed: one of its steps, %" PRId64 " to %" PRId64,
                     table->path, replay->step, table->rows[0].place[STEP], table->rows[table->n - 1].place[STEP]);
}

bool replay_read(struct scenario_replay *replay, struct error *err)
{
    struct table table = {.path = replay->file};
    struct file_bytes file = {0};
    bool ok = file_bytes_load(replay->file, &file, err) &&
              (file.n > 0 || error_set(err, "%s: is empty; allowed: a table of steps", replay->file));
    if (ok) {
        FILE *text = fmemopen(file.bytes, file.n, "r");
        CHECK(text != NULL);
        ok = csv_rows_visit(text, replay->file, CSV_ROWS_COMMENTS, take_row, &table, err);
        fclose(text);
    }
    ok = ok && add_steps(&table, replay, err);
    free(file.bytes);
    free(table.rows);
    return ok;
}

void replay_free(struct scenario_replay *replay)
{
    for (int32_t i = 0; i < replay->n_steps; i++)
        for (int pass = 0; pass < 2; pass++)
            free(replay->steps[i].seconds[pass]);
    free(replay->steps);
    replay->steps = NULL;
    replay->n_steps = 0;
}
