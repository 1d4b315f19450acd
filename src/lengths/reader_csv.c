/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Read lengths from a column of a CSV file. */
#include "lengths/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/csv_rows.h"

/** A file being read. */
struct csv {
    const char *path, *column;
    struct reader_lengths *lengths;
    int64_t blank_line; /* first blank line that no row has followed yet; 0: none */
    int32_t n_columns;  /* number of columns; 0: the header has not been read */
    int32_t index;      /* index of the column that is read */
};

static int32_t find_column(const struct csv_row *header, const char *name)
{
    for (int32_t i = 0; i < header->n_fields; i++)
        if (strcmp(header->fields[i], name) == 0)
            return i;
    return -1;
}

/** Return whether another column has the same name. It would then be left to chance which one is read. */
static bool has_duplicate(const struct csv_row *header, int32_t index)
{
    for (int32_t i = index + 1; i < header->n_fields; i++)
        if (strcmp(header->fields[i], header->fields[index]) == 0)
            return true;
    return false;
}

/** Print the names of the columns. If there are many, print the first ones. */
static void print_names(const struct csv_row *header, char names[100])
{
    names[0] = '\0';
    for (int32_t i = 0; i < header->n_fields; i++)
        snprintf(names + strlen(names), 100 - strlen(names), "%s%s", i > 0 ? "," : "", header->fields[i]);
}

static bool choose_column(struct csv *csv, const struct csv_row *header, struct error *err)
{
    static const char *const usual[] = {"length", "tokens"};
    char names[100];
    csv->n_columns = header->n_fields;
    csv->index = csv->column[0] != '\0' ? find_column(header, csv->column) : header->n_fields == 1 ? 0 : -1;
    for (int i = 0; i < 2 && csv->column[0] == '\0' && csv->index < 0; i++)
        csv->index = find_column(header, usual[i]);
    if (csv->index >= 0 && has_duplicate(header, csv->index))
        return error_set(err, "%s:%" PRId64 ": two columns are called '%s'; give each a name of its own", csv->path,
                         header->line, header->fields[csv->index]);
    if (csv->index >= 0)
        return true;
    print_names(header, names);
    if (csv->column[0] != '\0')
        return error_set(err, "%s:%" PRId64 ": there is no column '%s', the columns are: %s", csv->path, header->line,
                         csv->column, names);
    return error_set(err, "%s:%" PRId64 ": data.column must name one of the columns: %s", csv->path, header->line,
                     names);
}

/** Take the header. A first row without names is data and is refused, because its length would be lost silently. */
static bool take_header(struct csv *csv, const struct csv_row *header, struct error *err)
{
    for (int32_t i = 0; i < header->n_fields; i++) {
        const char *name = header->fields[i];
        if (*name != '\0' && strspn(name, "0123456789") == strlen(name))
            return error_set(err,
                             "%s:%" PRId64 ": the first line must hold the names of the columns, '%.100s' is a number",
                             csv->path, header->line, name);
    }
    return choose_column(csv, header, err);
}

static bool wrong_length(const struct csv *csv, int64_t line, const char *text, struct error *err)
{
    return error_set(err, "%s:%" PRId64 ": '%.100s' is not allowed: " READER_ALLOWED, csv->path, line, text);
}

/** Take one row. Blank lines at the end are harmless. Between rows they may be missing values. */
static bool take_row(void *context, const struct csv_row *row, struct error *err)
{
    struct csv *csv = context;
    if (row->n_fields == 0) {
        csv->blank_line = csv->blank_line > 0 ? csv->blank_line : row->line;
        return true;
    }
    if (csv->blank_line > 0)
        return wrong_length(csv, csv->blank_line, "", err);
    if (csv->n_columns == 0)
        return take_header(csv, row, err);
    if (row->n_fields != csv->n_columns)
        return error_set(err, "%s:%" PRId64 ": the row has %d fields, the header has %d", csv->path, row->line,
                         row->n_fields, csv->n_columns);
    const unsigned char *text = (const unsigned char *)row->fields[csv->index];
    return reader_add_text(csv->lengths, text, text + strlen(row->fields[csv->index])) ||
           wrong_length(csv, row->line, row->fields[csv->index], err);
}

bool reader_csv(const char *path, const char *column, struct reader_lengths *lengths, struct error *err)
{
    struct reader_bytes bytes = {0};
    struct csv csv = {.path = path, .column = column, .lengths = lengths};
    bool ok = reader_load(path, &bytes, err);
    if (ok) {
        FILE *file = fmemopen(bytes.bytes, bytes.n, "r");
        CHECK(file != NULL);
        ok = csv_rows_visit(file, path, false, take_row, &csv, err);
        fclose(file);
    }
    free(bytes.bytes);
    return ok &&
           (lengths->n > 0 || error_set(err, "%s: holds no length below its header, at least one is needed", path));
}
