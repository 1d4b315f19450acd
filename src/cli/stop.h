/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module handles SIGINT, SIGTERM and SIGHUP. If a signal is ignored (nohup, a shell's background job), it stays
 * ignored.
 */
#ifndef SLIMSIM_CLI_STOP_H
#define SLIMSIM_CLI_STOP_H

#include <signal.h>

#include "base/error.h"

/** This is the signal that asks to stop, 0: none. */
extern volatile sig_atomic_t stop_signal;

/**
 * From now on signals end the program immediately. They remove temporary files, and the exit status is 128 plus the
 * signal's number.
 */
void stop_at_once(void);

/**
 * Limit the time on the wall clock. After time_s, at least 0.001, the program ends in the same way with ERROR_FAILED.
 * stop_catch removes the limit.
 */
void stop_after(double time_s);

/** From now on signals set stop_signal and the command handles the rest. A second signal ends it. */
void stop_catch(void);

/** Report that a signal ended the command. @param left  state of its files @return the exit status */
int stop_fail(const char *left, struct error *err);

#endif
