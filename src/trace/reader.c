/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file has the reader of traces. */
#include "trace/trace.h"

#include "base/check.h"
#include "base/regular.h"
#include "trace/hdf5_type.h"

#include <stdlib.h>
#include <string.h>

/** This is a data set to read. Absent data sets have no rows. */
struct readable {
    hid_t dataset;
    int64_t n_rows; /* -1: absent */
    hid_t type;     /* row struct with only the columns that the file has */
    struct trace_table found;
    hid_t found_type; /* type of a row of `found` */
};

struct trace_reader {
    char *path;
    hid_t file, root; /* root: the file, or its group with the trace of a point */
    int32_t n_systems;
    char **systems;
    struct readable tables[TRACE_N_TABLES];
};

/* Read an integer attribute of the root; -1: there is none. */
static int64_t read_integer(hid_t file, const char *name)
{
    int64_t value = -1;
    hid_t attribute = H5Aexists(file, name) > 0 ? H5Aopen(file, name, H5P_DEFAULT) : -1;
    if (attribute < 0)
        return -1;
    hid_t space = H5Aget_space(attribute);
    if (H5Sget_simple_extent_npoints(space) != 1 || H5Aread(attribute, H5T_NATIVE_INT64, &value) < 0)
        value = -1;
    H5Sclose(space);
    H5Aclose(attribute);
    return value;
}

static bool read_systems(struct trace_reader *reader)
{
    hid_t dataset = H5Dopen2(reader->root, "systems", H5P_DEFAULT);
    if (dataset < 0)
        return false;
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    bool ok = H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 && 0 <= n && n < INT32_MAX;
    size_t bytes = H5Tget_size(type);
    char *padded = ok ? check_calloc((size_t)n, bytes) : NULL;
    ok = ok && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, padded) >= 0;
    if (ok) {
        reader->n_systems = (int32_t)n;
        reader->systems = check_calloc((size_t)n, sizeof *reader->systems);
        for (int32_t i = 0; i < reader->n_systems; i++)
            reader->systems[i] = check_strndup(padded + (size_t)i * bytes, bytes);
    }
    free(padded);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(dataset);
    return ok;
}

/* Return a type with the row struct's columns that the file's compound type also has. */
static hid_t common_type(hid_t file_type, const struct trace_table *table)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, table->row_bytes);
    HDF5_CHECK(type >= 0);
    for (int32_t c = 0; c < table->n_columns; c++) {
        const struct trace_column *column = &table->columns[c];
        if (H5Tget_member_index(file_type, column->name) >= 0)
            hdf5_insert(type, column, hdf5_memory_type(column->type));
    }
    return type;
}

/*
 * Describe a column as the file has it. It starts after `row_bytes` of a row. A known column takes its names from the
 * table.
 */
static bool find_column(hid_t file_type, unsigned member, const struct trace_table *known, size_t row_bytes,
                        struct trace_column *column)
{
    hid_t type = H5Tget_member_type(file_type, member);
    H5T_class_t class = H5Tget_class(type);
    size_t bytes = H5Tget_size(type);
    bool fixed = class == H5T_FLOAT || class == H5T_INTEGER || (class == H5T_STRING && H5Tis_variable_str(type) == 0);
    H5Tclose(type);
    *column = (struct trace_column){.name = H5Tget_member_name(file_type, member), .offset = row_bytes, .bytes = bytes};
    column->type = class == H5T_STRING       ? TRACE_TEXT
                   : class == H5T_FLOAT      ? TRACE_DOUBLE
                   : bytes > sizeof(int32_t) ? TRACE_INT64
                                             : TRACE_INT32;
    for (int32_t c = 0; c < known->n_columns; c++)
        if (column->name != NULL && strcmp(known->columns[c].name, column->name) == 0)
            column->names = known->columns[c].names;
    return fixed && column->name != NULL;
}

/* Describe all columns of the file's compound type, including those that the table does not know. */
static bool find_columns(hid_t file_type, const struct trace_table *known, struct readable *readable)
{
    int n = H5Tget_nmembers(file_type);
    struct trace_column *columns = check_calloc((size_t)n, sizeof *columns);
    struct trace_table *found = &readable->found;
    *found = (struct trace_table){known->name, 0, n, columns};
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        ok = find_column(file_type, (unsigned)i, known, found->row_bytes, &columns[i]);
        found->row_bytes += columns[i].type == TRACE_TEXT ? (columns[i].bytes + 7) / 8 * 8 : sizeof(int64_t);
    }
    if (ok)
        readable->found_type = hdf5_row_type(found, false);
    return ok;
}

