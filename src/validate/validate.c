/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/nearest.h"
#include "validate/cause.h"

static const char *const shipped[] = {"training_h100.csv",
                                      "training_a100.csv",
                                      "layers.csv",
                                      "memory.csv",
                                      "public.csv",
                                      "public_memory.csv",
                                      "varying.csv",
                                      "replay.csv",
                                      "training_fp8.csv",
                                      "training_experts.csv",
                                      "training_experts_fp8.csv",
                                      "training_blackwell.csv",
                                      "training_experts_blackwell.csv"};
enum { N_SHIPPED = sizeof shipped / sizeof *shipped };

/** A filter "COLUMN=VALUE". */
struct filter {
    char column[64];
    const char *value;
};

/** The files of a request. */
struct files {
    int32_t n, n_filters, n_rows; /* n_rows: rows that pass the filters */
    struct measured *files;
    struct measured causes;
    struct filter *filters;
};

static bool read_files(const struct validate_request *request, struct files *files, struct error *err)
{
    bool ok = cause_read(&files->causes, err);
    int32_t n = request->n_paths > 0 ? request->n_paths : N_SHIPPED;
    files->files = check_calloc((size_t)n, sizeof *files->files);
    for (int32_t i = 0; ok && i < n; i++) {
        struct measured *file = &files->files[files->n++];
        ok = request->n_paths > 0 ? measured_read(request->paths[i], file, err)
                                  : measured_read_shipped(shipped[i], file, err);
        if (ok && measured_column(file, "data.context") < 0)
            ok = error_set(err,
                           "%s: has no column 'data.context', so it is no table of measured rows; "
                           "model/validation/normalise.py makes one from a raw table",
                           file->path);
    }
    return ok;
}

/** Refuse a filter whose column no file has. The nearest column of the first file is offered. */
static bool refuse_filter(const struct files *files, const char *column, struct error *err)
{
    const struct measured *first = &files->files[0];
    const char *near = nearest_name(column, (const char *const *)first->columns, first->n_columns);
    return error_set(err, "--filter: no file has a column '%s'%s%s%s", column, near != NULL ? "; did you mean '" : "",
                     near != NULL ? near : "", near != NULL ? "'?" : "");
}

static bool read_filters(const struct validate_request *request, struct files *files, struct error *err)
{
    files->filters = check_calloc((size_t)request->n_filters, sizeof *files->filters);
    for (int32_t i = 0; i < request->n_filters; i++) {
        struct filter *filter = &files->filters[files->n_filters++];
        const char *text = request->filters[i], *equals = strchr(text, '=');
        if (equals == NULL || equals == text)
            return error_set(err, "--filter %s: expected COLUMN=VALUE", text);
        snprintf(filter->column, sizeof filter->column, "%.*s", (int)(equals - text), text);
        filter->value = equals + 1;
        bool known = false;
        for (int32_t j = 0; j < files->n; j++)
            known = known || measured_column(&files->files[j], filter->column) >= 0;
        if (!known)
            return refuse_filter(files, filter->column, err);
    }
    return true;
}

static bool holds(const struct measured *measured, int32_t row, const struct filter *filter)
{
    return strcmp(measured_text(measured, row, filter->column), filter->value) == 0;
}

static bool passes(const struct files *files, const struct measured *measured, int32_t row)
{
    for (int32_t i = 0; i < files->n_filters; i++)
        if (!holds(measured, row, &files->filters[i]))
            return false;
    return true;
}

static bool is_among(const char *text, const char *const *texts, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(texts[i], text) == 0)
            return true;
    return false;
}

/** Refuse a filter that no row passes. Similar texts of its column are offered. */
static bool refuse_value(const struct files *files, const struct filter *filter, struct error *err)
{
    const char **texts = NULL;
    int32_t n = 0;
    for (int32_t i = 0; i < files->n; i++)
        for (int32_t row = 0; row < files->files[i].n_rows; row++) {
            const char *text = measured_text(&files->files[i], row, filter->column);
            if (*text == '\0' || is_among(text, texts, n))
                continue;
            texts = check_realloc(texts, (size_t)(n + 1) * sizeof *texts);
            texts[n++] = text;
        }
    char hint[NEAREST_HINT_BYTES];
    nearest_hint(filter->value, texts, n, hint);
    free(texts);
    return error_set(err, "--filter %s=%s: no row has this text in the column; %sallowed: the whole text of a cell",
                     filter->column, filter->value, hint);
}

/** Say that no row passes all filters. The first filter that no row passes is named, if there is one. */
static bool refuse_filters(const struct files *files, struct error *err)
{
    for (int32_t f = 0; f < files->n_filters; f++) {
        int32_t n = 0;
        for (int32_t i = 0; i < files->n; i++)
            for (int32_t row = 0; row < files->files[i].n_rows; row++)
                n += holds(&files->files[i], row, &files->filters[f]);
        if (n == 0)
            return refuse_value(files, &files->filters[f], err);
    }
    return error_set(err, "--filter: no row passes all filters, though each of them passes some");
}

