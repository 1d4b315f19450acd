/* SPDX-License-Identifier: GPL-3.0-or-later */
/** SimGrid's signals count what it has completed. The code is C++, as SimGrid has no signals in C. */
#ifndef SLIMSIM_TESTS_SIMGRID_COUNT_H
#define SLIMSIM_TESTS_SIMGRID_COUNT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct simgrid_count {
    int64_t executions, communications; /* completed, in this process and its children */
};

/** Count from 0 on, in memory that processes forked from now on share. */
const struct simgrid_count *simgrid_count_begin(void);

/** The next n processes that start SimGrid kill themselves. */
void simgrid_count_kill(int n);

#ifdef __cplusplus
}
#endif

#endif
