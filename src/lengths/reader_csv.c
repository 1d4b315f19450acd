/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Read lengths from a column of a file with comma-separated or tab-separated values. */
#include "lengths/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/csv_rows.h"

/** A file being read. The first pass sees all columns, and the second one reads lengths. */
struct csv {
    const struct reader_choice *choice;
    struct reader_lengths *lengths;
    struct reader_columns columns;
    int64_t header_line, blank_line; /* first blank line that no row has followed yet; 0: none */
};

/** Take the header. A first row without names is data and is refused, because its length would be lost silently. */
static bool take_header(struct csv *csv, const struct csv_row *header, struct error *err)
{
    csv->header_line = header->line;
    if (header->n_fields == 1 && strpbrk(header->fields[0], ";\t|") != NULL)
        return error_set(err,
                         "%s:%" PRId64
                         ": '%.100s' is one name; allowed: columns with commas between them, or with tabs "
                         "if the file's name ends in .tsv",
                         csv->choice->path, header->line, header->fields[0]);
    for (int32_t i = 0; i < header->n_fields; i++) {
        double number;
        if (reader_number(header->fields[i], &number))
            return error_set(err,
                             "%s:%" PRId64 ": the first line must hold the names of the columns, '%.100s' is a number",
                             csv->choice->path, header->line, header->fields[i]);
        reader_columns_add(&csv->columns, header->fields[i]);
    }
    return true;
}

static bool wrong_field(const struct csv *csv, int64_t line, const char *text, const char *allowed, struct error *err)
{
    return error_set(err, "%s:%" PRId64 ": '%.100s' is not allowed: %s", csv->choice->path, line, text, allowed);
}

static bool see_row(void *context, const struct csv_row *row, struct error *err)
{
    struct csv *csv = context;
    if (row->n_fields == 0) { /* blank lines at the end are harmless; between rows they may be missing values */
        csv->blank_line = csv->blank_line > 0 ? csv->blank_line : row->line;
        return true;
    }
    if (csv->blank_line > 0)
        return error_set(err,
                         "%s:%" PRId64 ": a blank line stands before a row, so a length may be missing; take it away",
                         csv->choice->path, csv->blank_line);
    if (csv->columns.n == 0)
        return take_header(csv, row, err);
    if (row->n_fields != csv->columns.n)
        return error_set(err, "%s:%" PRId64 ": the row has %d fields, the header has %d", csv->choice->path, row->line,
                         row->n_fields, csv->columns.n);
    for (int32_t i = 0; i < row->n_fields; i++) {
        double number;
        reader_columns_see(&csv->columns, i, reader_number(row->fields[i], &number) ? &number : NULL);
    }
    csv->columns.n_rows++;
    return true;
}

static bool take_row(void *context, const struct csv_row *row, struct error *err)
{
    struct csv *csv = context;
    double number;
    if (row->n_fields == 0 || row->line == csv->header_line)
        return true;
    const char *text = row->fields[csv->columns.lengths];
    if (!reader_number(text, &number) || !reader_add(csv->lengths, number))
        return wrong_field(csv, row->line, text, READER_ALLOWED, err);
    text = csv->columns.weights >= 0 ? row->fields[csv->columns.weights] : "";
    return csv->columns.weights < 0 || (reader_number(text, &number) && reader_weigh(csv->lengths, number)) ||
           wrong_field(csv, row->line, text, READER_WEIGHT_ALLOWED, err);
}

static bool visit(struct csv *csv, const struct file_bytes *bytes, int dialect, csv_rows_visitor *visitor,
                  struct error *err)
{
    FILE *file = fmemopen(bytes->bytes, bytes->n, "r");
    CHECK(file != NULL);
    bool ok = csv_rows_visit(file, csv->choice->path, dialect, visitor, csv, err);
    fclose(file);
    return ok;
}

static bool choose(struct csv *csv, struct error *err)
{
    char *where = check_asprintf("%s:%" PRId64, csv->choice->path, csv->header_line);
    bool ok = reader_columns_choose(&csv->columns, csv->choice, where, csv->lengths->part, err);
    free(where);
    return ok;
}

static bool read_table(const struct reader_choice *choice, int dialect, struct reader_lengths *lengths,
                       struct error *err)
{
    struct file_bytes bytes = {0};
    struct csv csv = {.choice = choice, .lengths = lengths, .columns.kind = "column"};
    bool ok = reader_load(choice, &bytes, err) && visit(&csv, &bytes, dialect, see_row, err) &&
              (csv.columns.n_rows > 0 ||
               error_set(err, "%s: holds no length below its header, at least one is needed", choice->path)) &&
              choose(&csv, err) && visit(&csv, &bytes, dialect, take_row, err);
    free(csv.columns.at);
    free(bytes.bytes);
    return ok;
}

bool reader_csv(const struct reader_choice *choice, struct reader_lengths *lengths, struct error *err)
{
    return read_table(choice, CSV_ROWS_PLAIN, lengths, err);
}

bool reader_tsv(const struct reader_choice *choice, struct reader_lengths *lengths, struct error *err)
{
    return read_table(choice, CSV_ROWS_TABS, lengths, err);
}
