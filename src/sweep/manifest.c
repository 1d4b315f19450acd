/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/scenario.h"
#include "sweep/journal.h"
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
        journal_put_text(file, text[i]);
}

void manifest_pack(FILE *file, const struct manifest *manifest)
{
    journal_put_text(file, manifest->name);
    journal_put_text(file, manifest->command);
    journal_put_text(file, manifest->scenario);
    journal_put_integer(file, manifest->n_points);
    journal_put_integer(file, manifest->n_columns);
    journal_put_integer(file, manifest->n_notes);
    pack_texts(file, manifest->column, (size_t)manifest->n_columns);
    pack_texts(file, manifest->note, (size_t)manifest->n_notes);
    pack_texts(file, manifest->value, (size_t)manifest->n_points * (size_t)manifest->n_columns);
    journal_put_block(file, manifest->id, (size_t)manifest->n_points * sizeof *manifest->id);
}

static char **unpack_texts(struct journal_fields *fields, size_t n, size_t size)
{
    char **text = check_calloc(n, sizeof *text);
    for (size_t i = 0; i < n; i++)
        text[i] = journal_take_text(fields, size);
    return text;
}

enum {
    MAX_TEXT_BYTES = 1 << 24, /* of a command or a scenario */
    MAX_KEYS = 1000,
    MAX_KEY_BYTES = 100,       /* of a column of HDF5, since names of attributes contain it */
    MAX_VALUE_BYTES = 1 << 16, /* every point takes the bytes of the longest */
    MAX_NOTES_BYTES = 1 << 26  /* every note takes the bytes of the longest, too */
};

/** Return whether the text is a key of a scenario, such as "data.context". */
static bool is_key(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == n;
}

/** Return whether files and columns can have the names. A table has no two columns of one name. */
static bool names_fit(const struct manifest *manifest)
{
    static const char *const taken[] = {"point", "id", "status", "message", "scenario", "command"};
    bool fit = *manifest->name != '\0' && *manifest->name != '.' && strchr(manifest->name, '/') == NULL;
    for (int32_t c = 0; c < manifest->n_columns && fit; c++) {
        const char *key = manifest->column[c];
        fit = is_key(key) && trace_column_find(TRACE_SUMMARY, key) == NULL &&
              trace_column_find(TRACE_ITERATIONS, key) == NULL;
        for (size_t i = 0; i < sizeof taken / sizeof *taken && fit; i++)
            fit = strcmp(key, taken[i]) != 0;
        for (int32_t other = 0; other < c && fit; other++)
            fit = strcmp(key, manifest->column[other]) != 0;
    }
    return fit;
}

/** Return whether the notes fit into their table. */
static bool notes_fit(const struct manifest *manifest)
{
    size_t longest = 0;
    for (int32_t i = 0; i < manifest->n_notes; i++)
        longest = strlen(manifest->note[i]) > longest ? strlen(manifest->note[i]) : longest;
    return (size_t)manifest->n_notes * longest <= MAX_NOTES_BYTES;
}

/** Return the largest number of texts that can follow. Each has its length before it. */
static int64_t most_texts(const struct journal_fields *fields, int64_t limit)
{
    int64_t most = (int64_t)(fields->n_left / sizeof(int64_t));
    return most < limit ? most : limit;
}

bool manifest_unpack(const void *bytes, size_t n_bytes, struct manifest *manifest)
{
    struct journal_fields fields = {.at = bytes, .n_left = n_bytes, .ok = true};
    size_t n_ids;
    *manifest = (struct manifest){.name = journal_take_text(&fields, sizeof((struct scenario *)NULL)->name)};
    manifest->command = journal_take_text(&fields, MAX_TEXT_BYTES);
    manifest->scenario = journal_take_text(&fields, MAX_TEXT_BYTES);
    int64_t n_points = journal_take_integer(&fields, 1, most_texts(&fields, AXIS_MAX_POINTS));
    int64_t n_columns = journal_take_integer(&fields, 0, most_texts(&fields, MAX_KEYS));
    int64_t n_notes = journal_take_integer(&fields, 0, most_texts(&fields, INT32_MAX));
    if (!fields.ok || n_points * n_columns > most_texts(&fields, INT64_MAX))
        return false;
    manifest->n_points = (int32_t)n_points;
    manifest->n_columns = (int32_t)n_columns;
    manifest->n_notes = (int32_t)n_notes;
    manifest->column = unpack_texts(&fields, (size_t)n_columns, MAX_KEY_BYTES);
    manifest->note = unpack_texts(&fields, (size_t)n_notes, MAX_NOTES_BYTES);
    manifest->value = unpack_texts(&fields, (size_t)(n_points * n_columns), MAX_VALUE_BYTES);
    manifest->id = journal_take_rows(&fields, sizeof *manifest->id, (size_t)n_points, &n_ids);
    return journal_took_all(&fields) && n_ids == (size_t)n_points && names_fit(manifest) && notes_fit(manifest);
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
