/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/measured.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/csv_rows.h"
#include "base/text.h"
#include "scenario/scenario.h"
#include "trace/csv.h"

/** A file that is being read, with the number of rows that fit into memory. */
struct reading {
    struct measured *measured;
    size_t rows_capacity;
};

/** Take the first row, which names the columns. */
static bool take_header(struct measured *measured, const struct csv_row *row, struct error *err)
{
    for (int32_t i = 0; i < row->n_fields; i++)
        for (int32_t j = 0; j < i; j++)
            if (strcmp(row->fields[i], row->fields[j]) == 0)
                return error_set(err, "%s:%" PRId64 ": column '%s' appears twice in the header", measured->path,
                                 row->line, row->fields[i]);
    measured->n_columns = row->n_fields;
    measured->columns = check_malloc((size_t)row->n_fields * sizeof(char *));
    for (int32_t i = 0; i < row->n_fields; i++)
        measured->columns[i] = text_clean(check_strdup(csv_text(row->fields[i])));
    return true;
}

/** Return whether a row is a comment without commas, or an empty row of a spreadsheet. */
static bool holds_nothing(const struct csv_row *row)
{
    bool empty = true;
    for (int32_t i = 0; i < row->n_fields; i++)
        empty = empty && *row->fields[i] == '\0';
    return empty || (row->n_fields == 1 && *row->fields[0] == '#');
}

static bool take_row(void *context, const struct csv_row *row, struct error *err)
{
    struct reading *reading = context;
    struct measured *measured = reading->measured;
    size_t n_columns = (size_t)measured->n_columns, n_rows = (size_t)measured->n_rows;
    if (row->n_fields < 1 || (n_columns > 1 && holds_nothing(row)))
        return true;
    if (n_columns == 0)
        return take_header(measured, row, err);
    if (row->n_fields != measured->n_columns)
        return error_set(err, "%s:%" PRId64 ": the row has %d fields, but the header has %d columns", measured->path,
                         row->line, row->n_fields, measured->n_columns);
    if (n_rows == reading->rows_capacity) {
        reading->rows_capacity = n_rows == 0 ? 64 : 2 * n_rows;
        measured->lines = check_realloc(measured->lines, reading->rows_capacity * sizeof(int32_t));
        measured->cells = check_realloc(measured->cells, reading->rows_capacity * n_columns * sizeof(char *));
    }
    for (size_t i = 0; i < n_columns; i++)
        measured->cells[n_rows * n_columns + i] = text_clean(check_strdup(csv_text(row->fields[i])));
    measured->lines[measured->n_rows++] = (int32_t)row->line;
    return true;
}

bool measured_read(const char *path, struct measured *measured, struct error *err)
{
    *measured = (struct measured){.path = check_strdup(path)};
    struct reading reading = {.measured = measured};
    FILE *file = fopen(path, "r");
    bool ok = file != NULL ? csv_rows_visit(file, path, CSV_ROWS_COMMENTS, take_row, &reading, err)
                           : error_set(err, "%s: cannot be read: %s", path, strerror(errno));
    if (file != NULL)
        fclose(file);
    if (ok && measured->n_rows == 0)
        ok = error_set(err, "%s: the file has no rows", path);
    if (!ok)
        measured_free(measured);
    return ok;
}

int32_t measured_column(const struct measured *measured, const char *name)
{
    for (int32_t i = 0; i < measured->n_columns; i++)
        if (strcmp(measured->columns[i], name) == 0)
            return i;
    return -1;
}

const char *measured_text(const struct measured *measured, int32_t row, const char *name)
{
    int32_t column = measured_column(measured, name);
    CHECK(0 <= row && row < measured->n_rows);
    return column < 0 ? "" : measured->cells[(size_t)row * (size_t)measured->n_columns + (size_t)column];
}

/** Copy a number without the commas that separate thousands: "1,024.5" is 1024.5. */
static void copy_number(const char *text, char plain[64])
{
    size_t n = strspn(text, "0123456789"), digits = n;
    snprintf(plain, 64, "%.*s", (int)n, text);
    for (text += n; 0 < digits && digits <= 3 && n < 60 && *text == ',' && strspn(text + 1, "0123456789") == 3;
         text += 4, n += 3)
        memcpy(plain + n, text + 1, 4);
    plain[n < 64 ? n : 63] = '\0';
    snprintf(plain + strlen(plain), 64 - strlen(plain), "%s", text);
}

bool measured_number(const struct measured *measured, int32_t row, const char *name, double *value, struct error *err)
{
    const char *text = measured_text(measured, row, name);
    char plain[64], *end;
    copy_number(text, plain);
    *value = strtod(plain, &end);
    if (*text == '\0' || (*end == '\0' && strspn(text, "0123456789.") > 0 && strpbrk(text, "xX") == NULL &&
                          strlen(text) < sizeof plain && isfinite(*value)))
        return true;
    *value = 0;
    return error_add(err, "%s:%d: %s: '%.100s' is not a number; allowed: a number of at least 0", measured->path,
                     (int)measured->lines[row], name, text);
}

void measured_free(struct measured *measured)
{
    for (int32_t i = 0; i < measured->n_columns; i++)
        free(measured->columns[i]);
    for (int64_t i = 0; i < (int64_t)measured->n_rows * measured->n_columns; i++)
        free(measured->cells[i]);
    free(measured->path);
    free(measured->columns);
    free(measured->cells);
    free(measured->lines);
    *measured = (struct measured){0};
}

bool measured_read_shipped(const char *name, struct measured *measured, struct error *err)
{
    char path[1024];
    if (snprintf(path, sizeof path, "%s/model/validation/%s", scenario_data_dir(), name) >= (int)sizeof path)
        return error_set(err, "the path of the data folder is too long");
    return measured_read(path, measured, err);
}
