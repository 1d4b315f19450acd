/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/measured.h"

#include <csv.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/scenario.h"

/** Where the parser is: fields of the row in work go into `fields`. */
struct reading {
    struct measured *measured;
    struct error *err;
    size_t n_fields, fields_capacity, rows_capacity;
    char **fields;
    int32_t line, row_line; /* now; where the row in work began, 0: none has */
    bool failed;
};

static void take_field(void *text, size_t bytes, void *context)
{
    struct reading *reading = context;
    reading->fields = check_grow(reading->fields, reading->n_fields, &reading->fields_capacity, sizeof(char *));
    char *field = check_malloc(bytes + 1);
    memcpy(field, text, bytes);
    field[bytes] = '\0';
    reading->fields[reading->n_fields++] = field;
}

/** The first row names the columns. */
static bool take_header(struct reading *reading)
{
    struct measured *measured = reading->measured;
    for (size_t i = 0; i < reading->n_fields; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(reading->fields[i], reading->fields[j]) == 0)
                return error_set(reading->err, "%s:%d: column '%s' stands twice in the header", measured->path,
                                 reading->row_line, reading->fields[i]);
    measured->n_columns = (int32_t)reading->n_fields;
    measured->columns = check_malloc(reading->n_fields * sizeof(char *));
    memcpy(measured->columns, reading->fields, reading->n_fields * sizeof(char *));
    reading->n_fields = 0;
    return true;
}

static bool take_row(struct reading *reading)
{
    struct measured *measured = reading->measured;
    size_t n_columns = (size_t)measured->n_columns, n_rows = (size_t)measured->n_rows;
    if (reading->n_fields != n_columns)
        return error_set(reading->err, "%s:%d: %zu fields; the header has %zu columns", measured->path,
                         reading->row_line, reading->n_fields, n_columns);
    if (n_rows == reading->rows_capacity) {
        reading->rows_capacity = n_rows == 0 ? 64 : 2 * n_rows;
        measured->lines = check_realloc(measured->lines, reading->rows_capacity * sizeof(int32_t));
        measured->cells = check_realloc(measured->cells, reading->rows_capacity * n_columns * sizeof(char *));
    }
    memcpy(measured->cells + n_rows * n_columns, reading->fields, n_columns * sizeof(char *));
    measured->lines[measured->n_rows++] = reading->row_line;
    reading->n_fields = 0;
    return true;
}

static void end_row(int terminator, void *context)
{
    (void)terminator;
    struct reading *reading = context;
    if (!reading->failed && reading->n_fields > 0)
        reading->failed = !(reading->measured->n_columns == 0 ? take_header(reading) : take_row(reading));
    reading->row_line = 0;
}

/** Line by line, so that a row's first line is known. */
static bool parse(struct reading *reading, struct csv_parser *parser, FILE *file)
{
    struct measured *measured = reading->measured;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t bytes;
    bool ok = true;
    while (ok && (bytes = getline(&line, &capacity, file)) >= 0) {
        reading->line++;
        bool comment = measured->n_columns == 0 && line[0] == '#';
        if (reading->row_line == 0 && (comment || line[strspn(line, " \t\r\n")] == '\0'))
            continue;
        if (reading->row_line == 0)
            reading->row_line = reading->line;
        if (csv_parse(parser, line, (size_t)bytes, take_field, end_row, reading) != (size_t)bytes)
            ok = error_set(reading->err, "%s:%d: a quote stands inside a plain field, or text behind a quoted one",
                           measured->path, reading->line);
        ok = ok && !reading->failed;
    }
    free(line);
    if (ok && csv_fini(parser, take_field, end_row, reading) != 0)
        return error_set(reading->err, "%s:%d: a quote is not closed", measured->path, reading->row_line);
    return ok && !reading->failed;
}

bool measured_read(const char *path, struct measured *measured, struct error *err)
{
    struct csv_parser parser;
    *measured = (struct measured){.path = check_strdup(path)};
    struct reading reading = {.measured = measured, .err = err};
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        error_set(err, "%s: cannot be read: %s", path, strerror(errno));
        measured_free(measured);
        return false;
    }
    CHECK(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0);
    bool ok = parse(&reading, &parser, file);
    csv_free(&parser);
    if (ok && ferror(file) != 0)
        ok = error_set(err, "%s: cannot be read: %s", path, strerror(errno));
    if (ok && measured->n_rows == 0)
        ok = error_set(err, "%s: holds no rows", path);
    fclose(file);
    for (size_t i = 0; i < reading.n_fields; i++)
        free(reading.fields[i]);
    free(reading.fields);
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

const char *measured_past_name(const char *text, const char *name)
{
    static const char between[] = " -_";
    for (const char *at = text;; at++, name++) {
        name += strspn(name, between);
        if (*name == '\0')
            return at + strspn(at, between);
        at += strspn(at, between);
        if (tolower((unsigned char)*at) != tolower((unsigned char)*name))
            return text;
    }
}

bool measured_number(const struct measured *measured, int32_t row, const char *name, double *value, struct error *err)
{
    const char *text = measured_text(measured, row, name);
    char *end;
    *value = 0;
    if (*text == '\0')
        return true;
    *value = strtod(text, &end);
    bool remark = strncmp(end, " (", 2) == 0 && end[strlen(end) - 1] == ')';
    if (isdigit((unsigned char)*text) && (*end == '\0' || remark) && isfinite(*value))
        return true;
    return error_add(err, "%s:%d: %s: '%s' is not a number", measured->path, measured->lines[row], name, text);
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