static bool open_table(struct trace_reader *reader, enum trace_table_id id)
{
    struct readable *readable = &reader->tables[id];
    readable->n_rows = -1;
    if (H5Lexists(reader->root, trace_tables[id].name, H5P_DEFAULT) <= 0)
        return true;
    hid_t dataset = H5Dopen2(reader->root, trace_tables[id].name, H5P_DEFAULT);
    if (dataset < 0)
        return false;
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    bool ok = H5Tget_class(type) == H5T_COMPOUND && H5Sget_simple_extent_ndims(space) == 1;
    if (ok) {
        readable->dataset = dataset;
        readable->n_rows = H5Sget_simple_extent_npoints(space);
        readable->type = common_type(type, &trace_tables[id]);
        ok = find_columns(type, &trace_tables[id], readable) && H5Tget_nmembers(readable->type) > 0;
    } else {
        H5Dclose(dataset);
    }
    H5Sclose(space);
    H5Tclose(type);
    return ok;
}

static bool open_complete(struct trace_reader *reader, struct error *err)
{
    int64_t version = read_integer(reader->root, "format_version");
    if (version < 0)
        return error_set(err, "%s: not a trace of slimsim (no attribute format_version)", reader->path);
    if (version != TRACE_FORMAT_VERSION)
        return error_set(err, "%s: it has format version %lld, but this slimsim reads %d", reader->path,
                         (long long)version, TRACE_FORMAT_VERSION);
    if (read_integer(reader->root, "complete") != 1)
        return error_set(err, "%s: it is not complete, as the run that wrote it did not end", reader->path);
    if (!read_systems(reader))
        return error_set(err, "%s: the data set systems is missing or damaged", reader->path);
    for (int32_t t = 0; t < TRACE_N_TABLES; t++)
        if (!open_table(reader, (enum trace_table_id)t))
            return error_set(err, "%s: the table %s is damaged", reader->path, trace_tables[t].name);
    return true;
}

char *trace_scenario(const struct trace_reader *reader, struct error *err)
{
    hid_t attribute =
        H5Aexists(reader->root, "scenario") > 0 ? H5Aopen(reader->root, "scenario", H5P_DEFAULT) : H5I_INVALID_HID;
    char *text = NULL;
    if (attribute >= 0) {
        hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
        size_t bytes = H5Tget_size(type);
        bool fixed = H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0;
        if (fixed && bytes > 0 && H5Sget_simple_extent_npoints(space) == 1)
            text = check_calloc(bytes + 1, 1);
        if (text != NULL && H5Aread(attribute, type, text) < 0) {
            free(text);
            text = NULL;
        }
        H5Sclose(space);
        H5Tclose(type);
        H5Aclose(attribute);
    }
    if (text == NULL)
        error_set(err, "%s: it holds no scenario of a single run", reader->path);
    return text;
}

/** Read the ids of a sweep's points, in order. The caller frees them. NULL: the file has no readable sweep. */
static char (*read_ids(hid_t file, int64_t *n_points))[TRACE_ID_BYTES]
{
    hid_t dataset = H5Lexists(file, "manifest", H5P_DEFAULT) > 0 ? H5Dopen2(file, "manifest", H5P_DEFAULT) : -1;
    if (dataset < 0)
        return NULL;
    hid_t text = hdf5_text_type(TRACE_ID_BYTES), type = H5Tcreate(H5T_COMPOUND, TRACE_ID_BYTES),
          space = H5Dget_space(dataset);
    HDF5_CHECK(type >= 0 && H5Tinsert(type, "id", 0, text) >= 0);
    *n_points = H5Sget_simple_extent_npoints(space);
    char(*ids)[TRACE_ID_BYTES] = *n_points >= 0 ? check_calloc((size_t)*n_points, sizeof *ids) : NULL;
    if (ids != NULL && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, ids) < 0) {
        free(ids);
        ids = NULL;
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Tclose(text);
    H5Dclose(dataset);
    return ids;
}

/** Return whether a point has a full trace, and write the name of its group. */
static bool find_group(hid_t file, const char id[TRACE_ID_BYTES], char group[32])
{
    snprintf(group, 32, "points/%.*s", TRACE_ID_BYTES, id);
    return H5Lexists(file, "points", H5P_DEFAULT) > 0 && H5Lexists(file, group, H5P_DEFAULT) > 0;
}

