/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/csv_rows.h"

#include <csv.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/** State of the parser. */
struct reading {
    const char *path;
    csv_rows_visitor *visitor;
    void *context;
    struct error *err;
    struct csv_row row; /* row being read; line 0: none */
    char *text;         /* its fields, each ends with a NUL */
    size_t n_bytes, text_capacity, fields_capacity;
    int64_t line;      /* current line of the file */
    bool comments, ok; /* comments: comment lines may still follow */
};

static void take_field(void *text, size_t bytes, void *context)
{
    struct reading *reading = context;
    if (reading->row.line == 0) /* the field follows a carriage return without a line feed */
        reading->row.line = reading->line;
    if (memchr(text, '\0', bytes) != NULL && reading->ok)
        reading->ok = error_set(reading->err, "%s:%" PRId64 ": the line holds a NUL byte, so this is no text",
                                reading->path, reading->line);
    if (reading->n_bytes + bytes >= reading->text_capacity) {
        reading->text_capacity = 2 * (reading->n_bytes + bytes + 1);
        reading->text = check_realloc(reading->text, reading->text_capacity);
    }
    memcpy(reading->text + reading->n_bytes, text, bytes);
    reading->text[reading->n_bytes + bytes] = '\0';
    reading->n_bytes += bytes + 1;
    reading->row.n_fields++;
}

static void visit(struct reading *reading)
{
    struct csv_row *row = &reading->row;
    if ((size_t)row->n_fields > reading->fields_capacity) {
        reading->fields_capacity = (size_t)row->n_fields;
        row->fields = check_realloc(row->fields, reading->fields_capacity * sizeof *row->fields);
    }
    char *field = reading->text;
    for (int32_t i = 0; i < row->n_fields; i++) {
        row->fields[i] = field;
        field += strlen(field) + 1;
    }
    reading->ok = reading->visitor(reading->context, row, reading->err);
}

static void end_row(int terminator, void *context)
{
    (void)terminator;
    struct reading *reading = context;
    if (reading->ok && reading->row.n_fields > 0)
        visit(reading);
    reading->row.line = reading->row.n_fields = 0;
    reading->n_bytes = 0;
    reading->comments = false;
}

/**
 * Give the parser one line, so that the line on which a row begins is known.
 *
 * @return whether to go on
 */
static bool take_line(struct reading *reading, struct csv_parser *parser, const char *line, size_t bytes)
{
    bool begins = reading->row.line == 0;
    if (begins && reading->comments && line[0] == '#')
        return true;
    if (begins)
        reading->row.line = reading->line;
    if (begins && strspn(line, " \t\r\n") == bytes) {
        visit(reading);
        reading->row.line = 0;
        return reading->ok;
    }
    if (csv_parse(parser, line, bytes, take_field, end_row, reading) != bytes)
        return error_set(reading->err, "%s:%" PRId64 ": a quote is inside a plain field, or text follows a quoted one",
                         reading->path, reading->line);
    return reading->ok;
}

/** Read a line like getline, but at most CSV_LINE_BYTES + 1 bytes. The rest of a longer line is not read. */
static ssize_t read_line(FILE *file, char **line, size_t *capacity)
{
    size_t n = 0;
    int byte = 0;
    while (byte != '\n' && n <= CSV_LINE_BYTES && (byte = getc_unlocked(file)) != EOF) {
        *line = check_grow(*line, n, capacity, 1);
        (*line)[n++] = (char)byte;
    }
    *line = check_grow(*line, n, capacity, 1);
    (*line)[n] = '\0';
    return n > 0 ? (ssize_t)n : -1;
}

static bool take_lines(struct reading *reading, struct csv_parser *parser, FILE *file)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t bytes;
    bool ok = true;
    while (ok && (bytes = read_line(file, &line, &capacity)) >= 0) {
        reading->line++;
        if (bytes > CSV_LINE_BYTES) {
            ok = error_set(reading->err, "%s:%" PRId64 ": the line has more than %d bytes, so this is no table",
                           reading->path, reading->line, CSV_LINE_BYTES);
            break;
        }
        size_t mark = reading->line == 1 && strncmp(line, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* byte order mark */
        ok = take_line(reading, parser, line + mark, (size_t)bytes - mark);
    }
    free(line);
    if (ok && ferror(file) != 0)
        return error_set(reading->err, "%s: cannot be read: %s", reading->path, strerror(errno));
    if (ok && csv_fini(parser, take_field, end_row, reading) != 0)
        return error_set(reading->err, "%s:%" PRId64 ": a quote is not closed", reading->path, reading->row.line);
    return ok && reading->ok;
}

bool csv_rows_visit(FILE *file, const char *path, int dialect, csv_rows_visitor *visitor, void *context,
                    struct error *err)
{
    struct csv_parser parser;
    struct reading reading = {.path = path,
                              .visitor = visitor,
                              .context = context,
                              .err = err,
                              .comments = (dialect & CSV_ROWS_COMMENTS) != 0,
                              .ok = true};
    CHECK(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0);
    csv_set_delim(&parser, (dialect & CSV_ROWS_TABS) != 0 ? '\t' : ',');
    bool ok = take_lines(&reading, &parser, file);
    csv_free(&parser);
    free(reading.text);
    free(reading.row.fields);
    return ok;
}
