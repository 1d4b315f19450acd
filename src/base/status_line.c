/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/status_line.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

static const double first_s = 1, most_between_s = 60;

/** Wait for some seconds, with the lock held. @return whether the line has ended meanwhile */
static bool wait_for(struct status_line *line, double time_s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    double second = (double)until.tv_nsec * 1e-9 + time_s;
    until.tv_sec += (time_t)second;
    until.tv_nsec = (long)(1e9 * fmod(second, 1));
    for (int status = 0; !line->ended && status == 0;)
        status = pthread_cond_timedwait(&line->changed, &line->lock, &until);
    return line->ended;
}

/** Replace the terminal's line by the text, cut at its width. A line that wraps would leave its first part behind. */
static void print_on_terminal(const char *line)
{
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    char text[STATUS_LINE_BYTES + sizeof "…"];
    strcpy(text, line);
    text_clip(text, known ? size.ws_col : 80);
    fprintf(stderr, "\r\033[K%s", text);
}

static void *show(void *argument)
{
    struct status_line *line = argument;
    pthread_mutex_lock(&line->lock);
    line->running = true;
    pthread_cond_signal(&line->changed);
    for (double between_s = first_s; !wait_for(line, between_s);) {
        if (line->terminal)
            print_on_terminal(line->text);
        else
            fprintf(stderr, "%s\n", line->text);
        between_s = line->terminal ? first_s : fmin(clock_wall_s() - line->begin_s, most_between_s);
    }
    pthread_mutex_unlock(&line->lock);
    return NULL;
}

/**
 * Start the thread, and wait until it runs. While a thread starts it may hold locks of the allocator, which a process
 * that the caller forks then would never get. Signals go to the other threads.
 */
static void start(struct status_line *line)
{
    sigset_t all, before;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    line->started = pthread_create(&line->thread, NULL, show, line) == 0;
    pthread_mutex_lock(&line->lock);
    while (line->started && !line->running)
        pthread_cond_wait(&line->changed, &line->lock);
    pthread_mutex_unlock(&line->lock);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
}

void status_line_begin(struct status_line *line, bool shown, const char *format, ...)
{
    va_list arguments;
    *line = (struct status_line){.shown = shown,
                                 .terminal = isatty(STDERR_FILENO),
                                 .begin_s = clock_wall_s(),
                                 .lock = PTHREAD_MUTEX_INITIALIZER,
                                 .changed = PTHREAD_COND_INITIALIZER};
    va_start(arguments, format);
    vsnprintf(line->text, sizeof line->text, format, arguments);
    va_end(arguments);
    if (shown)
        start(line);
}

void status_line_print(struct status_line *line, const char *format, ...)
{
    if (!line->started)
        return;
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&line->lock);
    vsnprintf(line->text, sizeof line->text, format, arguments);
    pthread_mutex_unlock(&line->lock);
    va_end(arguments);
}

void status_line_end(struct status_line *line)
{
    if (!line->started)
        return;
    pthread_mutex_lock(&line->lock);
    line->ended = true;
    pthread_cond_signal(&line->changed);
    pthread_mutex_unlock(&line->lock);
    pthread_join(line->thread, NULL);
    line->started = false;
    if (line->terminal)
        fputs("\r\033[K", stderr);
}

void status_line_left(double begin_s, double share, char text[STATUS_LEFT_BYTES])
{
    double passed_s = clock_wall_s() - begin_s;
    *text = '\0';
    if (share <= 0 || passed_s < first_s / 2)
        return;
    long left = (long)fmax(1, round(passed_s * (1 - share) / share));
    snprintf(text, STATUS_LEFT_BYTES, ", %ld:%02ld:%02ld left", left / 3600, left / 60 % 60, left % 60);
}
