/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/book.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/quantity.h"
#include "simulate/record.h"
#include "trace/csv.h"
#include "trace/output.h"
#include "trace/trace.h"

/** Columns in front of those of a table of single runs: point, then (not of iterations) the swept keys. */
struct wide {
    struct trace_table table;
    struct trace_column *columns;
    size_t front_bytes;
    char *row; /* [table.row_bytes] */
    int32_t id;
};

struct book {
    const struct manifest *manifest;
    struct trace_column *swept; /* of each swept key: name, type, size; offsets from 0 */
    size_t swept_bytes;
    struct wide points, summary, iterations, scenarios;
    struct trace_column point_back[3], scenario_back; /* what stands behind the swept keys in two of them */
    struct trace *trace;
    FILE *csv, *points_csv;
    int32_t n_labels;
    char **label; /* of systems, in order of appearance */
    size_t label_capacity;
    struct error *err;
};

/** What all values of a column are: whole numbers, numbers, or text. */
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

static void type_columns(struct book *book)
{
    const struct manifest *manifest = book->manifest;
    book->swept = check_calloc((size_t)manifest->n_columns, sizeof *book->swept);
    for (int32_t c = 0; c < manifest->n_columns; c++) {
        enum trace_type type = type_of(manifest, c);
        size_t bytes = type == TRACE_TEXT ? text_bytes(manifest, c) : sizeof(int64_t);
        book->swept[c] = (struct trace_column){
            manifest->column[c], "1", "swept: this key of the scenario", type, false, book->swept_bytes, NULL, bytes};
        book->swept_bytes += bytes;
    }
}

/** Put the swept values of a point at `to`. */
static void put_values(const struct book *book, int32_t point, char *to)
{
    for (int32_t c = 0; c < book->manifest->n_columns; c++) {
        const struct trace_column *column = &book->swept[c];
        const char *text = manifest_value(book->manifest, point, c);
        double number = 0;
        memset(to + column->offset, 0, column->bytes);
        if (column->type == TRACE_TEXT) {
            strncpy(to + column->offset, text, column->bytes); /* padded with NUL, as HDF5 has it */
            continue;
        }
        CHECK(quantity_parse(text, "-", &number));
        int64_t whole = (int64_t)number;
        memcpy(to + column->offset, column->type == TRACE_DOUBLE ? (void *)&number : (void *)&whole, sizeof number);
    }
}

/** A table `point, swept keys, ...`: the columns of `back` follow, moved behind these. */
static void widen(const struct book *book, const char *name, const struct trace_column *back, int32_t n_back,
                  size_t back_bytes, struct wide *wide)
{
    int32_t n_swept = book->manifest->n_columns, n = 0;
    wide->columns = check_calloc((size_t)(1 + n_swept + n_back), sizeof *wide->columns);
    wide->columns[n++] = (struct trace_column){
        "point", "1", "its number, as run --list prints it", TRACE_INT64, false, 0, NULL, sizeof(int64_t)};
    wide->front_bytes = sizeof(int64_t) + book->swept_bytes;
    for (int32_t c = 0; c < n_swept; c++) {
        wide->columns[n] = book->swept[c];
        wide->columns[n++].offset += sizeof(int64_t);
    }
    for (int32_t c = 0; c < n_back; c++) {
        wide->columns[n] = back[c];
        wide->columns[n++].offset += wide->front_bytes;
    }
    wide->table = (struct trace_table){name, wide->front_bytes + back_bytes, n, wide->columns};
    wide->row = check_calloc(wide->table.row_bytes, 1);
    wide->id = trace_add_table(book->trace, &wide->table);
}

static bool append(const struct book *book, struct wide *wide, int64_t point, const void *back, size_t back_bytes)
{
    memcpy(wide->row, &point, sizeof point);
    put_values(book, (int32_t)point, wide->row + sizeof point);
    memcpy(wide->row + wide->front_bytes, back, back_bytes);
    return trace_append(book->trace, wide->id, wide->row, 1, book->err);
}

