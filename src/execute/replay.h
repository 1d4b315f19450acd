/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * What runs in the forked child: SimGrid, one actor per stream that sends.
 *
 * SimGrid runs what may contend, the transfers that can meet others on their links (execute/routes.h). Every other task
 * takes its time whatever happens, so its start and finish follow as soon as those of its predecessors are known,
 * ahead of SimGrid's clock; nothing is known later than it happens. A SEND's actor sleeps until its start and latency
 * are over and then sends. Same tasks, same times as with an actor for each stream that sleeps through its work.
 *
 * Equal pipelines are not run once for all: batches drawn from a law have none, and those of fixed lengths meet in the
 * rings of gradients on links that their last passes still use.
 */
#ifndef SLIMSIM_EXECUTE_REPLAY_H
#define SLIMSIM_EXECUTE_REPLAY_H

#include "execute/cluster.h"
#include "execute/queues.h"

struct replay {
    const struct dag *dag;
    struct queues *queues; /* n_waits is used up: counts down to 0 as predecessors finish */
    const struct platform *platform;
    double *start_s, *finish_s; /* [n_tasks] written as tasks run, start_s must be 0 before; a task that never ran keeps
                                   what stood in finish_s */
};

/** How the child ends when it can say why on stderr. */
enum { REPLAY_REFUSED = 2 };

/**
 * Run SimGrid, once a process, and write start and finish of every task that ran.
 * A platform that SimGrid does not read, or that lacks a host: one line on stderr and the exit status REPLAY_REFUSED.
 * @return exit status
 */
int replay_run(const struct replay *replay);

/** The same on a cluster that is open; times count from SimGrid's clock at the start. */
void replay_on(const struct replay *replay, const struct cluster *cluster);

#endif