/** Read all rows that pass, and add all their errors. */
static bool read_rows(struct files *files, struct setting *settings, struct validate *validate, struct error *err)
{
    for (int32_t i = 0; i < files->n; i++)
        for (int32_t row = 0; row < files->files[i].n_rows; row++) {
            if (!passes(files, &files->files[i], row))
                continue;
            row_read(&files->files[i], row, &settings[validate->n_rows], &validate->rows[validate->n_rows], err);
            validate->n_rows++;
        }
    return err->status == ERROR_NONE;
}

/** Refuse a pair that is no row of the files. It may be a row that does not pass. */
static bool check_pairs(const struct files *files, struct error *err)
{
    const char **ids = NULL;
    int32_t n = 0;
    for (int32_t i = 0; i < files->n; i++)
        for (int32_t row = 0; row < files->files[i].n_rows; row++) {
            ids = check_realloc(ids, (size_t)(n + 1) * sizeof *ids);
            ids[n++] = measured_text(&files->files[i], row, "id");
        }
    for (int32_t i = 0; i < files->n; i++)
        for (int32_t row = 0; row < files->files[i].n_rows; row++) {
            const char *pair = measured_text(&files->files[i], row, "pair");
            if (*pair != '\0' && !is_among(pair, ids, n))
                error_add(err, "%s:%d: pair: no row has the id '%.100s'; allowed: the id of a row",
                          files->files[i].path, (int)files->files[i].lines[row], pair);
        }
    free(ids);
    return err->status == ERROR_NONE;
}

static bool predict_rows(struct files *files, validate_progress *progress, void *context, struct validate *validate,
                         struct error *err)
{
    for (int32_t i = 0; i < files->n; i++)
        for (int32_t row = 0; row < files->files[i].n_rows; row++)
            files->n_rows += passes(files, &files->files[i], row);
    if (files->n_rows == 0)
        return refuse_filters(files, err);
    validate->rows = check_calloc((size_t)files->n_rows, sizeof *validate->rows);
    struct setting *settings = check_calloc((size_t)files->n_rows, sizeof *settings);
    bool ok = read_rows(files, settings, validate, err) && check_pairs(files, err);
    for (int32_t i = 0, at = 0; ok && i < files->n; i++)
        for (int32_t row = 0; ok && row < files->files[i].n_rows; row++) {
            if (!passes(files, &files->files[i], row))
                continue;
            progress(context, at, files->n_rows);
            struct validate_row *result = &validate->rows[at];
            settings[at].scenario.pressure = validate->pressure; /* for predict_result.tight */
            if (result->reason[0] == '\0')
                ok = row_predict(&files->files[i], row, &files->causes, &settings[at], result, err);
            replay_free(&settings[at].scenario.replay);
            at++;
        }
    for (int32_t i = 0; i < files->n_rows; i++)
        setting_free(&settings[i]);
    free(settings);
    return ok;
}

/* Columns that are read besides keys, and the other columns of the shipped files. */
static const char known_columns[] = " id trust split skip step_time_s tokens_per_s tps_per_gpu tps_origin mfu_pct "
                                    "hfu_pct tflops_per_gpu layer_fwd_ms layer_bwd_ms metric value_bytes value_ms "
                                    "value_printed flops_formula params_b ranks fitted source notes assumed printed "
                                    "group graded delivered pair compared ";

static bool is_known(const char *column)
{
    char word[64];
    snprintf(word, sizeof word, " %.60s ", column);
    return setting_is_key(column) || (strchr(column, ' ') == NULL && strstr(known_columns, word) != NULL);
}

/** Find the columns of the files that are none of these. */
static void find_unread(const struct files *files, struct validate *validate)
{
    size_t used = 0;
    for (int32_t i = 0; i < files->n; i++)
        for (int32_t column = 0; column < files->files[i].n_columns; column++) {
            const char *name = files->files[i].columns[column];
            bool before = false;
            for (int32_t other = 0; other < i; other++)
                before = before || measured_column(&files->files[other], name) >= 0;
            if (!before && !is_known(name) && used < sizeof validate->unread)
                used += (size_t)snprintf(validate->unread + used, sizeof validate->unread - used, "%s%s",
                                         used > 0 ? ", " : "", name);
        }
}

bool validate_run(const struct validate_request *request, validate_progress *progress, void *context,
                  struct validate *validate, struct error *err)
{
    struct files files = {0};
    bool ok = pressure_read(scenario_data_dir(), &validate->pressure, err) && read_files(request, &files, err) &&
              read_filters(request, &files, err) && predict_rows(&files, progress, context, validate, err);
    if (ok)
        find_unread(&files, validate);
    for (int32_t i = 0; i < files.n; i++)
        measured_free(&files.files[i]);
    measured_free(&files.causes);
    free(files.files);
    free(files.filters);
    if (!ok)
        validate_free(validate);
    return ok;
}

void validate_free(struct validate *validate)
{
    free(validate->rows);
    *validate = (struct validate){0};
}
