/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/sweep_output.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/csv_rows.h"
#include "document/quantity.h"
#include "simulate/record.h"
#include "trace/csv.h"
#include "trace/output.h"
#include "trace/trace.h"

/** This is a table of single runs, with the point and the swept keys before its columns. */
struct point_table {
    struct trace_table table;
    struct trace_column *columns;
    size_t swept_end;
    int32_t id;
};

/** These are the files while they are written. */
struct tables {
    const struct manifest *manifest;
    struct trace_column *swept; /* of each swept key: name, type, size; offsets from 0 */
    size_t swept_bytes;
    struct point_table points, summary, iterations, scenarios;
    struct trace_column point_columns[3], scenario_column; /* follow the swept keys in two of the tables */
    struct trace *trace;
    FILE *csv, *points_csv;
    int32_t n_labels;
    char **label; /* of systems, in order of appearance */
    size_t label_capacity;
    struct error *err;
};

/** Return the narrowest type that holds all values of a column: whole numbers, numbers, or text. */
static enum trace_type type_of(const struct manifest *manifest, int32_t column)
{
    enum trace_type type = TRACE_INT64;
    for (int32_t i = 0; i < manifest->n_points; i++) {
        double number;
        if (!quantity_parse(manifest_value(manifest, i, column), "-", &number))
            return TRACE_TEXT;
        if (number != floor(number) || fabs(number) > 0x1p53)
            type = TRACE_DOUBLE;
    }
    return type;
}

static size_t text_bytes(const struct manifest *manifest, int32_t column)
{
    size_t bytes = 1;
    for (int32_t i = 0; i < manifest->n_points; i++) {
        size_t n = strlen(manifest_value(manifest, i, column));
        bytes = n > bytes ? n : bytes;
    }
    return bytes;
}

static void type_columns(struct tables *tables)
{
    const struct manifest *manifest = tables->manifest;
    tables->swept = check_calloc((size_t)manifest->n_columns, sizeof *tables->swept);
    for (int32_t c = 0; c < manifest->n_columns; c++) {
        enum trace_type type = type_of(manifest, c);
        size_t bytes = type == TRACE_TEXT ? text_bytes(manifest, c) : sizeof(int64_t);
        tables->swept[c] = (struct trace_column){
            manifest->column[c], "1", "swept key of the scenario", type, false, tables->swept_bytes, NULL, bytes};
        tables->swept_bytes += bytes;
    }
}

/** Write the swept values of a point to `to`. */
static void put_values(const struct tables *tables, int32_t point, char *to)
{
    for (int32_t c = 0; c < tables->manifest->n_columns; c++) {
        const struct trace_column *column = &tables->swept[c];
        const char *text = manifest_value(tables->manifest, point, c);
        double number = 0;
        if (column->type == TRACE_TEXT) {
            strncpy(to + column->offset, text, column->bytes); /* padded with NUL, as HDF5 requires */
            continue;
        }
        CHECK(quantity_parse(text, "-", &number));
        int64_t whole = (int64_t)number;
        memcpy(to + column->offset, column->type == TRACE_DOUBLE ? (void *)&number : (void *)&whole, sizeof number);
    }
}

/** Make a table `point, swept keys, ...`. The columns of `rest` follow; their offsets are moved. */
static void make_table(const struct tables *tables, const char *name, const struct trace_column *rest, int32_t n_rest,
                       size_t rest_bytes, struct point_table *table)
{
    int32_t n_swept = tables->manifest->n_columns, n = 0;
    table->columns = check_calloc((size_t)(1 + n_swept + n_rest), sizeof *table->columns);
    table->columns[n++] = (struct trace_column){
        "point", "1", "number of the point, as run --list prints it", TRACE_INT64, false, 0, NULL, sizeof(int64_t)};
    table->swept_end = sizeof(int64_t) + tables->swept_bytes;
    for (int32_t c = 0; c < n_swept; c++) {
        table->columns[n] = tables->swept[c];
        table->columns[n++].offset += sizeof(int64_t);
    }
    for (int32_t c = 0; c < n_rest; c++) {
        table->columns[n] = rest[c];
        table->columns[n++].offset += table->swept_end;
    }
    table->table = (struct trace_table){name, table->swept_end + rest_bytes, n, table->columns};
    table->id = trace_add_table(tables->trace, &table->table);
}

