/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests check what the line of progress of an answer says. */
#include "harness.h"
#include "sweep/progress.h"

/* All texts are those 100 s after the answer began. Nothing is printed, since a status line waits a second. */
static void begin(struct progress *progress)
{
    progress_begin(progress, true, "capacity");
    progress->status.begin_s -= 100;
}

static void finish(struct progress *progress, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        progress_count(progress, false);
}

/* Two of 4 + 6 ordinary runs took 100 s, so eight take 400 s. Then 4 + 4 x 0.5 are done, and 8 x 0.5 take 67 s. */
TEST(progress__has_the_time_of_later_stages_by_their_work)
{
    struct progress progress;
    begin(&progress);
    progress_expect(&progress, 1, 12, 6);
    progress_stage(&progress, 4, 0, 0);
    finish(&progress, 2);
    progress_show(&progress, 0, "h100 64");
    CHECK_TEXT(progress.status.text, "capacity: 2 of 4 runs and about 12 later, 0:06:40 left; now h100 64");
    finish(&progress, 2);
    progress_expect(&progress, 0.5, 0, 0);
    progress_stage(&progress, 12, 0, 0);
    finish(&progress, 4);
    progress_show(&progress, 0, "NIC x2");
    CHECK_TEXT(progress.status.text, "capacity: 8 of 16 runs, 0:01:07 left; now NIC x2");
    progress_end(&progress);
}

/* Three of five runs are kept. Half of one of the other two took 100 s, so the rest takes 300 s. */
TEST(progress__takes_the_rate_of_runs_that_are_computed_now)
{
    struct progress progress;
    begin(&progress);
    progress_stage(&progress, 5, 3, 1);
    progress_show(&progress, 0.5, "");
    CHECK_TEXT(progress.status.text, "capacity: 3 of 5 runs, 0:05:00 left, 1 failed");
    progress_end(&progress);
}
