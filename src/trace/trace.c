/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "trace/trace.h"

#include "base/check.h"
#include "trace/hdf5_sink.h"
#include "trace/hdf5_type.h"
#include "trace/output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFLATE_LEVEL = 4, MAX_ADDED_TABLES = 4, IMAGE_GROWTH_BYTES = 1 << 16, MAX_CHUNK_BYTES = 1 << 23 };

/** A data set grows, and its buffer has the rows that are not in it yet. */
struct growing {
    const struct trace_table *table; /* of an added table */
    bool open;
    hid_t dataset, memory_type;
    int64_t n_written;
    int32_t n_buffered, chunk_rows;
    char *buffer; /* [chunk_rows] */
};

struct trace {
    struct output output;
    hid_t file;
    struct hdf5_sink sink; /* of a file on disk */
    int32_t n_added;
    struct growing tables[TRACE_N_TABLES + MAX_ADDED_TABLES];
};

static const struct trace_table *table_of(const struct trace *trace, int32_t id)
{
    return id < TRACE_N_TABLES ? &trace_tables[id] : trace->tables[id].table;
}

static bool hdf5_failed(const struct trace *trace, enum error_status status, struct error *err)
{
    if (trace->sink.reason == 0 && hdf5_no_memory())
        check_out_of_memory("HDF5");
    const char *reason = trace->sink.reason != 0 ? strerror(trace->sink.reason) : hdf5_reason();
    return output_failed(&trace->output, status, reason, err);
}

static bool write_failed(const struct trace *trace, struct error *err)
{
    return hdf5_failed(trace, ERROR_IO, err);
}

/* Create the file. @param sink  NULL: in memory */
static hid_t create_file(struct hdf5_sink *sink)
{
    hid_t creation = H5Pcreate(H5P_FILE_CREATE), access = H5Pcreate(H5P_FILE_ACCESS);
    HDF5_CHECK(creation >= 0 && access >= 0);
    HDF5_CHECK(H5Pset_obj_track_times(creation, false) >= 0);
    HDF5_CHECK(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18) >= 0);
    HDF5_CHECK(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) >= 0);
    if (sink != NULL)
        hdf5_sink_use(access, sink);
    else
        HDF5_CHECK(H5Pset_fapl_core(access, IMAGE_GROWTH_BYTES, false) >= 0);
    hid_t file = H5Fcreate("trace", H5F_ACC_TRUNC, creation, access);
    hdf5_ok(file);
    H5Pclose(creation);
    H5Pclose(access);
    return file;
}

/*
 * Create the file of a trace whose output has its path.
 * @param sink  NULL: in memory
 * @return      NULL with err; the trace is freed
 */
static struct trace *begin(struct trace *trace, struct hdf5_sink *sink, struct error *err)
{
    hdf5_quiet();
    trace->file = create_file(sink);
    if (trace->file < 0)
        hdf5_failed(trace, ERROR_CANT_CREATE, err);
    else if (trace_set_integer(trace, "format_version", TRACE_FORMAT_VERSION, err))
        return trace;
    trace_abandon(trace);
    return NULL;
}

struct trace *trace_create(const char *directory, const char *name, struct error *err)
{
    char *path = check_asprintf("%s/%s.h5", directory, name);
    struct trace *trace = check_calloc(1, sizeof *trace);
    bool ok = output_begin(&trace->output, path, err);
    free(path);
    trace->sink.descriptor = trace->output.descriptor;
    if (ok)
        return begin(trace, &trace->sink, err);
    free(trace);
    return NULL;
}

struct trace *trace_create_image(const char *name, struct error *err)
{
    struct trace *trace = check_calloc(1, sizeof *trace);
    trace->output.path = check_strdup(name);
    return begin(trace, NULL, err);
}

int32_t trace_add_table(struct trace *trace, const struct trace_table *table)
{
    CHECK(trace->n_added < MAX_ADDED_TABLES);
    int32_t id = TRACE_N_TABLES + trace->n_added++;
    trace->tables[id].table = table;
    return id;
}