/** List the points that have a full trace: "0-3, 7, ..." */
static void list_traced(hid_t file, char (*ids)[TRACE_ID_BYTES], int64_t n_points, char text[160])
{
    enum { SHOWN = 8 };
    char group[32];
    int n_ranges = 0;
    *text = '\0';
    for (int64_t first = 0, end; first < n_points && n_ranges <= SHOWN; first = end + 1) {
        for (end = first; end < n_points && find_group(file, ids[end], group); end++)
            ;
        if (end == first)
            continue;
        size_t used = strlen(text);
        const char *comma = n_ranges > 0 ? ", " : "";
        if (n_ranges++ == SHOWN)
            snprintf(text + used, 160 - used, ", ...");
        else if (end == first + 1)
            snprintf(text + used, 160 - used, "%s%lld", comma, (long long)first);
        else
            snprintf(text + used, 160 - used, "%s%lld-%lld", comma, (long long)first, (long long)end - 1);
    }
}

/** Make the group of a point the root. */
static bool enter_point(struct trace_reader *reader, int64_t point, struct error *err)
{
    char group[32], traced[160];
    int64_t n_points = 0;
    char(*ids)[TRACE_ID_BYTES] = read_ids(reader->file, &n_points);
    if (ids == NULL)
        return error_set(err, "%s: it is no file of a sweep, so it has no point %lld", reader->path, (long long)point);
    bool found = 0 <= point && point < n_points && find_group(reader->file, ids[point], group);
    if (!found)
        list_traced(reader->file, ids, n_points, traced);
    free(ids);
    if (!found && *traced == '\0')
        return error_set(err, "%s: no point has a full trace; `trace: full` in the scenario writes them", reader->path);
    if (!found)
        return error_set(err, "%s: there is no full trace of point %lld; these points have one: %s", reader->path,
                         (long long)point, traced);
    reader->root = H5Gopen2(reader->file, group, H5P_DEFAULT);
    return hdf5_ok(reader->root) || error_set(err, "%s: %s cannot be read: %s", reader->path, group, hdf5_reason());
}

static struct trace_reader *reader_of(hid_t file, const char *path)
{
    struct trace_reader *reader = check_calloc(1, sizeof *reader);
    reader->path = check_strdup(path);
    reader->file = reader->root = file;
    return reader;
}

/** Open the file without a check of its format. */
static struct trace_reader *open_file(const char *path, struct error *err)
{
    if (!regular_check(path, err))
        return NULL;
    hdf5_quiet();
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    HDF5_CHECK(access >= 0 && H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) >= 0);
    HDF5_CHECK(H5Pset_file_locking(access, false, true) >= 0); /* a run reads its own output, which is locked */
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
    bool ok = hdf5_ok(file);
    H5Pclose(access);
    if (!ok) {
        error_set(err, "%s: cannot be read as HDF5: %s", path, hdf5_reason());
        return NULL;
    }
    return reader_of(file, path);
}

bool trace_is_at(const char *path)
{
    struct error err = {0};
    struct trace_reader *reader = open_file(path, &err);
    bool is = reader != NULL && read_integer(reader->root, "format_version") >= 0;
    trace_reader_close(reader);
    return is;
}

struct trace_reader *trace_open(const char *path, struct error *err)
{
    struct trace_reader *reader = open_file(path, err);
    if (reader == NULL || open_complete(reader, err))
        return reader;
    trace_reader_close(reader);
    return NULL;
}

/** Read the text of one row. @return NULL if the data set has no such column of text */
static char *read_scenario(hid_t dataset, hsize_t row)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    int member = H5Tget_class(type) == H5T_COMPOUND ? H5Tget_member_index(type, "scenario") : -1;
    hid_t text = member >= 0 ? H5Tget_member_type(type, (unsigned)member) : H5I_INVALID_HID;
    char *scenario = NULL;
    if (text >= 0 && H5Tget_class(text) == H5T_STRING && H5Tis_variable_str(text) == 0) {
        hsize_t one = 1;
        hid_t column = H5Tcreate(H5T_COMPOUND, H5Tget_size(text)), memory = H5Screate_simple(1, &one, NULL);
        HDF5_CHECK(column >= 0 && memory >= 0 && H5Tinsert(column, "scenario", 0, text) >= 0 &&
                   H5Sselect_hyperslab(space, H5S_SELECT_SET, &row, NULL, &one, NULL) >= 0);
        scenario = check_calloc(H5Tget_size(text) + 1, 1);
        if (H5Dread(dataset, column, memory, space, H5P_DEFAULT, scenario) < 0) {
            free(scenario);
            scenario = NULL;
        }
        H5Sclose(memory);
        H5Tclose(column);
    }
    if (text >= 0)
        H5Tclose(text);
    H5Sclose(space);
    H5Tclose(type);
    return scenario;
}

