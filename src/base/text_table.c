/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/text_table.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

static const char gap[] = "  ";

void text_table_column(struct text_table *table, const char *heading, const char *form)
{
    char *end;
    table->columns = check_realloc(table->columns, (size_t)(table->n_columns + 1) * sizeof *table->columns);
    struct text_column *column = &table->columns[table->n_columns++];
    *column = (struct text_column){.heading = check_strdup(heading), .align = *form};
    column->least = (int32_t)strtol(form + 1, &end, 10);
    column->most = *end == '.' ? (int32_t)strtol(end + 1, NULL, 10) : 0;
}

void text_table_columns(struct text_table *table, const char *columns)
{
    for (size_t n; *columns != '\0'; columns += n + (columns[n] == ';')) {
        n = strcspn(columns, ";");
        char *heading = check_strndup(columns, n);
        size_t begin = n - 1;
        while (strchr("<>?", heading[begin]) == NULL)
            begin--;
        char *form = check_strdup(heading + begin);
        heading[begin] = '\0';
        text_table_column(table, heading, form);
        free(form);
        free(heading);
    }
}

/** Return the text of a format, with room for an ellipsis. */
static char *text_of(const char *format, va_list list)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    vfprintf(file, format, list);
    fwrite("\0\0\0", 1, 3, file);
    CHECK(fclose(file) == 0);
    return text;
}

/** Return a copy with room for an ellipsis. */
static char *with_room(const char *text)
{
    return strcpy(check_malloc(strlen(text) + sizeof "…"), text);
}

static void add_cell(struct text_table *table, char *text)
{
    table->cells = check_realloc(table->cells, (size_t)(table->n_cells + 1) * sizeof *table->cells);
    table->cells[table->n_cells++] = (struct text_cell){text, COLOUR_NONE};
}

void text_table_cell(struct text_table *table, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    add_cell(table, text_of(format, list));
    va_end(list);
}

void text_table_row(struct text_table *table, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char *row = text_of(format, list), *rest = row;
    for (char *cell = strsep(&rest, "\t"); cell != NULL; cell = strsep(&rest, "\t"))
        add_cell(table, with_room(cell));
    free(row);
    va_end(list);
}

void text_table_colour(struct text_table *table, int32_t n, enum colour colour)
{
    for (int32_t i = table->n_cells - n; i < table->n_cells; i++)
        table->cells[i].colour = colour;
}

void text_table_line(struct text_table *table, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    table->lines = check_realloc(table->lines, (size_t)(table->n_lines + 1) * sizeof *table->lines);
    table->lines[table->n_lines++] = (struct text_table_line){table->n_cells, text_of(format, list)};
    va_end(list);
}

/** Return the width of a column. */
static int32_t width_of(const struct text_table *table, int32_t column)
{
    const struct text_column *of = &table->columns[column];
    int32_t width = text_columns(of->heading);
    width = width > of->least ? width : of->least;
    for (int32_t i = column; i < table->n_cells; i += table->n_columns) {
        if (of->most > 0)
            text_clip(table->cells[i].text, of->most);
        int32_t columns = text_columns(table->cells[i].text);
        width = columns > width ? columns : width;
    }
    return width;
}

int32_t text_table_width(const struct text_table *table, int32_t n)
{
    int32_t width = 0;
    for (int32_t c = 0; c < n; c++)
        width += width_of(table, c) + (c > 0 ? (int32_t)strlen(gap) : 0);
    return width;
}

static bool is_right(const struct text_table *table, int32_t column)
{
    char align = table->columns[column].align;
    bool number = column < table->n_cells && isdigit((unsigned char)*table->cells[column].text);
    return align == '>' || (align == '?' && number);
}

/** Cut blanks at the end of a line, and what exceeds the columns unless they are 0. */
static void trim(char *line, int32_t columns)
{
    size_t n = strlen(line);
    while (n > 0 && line[n - 1] == ' ')
        n--;
    line[n] = '\0';
    if (columns > 0)
        text_clip(line, columns);
}

/** Print a line that is no row. */
static void print_line(char *line, FILE *file, int32_t columns)
{
    trim(line, columns);
    fprintf(file, "%s\n", line);
}

/** Print a row with the colours of its cells. @param ends  bytes of the line up to the end of each cell */
static void print_cells(const struct text_cell *cells, const size_t *ends, int32_t n, const char *line, FILE *file)
{
    size_t n_bytes = strlen(line), begin = 0;
    for (int32_t c = 0; c < n; c++) {
        size_t end = c + 1 < n && ends[c] < n_bytes ? ends[c] : n_bytes, blanks = strspn(line + begin, " ");
        while ((line[end] & 0xc0) == 0x80) /* of the ellipsis, which takes more bytes than what it replaces */
            end++;
        blanks = blanks < end - begin ? blanks : end - begin;
        fwrite(line + begin, 1, blanks, file);
        colour_write(file, cells == NULL ? COLOUR_NONE : cells[c].colour, line + begin + blanks, end - begin - blanks);
        begin = end;
    }
    fputc('\n', file);
}

/** Print a row. @param first  its first cell; -1: the headings */
static void print_row(const struct text_table *table, int32_t first, const int32_t *widths, FILE *file, int32_t columns)
{
    char *line = NULL;
    size_t n_bytes, *ends = check_calloc((size_t)table->n_columns + 1, sizeof *ends);
    int32_t n = first < 0 || table->n_cells - first > table->n_columns ? table->n_columns : table->n_cells - first;
    FILE *row = check_memstream(&line, &n_bytes);
    for (int32_t c = 0; c < n; c++) {
        const char *text = first < 0 ? table->columns[c].heading : table->cells[first + c].text;
        int32_t blanks = widths[c] - text_columns(text);
        bool right = is_right(table, c);
        fprintf(row, "%s%*s%s%*s", c > 0 ? gap : "", right ? blanks : 0, "", text, right ? 0 : blanks, "");
        ends[c] = (size_t)ftello(row);
    }
    fputs("   ", row); /* room for an ellipsis */
    CHECK(fclose(row) == 0);
    trim(line, columns);
    print_cells(first < 0 ? NULL : &table->cells[first], ends, n, line, file);
    free(ends);
    free(line);
}

void text_table_print(struct text_table *table, FILE *file, int32_t columns)
{
    int32_t *widths = check_calloc((size_t)table->n_columns + 1, sizeof *widths), next = 0;
    bool any = false;
    for (int32_t c = 0; c < table->n_columns; c++) {
        widths[c] = width_of(table, c);
        any = any || *table->columns[c].heading != '\0';
    }
    if (any)
        print_row(table, -1, widths, file, columns);
    for (int32_t i = 0;; i += table->n_columns) {
        for (; next < table->n_lines && table->lines[next].cells <= i; next++)
            print_line(table->lines[next].text, file, columns);
        if (i >= table->n_cells)
            break;
        print_row(table, i, widths, file, columns);
    }
    free(widths);
    text_table_free(table);
}

void text_table_free(struct text_table *table)
{
    for (int32_t i = 0; i < table->n_cells; i++)
        free(table->cells[i].text);
    for (int32_t i = 0; i < table->n_lines; i++)
        free(table->lines[i].text);
    for (int32_t c = 0; c < table->n_columns; c++)
        free(table->columns[c].heading);
    free(table->cells);
    free(table->lines);
    free(table->columns);
    *table = (struct text_table){0};
}