bool trace_add_group(struct trace *trace, const char *name, struct error *err)
{
    hid_t creation = H5Pcreate(H5P_GROUP_CREATE);
    HDF5_CHECK(creation >= 0 && H5Pset_obj_track_times(creation, false) >= 0);
    hid_t group = H5Gcreate2(trace->file, name, H5P_DEFAULT, creation, H5P_DEFAULT);
    bool ok = hdf5_ok(group) && hdf5_ok(H5Gclose(group));
    H5Pclose(creation);
    return ok || write_failed(trace, err);
}

bool trace_copy_image(struct trace *trace, const char *group, void *image, size_t n_bytes, struct error *err)
{
    hid_t file = hdf5_open_image(image, n_bytes);
    bool ok = file >= 0 && hdf5_ok(H5Ocopy(file, "/", trace->file, group, H5P_DEFAULT, H5P_DEFAULT)) &&
              trace->sink.reason == 0;
    if (file >= 0)
        H5Fclose(file);
    return ok || write_failed(trace, err);
}

const char *trace_hdf5_version(void)
{
    static char text[64];
    unsigned major, minor, release;
    HDF5_CHECK(H5get_libversion(&major, &minor, &release) >= 0);
    snprintf(text, sizeof text, "%u.%u.%u", major, minor, release);
    return text;
}

/* Write an attribute. @param n  negative: a scalar */
static bool set_attribute(hid_t object, const char *name, hid_t type, int64_t n, const void *values)
{
    hid_t space = n < 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &(hsize_t){(hsize_t)n}, NULL);
    HDF5_CHECK(space >= 0);
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool ok = hdf5_ok(attribute) && hdf5_ok(H5Awrite(attribute, type, values));
    if (attribute >= 0)
        ok = hdf5_ok(H5Aclose(attribute)) && ok;
    H5Sclose(space);
    return ok;
}

static bool set_text(hid_t object, const char *name, const char *text)
{
    hid_t type = hdf5_text_type(strlen(text));
    bool ok = set_attribute(object, name, type, -1, text);
    H5Tclose(type);
    return ok;
}

/* Write texts one after the other, each padded with NUL to the longest. The caller frees them. */
static char *pad_texts(int32_t n, const char *const *text, size_t *bytes)
{
    *bytes = 1;
    for (int32_t i = 0; i < n; i++)
        *bytes = strlen(text[i]) > *bytes ? strlen(text[i]) : *bytes;
    char *padded = check_calloc((size_t)n, *bytes);
    for (int32_t i = 0; i < n; i++)
        memcpy(padded + (size_t)i * *bytes, text[i], strlen(text[i]));
    return padded;
}

static bool set_texts(hid_t object, const char *name, const struct trace_names *names)
{
    size_t bytes;
    char *padded = pad_texts(names->n, names->text, &bytes);
    hid_t type = hdf5_text_type(bytes);
    bool ok = set_attribute(object, name, type, names->n, padded);
    H5Tclose(type);
    free(padded);
    return ok;
}

bool trace_set_text(struct trace *trace, const char *name, const char *text, struct error *err)
{
    return set_text(trace->file, name, text) || write_failed(trace, err);
}

bool trace_set_integer(struct trace *trace, const char *name, int64_t value, struct error *err)
{
    return set_attribute(trace->file, name, H5T_NATIVE_INT64, -1, &value) || write_failed(trace, err);
}

bool trace_set_integers(struct trace *trace, const char *name, int32_t n, const int64_t *values, struct error *err)
{
    return set_attribute(trace->file, name, H5T_NATIVE_INT64, n, values) || write_failed(trace, err);
}

bool trace_set_texts(struct trace *trace, const char *name, int32_t n, const char *const *texts, struct error *err)
{
    size_t bytes;
    char *padded = pad_texts(n, texts, &bytes);
    hid_t type = hdf5_text_type(bytes), space = H5Screate_simple(1, &(hsize_t){(hsize_t)n}, NULL);
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    HDF5_CHECK(space >= 0 && creation >= 0 && H5Pset_obj_track_times(creation, false) >= 0);
    hid_t dataset = H5Dcreate2(trace->file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    bool ok = hdf5_ok(dataset) && hdf5_ok(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, padded));
    if (dataset >= 0)
        ok = hdf5_ok(H5Dclose(dataset)) && ok;
    H5Pclose(creation);
    H5Sclose(space);
    H5Tclose(type);
    free(padded);
    return ok || write_failed(trace, err);
}

