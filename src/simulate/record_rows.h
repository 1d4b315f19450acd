/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module makes rows of a trace's tables: results under the names of trace's columns, which have the meanings. */
#ifndef SLIMSIM_SIMULATE_RECORD_ROWS_H
#define SLIMSIM_SIMULATE_RECORD_ROWS_H

#include "search/search.h"
#include "simulate/summary.h"
#include "trace/trace.h"

struct trace_iteration record_iteration(int32_t system, const struct point_iteration *of);

/** @param index  of the system in the point */
struct trace_summary record_summary(const struct scenario *scenario, const struct point *point, int32_t index,
                                    const struct point_summary *of);

/** Return the t-th task of the view's graph. */
struct trace_task record_task(const struct point_view *view, int32_t t);

struct trace_memory record_memory(const struct point_view *view, const struct memory_event *event);

struct trace_stage record_stage(int32_t system, int32_t stage, const struct stage_peak *peak);

/** @param rank  index in search_result.ranked, -1: it is not ranked */
struct trace_plan record_plan(int32_t system, int32_t rank, const struct search_plan *plan);

#endif
