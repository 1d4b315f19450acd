/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/cell.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *cell_text(const struct cells *cells, const char *column)
{
    return measured_text(cells->measured, cells->row, column);
}

bool cell_has(const struct cells *cells, const char *column, const char *part)
{
    return strcasestr(cell_text(cells, column), part) != NULL;
}

void cell_skip(const struct cells *cells, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (cells->reason[0] == '\0')
        vsnprintf(cells->reason, SETTING_REASON, format, arguments);
    va_end(arguments);
}

void cell_assume(const struct cells *cells, const char *format, ...)
{
    size_t used = strlen(cells->assumed);
    va_list arguments;
    va_start(arguments, format);
    if (used > 0)
        used += (size_t)snprintf(cells->assumed + used, SETTING_ASSUMED - used, "; ");
    if (used < SETTING_ASSUMED)
        vsnprintf(cells->assumed + used, SETTING_ASSUMED - used, format, arguments);
    va_end(arguments);
}

bool cell_flag(const struct cells *cells, const char *column, bool empty)
{
    static const char *const words[2][4] = {{"0", "no", "off", "false"}, {"1", "yes", "on", "true"}};
    const char *text = cell_text(cells, column);
    for (int value = 0; value < 2; value++)
        for (int i = 0; i < 4; i++)
            if (strcasecmp(text, words[value][i]) == 0)
                return value == 1;
    if (*text != '\0')
        cell_skip(cells, "%s '%s' is neither 0 nor 1", column, text);
    return empty;
}

int64_t cell_whole(const struct cells *cells, const char *column)
{
    double value;
    if (!measured_number(cells->measured, cells->row, column, &value, cells->err))
        return 0;
    if (value <= INT32_MAX && value == (double)(int64_t)value)
        return (int64_t)value;
    error_add(cells->err, "%s:%d: %s: '%s' is not a whole number up to %d", cells->measured->path,
              cells->measured->lines[cells->row], column, cell_text(cells, column), INT32_MAX);
    return 0;
}

int64_t cell_degree(const struct cells *cells, const char *column)
{
    int64_t value = cell_whole(cells, column);
    return value > 0 ? value : 1;
}

bool cell_is_megatron(const struct cells *cells)
{
    return cell_has(cells, "framework", "Megatron") || cell_has(cells, "framework", "NeMo");
}

bool cell_is_megatron_gpt(const struct cells *cells)
{
    return strncasecmp(cell_text(cells, "model"), "gpt", 3) == 0 && cell_is_megatron(cells);
}

bool cell_is_mpt(const struct cells *cells)
{
    return strncmp(cell_text(cells, "model"), "MPT-", 4) == 0;
}

bool cell_is_before_flash(const struct cells *cells)
{
    return cell_has(cells, "gpu", "A100") && cell_has(cells, "framework", "Megatron") &&
           !cell_has(cells, "framework", "Core") && !cell_has(cells, "framework", "Bridge") &&
           !cell_has(cells, "framework", "NeMo");
}
