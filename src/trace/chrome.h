/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * A trace as Chrome's trace-event JSON, which chrome://tracing and ui.perfetto.dev open.
 *
 * A process is a GPU (system x GPUs + rank), named by its place; one with several places, in a plan of several layouts,
 * by its number alone, and its events tell theirs. A thread is one of its streams; events of one thread never overlap.
 * Times are in microseconds with three decimals, rounded at both ends, so that what follows never begins before what
 * precedes ends. Live bytes by class are counters.
 */
#ifndef SLIMSIM_TRACE_CHROME_H
#define SLIMSIM_TRACE_CHROME_H

#include <stdio.h>

#include "trace/trace.h"

/** A trace without tasks is an error. */
bool chrome_write(struct trace_reader *reader, FILE *file, struct error *err);

#endif
