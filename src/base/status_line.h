/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module shows on stderr how far a long command is. A terminal has one changing line. Other files have a line at
 * most each 30 s, so a command that ends earlier writes none there.
 */
#ifndef SLIMSIM_BASE_STATUS_LINE_H
#define SLIMSIM_BASE_STATUS_LINE_H

#include <stdbool.h>

struct status_line {
    bool shown, terminal; /* not --quiet; stderr is a terminal */
    double printed_s;     /* clock_wall_s of the last line, at first of the beginning */
};

/** @param shown  false: the other functions do nothing */
struct status_line status_line_begin(bool shown);

/** Show a text without line break if it is time. Threads need a lock of their own. */
void status_line_print(struct status_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Clear the terminal's line. */
void status_line_end(const struct status_line *line);

#endif
