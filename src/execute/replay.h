/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * What runs in the forked child: SimGrid, for what shares links.
 *
 * A task that meets no other takes its time whatever happens, so its finish follows from its start. That holds of work,
 * of transfers that can meet no other on their links (execute/routes.h), whose start and finish are known as soon as
 * those of their predecessors are, and of transfers that could meet others but do not: these begin and end as events,
 * in the order of time. When two are on one link, both go to SimGrid at that moment, the earlier one with the bytes
 * that it has left, and end when SimGrid says so; whoever comes to their links until then follows. Max-min fair shares
 * of links that have no transfer in common do not depend on each other, so nothing is approximated: transfers on their
 * own and on SimGrid never have a link in common that could hold them back.
 *
 * Rates, times and order are SimGrid's own to rounding: bytes go to it as whole 65536ths, and it takes moments less
 * than 1e-12 s apart for one.
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
