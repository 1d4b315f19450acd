/* SPDX-License-Identifier: GPL-3.0-or-later */
/** SIGINT, SIGTERM, SIGHUP ask a long command to end; asked twice, it ends at once. */
#ifndef SLIMSIM_CLI_STOP_H
#define SLIMSIM_CLI_STOP_H

#include <signal.h>

#include "base/error.h"

/** The signal that asks to stop, 0: none. */
extern volatile sig_atomic_t stop_signal;

/** Where signals are ignored (nohup, a shell's background job) they stay ignored. */
void stop_catch(void);

/** Say that a signal ended the command and what is left of it. @return the exit status */
int stop_fail(const char *left, struct error *err);

#endif
