/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module writes a trace as Chrome's trace-event JSON, which chrome://tracing and ui.perfetto.dev open.
 *
 * 1. A process is a GPU: system x GPUs + rank. Its name is its position in the plan.
 * 2. In a plan of several layouts a GPU may have several positions. Then its name is only its number, and its events
 *    give their positions.
 * 3. A thread is a stream of the GPU. Events of one thread never overlap.
 * 4. Times are in microseconds with three decimals. Both ends are rounded, so an event never begins before its
 *    predecessor ends.
 * 5. Live bytes by class are counters.
 */
#ifndef SLIMSIM_TRACE_CHROME_H
#define SLIMSIM_TRACE_CHROME_H

#include <stdio.h>

#include "trace/trace.h"

/** Write the trace. A trace without tasks is an error. */
bool chrome_write(struct trace_reader *reader, FILE *file, struct error *err);

#endif
