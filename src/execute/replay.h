/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What runs in the forked child: SimGrid, one actor per stream. */
#ifndef SLIMSIM_EXECUTE_REPLAY_H
#define SLIMSIM_EXECUTE_REPLAY_H

#include "execute/queues.h"
#include "scenario/platform.h"

struct replay {
    const struct dag *dag;
    struct queues *queues; /* n_waits is used up: counts down to 0 as predecessors finish */
    const struct platform *platform;
    double *start_s, *finish_s; /* [n_tasks] written as the tasks run; one that never ran keeps what stood there */
};

/** How the child ends when it can say why on stderr. */
enum { REPLAY_REFUSED = 2 };

/**
 * Run SimGrid, once a process, and write start and finish of every task that ran.
 * A platform that SimGrid does not read, or that lacks a host: one line on stderr and the exit status REPLAY_REFUSED.
 * @return exit status
 */
int replay_run(const struct replay *replay);

#endif