bool trace_set_systems(struct trace *trace, int32_t n, const char *const *labels, struct error *err)
{
    return trace_set_texts(trace, "systems", n, labels, err);
}

/* Return the rows of a chunk. Rows of long texts make smaller chunks. */
static int32_t chunk_rows(const struct trace_table *table)
{
    int32_t n = TRACE_CHUNK_ROWS;
    while (n > 1 && (size_t)n * table->row_bytes > MAX_CHUNK_BYTES)
        n /= 2;
    return n;
}

static hid_t chunked_creation(int32_t n_rows)
{
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    HDF5_CHECK(creation >= 0);
    HDF5_CHECK(H5Pset_obj_track_times(creation, false) >= 0);
    HDF5_CHECK(H5Pset_chunk(creation, 1, &(hsize_t){(hsize_t)n_rows}) >= 0);
    HDF5_CHECK(H5Pset_shuffle(creation) >= 0 && H5Pset_deflate(creation, DEFLATE_LEVEL) >= 0);
    HDF5_CHECK(H5Pset_fletcher32(creation) >= 0);
    return creation;
}

static bool explain_columns(hid_t dataset, const struct trace_table *table)
{
    bool ok = true;
    for (int32_t c = 0; c < table->n_columns && ok; c++) {
        const struct trace_column *column = &table->columns[c];
        char name[128];
        snprintf(name, sizeof name, "%s_unit", column->name);
        ok = set_text(dataset, name, column->unit);
        snprintf(name, sizeof name, "%s_meaning", column->name);
        ok = ok && set_text(dataset, name, column->meaning);
        snprintf(name, sizeof name, "%s_names", column->name);
        if (column->names != NULL && column->names->n > 0)
            ok = ok && set_texts(dataset, name, column->names);
    }
    return ok;
}