static bool append(const struct tables *tables, const struct point_table *table, int64_t point, const void *rest,
                   size_t rest_bytes)
{
    char *row = check_calloc(table->table.row_bytes, 1);
    memcpy(row, &point, sizeof point);
    put_values(tables, (int32_t)point, row + sizeof point);
    memcpy(row + table->swept_end, rest, rest_bytes);
    bool ok = trace_append(tables->trace, table->id, row, 1, tables->err);
    free(row);
    return ok;
}

static const struct trace_names status_names = {RESULT_N, result_status_name};

/** Find the longest texts, since a column of texts is as wide as its longest. */
static void measure(const struct finished_points *finished, size_t *message_bytes, size_t *scenario_bytes)
{
    *message_bytes = *scenario_bytes = 1;
    for (int32_t i = 0; i < finished->manifest->n_points; i++) {
        const struct finished_point *entry = &finished->entries[i];
        *message_bytes = entry->message_bytes > *message_bytes ? entry->message_bytes : *message_bytes;
        *scenario_bytes = entry->scenario_bytes > *scenario_bytes ? entry->scenario_bytes : *scenario_bytes;
    }
}

static void make_tables(struct tables *tables, const struct finished_points *finished)
{
    size_t message_bytes, scenario_bytes;
    measure(finished, &message_bytes, &scenario_bytes);
    const struct trace_table *summary = &trace_tables[TRACE_SUMMARY], *iterations = &trace_tables[TRACE_ITERATIONS];
    tables->point_columns[0] = (struct trace_column){
        "id", "1",           "hash of the resolved scenario and its inputs", TRACE_TEXT, false, sizeof(int32_t),
        NULL, TRACE_ID_BYTES};
    tables->point_columns[1] =
        (struct trace_column){"status", "1", "how the point ended", TRACE_INT32, false, 0, &status_names, 0};
    tables->point_columns[2] = (struct trace_column){
        "message", "1", "why it failed", TRACE_TEXT, false, sizeof(int32_t) + TRACE_ID_BYTES, NULL, message_bytes};
    tables->scenario_column = (struct trace_column){
        "scenario", "1", "resolved scenario; empty if the point failed", TRACE_TEXT, false, 0, NULL, scenario_bytes};
    make_table(tables, "manifest", tables->point_columns, 3, sizeof(int32_t) + TRACE_ID_BYTES + message_bytes,
               &tables->points);
    make_table(tables, "summary", summary->columns, summary->n_columns, summary->row_bytes, &tables->summary);
    make_table(tables, "iterations", iterations->columns, iterations->n_columns, iterations->row_bytes,
               &tables->iterations);
    make_table(tables, "scenarios", &tables->scenario_column, 1, scenario_bytes, &tables->scenarios);
}

static bool set_attributes(const struct tables *tables)
{
    struct trace *trace = tables->trace;
    const struct manifest *manifest = tables->manifest;
    return record_versions(trace, tables->err) && trace_set_text(trace, "name", manifest->name, tables->err) &&
           trace_set_text(trace, "command", manifest->command, tables->err) &&
           (manifest->n_notes == 0 ||
            trace_set_texts(trace, "excluded", manifest->n_notes, (const char *const *)manifest->note, tables->err));
}

static void print_value(const struct tables *tables, int32_t point, int32_t column, FILE *file)
{
    const char *text = manifest_value(tables->manifest, point, column);
    double number = 0;
    if (tables->swept[column].type == TRACE_TEXT) {
        csv_print_text(text, file);
        return;
    }
    CHECK(quantity_parse(text, "-", &number));
    csv_print_double(number, file);
}

static void print_front(const struct tables *tables, int32_t point, const struct point_result *result, FILE *file)
{
    fprintf(file, "%d,%016" PRIx64 ",%s", point, result->id, result_status_name[result->status]);
    for (int32_t c = 0; c < tables->manifest->n_columns; c++) {
        fputc(',', file);
        print_value(tables, point, c, file);
    }
}

