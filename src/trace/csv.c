/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "trace/csv.h"

#include "base/check.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Return whether a spreadsheet takes a cell for a formula. A number such as -1, or a sign alone, is none. */
static bool is_formula(const char *text)
{
    char *end;
    if (strcspn(text, "=+-@\t\r\n") > 0 || strlen(text) < 2)
        return false;
    strtod(text, &end);
    return *end != '\0' || end == text;
}

/* RFC 4180 quotes text with a comma, a quote or a line's end. Quotes inside are doubled. A control character would move
 * the cursor of a terminal. */
void csv_print_text(const char *text, FILE *file)
{
    bool formula = is_formula(text), quoted = formula || strpbrk(text, ",\"\r\n") != NULL;
    if (quoted)
        fputs(formula ? "\"'" : "\"", file);
    while (*text != '\0') {
        bool control;
        size_t n = text_character(text, &control);
        if (*text == '"')
            fputc('"', file);
        if (control && strchr("\t\r\n", *text) == NULL)
            fputc('?', file);
        else
            fwrite(text, 1, n, file);
        text += n;
    }
    if (quoted)
        fputc('"', file);
}

const char *csv_text(const char *field)
{
    return *field == '\'' && is_formula(field + 1) ? field + 1 : field;
}

void csv_print_double(double value, FILE *file)
{
    char text[32] = "";
    for (int digits = 15; digits <= 17 && !isnan(value); digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, file);
}

static void write_value(const struct trace_reader *reader, const struct trace_column *column, const char *row,
                        FILE *file)
{
    if (column->type == TRACE_DOUBLE) {
        double value;
        memcpy(&value, row + column->offset, sizeof value);
        csv_print_double(value, file);
        return;
    }
    if (column->type == TRACE_TEXT) {
        char *text = check_strndup(row + column->offset, column->bytes);
        csv_print_text(text, file);
        free(text);
        return;
    }
    int64_t value;
    if (column->type == TRACE_INT32) {
        int32_t narrow;
        memcpy(&narrow, row + column->offset, sizeof narrow);
        value = narrow;
    } else {
        memcpy(&value, row + column->offset, sizeof value);
    }
    const char *name = trace_name(reader, column, value);
    if (name != NULL)
        csv_print_text(name, file);
    else
        fprintf(file, "%lld", (long long)value);
}

/** It is the state of writing. */
struct csv {
    const struct trace_reader *reader;
    const struct trace_table *table;
    FILE *file;
};

/* Write a line. It is the header if row is NULL. */
static bool write_line(void *context, const void *row, struct error *err)
{
    (void)err;
    const struct csv *csv = context;
    for (int32_t c = 0; c < csv->table->n_columns; c++) {
        const struct trace_column *column = &csv->table->columns[c];
        fputs(c > 0 ? "," : "", csv->file);
        if (row == NULL)
            csv_print_text(column->name, csv->file);
        else
            write_value(csv->reader, column, row, csv->file);
    }
    fputc('\n', csv->file);
    return true;
}

bool csv_print(struct trace_reader *reader, enum trace_table_id table, FILE *file, struct error *err)
{
    struct csv csv = {reader, trace_file_table(reader, table), file};
    if (csv.table == NULL)
        return trace_absent(reader, table, err);
    return write_line(&csv, NULL, err) && trace_visit_file(reader, table, write_line, &csv, err);
}
