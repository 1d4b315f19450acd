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
 * 6. A flow arrow ("s", "f") leads from each boundary's transfer to the pass that receives it. Both ends lie 1 ns
 *    inside their events, so that no viewer takes the event before.
 * 7. Tasks of the critical path are red. They have the category "critical" and the argument "critical": true.
 *
 * Source: Trace Event Format, docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
 */
#ifndef SLIMSIM_TRACE_CHROME_H
#define SLIMSIM_TRACE_CHROME_H

#include <stdio.h>

#include "trace/trace.h"

/** Write the trace. A trace without tasks is an error. */
bool chrome_write(struct trace_reader *reader, FILE *file, struct error *err);

/** Estimate the size of the text that chrome_write would write [bytes], within some 30%. */
double chrome_bytes(struct trace_reader *reader);

#endif
