/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What SIGINT, SIGTERM and SIGHUP do. Where they are ignored (nohup, a shell's background job) they stay ignored. */
#ifndef SLIMSIM_CLI_STOP_H
#define SLIMSIM_CLI_STOP_H

#include <signal.h>

#include "base/error.h"

/** The signal that asks to stop, 0: none. */
extern volatile sig_atomic_t stop_signal;

/** From now on they end the program at once, wherever it is: no temporary file stays, and the exit status is 128 and
 * the signal's number. */
void stop_at_once(void);

/** A limit on the wall clock: in this time [s], at least 0.001, the program ends likewise with ERROR_FAILED, unless
 * stop_catch is called before. */
void stop_after(double time_s);

/** From now on they set stop_signal and leave the rest to the command; the second one ends it. */
void stop_catch(void);

/** Say that a signal ended the command and what is left of it. @return the exit status */
int stop_fail(const char *left, struct error *err);

#endif
