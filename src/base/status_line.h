/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module shows on stderr how far a long command is. A thread of its own prints the newest text, so a command that
 * computes for long shows it, too.
 *
 * 1. A terminal has one changing line, from the first second on. It is cut at the terminal's width.
 * 2. Other files have a line after a second, and then more and more rarely, at least each minute.
 * 3. A command that ends within a second shows nothing.
 */
#ifndef SLIMSIM_BASE_STATUS_LINE_H
#define SLIMSIM_BASE_STATUS_LINE_H

#include <pthread.h>
#include <stdbool.h>

enum { STATUS_LINE_BYTES = 512, STATUS_LEFT_BYTES = 64 };

struct status_line {
    bool shown, terminal;         /* not --quiet; stderr is a terminal */
    bool started, running, ended; /* the thread exists; it has begun; it must end */
    double begin_s;               /* clock_wall_s */
    pthread_t thread;
    pthread_mutex_t lock;   /* of what the threads share: running, ended, text */
    pthread_cond_t changed; /* `running` or `ended` is true */
    char text[STATUS_LINE_BYTES];
};

/** Begin with a text without line break. @param shown  false: the other functions do nothing */
void status_line_begin(struct status_line *line, bool shown, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Replace the text. Any thread may do it. */
void status_line_print(struct status_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Clear the terminal's line. A second call does nothing. */
void status_line_end(struct status_line *line);

/**
 * Write ", 0:01:10 left" for a share that is finished since a time. Write "" if the share is 0 or the time too short.
 * At least a second is left.
 * @param share  of all that is to be done since begin_s, 0 to 1
 */
void status_line_left(double begin_s, double share, char text[STATUS_LEFT_BYTES]);

#endif