static bool create_table(struct trace *trace, int32_t id)
{
    const struct trace_table *table = table_of(trace, id);
    struct growing *growing = &trace->tables[id];
    hid_t creation = chunked_creation(chunk_rows(table)), type = hdf5_row_type(table, true);
    hid_t space = H5Screate_simple(1, &(hsize_t){0}, &(hsize_t){H5S_UNLIMITED});
    HDF5_CHECK(space >= 0);
    growing->dataset = H5Dcreate2(trace->file, table->name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    bool ok = hdf5_ok(growing->dataset);
    H5Pclose(creation);
    H5Tclose(type);
    H5Sclose(space);
    if (!ok)
        return false;
    growing->open = true;
    growing->memory_type = hdf5_row_type(table, false);
    growing->chunk_rows = chunk_rows(table);
    growing->buffer = check_malloc((size_t)growing->chunk_rows * table->row_bytes);
    return explain_columns(growing->dataset, table);
}

static bool write_buffered(struct growing *growing)
{
    hsize_t first = (hsize_t)growing->n_written, n = (hsize_t)growing->n_buffered;
    if (n == 0)
        return true;
    if (!hdf5_ok(H5Dset_extent(growing->dataset, &(hsize_t){first + n})))
        return false;
    hid_t memory = H5Screate_simple(1, &n, NULL), file = H5Dget_space(growing->dataset);
    HDF5_CHECK(memory >= 0 && file >= 0 && H5Sselect_hyperslab(file, H5S_SELECT_SET, &first, NULL, &n, NULL) >= 0);
    bool ok = hdf5_ok(H5Dwrite(growing->dataset, growing->memory_type, memory, file, H5P_DEFAULT, growing->buffer));
    H5Sclose(memory);
    H5Sclose(file);
    growing->n_written += growing->n_buffered;
    growing->n_buffered = 0;
    return ok;
}

/* Require finite numbers, or NaN in an optional column. */
static bool check_finite(const struct trace *trace, const struct trace_table *table, const char *row, int64_t number,
                         struct error *err)
{
    for (int32_t c = 0; c < table->n_columns; c++) {
        const struct trace_column *column = &table->columns[c];
        double value = 0;
        if (column->type == TRACE_DOUBLE)
            memcpy(&value, row + column->offset, sizeof value);
        if (!isfinite(value) && !(column->optional && isnan(value)))
            return error_set_status(err, ERROR_FAILED, "%s: %s of row %lld of table %s is %g, not a finite number",
                                    trace->output.path, column->name, (long long)number, table->name, value);
    }
    return true;
}

bool trace_append(struct trace *trace, int32_t id, const void *rows, int64_t n, struct error *err)
{
    CHECK(0 <= id && id < TRACE_N_TABLES + trace->n_added && n >= 0);
    const struct trace_table *table = table_of(trace, id);
    struct growing *growing = &trace->tables[id];
    if (!growing->open && !create_table(trace, id))
        return write_failed(trace, err);
    for (int64_t i = 0; i < n; i++) {
        const char *row = (const char *)rows + (size_t)i * table->row_bytes;
        if (!check_finite(trace, table, row, growing->n_written + growing->n_buffered, err))
            return false;
        memcpy(growing->buffer + (size_t)growing->n_buffered * table->row_bytes, row, table->row_bytes);
        if (++growing->n_buffered == growing->chunk_rows && (!write_buffered(growing) || trace->sink.reason != 0))
            return write_failed(trace, err);
    }
    return true;
}

/* Close all open tables. Without `keep` buffered rows are dropped. */
static bool close_tables(struct trace *trace, bool keep)
{
    bool ok = true;
    for (int32_t t = 0; t < TRACE_N_TABLES + trace->n_added; t++) {
        struct growing *growing = &trace->tables[t];
        if (!growing->open)
            continue;
        ok = (!keep || write_buffered(growing)) && ok;
        ok = hdf5_ok(H5Dclose(growing->dataset)) && ok;
        H5Tclose(growing->memory_type);
        free(growing->buffer);
        *growing = (struct growing){0};
    }
    return ok;
}

/* Write all buffered rows and the mark of a complete file. */
static bool complete(struct trace *trace)
{
    return close_tables(trace, true) && set_attribute(trace->file, "complete", H5T_NATIVE_INT64, -1, &(int64_t){1}) &&
           hdf5_ok(H5Fflush(trace->file, H5F_SCOPE_GLOBAL));
}

bool trace_end(struct trace *trace, struct output *output, struct error *err)
{
    bool ok = complete(trace);
    ok = hdf5_ok(H5Fclose(trace->file)) && ok;
    trace->file = -1;
    if (!ok || trace->sink.reason != 0) {
        write_failed(trace, err);
        trace_abandon(trace);
        return false;
    }
    *output = trace->output;
    free(trace);
    return true;
}

bool trace_close(struct trace *trace, struct error *err)
{
    struct output output;
    return trace_end(trace, &output, err) && output_commit(&output, 1, err);
}

/*
 * Copy the memory of HDF5's driver. HDF5 1.10.8 refuses the result of its own H5Fget_file_image, because of the
 * checksum of the superblock.
 */
bool trace_close_image(struct trace *trace, void **image, size_t *n_bytes, struct error *err)
{
    hsize_t n = 0;
    void **memory = NULL;
    bool ok = complete(trace) && hdf5_ok(H5Fget_filesize(trace->file, &n)) &&
              hdf5_ok(H5Fget_vfd_handle(trace->file, H5P_DEFAULT, (void **)&memory));
    *n_bytes = ok ? (size_t)n : 0;
    *image = check_malloc(*n_bytes);
    if (ok)
        memcpy(*image, *memory, *n_bytes);
    else
        write_failed(trace, err);
    trace_abandon(trace);
    return ok;
}

void trace_abandon(struct trace *trace)
{
    if (trace == NULL)
        return;
    close_tables(trace, false);
    if (trace->file >= 0)
        H5Fclose(trace->file);
    output_abandon(&trace->output);
    free(trace);
}
