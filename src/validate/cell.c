/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/cell.h"

#include <ctype.h>
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

/** Whether "no", "not" or "without" stands before `at` in its clause. */
static bool is_negated(const char *text, const char *at)
{
    static const char *const words[] = {"no", "not", "without"};
    for (;;) {
        while (at > text && strchr(" -_/", at[-1]) != NULL)
            at--;
        const char *end = at;
        while (at > text && strchr(" -_/,;:(+", at[-1]) == NULL)
            at--;
        if (at == end)
            return false;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strlen(words[i]) == (size_t)(end - at) && strncasecmp(at, words[i], (size_t)(end - at)) == 0)
                return true;
    }
}

/** Whether "off", "disabled", "false" or "none" follows. */
static bool is_off(const char *behind)
{
    static const char *const words[] = {"off", "disabled", "false", "none"};
    behind += strspn(behind, " =:");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncasecmp(behind, words[i], strlen(words[i])) == 0 && !isalpha((unsigned char)behind[strlen(words[i])]))
            return true;
    return false;
}

bool cell_says(const struct cells *cells, const char *column, const char *part)
{
    const char *text = cell_text(cells, column);
    for (const char *at = strcasestr(text, part); at != NULL; at = strcasestr(at + 1, part))
        if (!is_negated(text, at) && !is_off(at + strlen(part)))
            return true;
    return false;
}

bool cell_is_none(const struct cells *cells, const char *column)
{
    static const char *const words[] = {"0", "no", "off", "false"};
    const char *text = cell_text(cells, column);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return strncasecmp(text, "none", 4) == 0;
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