static void print_heads(const struct tables *tables)
{
    const struct trace_table *summary = &trace_tables[TRACE_SUMMARY];
    FILE *files[2] = {tables->csv, tables->points_csv};
    for (int i = 0; i < 2; i++) {
        fputs("point,id,status", files[i]);
        for (int32_t c = 0; c < tables->manifest->n_columns; c++) {
            fputc(',', files[i]);
            csv_print_text(tables->manifest->column[c], files[i]);
        }
    }
    fputc(',', tables->csv);
    csv_print_heads(summary, tables->csv);
    fputs(",message\n", tables->csv);
    fputs(",message,command\n", tables->points_csv);
}

/** Return the index of a label among the file's systems. A new label is added. */
static int32_t label_number(struct tables *tables, const char *label)
{
    for (int32_t i = 0; i < tables->n_labels; i++)
        if (strcmp(tables->label[i], label) == 0)
            return i;
    tables->label = check_grow(tables->label, (size_t)tables->n_labels, &tables->label_capacity, sizeof *tables->label);
    tables->label[tables->n_labels] = check_strdup(label);
    return tables->n_labels++;
}

static const char *label_of(const void *context, const struct trace_column *column, int64_t value)
{
    const struct tables *tables = context;
    return column->names != NULL && column->names->n == 0 ? tables->label[value] : NULL;
}

static void print_summary(const struct tables *tables, int32_t point, const struct point_result *result,
                          const struct trace_summary *row)
{
    const struct trace_table *summary = &trace_tables[TRACE_SUMMARY];
    print_front(tables, point, result, tables->csv);
    fputc(',', tables->csv);
    if (row != NULL)
        csv_print_row(summary, row, label_of, tables, tables->csv);
    for (int32_t c = 1; row == NULL && c < summary->n_columns; c++)
        fputc(',', tables->csv);
    fputc(',', tables->csv);
    csv_print_text(result->message, tables->csv);
    fputc('\n', tables->csv);
}

static void print_point(const struct tables *tables, int32_t point, const struct point_result *result)
{
    char *command = manifest_command(tables->manifest, point);
    print_front(tables, point, result, tables->points_csv);
    fputc(',', tables->points_csv);
    csv_print_text(result->message, tables->points_csv);
    fputc(',', tables->points_csv);
    csv_print_text(command, tables->points_csv);
    fputc('\n', tables->points_csv);
    free(command);
}

/** Copy the full trace of a point, if it has one. */
static bool copy_image(const struct tables *tables, const struct point_result *result)
{
    char group[32];
    if (result->image.n_bytes == 0)
        return true;
    snprintf(group, sizeof group, "points/%016" PRIx64, result->id);
    return trace_copy_image(tables->trace, group, result->image.bytes, result->image.n_bytes, tables->err);
}

/** Append a point's rows to `manifest` and `scenarios`. */
static bool append_point(struct tables *tables, int32_t point, const struct point_result *result)
{
    size_t bytes = sizeof(int32_t) + TRACE_ID_BYTES + tables->point_columns[2].bytes,
           scenario_bytes = tables->scenario_column.bytes;
    char *rest = check_calloc(bytes, 1), *text = check_calloc(scenario_bytes + 1, 1), id[TRACE_ID_BYTES + 1];
    int32_t status = result->status;
    snprintf(id, sizeof id, "%016" PRIx64, result->id);
    memcpy(rest, &status, sizeof status);
    memcpy(rest + tables->point_columns[0].offset, id, TRACE_ID_BYTES);
    memcpy(rest + tables->point_columns[2].offset, result->message, strlen(result->message));
    memcpy(text, result->scenario, strlen(result->scenario));
    bool ok = append(tables, &tables->points, point, rest, bytes) &&
              append(tables, &tables->scenarios, point, text, scenario_bytes);
    free(rest);
    free(text);
    return ok;
}

