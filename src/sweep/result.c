/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/result.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
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

bool result_unpack(const void *bytes, size_t n_bytes, struct result *result)
{
    struct unpack unpack = {.at = bytes, .n_left = n_bytes, .ok = true};
    *result = (struct result){.id = (uint64_t)unpack_integer(&unpack)};
    int64_t status = unpack_integer(&unpack);
    result->message = unpack_text(&unpack);
    result->scenario = unpack_text(&unpack);
    int64_t n_systems = unpack_integer(&unpack);
    size_t n_rows, n_iterations;
    if (!unpack.ok || status < 0 || status >= RESULT_N || n_systems < 0 || (uint64_t)n_systems > n_bytes)
        return false;
    result->status = (enum result_status)status;
    result->label = check_calloc((size_t)n_systems, sizeof *result->label);
    for (; result->n_systems < n_systems; result->n_systems++)
        result->label[result->n_systems] = unpack_text(&unpack);
    result->summary = unpack_rows(&unpack, sizeof *result->summary, &n_rows);
    result->iterations = unpack_rows(&unpack, sizeof *result->iterations, &n_iterations);
    result->image.bytes = unpack_rows(&unpack, 1, &result->image.n_bytes);
    result->n_iterations = (int32_t)n_iterations;
    return unpack.ok && unpack.n_left == 0 && n_rows == (size_t)n_systems;
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
