/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/scenario.h"
#include "sweep/pack.h"
#include "trace/table.h"

void manifest_of_sweep(const struct sweep *sweep, struct manifest *manifest)
{
    size_t n_points = (size_t)sweep->n_points, n_columns = (size_t)sweep->n_columns;
    *manifest = (struct manifest){.n_points = sweep->n_points, .n_columns = sweep->n_columns};
    manifest->scenario = document_text(&sweep->document, 0);
    manifest->column = check_calloc(n_columns, sizeof *manifest->column);
    for (int32_t i = 0; i < sweep->n_columns; i++)
        manifest->column[i] = check_strdup(sweep->column[i]);
    manifest->note = check_calloc((size_t)sweep->n_exclusions, sizeof *manifest->note);
    for (int32_t i = 0; i < sweep->n_exclusions; i++) {
        const struct exclusion *exclusion = &sweep->exclusions[i];
        manifest->note[i] = check_asprintf("%d points excluded: %s", exclusion->n_points, exclusion->reason);
    }
    manifest->n_notes = sweep->n_exclusions;
    manifest->id = check_calloc(n_points, sizeof *manifest->id);
    manifest->value = check_calloc(n_points * n_columns, sizeof *manifest->value);
    for (size_t i = 0; i < n_points * n_columns; i++)
        manifest->value[i] = sweep_value(sweep, (int32_t)(i / n_columns), (int32_t)(i % n_columns));
}

static void pack_texts(FILE *file, char *const *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pack_text(file, text[i]);
}

void manifest_pack(FILE *file, const struct manifest *manifest)
{
    pack_text(file, manifest->name);
    pack_text(file, manifest->command);
    pack_text(file, manifest->scenario);
    pack_integer(file, manifest->n_points);
    pack_integer(file, manifest->n_columns);
    pack_integer(file, manifest->n_notes);
    pack_texts(file, manifest->column, (size_t)manifest->n_columns);
    pack_texts(file, manifest->note, (size_t)manifest->n_notes);
    pack_texts(file, manifest->value, (size_t)manifest->n_points * (size_t)manifest->n_columns);
    pack_block(file, manifest->id, (size_t)manifest->n_points * sizeof *manifest->id);
}

static char **unpack_texts(struct unpack *unpack, size_t n)
{
    char **text = check_calloc(n, sizeof *text);
    for (size_t i = 0; i < n; i++)
        text[i] = unpack_text(unpack);
    return text;
}

enum {
    MAX_KEYS = 1000,
    MAX_KEY_BYTES = 100,       /* of a column of HDF5, in whose attributes' names it stands */
    MAX_VALUE_BYTES = 1 << 16, /* every point has as many bytes as the longest */
    MAX_NOTES_BYTES = 1 << 26  /* likewise every note */
};

/** Whether it is a key of a scenario, as "data.context". */
static bool is_key(const char *text)
{
    size_t n = strlen(text);
    return 0 < n && n < MAX_KEY_BYTES &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == n;
}

/** Whether the names can be those of files and of columns: a table has no two of one name. */
static bool names_fit(const struct manifest *manifest)
{
    static const char *const taken[] = {"point", "id", "status", "message", "scenario", "command"};
    size_t n_name = strlen(manifest->name);
    bool fit = 0 < n_name && n_name < sizeof((struct scenario *)NULL)->name && *manifest->name != '.' &&
               strchr(manifest->name, '/') == NULL;
    for (int32_t c = 0; c < manifest->n_columns && fit; c++) {
        const char *key = manifest->column[c];
        fit = is_key(key) && !trace_table_has(TRACE_SUMMARY, key) && !trace_table_has(TRACE_ITERATIONS, key);
        for (size_t i = 0; i < sizeof taken / sizeof *taken && fit; i++)
            fit = strcmp(key, taken[i]) != 0;
        for (int32_t other = 0; other < c && fit; other++)
            fit = strcmp(key, manifest->column[other]) != 0;
    }
    return fit;
}

/** Whether the texts are of a length that their tables can have. */
static bool texts_fit(const struct manifest *manifest)
{
    size_t longest = 0, n_values = (size_t)manifest->n_points * (size_t)manifest->n_columns;
    for (int32_t i = 0; i < manifest->n_notes; i++)
        longest = strlen(manifest->note[i]) > longest ? strlen(manifest->note[i]) : longest;
    bool fit = (size_t)manifest->n_notes * longest <= MAX_NOTES_BYTES;
    for (size_t i = 0; i < n_values && fit; i++)
        fit = strlen(manifest->value[i]) < MAX_VALUE_BYTES;
    return fit;
}

bool manifest_unpack(const void *bytes, size_t n_bytes, struct manifest *manifest)
{
    struct unpack unpack = {.at = bytes, .n_left = n_bytes, .ok = true};
    *manifest = (struct manifest){.name = unpack_text(&unpack)};
    manifest->command = unpack_text(&unpack);
    manifest->scenario = unpack_text(&unpack);
    int64_t n_points = unpack_integer(&unpack), n_columns = unpack_integer(&unpack), n_notes = unpack_integer(&unpack);
    bool small = 0 < n_points && n_points <= AXIS_MAX_POINTS && 0 <= n_columns && n_columns <= MAX_KEYS &&
                 0 <= n_notes && n_notes <= INT32_MAX && (uint64_t)n_notes <= n_bytes &&
                 (uint64_t)(n_points * n_columns) <= n_bytes;
    if (!unpack.ok || !small)
        return false;
    manifest->n_points = (int32_t)n_points;
    manifest->n_columns = (int32_t)n_columns;
    manifest->n_notes = (int32_t)n_notes;
    manifest->column = unpack_texts(&unpack, (size_t)n_columns);
    manifest->note = unpack_texts(&unpack, (size_t)n_notes);
    manifest->value = unpack_texts(&unpack, (size_t)(n_points * n_columns));
    manifest->id = check_calloc((size_t)n_points, sizeof *manifest->id);
    size_t id_bytes;
    const void *ids = unpack_block(&unpack, &id_bytes);
    if (!unpack.ok || unpack.n_left != 0 || id_bytes != (size_t)n_points * sizeof *manifest->id)
        return false;
    memcpy(manifest->id, ids, id_bytes);
    return names_fit(manifest) && texts_fit(manifest);
}

void manifest_print(const struct manifest *manifest)
{
    for (int32_t i = 0; i < manifest->n_points; i++) {
        printf("%d  %016" PRIx64, i, manifest->id[i]);
        for (int32_t c = 0; c < manifest->n_columns; c++)
            printf("  %s=%s", manifest->column[c], manifest_value(manifest, i, c));
        putchar('\n');
    }
    for (int32_t i = 0; i < manifest->n_notes; i++)
        puts(manifest->note[i]);
    printf("%d points\n", manifest->n_points);
}

char *manifest_command(const struct manifest *manifest, int32_t point)
{
    return check_asprintf("%s --point %d", manifest->command, point);
}

static void free_texts(char **text, size_t n)
{
    for (size_t i = 0; text != NULL && i < n; i++)
        free(text[i]);
    free(text);
}

void manifest_free(struct manifest *manifest)
{
    free_texts(manifest->column, (size_t)manifest->n_columns);
    free_texts(manifest->note, (size_t)manifest->n_notes);
    free_texts(manifest->value, (size_t)manifest->n_points * (size_t)manifest->n_columns);
    free(manifest->name);
    free(manifest->command);
    free(manifest->scenario);
    free(manifest->id);
    *manifest = (struct manifest){0};
}
