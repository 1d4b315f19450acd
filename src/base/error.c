/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char more[] = "\n... more";

bool error_set(struct error *err, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    err->status = ERROR_INVALID;
    vsnprintf(err->text, sizeof err->text, format, list);
    va_end(list);
    return false;
}

bool error_set_status(struct error *err, enum error_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    err->status = status;
    vsnprintf(err->text, sizeof err->text, format, list);
    va_end(list);
    return false;
}

/** Return whether one of the lines of `text` equals `line`. */
static bool has_line(const char *text, const char *line)
{
    size_t n = strlen(line);
    for (const char *at = text; (at = strstr(at, line)) != NULL; at++)
        if ((at == text || at[-1] == '\n') && (at[n] == '\n' || at[n] == '\0'))
            return true;
    return false;
}

bool error_add(struct error *err, const char *format, ...)
{
    size_t used = strlen(err->text);
    char line[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (err->status == ERROR_NONE)
        err->status = ERROR_INVALID;
    if (*line != '\0' && has_line(err->text, line))
        return false;
    if (used + strlen(line) + 1 + sizeof more > sizeof err->text) {
        if (used < sizeof more || strcmp(err->text + used - strlen(more), more) != 0)
            strcat(err->text, more);
        return false;
    }
    snprintf(err->text + used, sizeof err->text - used, "%s%s", used > 0 ? "\n" : "", line);
    return false;
}
