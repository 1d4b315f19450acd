/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/clock.h"

#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_wall_s(void)
{
    return seconds(CLOCK_MONOTONIC);
}

double clock_cpu_s(void)
{
    return seconds(CLOCK_PROCESS_CPUTIME_ID);
}
