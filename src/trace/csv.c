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

void csv_print_heads(const struct trace_table *table, FILE *file)
{
    for (int32_t c = 0; c < table->n_columns; c++) {
        fputs(c > 0 ? "," : "", file);
        csv_print_text(table->columns[c].name, file);
    }
}

void csv_print_row(const struct trace_table *table, const void *row, trace_namer *namer, const void *context,
                   FILE *file)
{
    for (int32_t c = 0; c < table->n_columns; c++) {
        const struct trace_column *column = &table->columns[c];
        fputs(c > 0 ? "," : "", file);
        if (column->type == TRACE_TEXT) {
            char *text = check_strndup((const char *)row + column->offset, column->bytes);
            csv_print_text(text, file);
            free(text);
            continue;
        }
        struct trace_value value = trace_value_of(column, row, namer, context);
        if (value.text != NULL)
            csv_print_text(value.text, file);
        else if (column->type == TRACE_DOUBLE)
            csv_print_double(value.number, file);
        else if (column->type != TRACE_STRING)
            fprintf(file, "%lld", (long long)value.whole);
    }
}

/** It is the state of writing. */
struct csv {
    const struct trace_reader *reader;
    const struct trace_table *table;
    FILE *file;
};

static const char *name_of(const void *reader, const struct trace_column *column, int64_t value)
{
    return trace_name(reader, column, value);
}

static bool write_line(void *context, const void *row, struct error *err)
{
    (void)err;
    const struct csv *csv = context;
    csv_print_row(csv->table, row, name_of, csv->reader, csv->file);
    fputc('\n', csv->file);
    return true;
}

bool csv_print(struct trace_reader *reader, enum trace_table_id table, FILE *file, struct error *err)
{
    struct csv csv = {reader, trace_file_table(reader, table), file};
    if (csv.table == NULL)
        return trace_absent(reader, table, err);
    csv_print_heads(csv.table, file);
    fputc('\n', file);
    return trace_visit_file(reader, table, write_line, &csv, err);
}