static bool write_point(struct tables *tables, int32_t point, struct point_result *result)
{
    bool ok = append_point(tables, point, result);
    int32_t *number = check_calloc((size_t)result->n_systems, sizeof *number);
    for (int32_t s = 0; s < result->n_systems && ok; s++) {
        struct trace_summary *row = &result->summary[s];
        number[s] = row->system = label_number(tables, result->label[s]);
        print_summary(tables, point, result, row);
        ok = append(tables, &tables->summary, point, row, sizeof *row);
    }
    for (int32_t i = 0; i < result->n_iterations && ok; i++) {
        struct trace_iteration *row = &result->iterations[i];
        row->system = number[row->system];
        ok = append(tables, &tables->iterations, point, row, sizeof *row);
    }
    free(number);
    if (result->n_systems == 0)
        print_summary(tables, point, result, NULL);
    print_point(tables, point, result);
    return ok && copy_image(tables, result);
}

static bool write_points(struct tables *tables, const struct finished_points *finished,
                         const volatile sig_atomic_t *stop)
{
    bool ok = true;
    for (int32_t i = 0; i < finished->manifest->n_points && ok; i++) {
        struct point_result result = {0};
        ok = (stop == NULL || *stop == 0) && finished_points_result(finished, i, &result, tables->err) &&
             write_point(tables, i, &result);
        point_result_free(&result);
    }
    return ok;
}

static bool write_all(struct tables *tables, const struct finished_points *finished, const volatile sig_atomic_t *stop)
{
    if (!set_attributes(tables) || !trace_add_group(tables->trace, "points", tables->err))
        return false;
    type_columns(tables);
    make_tables(tables, finished);
    print_heads(tables);
    return trace_append(tables->trace, tables->summary.id, NULL, 0, tables->err) &&
           trace_append(tables->trace, tables->iterations.id, NULL, 0, tables->err) &&
           write_points(tables, finished, stop) &&
           trace_set_systems(tables->trace, tables->n_labels, (const char *const *)tables->label, tables->err);
}

static void tables_free(struct tables *tables)
{
    struct point_table *all[] = {&tables->points, &tables->summary, &tables->iterations, &tables->scenarios};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->columns);
    for (int32_t i = 0; i < tables->n_labels; i++)
        free(tables->label[i]);
    free(tables->label);
    free(tables->swept);
}

static FILE *open_csv(const char *directory, const char *name, const char *suffix, struct output *output,
                      struct error *err)
{
    char *path = check_asprintf("%s/%s%s", directory, name, suffix);
    FILE *file = output_open(output, path, err);
    free(path);
    return file;
}

/* Close all three files, the largest first. Then each lacks only its name. */
static bool end_files(struct tables *tables, bool ok, struct output outputs[3])
{
    if (tables->trace != NULL && ok)
        ok = trace_end(tables->trace, &outputs[0], tables->err);
    else
        trace_abandon(tables->trace);
    if (tables->points_csv != NULL)
        ok = output_end(&outputs[1], tables->points_csv, ok, tables->err);
    if (tables->csv != NULL)
        ok = output_end(&outputs[2], tables->csv, ok, tables->err);
    return ok;
}

bool sweep_output_write(const char *directory, const struct finished_points *finished,
                        const volatile sig_atomic_t *stop, struct error *err)
{
    const struct manifest *manifest = finished->manifest;
    struct tables tables = {.manifest = manifest, .err = err};
    struct output outputs[3] = {0};
    tables.csv = open_csv(directory, manifest->name, ".csv", &outputs[2], err);
    if (tables.csv != NULL)
        tables.points_csv = open_csv(directory, manifest->name, ".points.csv", &outputs[1], err);
    if (tables.points_csv != NULL)
        tables.trace = trace_create(directory, manifest->name, err);
    bool ok = tables.trace != NULL && write_all(&tables, finished, stop);
    ok = end_files(&tables, ok, outputs) && output_commit(outputs, 3, err);
    for (int i = 0; i < 3; i++)
        output_abandon(&outputs[i]);
    tables_free(&tables);
    return ok;
}

void sweep_output_clean(const char *directory, const char *name)
{
    static const char *const suffix[] = {".h5", ".csv", ".points.csv"};
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        char *path = check_asprintf("%s/%s%s", directory, name, suffix[i]);
        output_clean(path);
        free(path);
    }
}

