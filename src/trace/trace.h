/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module writes and reads results in HDF5. A file is one run, with tables (trace/table.h) and attributes at the
 * root.
 *
 * 1. The file has a temporary name until it is complete.
 * 2. Equal runs give equal bytes: there are no times, and library bounds are fixed.
 * 3. h5py, R and pandas.read_hdf read the tables directly.
 * 4. A table has the attributes COLUMN_unit, COLUMN_meaning and, for indices with names, COLUMN_names.
 * 5. All functions that return false set err. Statuses when writing: ERROR_CANT_CREATE, ERROR_IO, and ERROR_FAILED for
 *    a number that is not finite (except NaN in an optional column). Status when reading: ERROR_INVALID.
 */
#ifndef SLIMSIM_TRACE_TRACE_H
#define SLIMSIM_TRACE_TRACE_H

#include "base/error.h"
#include "trace/output.h"
#include "trace/table.h"

/** The root attribute format_version grows if a reader of older files would be misled. */
enum { TRACE_FORMAT_VERSION = 2 };

/**
 * This is the number of rows of a chunk, less if rows are long. They are buffered before they are compressed and
 * written.
 */
enum { TRACE_CHUNK_ROWS = 16384 };

struct trace; /* an HDF5 file being written */

/** Open the temporary file of DIRECTORY/NAME.h5. The directory must exist. @return NULL with err */
struct trace *trace_create(const char *directory, const char *name, struct error *err);

/** Open a trace in memory, which trace_close_image closes. @param name  for messages */
struct trace *trace_create_image(const char *name, struct error *err);

/** Add a table to those of trace/table.h. It is borrowed until the trace is closed. @return id for trace_append */
int32_t trace_add_table(struct trace *trace, const struct trace_table *table);

/**
 * Return whether a file in memory, which another program may have written, is a trace of slimsim.
 *
 * 1. Its members are tables and lists of texts that slimsim writes. They are in this file, without groups and links.
 * 2. Types, filters and kinds of attributes are those that slimsim writes, and sizes fit in the file.
 * 3. Each row can be read, and its numbers are in their ranges (trace_row_fits).
 */
bool trace_image_fits(void *image, size_t n_bytes);

/** Copy a whole file in memory into a new group. It must have passed trace_image_fits. */
bool trace_copy_image(struct trace *trace, const char *group, void *image, size_t n_bytes, struct error *err);

/** Add a group without members, such as "points". */
bool trace_add_group(struct trace *trace, const char *name, struct error *err);

/** Return the version of the HDF5 library that runs, "1.10.8". Storage is static. */
const char *trace_hdf5_version(void);

/** Append rows (of the table's row struct). The first call creates the data set, also with n = 0. */
bool trace_append(struct trace *trace, int32_t table, const void *rows, int64_t n, struct error *err);

/** Write a root attribute. */
bool trace_set_text(struct trace *trace, const char *name, const char *text, struct error *err);
bool trace_set_integer(struct trace *trace, const char *name, int64_t value, struct error *err);
bool trace_set_integers(struct trace *trace, const char *name, int32_t n, const int64_t *values, struct error *err);

/** Write a data set of at least one text at the root. Tables refer to the texts by index. */
bool trace_set_texts(struct trace *trace, const char *name, int32_t n, const char *const *texts, struct error *err);

/** Write the data set `systems`, the labels. Every trace has it. */
bool trace_set_systems(struct trace *trace, int32_t n, const char *const *labels, struct error *err);

/**
 * Write the buffered rows and `complete` = 1. The file then lacks only its name, which output_commit gives. The trace
 * is freed. After a failure nothing is left.
 */
bool trace_end(struct trace *trace, struct output *output, struct error *err);

/** Call trace_end and output_commit. */
bool trace_close(struct trace *trace, struct error *err);

/** Close a trace in memory and return its bytes, which the caller frees. */
bool trace_close_image(struct trace *trace, void **image, size_t *n_bytes, struct error *err);

/** Free the trace and remove its file. NULL is allowed. */
void trace_abandon(struct trace *trace);

enum { TRACE_ID_BYTES = 16 }; /* digits of a point's id, in the file of a sweep */

/** Return whether the file is a trace of slimsim, of any version. This is an output_recognizer. */
bool trace_is_at(const char *path);

struct trace_reader; /* a complete trace */

/** Open a trace. @return NULL with err if it is no trace, not complete, or of another format version */
struct trace_reader *trace_open(const char *path, struct error *err);

/** Open a trace in memory. */
struct trace_reader *trace_open_image(void *image, size_t n_bytes, struct error *err);

/**
 * Open the full trace of one point of a sweep, like the file of a run of that point. @return NULL with err, which lists
 * the points that have one
 */
struct trace_reader *trace_open_point(const char *path, int64_t point, struct error *err);

/**
 * Return the resolved scenario of a run as YAML text. The caller frees it. @return NULL with err if the file has none,
 * as the file of a sweep
 */
char *trace_scenario(const struct trace_reader *reader, struct error *err);

/** Return the resolved scenario of a point of a sweep's file as YAML text. The caller frees it. @return NULL with err
 */
char *trace_point_scenario(const char *path, int64_t point, struct error *err);

/** Return the rows of a table; -1: the file lacks the table. */
int64_t trace_n_rows(const struct trace_reader *reader, enum trace_table_id table);

/**
 * Return the table with the file's columns in order. A sweep has point and swept keys as its first columns. The result
 * is borrowed. NULL: the file lacks the table.
 */
const struct trace_table *trace_file_table(const struct trace_reader *reader, enum trace_table_id table);

/** Report a missing table and how it would be written. @return false */
bool trace_absent(const struct trace_reader *reader, enum trace_table_id table, struct error *err);

/** Read the first n rows into row structs. Columns are found by name; missing columns become 0. */
bool trace_read(struct trace_reader *reader, enum trace_table_id table, int64_t n, void *rows, struct error *err);

/** Called with each row in order. @return false to stop with err */
typedef bool trace_visitor(void *context, const void *row, struct error *err);

/** Visit all rows of a table that the file has, with one chunk in memory at a time. */
bool trace_visit(struct trace_reader *reader, enum trace_table_id table, trace_visitor *visitor, void *context,
                 struct error *err);

/** Visit the rows of trace_file_table. */
bool trace_visit_file(struct trace_reader *reader, enum trace_table_id table, trace_visitor *visitor, void *context,
                      struct error *err);

int32_t trace_n_systems(const struct trace_reader *reader);
const char *trace_system(const struct trace_reader *reader, int32_t system);

/** Return the name of a column's value, "send" for kind 2. NULL: the column or the value has no name. */
const char *trace_name(const struct trace_reader *reader, const struct trace_column *column, int64_t value);

/** Close the file and free the reader. NULL is allowed. */
void trace_reader_close(struct trace_reader *reader);

#endif
