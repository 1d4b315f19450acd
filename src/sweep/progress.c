/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static void print_line(const struct progress *progress)
{
    double rate = progress->n_here / (progress->printed_s - progress->begin_s + 1e-9);
    long left = rate > 0 ? (long)((progress->n_points - progress->n_done) / rate + 0.5) : 0;
    fprintf(stderr, "%s%d of %d points, %.*f a second, %ld:%02ld:%02ld left, %d failed%s",
            progress->terminal ? "\r\033[K" : "", progress->n_done, progress->n_points, rate < 10 ? 2 : 0, rate,
            left / 3600, left / 60 % 60, left % 60, progress->n_failed, progress->terminal ? "" : "\n");
}

static int32_t tenths(const struct progress *progress)
{
    return progress->n_points > 0 ? (int32_t)(10 * (int64_t)progress->n_done / progress->n_points) : 10;
}

void progress_begin(struct progress *progress, bool shown, int32_t n_points, int32_t n_done, int32_t n_failed)
{
    *progress = (struct progress){.shown = shown,
                                  .terminal = isatty(STDERR_FILENO),
                                  .n_points = n_points,
                                  .n_done = n_done,
                                  .n_failed = n_failed};
    progress->tenths = tenths(progress);
    progress->begin_s = progress->printed_s = clock_wall_s();
}

void progress_count(struct progress *progress, bool failed)
{
    progress->n_done++;
    progress->n_here++;
    progress->n_failed += failed;
    if (!progress->shown || progress->terminal || tenths(progress) == progress->tenths)
        return;
    progress->tenths = tenths(progress);
    progress->printed_s = clock_wall_s();
    print_line(progress);
}

void progress_report(struct progress *progress)
{
    double time_s = clock_wall_s();
    if (!progress->shown || !progress->terminal || time_s - progress->printed_s < 1)
        return;
    progress->printed_s = time_s;
    print_line(progress);
}

void progress_end(struct progress *progress)
{
    if (progress->shown && progress->terminal)
        fputs("\r\033[K", stderr);
}
