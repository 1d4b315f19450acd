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
 * 8. It has no "distributedInfo", which names one rank, since it holds all of them. trace/hta.h writes a file for each.
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

/** Read the number of GPUs. A trace without tasks is an error. */
bool chrome_read_gpus(struct trace_reader *reader, int32_t *gpus, struct error *err);

/** Check the indices and the numbers that JSON will contain, since another program may have written the file. */
bool chrome_check_task(const struct trace_reader *reader, int32_t gpus, const struct trace_task *task,
                       struct error *err);

/** Round to nanoseconds, and write such a time as `,"key":` and microseconds with three decimals. */
int64_t chrome_nanoseconds(double seconds);
void chrome_write_microseconds(const char *key, int64_t ns, FILE *file);

/** Write the inside of a JSON string. */
void chrome_write_text(const char *text, FILE *file);

#endif
