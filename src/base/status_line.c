/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/status_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static const double between_lines_s = 30;

struct status_line status_line_begin(bool shown)
{
    return (struct status_line){shown, isatty(STDERR_FILENO), clock_wall_s()};
}

void status_line_print(struct status_line *line, const char *format, ...)
{
    double time_s = clock_wall_s();
    if (!line->shown || (!line->terminal && time_s - line->printed_s < between_lines_s))
        return;
    line->printed_s = time_s;
    va_list arguments;
    va_start(arguments, format);
    if (line->terminal)
        fputs("\r\033[K", stderr);
    vfprintf(stderr, format, arguments);
    if (!line->terminal)
        fputc('\n', stderr);
    va_end(arguments);
}

void status_line_end(const struct status_line *line)
{
    if (line->shown && line->terminal)
        fputs("\r\033[K", stderr);
}
