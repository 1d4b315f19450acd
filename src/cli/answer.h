/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module runs the verbs whose answer takes many runs: their progress, their journal, and how they stop and go on.
 */
#ifndef SLIMSIM_CLI_ANSWER_H
#define SLIMSIM_CLI_ANSWER_H

#include "cli/command.h"
#include "sweep/what_if.h"

/** An answer that is being found. */
struct answer_run {
    struct what_if_options how;
    struct progress progress;
    struct journal lock;
};

/**
 * Make the output folder, show the progress, and catch signals from now on. All cores are used.
 * @param name  of the journals; borrowed; NULL: the answer sets it
 */
bool answer_begin(struct answer_run *run, const struct options *options, const char *verb, const char *name,
                  struct error *err);

/** End the progress and release the lock. If the answer was found, say how many runs were computed and kept. @return ok
 */
bool answer_end(struct answer_run *run, bool ok);

/** Return the exit status of the verb. A stopped answer goes on from there. */
int answer_status(bool ok, struct error *err);

#endif