/** It collects whether the existing table of points belongs to this sweep. */
struct former_table {
    const struct manifest *sweep;
    uint64_t *ids;             /* of the sweep, ascending */
    int64_t n_rows;            /* the header counts */
    bool same_ids, same_texts; /* all its points are in the sweep; the same command made both */
};

static int compare_ids(const void *one, const void *other)
{
    return COMPARE(*(const uint64_t *)one, *(const uint64_t *)other);
}

/* The columns are those of print_heads: point, id, ..., command. */
static bool visit_former(void *context, const struct csv_row *row, struct error *err)
{
    struct former_table *former = context;
    (void)err;
    if (former->n_rows++ == 0 || row->n_fields < 3)
        return true;
    uint64_t id = strtoull(row->fields[1], NULL, 16);
    if (bsearch(&id, former->ids, (size_t)former->sweep->n_points, sizeof id, compare_ids) == NULL)
        former->same_ids = false;
    char *command = manifest_command(former->sweep, (int32_t)strtol(row->fields[0], NULL, 10));
    if (strcmp(command, row->fields[row->n_fields - 1]) != 0)
        former->same_texts = false;
    free(command);
    return true;
}

/** Return whether the readable points of DIRECTORY/NAME.points.csv belong to this sweep. */
static bool is_of_sweep(const char *directory, const char *name, const struct manifest *sweep)
{
    char *path = check_asprintf("%s/%s.points.csv", directory, name);
    struct error wrong = {0};
    struct former_table former = {.sweep = sweep, .same_ids = true, .same_texts = true};
    former.ids = check_calloc((size_t)sweep->n_points, sizeof *former.ids);
    memcpy(former.ids, sweep->id, (size_t)sweep->n_points * sizeof *former.ids);
    qsort(former.ids, (size_t)sweep->n_points, sizeof *former.ids, compare_ids);
    FILE *file = fopen(path, "re");
    bool ok = file != NULL && csv_rows_visit(file, path, CSV_ROWS_PLAIN, visit_former, &former, &wrong) &&
              (former.same_ids || former.same_texts);
    if (file != NULL)
        fclose(file);
    free(former.ids);
    free(path);
    return ok;
}

static bool is_run_table(const char *path)
{
    return output_begins_with(path, "system,");
}

static bool is_sweep_table(const char *path)
{
    return output_begins_with(path, "point,");
}

static bool is_table(const char *path)
{
    return is_run_table(path) || is_sweep_table(path);
}

static const char another[] = "another folder (--output DIR) or name (--set name=NAME)";

/** Refuse to replace a file of another program. */
static bool none_is_foreign(const char *directory, const char *name, bool sweep, struct error *err)
{
    static const struct {
        const char *suffix, *what;
        output_recognizer *is_ours;
    } files[] = {{".h5", "trace", trace_is_at}, {".csv", "table", is_table}, {".points.csv", "table", is_sweep_table}};
    bool ok = true;
    for (int i = 0; i < 2 + sweep && ok; i++) {
        char *path = check_asprintf("%s/%s%s", directory, name, files[i].suffix);
        ok = output_may_replace(path, files[i].is_ours, files[i].what, another, err);
        free(path);
    }
    return ok;
}

bool sweep_output_may_be_replaced(const char *directory, const char *name, const struct manifest *sweep,
                                  struct error *err)
{
    if (!none_is_foreign(directory, name, sweep != NULL, err))
        return false;
    char *path = check_asprintf("%s/%s.csv", directory, name);
    const char *what = NULL;
    if (sweep == NULL)
        what = is_sweep_table(path) ? "the table of a sweep" : NULL;
    else if (is_run_table(path))
        what = "the table of a single run";
    else if (is_sweep_table(path) && !is_of_sweep(directory, name, sweep))
        what = "the table of another sweep";
    bool ok = what == NULL || error_set(err, "%s is %s, which this %s would replace; to keep both choose %s", path,
                                        what, sweep != NULL ? "sweep" : "run", another);
    free(path);
    return ok;
}
