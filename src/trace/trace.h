/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Results in HDF5: one run a file, tables (trace/table.h) and attributes at the root.
 *
 * Written to a temporary name; the final name means complete. Equal runs give equal bytes: no times, fixed
 * library bounds. Tables are read by h5py, R and pandas.read_hdf as they are. The attributes of a table are
 * COLUMN_unit, COLUMN_meaning and, for indices with names, COLUMN_names.
 * All functions that return false set err: ERROR_CANT_CREATE, ERROR_IO, or ERROR_FAILED for a number that is not finite
 * (but NaN in an optional column) when writing; ERROR_INVALID when reading.
 */
#ifndef SLIMSIM_TRACE_TRACE_H
#define SLIMSIM_TRACE_TRACE_H

#include "base/error.h"
#include "trace/output.h"
#include "trace/table.h"

/** Root attribute format_version: moves when a reader of older files would be misled. */
enum { TRACE_FORMAT_VERSION = 1 };

/** Rows of a chunk, fewer where they are long: as many are buffered before they are compressed and written. */
enum { TRACE_CHUNK_ROWS = 16384 };

struct trace; /* an HDF5 file being written */

/** Open DIRECTORY/NAME.h5's temporary file; the directory must exist. @return NULL with err on failure */
struct trace *trace_create(const char *directory, const char *name, struct error *err);

/** The same in memory, to be closed by trace_close_image. @param name  in messages */
struct trace *trace_create_image(const char *name, struct error *err);

/** A table beside those of trace/table.h, borrowed until the trace is closed. @return what trace_append takes */
int32_t trace_add_table(struct trace *trace, const struct trace_table *table);

/**
 * Whether a file in memory is a trace of slimsim, as somebody else may have made it:
 *
 * 1. Its members are tables and lists of texts that slimsim writes, in this file; no groups, links, other files.
 * 2. Types, filters and kinds of attributes are those that slimsim writes, and sizes fit in the file.
 * 3. Each row can be read, and its numbers are in their ranges (trace_row_fits).
 */
bool trace_image_fits(void *image, size_t n_bytes);

/** Copy all of a file in memory, which fits, into a new group. */
bool trace_copy_image(struct trace *trace, const char *group, void *image, size_t n_bytes, struct error *err);

/** A group without members, "points". */
bool trace_add_group(struct trace *trace, const char *name, struct error *err);

/** Version of the HDF5 library that runs, "1.10.8". Static storage. */
const char *trace_hdf5_version(void);

/** Append rows (of the table's row struct). The data set is created by the first call, also by one with n = 0. */
bool trace_append(struct trace *trace, int32_t table, const void *rows, int64_t n, struct error *err);

/** Root attributes. */
bool trace_set_text(struct trace *trace, const char *name, const char *text, struct error *err);
bool trace_set_integer(struct trace *trace, const char *name, int64_t value, struct error *err);
bool trace_set_integers(struct trace *trace, const char *name, int32_t n, const int64_t *values, struct error *err);

/** A data set of texts at the root, at least one, which tables refer to by index. */
bool trace_set_texts(struct trace *trace, const char *name, int32_t n, const char *const *texts, struct error *err);

/** The data set `systems`: labels. Every trace has it. */
bool trace_set_systems(struct trace *trace, int32_t n, const char *const *labels, struct error *err);

/** Write what is buffered and `complete` = 1, so that the file lacks only its name: that is left to output_commit.
 * Frees the trace; on failure nothing is left. */
bool trace_end(struct trace *trace, struct output *output, struct error *err);

/** trace_end and output_commit. */
bool trace_close(struct trace *trace, struct error *err);

/** The same of a trace in memory: its bytes, which the caller frees. */
bool trace_close_image(struct trace *trace, void **image, size_t *n_bytes, struct error *err);

/** Leave nothing behind. Takes NULL. */
void trace_abandon(struct trace *trace);

enum { TRACE_ID_BYTES = 16 }; /* digits of a point's id, in the file of a sweep */

/** An output_recognizer: whether the file is a trace of slimsim, of any version. */
bool trace_is_at(const char *path);

struct trace_reader; /* a complete trace */

/** @return NULL with err when it is no trace, not complete, or of another format version */
struct trace_reader *trace_open(const char *path, struct error *err);

/** The same of a file in memory. */
struct trace_reader *trace_open_image(void *image, size_t n_bytes, struct error *err);

/** The full trace of one point of a sweep, as the file of a run of that point. @return NULL with err, which says what
 * points have one */
struct trace_reader *trace_open_point(const char *path, int64_t point, struct error *err);

/** Rows of a table; -1: the file does not hold it. */
int64_t trace_n_rows(const struct trace_reader *reader, enum trace_table_id table);

/** The table as the file has it: its columns in order, also those that a sweep has in front (point, swept keys). NULL:
 * the file does not hold it. Borrowed. */
const struct trace_table *trace_file_table(const struct trace_reader *reader, enum trace_table_id table);

/** Say that the file does not hold a table, and what would have written it. @return false */
bool trace_absent(const struct trace_reader *reader, enum trace_table_id table, struct error *err);

/** The first n rows into row structs; columns are found by name, those the file lacks become 0. */
bool trace_read(struct trace_reader *reader, enum trace_table_id table, int64_t n, void *rows, struct error *err);

/** Called with each row in order. @return false to stop with err */
typedef bool trace_visitor(void *context, const void *row, struct error *err);

/** Visit all rows of a table that the file holds, a chunk in memory at a time. */
bool trace_visit(struct trace_reader *reader, enum trace_table_id table, trace_visitor *visitor, void *context,
                 struct error *err);

/** The same, rows of trace_file_table. */
bool trace_visit_file(struct trace_reader *reader, enum trace_table_id table, trace_visitor *visitor, void *context,
                      struct error *err);

int32_t trace_n_systems(const struct trace_reader *reader);
const char *trace_system(const struct trace_reader *reader, int32_t system);

/** Name of a column's value, e.g. "send" for kind 2; NULL: the column has no names, or none for this value. */
const char *trace_name(const struct trace_reader *reader, const struct trace_column *column, int64_t value);

/** Takes NULL. */
void trace_reader_close(struct trace_reader *reader);

#endif
