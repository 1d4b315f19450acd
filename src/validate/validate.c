/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/nearest.h"

static const char *const shipped[] = {"training_h100.csv", "training_a100.csv", "layers.csv", "memory.csv"};
enum { N_SHIPPED = sizeof shipped / sizeof *shipped };

/** A filter "COLUMN=VALUE". */
struct filter {
    char column[64];
    const char *value;
};

/** All files of a request. */
struct files {
    int32_t n, n_filters, n_rows; /* n_rows: that pass the filters */
    struct measured *files;
    struct setting_tables tables;
    struct filter *filters;
};

static bool read_files(const struct validate_request *request, struct files *files, struct error *err)
{
    bool ok = setting_tables_read(&files->tables, err);
    int32_t n = request->n_paths > 0 ? request->n_paths : N_SHIPPED;
    files->files = check_calloc((size_t)n, sizeof *files->files);
    for (int32_t i = 0; ok && i < n; i++) {
        struct measured *file = &files->files[files->n++];
        ok = request->n_paths > 0 ? measured_read(request->paths[i], file, err)
                                  : measured_read_shipped(shipped[i], file, err);
        if (ok && measured_column(file, "model") < 0 && measured_column(file, "hidden") < 0)
            ok =
                error_set(err, "%s: has neither a column 'model' nor 'hidden': no table of published runs", file->path);
    }
    return ok;
}

/** A filter whose column no file has: the nearest of the first file's is offered. */
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
            return error_set(err, "--filter %s: allowed is COLUMN=VALUE", text);
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

/** A filter that no row passes: texts of its column that are like it are offered. */
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
    return error_set(err, "--filter %s=%s: no row has this text there; %sit must be the whole text of the column",
                     filter->column, filter->value, hint);
}

/** No row passes all filters: the first that none passes is to blame, if there is one. */
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
    return error_set(err, "--filter: no row passes all filters, though rows pass each of them");
}

/** A malformed cell is why its row is skipped: the first line of the error, without file and line. @return whether the
 * error is of a cell of the row */
static bool skip_malformed(const struct measured *measured, int32_t row, struct validate_row *result, struct error *err)
{
    char at[1024];
    int n = snprintf(at, sizeof at, "%s:%d: ", measured->path, measured->lines[row]);
    const char *text = err->text + n;
    if (strncmp(err->text, at, (size_t)n) != 0)
        return false;
    snprintf(result->reason, sizeof result->reason, "%.*s", (int)strcspn(text, "\n"), text);
    *err = (struct error){0};
    return true;
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
    for (int32_t i = 0; i < files->n; i++)
        for (int32_t row = 0; row < files->files[i].n_rows; row++) {
            if (!passes(files, &files->files[i], row))
                continue;
            progress(context, validate->n_rows, files->n_rows);
            struct validate_row *result = &validate->rows[validate->n_rows++];
            if (!row_predict(&files->files[i], row, &files->tables, result, err) &&
                !skip_malformed(&files->files[i], row, result, err))
                return false;
        }
    return true;
}

/* Columns that are read, and the others of the shipped files. */
static const char known_columns[] =
    " id trust split gpu fabric framework model params_b hidden layers heads kv_groups ffn vocab activation "
    "norm seq_len n_gpus tp sp pp vpp cp dp sharding mbs gbs n_microbatch recompute offload precision "
    "attn_kernel attn_backend step_time_s tokens_per_s tps_per_gpu tps_origin mfu_pct hfu_pct tflops_per_gpu "
    "layer_fwd_ms layer_bwd_ms metric value_bytes value_ms value_printed tp_comm_overlap flops_formula ranks "
    "fitted source notes ";

static bool is_known(const char *column)
{
    char word[64];
    snprintf(word, sizeof word, " %.60s ", column);
    return strchr(column, ' ') == NULL && strstr(known_columns, word) != NULL;
}

/** Columns of the files that are none of these. */
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
    setting_tables_free(&files.tables);
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
