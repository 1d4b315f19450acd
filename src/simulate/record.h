/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A scenario point as a trace: NAME.h5 with its tables and NAME.csv with the summary. */
#ifndef SLIMSIM_SIMULATE_RECORD_H
#define SLIMSIM_SIMULATE_RECORD_H

#include "search/search.h"
#include "simulate/summary.h"
#include "trace/trace.h"

/** A trace on its way. {0} is none. */
struct record {
    struct trace *trace;
    char *csv_path;
    bool full; /* scenario.trace: also what the first measured iteration did in detail, and all lengths */
};

/** Root attributes that every trace has: the program and the libraries that made it. */
bool record_versions(struct trace *trace, struct error *err);

/**
 * Create DIRECTORY/NAME.h5, NAME the scenario's, and write the root attributes.
 * @param directory     NULL: in memory
 * @param text          of the scenario: scenario_text()
 * @param lengths_hash  of the file of lengths
 */
bool record_open(struct record *record, const char *directory, const struct scenario *scenario, const char *text,
                 uint64_t lengths_hash, struct error *err);

/**
 * A point_observer; `context` is the struct record. Appends a row of iterations; in a full trace also lengths (of the
 * first system: all have the same batch) and, of the first measured iteration, units, tasks, transfers, memory, edges.
 * Which iterations these are stands in the root attribute traced_iterations.
 */
bool record_observe(void *context, const struct point_view *view, struct error *err);

/** Append what a plan search of one system looked at; nothing for an empty result. Only then is there a table plans. */
bool record_search(struct record *record, int32_t system, const struct search_result *result, struct error *err);

/**
 * Append the summary (a row per system), complete the trace and write NAME.csv beside it. Resets the record, also on
 * failure.
 * @param summary  of each system of the point
 */
bool record_close(struct record *record, const struct scenario *scenario, const struct point *point,
                  const struct point_summary *summary, struct error *err);

/** An HDF5 file in memory. */
struct record_image {
    void *bytes;
    size_t n_bytes;
};

/** The same of a record in memory; the caller frees the image's bytes. */
bool record_close_image(struct record *record, const struct scenario *scenario, const struct point *point,
                        const struct point_summary *summary, struct record_image *image, struct error *err);

/** Leave nothing behind, after a failure elsewhere. */
void record_abandon(struct record *record);

#endif
