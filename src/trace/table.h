/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module has the tables of a trace. Their columns are written once, in trace/NAME.def.
 *
 *     COLUMN(c_type, HDF5_TYPE, name, unit, meaning)
 *     NAMED(c_type, HDF5_TYPE, name, names, meaning)      an index with names: see trace_names
 *     OPTIONAL(name, unit, meaning)                       a double that a row may lack: NaN, an empty cell of CSV
 *     BLOCK(member) ... BLOCK_END                         these columns together are also this member of the row
 *     TEXT(name, meaning)                                 a text of at most TRACE_TEXT_BYTES, padded with NUL
 *     STRING(name, meaning)                               a text, in tables that are printed only
 *
 * They give the row structs below, the HDF5 types, the attributes that explain them and the headers of CSV files.
 */
#ifndef SLIMSIM_TRACE_TABLE_H
#define SLIMSIM_TRACE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bounds/bubble.h"
#include "bounds/memory.h"
#include "bounds/traffic.h"

#define COLUMN(c_type, hdf5_type, name, unit, meaning) c_type name;
#define NAMED(c_type, hdf5_type, name, names, meaning) c_type name;
#define OPTIONAL(name, unit, meaning)                  double name;
#define BLOCK(member)                                                                                                  \
    union {                                                                                                            \
        member;                                                                                                        \
        struct {
#define BLOCK_END                                                                                                      \
    }                                                                                                                  \
    ;                                                                                                                  \
    }                                                                                                                  \
    ;
#define TEXT(name, meaning)   char name[TRACE_TEXT_BYTES];
#define STRING(name, meaning) const char *name;

enum { TRACE_TEXT_BYTES = 128 };

struct trace_summary {
#include "trace/summary.def"
};
struct trace_iteration {
#include "trace/iteration.def"
};
struct trace_plan {
#include "trace/plan.def"
};
struct trace_stage {
#include "trace/stage.def"
};
struct trace_deciding {
#include "trace/deciding.def"
};
struct trace_task {
#include "trace/task.def"
};
struct trace_transfer {
#include "trace/transfer.def"
};
struct trace_memory {
#include "trace/memory.def"
};
struct trace_micro_batch {
#include "trace/micro_batch.def"
};
struct trace_length {
#include "trace/length.def"
};
struct trace_fault {
#include "trace/fault.def"
};
struct trace_edge {
#include "trace/edge.def"
};
struct trace_validation {
#include "trace/validation.def"
};
struct trace_candidate {
#include "trace/candidate.def"
};
struct trace_change {
#include "trace/change.def"
};
struct trace_date {
#include "trace/date.def"
};
struct trace_sensitivity {
#include "trace/sensitivity.def"
};

#undef COLUMN
#undef NAMED
#undef OPTIONAL
#undef BLOCK
#undef BLOCK_END
#undef TEXT
#undef STRING

/** Users see the tables in this order. */
enum trace_table_id {
    TRACE_SUMMARY,
    TRACE_ITERATIONS,
    TRACE_STAGES,
    TRACE_PLANS,
    TRACE_LENGTHS,
    TRACE_MICRO_BATCHES,
    TRACE_TASKS,
    TRACE_TRANSFERS,
    TRACE_MEMORY,
    TRACE_EDGES,
    TRACE_FAULTS,
    TRACE_DECIDING,
    TRACE_VALIDATION,
    TRACE_CANDIDATES,
    TRACE_CHANGES,
    TRACE_DATES,
    TRACE_N_TABLES,
    TRACE_SENSITIVITY = TRACE_N_TABLES, /* tables from here on are printed only */
    TRACE_N_ROWS
};

enum trace_type { TRACE_INT32, TRACE_INT64, TRACE_DOUBLE, TRACE_TEXT /* padded with NUL */, TRACE_STRING };

/** These are the names of the values 0, 1, ... of a column. If n = 0, the file's data set `systems` has them. */
struct trace_names {
    int32_t n;
    const char *const *text;
};

struct trace_column {
    const char *name, *unit, *meaning;
    enum trace_type type;
    bool optional;                   /* a double that may be NaN */
    size_t offset;                   /* in the row struct */
    const struct trace_names *names; /* NULL: a number without names */
    size_t bytes;                    /* of a text */
};

struct trace_table {
    const char *name; /* of the data set */
    size_t row_bytes;
    int32_t n_columns;
    const struct trace_column *columns;
};

extern const struct trace_table trace_tables[TRACE_N_ROWS];
extern const struct trace_names trace_kind_names, trace_purpose_names, trace_pass_names, trace_schedule_names,
    trace_stream_names, trace_edge_names, trace_formation_names, trace_recompute_names, trace_quantity_names,
    trace_sharding_names, trace_gradients_names, trace_gradient_buffers_names, trace_misfit_names, trace_verdict_names;

/** Return a column by its name; NULL: there is none. */
const struct trace_column *trace_column_find(enum trace_table_id table, const char *name);

/** Return the name of an index that a column holds; NULL: it has none. */
typedef const char *trace_namer(const void *context, const struct trace_column *column, int64_t value);

/** A value of a row: `number` of a double, `whole` of an integer, and the text if it has one. */
struct trace_value {
    double number;
    int64_t whole;
    const char *text; /* name of an index, or a string; NULL: none */
};

/** @param namer  NULL: only columns with fixed names have names. The column is no TRACE_TEXT. */
struct trace_value trace_value_of(const struct trace_column *column, const void *row, trace_namer *namer,
                                  const void *context);

/**
 * Return whether the numbers of a row are in their ranges. They must be finite, or NaN if a column is optional. Indices
 * must have names.
 * @param n_systems  of the file
 */
bool trace_row_fits(const struct trace_table *table, const void *row, int32_t n_systems);

/** Return a table by its name; -1: there is none. */
int32_t trace_table_find(const char *name);

#endif