char *trace_point_scenario(const char *path, int64_t point, struct error *err)
{
    struct trace_reader *reader = open_file(path, err);
    if (reader == NULL)
        return NULL;
    bool exists = H5Lexists(reader->file, "scenarios", H5P_DEFAULT) > 0;
    hid_t dataset = exists ? H5Dopen2(reader->file, "scenarios", H5P_DEFAULT) : H5I_INVALID_HID;
    hid_t space = dataset >= 0 ? H5Dget_space(dataset) : H5I_INVALID_HID;
    int64_t n_points = space >= 0 && H5Sget_simple_extent_ndims(space) == 1 ? H5Sget_simple_extent_npoints(space) : 0;
    char *text = 0 <= point && point < n_points ? read_scenario(dataset, (hsize_t)point) : NULL;
    if (n_points < 1)
        error_set(err, "%s: it is no file of a sweep, so it has no point %lld", path, (long long)point);
    else if (point >= n_points)
        error_set(err, "%s: there is no point %lld; allowed: 0 to %lld", path, (long long)point,
                  (long long)n_points - 1);
    else if (text == NULL)
        error_set(err, "%s: the scenario of point %lld cannot be read", path, (long long)point);
    if (space >= 0)
        H5Sclose(space);
    if (dataset >= 0)
        H5Dclose(dataset);
    trace_reader_close(reader);
    return text;
}

struct trace_reader *trace_open_image(void *image, size_t n_bytes, struct error *err)
{
    static const char name[] = "a trace in memory";
    hid_t file = hdf5_open_image(image, n_bytes);
    struct trace_reader *reader = file >= 0 ? reader_of(file, name) : NULL;
    if (reader == NULL)
        error_set(err, "%s: cannot be read as HDF5: %s", name, hdf5_reason());
    if (reader == NULL || open_complete(reader, err))
        return reader;
    trace_reader_close(reader);
    return NULL;
}

struct trace_reader *trace_open_point(const char *path, int64_t point, struct error *err)
{
    struct trace_reader *reader = open_file(path, err);
    if (reader == NULL || (enter_point(reader, point, err) && open_complete(reader, err)))
        return reader;
    trace_reader_close(reader);
    return NULL;
}

int64_t trace_n_rows(const struct trace_reader *reader, enum trace_table_id table)
{
    return reader->tables[table].n_rows;
}

const struct trace_table *trace_file_table(const struct trace_reader *reader, enum trace_table_id table)
{
    return reader->tables[table].n_rows >= 0 ? &reader->tables[table].found : NULL;
}

/* Read rows as `as` describes them, which is the table or the file's own. */
static bool read_rows(const struct readable *readable, const struct trace_table *as, int64_t first, int64_t n,
                      void *rows)
{
    CHECK(0 <= first && 0 <= n && first + n <= readable->n_rows);
    if (n == 0)
        return true;
    memset(rows, 0, (size_t)n * as->row_bytes);
    hsize_t begin = (hsize_t)first, count = (hsize_t)n;
    hid_t type = as == &readable->found ? readable->found_type : readable->type;
    hid_t memory = H5Screate_simple(1, &count, NULL), file = H5Dget_space(readable->dataset);
    HDF5_CHECK(memory >= 0 && file >= 0 && H5Sselect_hyperslab(file, H5S_SELECT_SET, &begin, NULL, &count, NULL) >= 0);
    bool ok = hdf5_ok(H5Dread(readable->dataset, type, memory, file, H5P_DEFAULT, rows));
    H5Sclose(memory);
    H5Sclose(file);
    return ok;
}

static bool read_failed(const struct trace_reader *reader, enum trace_table_id table, struct error *err)
{
    return error_set(err, "%s: cannot read the table %s: %s", reader->path, trace_tables[table].name, hdf5_reason());
}

