/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/result.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/scenario.h"
#include "sweep/pack.h"

const char *const result_status_name[RESULT_N] = {"done", "failed", "time limit", "killed"};

void result_pack(FILE *file, const struct result *result)
{
    pack_integer(file, (int64_t)result->id);
    pack_integer(file, result->status);
    pack_text(file, result->message != NULL ? result->message : "");
    pack_text(file, result->scenario != NULL ? result->scenario : "");
    pack_integer(file, result->n_systems);
    for (int32_t i = 0; i < result->n_systems; i++)
        pack_text(file, result->label[i]);
    pack_block(file, result->summary, (size_t)result->n_systems * sizeof *result->summary);
    pack_block(file, result->iterations, (size_t)result->n_iterations * sizeof *result->iterations);
    pack_block(file, result->image.bytes, result->image.n_bytes);
}

/** A block as an array of its own; its length must be a multiple of `size`. */
static void *unpack_rows(struct unpack *unpack, size_t size, size_t *n)
{
    size_t n_bytes;
    const void *block = unpack_block(unpack, &n_bytes);
    unpack->ok = unpack->ok && n_bytes % size == 0;
    *n = unpack->ok ? n_bytes / size : 0;
    void *rows = check_malloc(*n * size);
    if (*n > 0)
        memcpy(rows, block, *n * size);
    return rows;
}

enum { MAX_SCENARIO_BYTES = 1 << 24 };

/** Whether every column with names has a number that is one of them. */
static bool names_fit(const struct trace_table *table, const char *row)
{
    for (int32_t c = 0; c < table->n_columns; c++) {
        const struct trace_column *column = &table->columns[c];
        int32_t number;
        if (column->names == NULL || column->names->n == 0)
            continue;
        CHECK(column->type == TRACE_INT32);
        memcpy(&number, row + column->offset, sizeof number);
        if (number < 0 || number >= column->names->n)
            return false;
    }
    return true;
}

/** Whether all numbers that say where something is, and all sizes, are in their ranges. */
static bool fields_fit(const struct result *result)
{
    const struct trace_table *summary = &trace_tables[TRACE_SUMMARY], *iterations = &trace_tables[TRACE_ITERATIONS];
    bool fit =
        strlen(result->message) < sizeof((struct error *)NULL)->text && strlen(result->scenario) < MAX_SCENARIO_BYTES;
    for (int32_t i = 0; i < result->n_systems && fit; i++)
        fit = strlen(result->label[i]) < sizeof((struct scenario_system *)NULL)->label &&
              names_fit(summary, (const char *)&result->summary[i]);
    for (int32_t i = 0; i < result->n_iterations && fit; i++)
        fit = 0 <= result->iterations[i].system && result->iterations[i].system < result->n_systems &&
              names_fit(iterations, (const char *)&result->iterations[i]);
    return fit;
}

bool result_unpack(const void *bytes, size_t n_bytes, struct result *result)
{
    struct unpack unpack = {.at = bytes, .n_left = n_bytes, .ok = true};
    *result = (struct result){.id = (uint64_t)unpack_integer(&unpack)};
    int64_t status = unpack_integer(&unpack);
    result->message = unpack_text(&unpack);
    result->scenario = unpack_text(&unpack);
    int64_t n_systems = unpack_integer(&unpack);
    size_t n_rows, n_iterations;
    if (!unpack.ok || status < 0 || status >= RESULT_N || n_systems < 0 || n_systems > INT32_MAX ||
        (uint64_t)n_systems > n_bytes)
        return false;
    result->status = (enum result_status)status;
    result->label = check_calloc((size_t)n_systems, sizeof *result->label);
    for (; result->n_systems < n_systems; result->n_systems++)
        result->label[result->n_systems] = unpack_text(&unpack);
    result->summary = unpack_rows(&unpack, sizeof *result->summary, &n_rows);
    result->iterations = unpack_rows(&unpack, sizeof *result->iterations, &n_iterations);
    result->image.bytes = unpack_rows(&unpack, 1, &result->image.n_bytes);
    if (!unpack.ok || unpack.n_left != 0 || n_rows != (size_t)n_systems || n_iterations > INT32_MAX)
        return false;
    result->n_iterations = (int32_t)n_iterations;
    return fields_fit(result);
}

void result_free(struct result *result)
{
    for (int32_t i = 0; i < result->n_systems; i++)
        free(result->label[i]);
    free(result->label);
    free(result->message);
    free(result->scenario);
    free(result->summary);
    free(result->iterations);
    free(result->image.bytes);
    *result = (struct result){0};
}
