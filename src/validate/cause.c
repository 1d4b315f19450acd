/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/cause.h"

#include <string.h>

static bool fits(const struct measured *causes, int32_t line, int32_t column, const struct measured *measured,
                 int32_t row)
{
    const char *name = causes->columns[column], *wanted = measured_text(causes, line, name);
    if (*wanted == '\0' || strcmp(name, "cause") == 0)
        return true;
    if (strcmp(name, "context_from") == 0) {
        struct error err = {0};
        double length, least;
        return measured_number(measured, row, "data.context", &length, &err) &&
               measured_number(causes, line, name, &least, &err) && length >= least;
    }
    const char *cell = measured_text(measured, row, name);
    return strcmp(name, "id") == 0 ? strcmp(cell, wanted) == 0 : strstr(cell, wanted) != NULL;
}

const char *cause_of(const struct measured *causes, const struct measured *measured, int32_t row)
{
    for (int32_t line = 0; line < causes->n_rows; line++) {
        int32_t column = 0;
        while (column < causes->n_columns && fits(causes, line, column, measured, row))
            column++;
        if (column == causes->n_columns)
            return measured_text(causes, line, "cause");
    }
    return "";
}

bool cause_read(struct measured *causes, struct error *err)
{
    const size_t most = CAUSE_BYTES - 1;
    double length;
    if (!measured_read_shipped("causes.csv", causes, err))
        return false;
    for (int32_t line = 0; line < causes->n_rows; line++) {
        size_t bytes = strlen(measured_text(causes, line, "cause"));
        if (bytes > most)
            return error_set(err, "%s:%d: cause has %zu bytes; allowed: at most %zu", causes->path, causes->lines[line],
                             bytes, most);
        if (!measured_number(causes, line, "context_from", &length, err))
            return false;
    }
    return true;
}