static const struct trace_names status_names = {RESULT_N, result_status_name};

/** Texts are as wide as the longest. */
static void widen_all(struct book *book, size_t message_bytes, size_t scenario_bytes)
{
    const struct trace_table *summary = &trace_tables[TRACE_SUMMARY], *iterations = &trace_tables[TRACE_ITERATIONS];
    book->point_back[0] = (struct trace_column){
        "id", "1",           "hash of the resolved scenario and its inputs", TRACE_TEXT, false, sizeof(int32_t),
        NULL, TRACE_ID_BYTES};
    book->point_back[1] = (struct trace_column){"status", "1", "how it ended", TRACE_INT32, false, 0, &status_names, 0};
    book->point_back[2] = (struct trace_column){
        "message", "1", "why it failed", TRACE_TEXT, false, sizeof(int32_t) + TRACE_ID_BYTES, NULL, message_bytes};
    book->scenario_back = (struct trace_column){
        "scenario", "1", "resolved; empty of a point that failed", TRACE_TEXT, false, 0, NULL, scenario_bytes};
    widen(book, "manifest", book->point_back, 3, sizeof(int32_t) + TRACE_ID_BYTES + message_bytes, &book->points);
    widen(book, "summary", summary->columns, summary->n_columns, summary->row_bytes, &book->summary);
    widen(book, "iterations", iterations->columns, iterations->n_columns, iterations->row_bytes, &book->iterations);
    widen(book, "scenarios", &book->scenario_back, 1, scenario_bytes, &book->scenarios);
}

static bool set_attributes(const struct book *book)
{
    struct trace *trace = book->trace;
    const struct manifest *manifest = book->manifest;
    return record_versions(trace, book->err) && trace_set_text(trace, "name", manifest->name, book->err) &&
           trace_set_text(trace, "command", manifest->command, book->err) &&
           (manifest->n_notes == 0 ||
            trace_set_texts(trace, "excluded", manifest->n_notes, (const char *const *)manifest->note, book->err));
}

static void print_value(const struct book *book, int32_t point, int32_t column, FILE *file)
{
    const char *text = manifest_value(book->manifest, point, column);
    double number = 0;
    if (book->swept[column].type == TRACE_TEXT) {
        csv_print_text(text, file);
        return;
    }
    CHECK(quantity_parse(text, "-", &number));
    csv_print_double(number, file);
}

static void print_front(const struct book *book, int32_t point, const struct result *result, FILE *file)
{
    fprintf(file, "%d,%016" PRIx64 ",%s", point, result->id, result_status_name[result->status]);
    for (int32_t c = 0; c < book->manifest->n_columns; c++) {
        fputc(',', file);
        print_value(book, point, c, file);
    }
}

static void print_heads(const struct book *book)
{
    const struct trace_table *summary = &trace_tables[TRACE_SUMMARY];
    FILE *files[2] = {book->csv, book->points_csv};
    for (int i = 0; i < 2; i++) {
        fputs("point,id,status", files[i]);
        for (int32_t c = 0; c < book->manifest->n_columns; c++) {
            fputc(',', files[i]);
            csv_print_text(book->manifest->column[c], files[i]);
        }
    }
    for (int32_t c = 0; c < summary->n_columns; c++)
        fprintf(book->csv, ",%s", summary->columns[c].name);
    fputs(",message\n", book->csv);
    fputs(",message,command\n", book->points_csv);
}

/** The number of a label among the file's systems. */
static int32_t label_number(struct book *book, const char *label)
{
    for (int32_t i = 0; i < book->n_labels; i++)
        if (strcmp(book->label[i], label) == 0)
            return i;
    book->label = check_grow(book->label, (size_t)book->n_labels, &book->label_capacity, sizeof *book->label);
    book->label[book->n_labels] = check_strdup(label);
    return book->n_labels++;
}

