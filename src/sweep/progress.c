/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/progress.h"

#include <math.h>
#include <stdio.h>

void progress_begin(struct progress *progress, bool shown, const char *what)
{
    *progress = (struct progress){.what = what, .weight = 1};
    status_line_begin(&progress->status, shown, "%s: reads the scenarios", what);
}

void progress_expect(struct progress *progress, double weight, double later, double later_work)
{
    progress->weight = weight;
    progress->later = later;
    progress->later_work = later_work;
}

void progress_stage(struct progress *progress, int32_t n, int32_t n_kept, int32_t n_failed)
{
    progress->n += n;
    progress->work += progress->weight * (n - n_kept);
    progress->n_done += n_kept;
    progress->n_kept += n_kept;
    progress->n_failed += n_failed;
}

void progress_count(struct progress *progress, bool failed)
{
    progress->n_done++;
    progress->work_done += progress->weight;
    progress->n_failed += failed;
}

void progress_show(struct progress *progress, double share, const char *names)
{
    char left[STATUS_LEFT_BYTES], later[64] = "", failed[32] = "";
    double done = progress->work_done + progress->weight * share;
    status_line_left(progress->status.begin_s,
                     done >= 0.05 * progress->weight ? done / (progress->work + progress->later_work) : 0, left);
    if (progress->later >= 0.5)
        snprintf(later, sizeof later, " and about %.0f later", progress->later);
    if (progress->n_failed > 0)
        snprintf(failed, sizeof failed, ", %d failed", progress->n_failed);
    status_line_print(&progress->status, "%s: %d of %d runs%s%s%s%s%.300s", progress->what, progress->n_done,
                      progress->n, later, left, failed, *names != '\0' ? "; now " : "", names);
}

void progress_end(struct progress *progress)
{
    status_line_end(&progress->status);
}