/** Write a note for a table that is missing in the file of a sweep. Otherwise write "". */
static void describe_points(const struct trace_reader *reader, char text[256])
{
    char traced[160];
    int64_t n_points = 0;
    char(*ids)[TRACE_ID_BYTES] = reader->root == reader->file ? read_ids(reader->file, &n_points) : NULL;
    *text = '\0';
    if (ids == NULL)
        return;
    list_traced(reader->file, ids, n_points, traced);
    snprintf(text, 256, "; --point N takes the full trace of a sweep's point; %s%s",
             *traced != '\0' ? "these points have one: " : "no point has one", traced);
    free(ids);
}

bool trace_absent(const struct trace_reader *reader, enum trace_table_id table, struct error *err)
{
    const char *writer = "`trace: full` in the scenario writes it";
    char of_points[256];
    if (table == TRACE_PLANS || table == TRACE_DECIDING)
        writer = "a search (`plan: auto`) writes it";
    else if (table == TRACE_STAGES)
        writer = "a run writes it, except with `trace: none`";
    else if (table == TRACE_FAULTS)
        writer = "`faults:` in the scenario write it";
    else if (table == TRACE_VALIDATION)
        writer = "`slimsim validate` writes it";
    describe_points(reader, of_points);
    return error_set(err, "%s: the trace holds no table %s: %s%s", reader->path, trace_tables[table].name, writer,
                     of_points);
}

bool trace_read(struct trace_reader *reader, enum trace_table_id table, int64_t n, void *rows, struct error *err)
{
    return read_rows(&reader->tables[table], &trace_tables[table], 0, n, rows) || read_failed(reader, table, err);
}

static bool visit_rows(struct trace_reader *reader, const struct trace_table *as, enum trace_table_id table,
                       trace_visitor *visitor, void *context, struct error *err)
{
    int64_t n_rows = trace_n_rows(reader, table);
    char *rows = check_malloc(TRACE_CHUNK_ROWS * as->row_bytes);
    bool ok = true;
    for (int64_t first = 0; first < n_rows && ok; first += TRACE_CHUNK_ROWS) {
        int64_t n = n_rows - first < TRACE_CHUNK_ROWS ? n_rows - first : TRACE_CHUNK_ROWS;
        ok = read_rows(&reader->tables[table], as, first, n, rows) || read_failed(reader, table, err);
        for (int64_t i = 0; i < n && ok; i++)
            ok = visitor(context, rows + (size_t)i * as->row_bytes, err);
    }
    free(rows);
    return ok;
}

bool trace_visit(struct trace_reader *reader, enum trace_table_id table, trace_visitor *visitor, void *context,
                 struct error *err)
{
    return visit_rows(reader, &trace_tables[table], table, visitor, context, err);
}

bool trace_visit_file(struct trace_reader *reader, enum trace_table_id table, trace_visitor *visitor, void *context,
                      struct error *err)
{
    return visit_rows(reader, &reader->tables[table].found, table, visitor, context, err);
}

int32_t trace_n_systems(const struct trace_reader *reader)
{
    return reader->n_systems;
}

const char *trace_system(const struct trace_reader *reader, int32_t system)
{
    CHECK(0 <= system && system < reader->n_systems);
    return reader->systems[system];
}

const char *trace_name(const struct trace_reader *reader, const struct trace_column *column, int64_t value)
{
    if (column->names == NULL || value < 0)
        return NULL;
    if (column->names->n == 0)
        return value < reader->n_systems ? reader->systems[value] : NULL;
    return value < column->names->n ? column->names->text[value] : NULL;
}

static void close_table(struct readable *readable)
{
    if (readable->type <= 0)
        return;
    for (int32_t c = 0; c < readable->found.n_columns; c++)
        H5free_memory((void *)readable->found.columns[c].name);
    free((void *)readable->found.columns);
    if (readable->found_type > 0)
        H5Tclose(readable->found_type);
    H5Tclose(readable->type);
    H5Dclose(readable->dataset);
}

void trace_reader_close(struct trace_reader *reader)
{
    if (reader == NULL)
        return;
    for (int32_t t = 0; t < TRACE_N_TABLES; t++)
        close_table(&reader->tables[t]);
    H5Fclose(reader->file);
    for (int32_t i = 0; i < reader->n_systems; i++)
        free(reader->systems[i]);
    free(reader->systems);
    free(reader->path);
    free(reader);
}