static void print_cell(const struct book *book, const struct trace_column *column, const char *row, FILE *file)
{
    if (column->type == TRACE_DOUBLE) {
        double value;
        memcpy(&value, row + column->offset, sizeof value);
        csv_print_double(value, file);
        return;
    }
    int32_t value;
    CHECK(column->type == TRACE_INT32); /* all others of summary.def */
    memcpy(&value, row + column->offset, sizeof value);
    if (column->names == NULL)
        fprintf(file, "%d", value);
    else
        csv_print_text(column->names->n == 0 ? book->label[value] : column->names->text[value], file);
}

static void print_summary(const struct book *book, int32_t point, const struct result *result,
                          const struct trace_summary *row)
{
    const struct trace_table *summary = &trace_tables[TRACE_SUMMARY];
    print_front(book, point, result, book->csv);
    for (int32_t c = 0; c < summary->n_columns; c++) {
        fputc(',', book->csv);
        if (row != NULL)
            print_cell(book, &summary->columns[c], (const char *)row, book->csv);
    }
    fputc(',', book->csv);
    csv_print_text(result->message, book->csv);
    fputc('\n', book->csv);
}

static void print_point(const struct book *book, int32_t point, const struct result *result)
{
    char *command = manifest_command(book->manifest, point);
    print_front(book, point, result, book->points_csv);
    fputc(',', book->points_csv);
    csv_print_text(result->message, book->points_csv);
    fputc(',', book->points_csv);
    csv_print_text(command, book->points_csv);
    fputc('\n', book->points_csv);
    free(command);
}

/** The full trace of a point. */
static bool copy_image(const struct book *book, const struct result *result)
{
    char group[32];
    if (result->image.n_bytes == 0)
        return true;
    snprintf(group, sizeof group, "points/%016" PRIx64, result->id);
    return trace_copy_image(book->trace, group, result->image.bytes, result->image.n_bytes, book->err);
}

/** The rows of the tables of points. */
static bool append_point(struct book *book, int32_t point, const struct result *result)
{
    size_t bytes = sizeof(int32_t) + TRACE_ID_BYTES + book->point_back[2].bytes,
           scenario_bytes = book->scenario_back.bytes;
    char *back = check_calloc(bytes, 1), *text = check_calloc(scenario_bytes + 1, 1), id[TRACE_ID_BYTES + 1];
    int32_t status = result->status;
    snprintf(id, sizeof id, "%016" PRIx64, result->id);
    memcpy(back, &status, sizeof status);
    memcpy(back + book->point_back[0].offset, id, TRACE_ID_BYTES);
    memcpy(back + book->point_back[2].offset, result->message, strlen(result->message));
    memcpy(text, result->scenario, strlen(result->scenario));
    bool ok =
        append(book, &book->points, point, back, bytes) && append(book, &book->scenarios, point, text, scenario_bytes);
    free(back);
    free(text);
    return ok;
}

static bool write_point(struct book *book, int32_t point, struct result *result)
{
    bool ok = append_point(book, point, result);
    int32_t *number = check_calloc((size_t)result->n_systems, sizeof *number);
    for (int32_t s = 0; s < result->n_systems && ok; s++) {
        struct trace_summary *row = &result->summary[s];
        number[s] = row->system = label_number(book, result->label[s]);
        print_summary(book, point, result, row);
        ok = append(book, &book->summary, point, row, sizeof *row);
    }
    for (int32_t i = 0; i < result->n_iterations && ok; i++) {
        struct trace_iteration *row = &result->iterations[i];
        row->system = number[row->system];
        ok = append(book, &book->iterations, point, row, sizeof *row);
    }
    free(number);
    if (result->n_systems == 0)
        print_summary(book, point, result, NULL);
    print_point(book, point, result);
    return ok && copy_image(book, result);
}

