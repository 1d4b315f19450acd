/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module writes a scenario point as a trace: NAME.h5 with its tables and NAME.csv with the summary. */
#ifndef SLIMSIM_SIMULATE_RECORD_H
#define SLIMSIM_SIMULATE_RECORD_H

#include "search/search.h"
#include "simulate/point_runner.h"
#include "trace/trace.h"

/** A trace that is being written; {0} is none. */
struct record {
    struct trace *trace;
    char *csv_path;
    bool full; /* scenario.trace: details of one iteration, and all lengths, too */
};

/** Write the root attributes that every trace has: the program and the libraries that made it. */
bool record_versions(struct trace *trace, struct error *err);

/**
 * Create DIRECTORY/NAME.h5, with the scenario's name, and write the root attributes.
 * @param directory     NULL: in memory
 * @param text          scenario_text() of the scenario
 * @param lengths       those of the scenario
 */
bool record_open(struct record *record, const char *directory, const struct scenario *scenario, const char *text,
                 const struct lengths *lengths, struct error *err);

/**
 * Append a row of iterations. This is a point_observer; `context` is the struct record. A full trace also gets lengths
 * (of the first system: all have the same batch).
 */
bool record_observe(void *context, const struct point_view *view, struct error *err);

/**
 * Append micro-batches, tasks, transfers, memory and edges of an iteration that runs again. This is a point_observer.
 * The root attribute traced_iterations names the iteration.
 */
bool record_observe_again(void *context, const struct point_view *view, struct error *err);

/**
 * Run the typical iteration again for a full trace, which gets its details. Another trace stays as it is.
 * @param searches  those of point_run
 */
bool record_typical_iteration(struct record *record, const struct scenario *scenario, const struct lengths *lengths,
                              const struct search_result *searches, const struct point *point, struct error *err);

/** Return the row of a plan. @param rank  index in search_result.ranked, -1: it is not ranked */
struct trace_plan record_plan(int32_t system, int32_t rank, const struct search_plan *plan);

/** Append the plans of a search of one system; nothing for an empty result. Only then a table `plans` exists. */
bool record_search(struct record *record, int32_t system, const struct search_result *result, struct error *err);

/**
 * Append the summary (a row for each system), complete the trace and write NAME.csv beside it. The record is reset,
 * also after a failure.
 * @param summary  [n_systems] with ranks (simulate/standing.h)
 */
bool record_close(struct record *record, const struct scenario *scenario, const struct point *point,
                  const struct trace_summary *summary, struct error *err);

/** An HDF5 file in memory. */
struct record_image {
    void *bytes;
    size_t n_bytes;
};

/** Call record_close for a record in memory; the caller frees the image's bytes. */
bool record_close_image(struct record *record, const struct scenario *scenario, const struct point *point,
                        const struct trace_summary *summary, struct record_image *image, struct error *err);

/** Remove the files after a failure elsewhere. */
void record_abandon(struct record *record);

#endif
