/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/setting.h"

#include <stdio.h>
#include <string.h>

#include "validate/known_model.h"
#include "validate/setting_parts.h"

const char *const setting_columns[] = {"hidden",     "layers", "heads",   "kv_groups", "ffn", "vocab",
                                       "activation", "gpu",    "seq_len", "n_gpus",    "tp",  NULL};
enum { N_SIZE_COLUMNS = 7 }; /* of these, from the front: what a public model has */

/** The public model of the row's name, if a size is missing; else none. */
static bool find_known(struct cells *cells, const struct measured *models)
{
    bool complete = true;
    for (int i = 0; i < N_SIZE_COLUMNS; i++)
        complete = complete && *cell_text(cells, setting_columns[i]) != '\0';
    return complete || known_model_of(models, cell_text(cells, "model"), &cells->known, cells->err);
}

/** A column that is empty, and that no others give: tp follows from dp. */
static bool is_missing(const struct cells *cells, const char *column)
{
    return *cell_text(cells, column) == '\0' && (strcmp(column, "tp") != 0 || cell_tensor(cells) == 0);
}

/** A column without which nothing can be simulated. */
static void refuse_incomplete(const struct cells *cells)
{
    for (int i = cells->known.layers > 0 ? N_SIZE_COLUMNS : 0; setting_columns[i] != NULL; i++)
        if (is_missing(cells, setting_columns[i]))
            cell_skip(cells,
                      i < N_SIZE_COLUMNS ? "%s is missing, and models.csv names no public model '%.60s'"
                                         : "%s is missing",
                      setting_columns[i], cell_text(cells, "model"));
    for (int i = 0; setting_columns[i] != NULL; i++)
        if (*cell_text(cells, setting_columns[i]) != '\0' && strcmp(setting_columns[i], "activation") != 0 &&
            strcmp(setting_columns[i], "gpu") != 0 && cell_count(cells, setting_columns[i]) == 0)
            cell_skip(cells, "%s is 0", setting_columns[i]);
}

/** A cell in a column of the file's own that tells what another column here is for, where that is empty: a row whose
 * "activation_checkpointing" is full would else be taken for one that recomputes nothing. */
static void refuse_other_names(const struct cells *cells)
{
    static const struct {
        const char *column, *part;
    } names[] = {{"recompute", "recomp"},     {"recompute", "checkpointing"},
                 {"recompute", "remat"},      {"offload", "offload"},
                 {"vpp", "virtual"},          {"vpp", "interleav"},
                 {"cp", "context_parallel"},  {"cp", "context parallel"},
                 {"tp", "tensor_parallel"},   {"tp", "tensor parallel"},
                 {"pp", "pipeline_parallel"}, {"pp", "pipeline parallel"}};
    const struct measured *measured = cells->measured;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int32_t column = 0; column < measured->n_columns; column++) {
            const char *name = measured->columns[column];
            if (strcasestr(name, names[i].part) != NULL && strcmp(name, names[i].column) != 0 &&
                *cell_text(cells, name) != '\0' && !cell_is_none(cells, name) &&
                *cell_text(cells, names[i].column) == '\0')
                cell_skip(cells, "column '%.60s' is not read; that of its kind is '%s'", name, names[i].column);
        }
}

/** All but bf16 and fp16, and what is kept in 8 bits or less beside them: GEMMs, the optimizer. */
static void refuse_precision(const struct cells *cells)
{
    static const char *const words[] = {"bf16", "fp16", "bfloat16", "float16"};
    static const char *const narrow[] = {"fp8", "fp4", "float8", "float4", "int8", "8-bit", "8bit"};
    const char *precision = cell_text(cells, "precision");
    bool known = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        known = known || cell_has(cells, "precision", words[i]);
    if (*precision == '\0')
        cell_skip(cells, "precision is missing");
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        known = known && !cell_says(cells, "precision", narrow[i]);
        if (known && cell_says(cells, "framework", narrow[i]))
            cell_skip(cells, "framework '%.90s': %s has no model", cell_text(cells, "framework"), narrow[i]);
        if (known && cell_says(cells, "notes", narrow[i]))
            cell_assume(cells, "precision %.40s, though the notes name %s", precision, narrow[i]);
    }
    if (!known)
        cell_skip(cells, "precision '%.90s' has no model; bf16 and fp16 have", precision);
}

/** A predicted row has room for a whole cause; lengths are numbers. */
static bool causes_check(const struct measured *causes, struct error *err)
{
    const size_t most = SETTING_CAUSE - 1;
    double length;
    for (int32_t line = 0; line < causes->n_rows; line++) {
        size_t bytes = strlen(measured_text(causes, line, "cause"));
        if (bytes > most)
            return error_set(err, "%s:%d: cause has %zu bytes; at most %zu are allowed", causes->path,
                             causes->lines[line], bytes, most);
        if (!measured_number(causes, line, "seq_from", &length, err))
            return false;
    }
    return true;
}

bool setting_tables_read(struct setting_tables *tables, struct error *err)
{
    return measured_read_shipped("gpus.csv", &tables->gpus, err) &&
           measured_read_shipped("models.csv", &tables->models, err) &&
           measured_read_shipped("causes.csv", &tables->causes, err) && causes_check(&tables->causes, err);
}

void setting_tables_free(struct setting_tables *tables)
{
    measured_free(&tables->gpus);
    measured_free(&tables->models);
    measured_free(&tables->causes);
}

bool setting_of_row(const struct measured *measured, int32_t row, const struct setting_tables *tables,
                    struct setting *setting, char reason[SETTING_REASON], struct error *err)
{
    struct cells cells = {.measured = measured,
                          .gpus = &tables->gpus,
                          .row = row,
                          .reason = reason,
                          .assumed = setting->assumed,
                          .err = err};
    *setting = (struct setting){0};
    reason[0] = '\0';
    if (!find_known(&cells, &tables->models))
        return false;
    refuse_incomplete(&cells);
    refuse_precision(&cells);
    refuse_other_names(&cells);
    if (reason[0] != '\0')
        return true;
    setting->n_gpus = cell_whole(&cells, "n_gpus");
    setting_refuse_workload(&cells);
    setting_read_model(&cells, &setting->model);
    setting_read_platform(&cells, setting);
    setting->attention = setting_read_attention(&cells);
    setting->kernels = setting_read_kernels(&cells);
    setting->loss = setting_read_loss(&cells);
    setting_read_plan(&cells, setting);
    setting_read_sharding(&cells, setting);
    setting_read_overlaps(&cells, setting);
    return err->status == ERROR_NONE;
}
