/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/columns.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void columns_add(struct columns *columns, const char *format, ...)
{
    enum { MOST_BYTES = 1024 };
    char text[MOST_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    columns->cells = check_realloc(columns->cells, (size_t)(columns->n_cells + 1) * sizeof *columns->cells);
    columns->cells[columns->n_cells++] = check_strdup(text);
}

/** Return the width of a column; negative: aligned to the left. */
static int width_of(const struct columns *columns, int32_t column)
{
    int width = 0;
    for (int32_t i = column; i < columns->n_cells; i += columns->n)
        width = (int)strlen(columns->cells[i]) > width ? (int)strlen(columns->cells[i]) : width;
    bool has_row = columns->n_cells > columns->n;
    bool number = has_row && isdigit((unsigned char)*columns->cells[columns->n + column]);
    return column == 0 || !number ? -width : width;
}

void columns_print(struct columns *columns)
{
    for (int32_t i = 0; i < columns->n_cells; i++) {
        int32_t column = i % columns->n;
        bool last = column == columns->n - 1;
        int width = width_of(columns, column);
        printf("%*s%s", last && width < 0 ? 0 : width, columns->cells[i], last ? "\n" : "  ");
    }
    for (int32_t i = 0; i < columns->n_cells; i++)
        free(columns->cells[i]);
    free(columns->cells);
    *columns = (struct columns){.n = columns->n};
}