/** Once over all results: the longest texts, and how many failed. */
static bool measure(const struct book *book, book_source *source, void *context, size_t *message_bytes,
                    size_t *scenario_bytes, int32_t *n_failed)
{
    bool ok = true;
    *message_bytes = *scenario_bytes = 1;
    *n_failed = 0;
    for (int32_t i = 0; i < book->manifest->n_points && ok; i++) {
        struct result result = {0};
        ok = source(context, i, &result, book->err);
        if (ok) {
            size_t message = strlen(result.message), scenario = strlen(result.scenario);
            *message_bytes = message > *message_bytes ? message : *message_bytes;
            *scenario_bytes = scenario > *scenario_bytes ? scenario : *scenario_bytes;
            *n_failed += result.status != RESULT_DONE;
        }
        result_free(&result);
    }
    return ok;
}

static bool write_all(struct book *book, book_source *source, void *context, int32_t *n_failed)
{
    size_t message_bytes, scenario_bytes;
    if (!measure(book, source, context, &message_bytes, &scenario_bytes, n_failed) || !set_attributes(book) ||
        !trace_add_group(book->trace, "points", book->err))
        return false;
    type_columns(book);
    widen_all(book, message_bytes, scenario_bytes);
    print_heads(book);
    bool ok = trace_append(book->trace, book->summary.id, NULL, 0, book->err) &&
              trace_append(book->trace, book->iterations.id, NULL, 0, book->err);
    for (int32_t i = 0; i < book->manifest->n_points && ok; i++) {
        struct result result = {0};
        ok = source(context, i, &result, book->err) && write_point(book, i, &result);
        result_free(&result);
    }
    return ok && trace_set_systems(book->trace, book->n_labels, (const char *const *)book->label, book->err);
}

static void book_free(struct book *book)
{
    struct wide *all[] = {&book->points, &book->summary, &book->iterations, &book->scenarios};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]->columns);
        free(all[i]->row);
    }
    for (int32_t i = 0; i < book->n_labels; i++)
        free(book->label[i]);
    free(book->label);
    free(book->swept);
}

static FILE *open_csv(const char *directory, const char *name, const char *suffix, struct output *output,
                      struct error *err)
{
    char *path = check_asprintf("%s/%s%s", directory, name, suffix);
    FILE *file = output_open(output, path, err);
    free(path);
    return file;
}

/* Close all three files, the largest first; each lacks only its name then. */
static bool end_files(struct book *book, bool ok, struct output outputs[3])
{
    if (book->trace != NULL && ok)
        ok = trace_end(book->trace, &outputs[0], book->err);
    else
        trace_abandon(book->trace);
    if (book->points_csv != NULL)
        ok = output_end(&outputs[1], book->points_csv, ok, book->err);
    if (book->csv != NULL)
        ok = output_end(&outputs[2], book->csv, ok, book->err);
    return ok;
}

bool book_write(const char *directory, const struct manifest *manifest, book_source *source, void *context,
                int32_t *n_failed, struct error *err)
{
    struct book book = {.manifest = manifest, .err = err};
    struct output outputs[3] = {0};
    book.csv = open_csv(directory, manifest->name, ".csv", &outputs[2], err);
    if (book.csv != NULL)
        book.points_csv = open_csv(directory, manifest->name, ".points.csv", &outputs[1], err);
    if (book.points_csv != NULL)
        book.trace = trace_create(directory, manifest->name, err);
    bool ok = book.trace != NULL && write_all(&book, source, context, n_failed);
    ok = end_files(&book, ok, outputs) && output_commit(outputs, 3, err);
    for (int i = 0; i < 3; i++)
        output_abandon(&outputs[i]);
    book_free(&book);
    return ok;
}

void book_clean(const char *directory, const char *name)
{
    static const char *const suffix[] = {".h5", ".csv", ".points.csv"};
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        char *file = check_asprintf("%s%s", name, suffix[i]);
        output_clean(directory, file);
        free(file);
    }
}
