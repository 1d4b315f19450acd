/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module makes rows of a trace's tables that no result holds: tasks, memory over time and plans of searches. */
#ifndef SLIMSIM_SIMULATE_RECORD_ROWS_H
#define SLIMSIM_SIMULATE_RECORD_ROWS_H

#include "search/search.h"
#include "simulate/point_runner.h"

/** Return the t-th task of the view's graph. */
struct trace_task record_task(const struct point_view *view, int32_t t);

struct trace_memory record_memory(const struct point_view *view, const struct memory_event *event);

/** @param rank  index in search_result.ranked, -1: it is not ranked */
struct trace_plan record_plan(int32_t system, int32_t rank, const struct search_plan *plan);

#endif
