/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/setting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "document/document_set.h"
#include "document/library.h"
#include "scenario/platform_keys.h"
#include "scenario/scenario_read.h"
#include "system/system.h"

enum { MOST_TOKENS = 1 << 30 };

static const char entry[] = "systems.0."; /* prefix of a plan's keys */

/** A row that is being read. */
struct reading {
    const struct measured *measured;
    int32_t row;
    char place[1024]; /* "FILE:LINE", which begins messages */
    struct document document;
    struct error *err;
};

static const struct schema_key row_keys[] = {{"micro_batch", SCHEMA_INT, "sequences", 1, 1000000, NULL, NULL,
                                              "whole sequences of a micro-batch",
                                              offsetof(struct setting, micro_batch)}};

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/** Return whether a column belongs to the row's own tables. The other keys are a scenario's. */
static bool is_of_row(const char *column)
{
    return begins(column, "model.") || strcmp(column, "micro_batch") == 0;
}

bool setting_is_key(const char *column)
{
    static const char *const names[] = {"model",
                                        "device",
                                        "framework",
                                        "attention",
                                        "kernels",
                                        "loss",
                                        "logits",
                                        "swiglu",
                                        "expert_gemms",
                                        "precision",
                                        "fp8_scaling",
                                        "fp8_params",
                                        "expert_imbalance",
                                        "gradient_accumulation",
                                        "cuda_graphs",
                                        "cuda_launch_blocking",
                                        "system",
                                        "iterations.measured",
                                        "data.lengths",
                                        "data.length_scale",
                                        "data.long_documents",
                                        "data.context",
                                        "data.global_batch",
                                        "data.global_batch_tokens"};
    bool is = is_of_row(column) || begins(column, "fused.") || begins(column, "plan.") || begins(column, "platform.") ||
              begins(column, "communication.") || begins(column, "replay.") || begins(column, "knobs.");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is = is || strcmp(column, names[i]) == 0;
    return is;
}

static const char *cell(const struct reading *reading, const char *column)
{
    return measured_text(reading->measured, reading->row, column);
}

static bool set(struct reading *reading, const char *path, const char *value)
{
    struct error err = {0};
    if (document_set_value(&reading->document, path, value, reading->place, &err))
        return true;
    const char *key = begins(path, entry) ? path + strlen(entry) : path, *what = err.text + strlen(reading->place) + 2;
    return error_add(reading->err, "%s: %s: '%.100s': %s", reading->place, key, value, what);
}

/** Open an empty mapping whose messages name the row. */
static void open_document(struct reading *reading)
{
    document_open(&reading->document, reading->place);
    document_add_node(&reading->document, DOCUMENT_MAPPING, reading->document.file);
}

/** Set the values of a model's file, except its name and source. */
static bool set_model_file(struct reading *reading, const char *name)
{
    char folder[1024], path[1024], key[SCHEMA_WORD_BYTES];
    struct error unknown = {0};
    struct document file = {0};
    snprintf(folder, sizeof folder, "%s/model/llm", scenario_data_dir());
    if (!library_find(folder, name, ".yaml", "model", path, &unknown))
        return error_add(reading->err, "%s: model: %s", reading->place, unknown.text);
    bool ok = document_read(path, &file, reading->err);
    for (int32_t i = ok ? file.node[0].child : -1; i >= 0; i = file.node[i].next) {
        const struct document_node *node = &file.node[i];
        snprintf(key, sizeof key, "model.%s", node->key);
        if (strcmp(node->key, "name") == 0 || strcmp(node->key, "source") == 0)
            continue;
        char *value = document_text(&file, i);
        ok = set(reading, key, value) && ok;
        free(value);
    }
    document_free(&file);
    return ok;
}

/** Set the row's own keys. A row's values replace those of a model's file. The micro-batch of a row with a system is a
 * knob. */
static bool set_row_keys(struct reading *reading)
{
    const struct measured *measured = reading->measured;
    bool varies = *cell(reading, "system") != '\0';
    bool ok = set(reading, "model", "{name: row, source: row}");
    if (*cell(reading, "model") != '\0')
        ok = set_model_file(reading, cell(reading, "model")) && ok;
    if (varies)
        ok = set(reading, "micro_batch", "1") && ok;
    for (int32_t i = 0; i < measured->n_columns; i++) {
        const char *column = measured->columns[i], *value = cell(reading, column);
        if (*value != '\0' && (varies ? begins(column, "model.") : is_of_row(column)) &&
            strcmp(column, "model.name") != 0)
            ok = set(reading, column, value) && ok;
    }
    return ok;
}

/** Read the model and the micro-batch. */
static bool read_row_keys(struct reading *reading, struct setting *setting)
{
    static const char *const others[] = {"model", NULL};
    struct document *document = &reading->document;
    struct model *model = &setting->scenario.model;
    open_document(reading);
    bool ok = set_row_keys(reading);
    ok = schema_read(document, 0, row_keys, 1, others, setting, reading->err) && ok;
    ok = model_read_keys(document, document_find(document, 0, "model"), model, reading->err) && ok;
    const char *name = *cell(reading, "model.name") != '\0' ? cell(reading, "model.name") : cell(reading, "model");
    snprintf(model->name, sizeof model->name, "%s", name);
    document_free(document);
    return ok;
}

/** Set a key of the scenario's system to a cell. */
static bool set_of_system(struct reading *reading, const char *key, const char *column)
{
    char path[2 * SCHEMA_WORD_BYTES];
    snprintf(path, sizeof path, "%s%.64s", entry, key);
    return *cell(reading, column) == '\0' || set(reading, path, cell(reading, column));
}

/** Set the keys of a scenario that no row has, and then those of the row. */
static bool set_scenario_keys(struct reading *reading)
{
    static const char *const fixed[][2] = {{"name", "validate"},
                                           {"model", "row"},
                                           {"platform", "{}"},
                                           {"data.lengths", "fixed"},
                                           {"engine", "critical-path"},
                                           {"trace", "none"},
                                           {"fits", "tight"},
                                           {"iterations.warm_up", "0"},
                                           {"iterations.measured", "1"},
                                           {"systems", "[{name: best-fit}]"}};
    const struct measured *measured = reading->measured;
    bool ok = true;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        ok = set(reading, fixed[i][0], fixed[i][1]) && ok;
    for (int32_t i = 0; i < measured->n_columns; i++) {
        const char *column = measured->columns[i], *value = cell(reading, column);
        char file[2 * SCHEMA_TEXT_BYTES];
        bool own = begins(column, "plan.") || begins(column, "knobs.");
        if (*value == '\0' || !setting_is_key(column) || is_of_row(column) || strcmp(column, "model") == 0 ||
            strcmp(column, "system") == 0)
            continue;
        if (strcmp(column, "replay.file") == 0 && *value != '/') { /* it is beside the table */
            const char *slash = strrchr(measured->path, '/');
            int folder = slash != NULL ? (int)(slash - measured->path) + 1 : 0;
            snprintf(file, sizeof file, "%.*s%.500s", folder, measured->path, value);
            ok = set(reading, column, file) && ok;
            continue;
        }
        ok = (own ? set_of_system(reading, column, column) : set(reading, column, value)) && ok;
    }
    if (*cell(reading, "system") != '\0')
        ok = set_of_system(reading, "name", "system") && set_of_system(reading, "knobs.micro_batch", "micro_batch") &&
             ok;
    return ok;
}

/** Count sequences instead of tokens. */
static bool count_sequences(const struct reading *reading, struct scenario_data *data)
{
    if (data->global_batch_tokens % data->context != 0)
        return error_add(reading->err,
                         "%s: data.global_batch_tokens: %" PRId64
                         " is not allowed; allowed: a multiple of data.context, %" PRId64,
                         reading->place, data->global_batch_tokens, data->context);
    if (data->global_batch_tokens > 0)
        data->global_batch = data->global_batch_tokens / data->context;
    data->global_batch_tokens = 0;
    return true;
}

/** Check that micro-batches are whole and that virtual stages can take turns on them. */
static bool check_batch(const struct reading *reading, const struct setting *setting)
{
    const struct scenario_data *data = &setting->scenario.data;
    const struct scenario_plan *plan = &setting->plan;
    int64_t of_all = setting->micro_batch * plan->dp;
    if (data->context * setting->micro_batch > MOST_TOKENS || data->context * data->global_batch > MOST_TOKENS)
        return error_add(reading->err,
                         "%s: data.context: %" PRId64
                         " tokens times micro_batch or data.global_batch exceed the limit of %d",
                         reading->place, data->context, MOST_TOKENS);
    if (data->global_batch % of_all != 0)
        return error_add(reading->err,
                         "%s: data.global_batch: %" PRId64 " is not allowed; allowed: a multiple of micro_batch x dp = "
                         "%" PRId64 " x %" PRId64,
                         reading->place, data->global_batch, setting->micro_batch, plan->dp);
    return plan->vpp == 1 || data->global_batch % (of_all * plan->pp) == 0 ||
           error_add(reading->err, "%s: plan.vpp: %" PRId64 " needs micro-batches in multiples of pp = %" PRId64,
                     reading->place, plan->vpp, plan->pp);
}

/** Read the device's data sheet. A device without a file has none, and row_predict refuses it. */
static bool read_device(struct reading *reading, const char *name, struct device *device)
{
    char folder[1024], path[1024];
    struct error unknown = {0};
    snprintf(folder, sizeof folder, "%s/model/gpu", scenario_data_dir());
    *device = (struct device){0};
    if (library_find(folder, name, ".yaml", "device", path, &unknown))
        return device_read_sheet(scenario_data_dir(), name, device, path, reading->err);
    snprintf(device->name, sizeof device->name, "%.63s", name);
    return true;
}

/** Read the row's cluster. Each line of an error names the row. */
static bool read_platform(struct reading *reading, struct scenario *scenario)
{
    struct platform_keys keys;
    struct device device;
    struct error wrong = {0};
    if (!platform_keys_read(&scenario->document, scenario_data_dir(), &keys, reading->err) ||
        !read_device(reading, scenario->device_name, &device))
        return false;
    scenario->device.compute_capability = device.compute_capability; /* row_predict reads the rest */
    bool ok = platform_from_keys(&keys, &device, &scenario->platform, &wrong);
    char *rest = NULL;
    for (char *line = strtok_r(wrong.text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        error_add(reading->err, "%s: %s", reading->place, line);
    return ok;
}

/** Keep the first reason why no run can have these keys, without the row's place. */
static void refuse(const struct reading *reading, const struct error *wrong, struct setting *setting)
{
    const char *what = wrong->text + (begins(wrong->text, reading->place) ? strlen(reading->place) : 0);
    what += strspn(what, ":0123456789 ");
    snprintf(setting->refusal, sizeof setting->refusal, "%.*s", (int)strcspn(what, "\n"), what);
}

/** Read the other keys and check that they match each other. */
static bool read_scenario_keys(struct reading *reading, struct setting *setting)
{
    struct scenario scenario = {0};
    struct scenario_cache cache = {0};
    open_document(reading);
    bool ok = set_scenario_keys(reading);
    ok = scenario_read_keys(&reading->document, &cache, &scenario, reading->err) && ok;
    cache_free(&cache);
    ok = ok && read_platform(reading, &scenario) && scenario_read_replay(&scenario, reading->err);
    scenario.model = setting->scenario.model;
    setting->varies = *cell(reading, "system") != '\0';
    ok = ok && (!setting->varies || system_check_entries(&scenario, reading->err));
    struct error wrong = {0};
    if (ok && reading->err->status == ERROR_NONE && !scenario_check(&scenario, &wrong))
        refuse(reading, &wrong, setting);
    if (ok) {
        setting->plan = scenario.systems[0].plan;
        setting->scenario = scenario;
    }
    if (ok && setting->varies)
        return true;
    if (ok) {
        setting->scenario.document = (struct document){0};
        setting->scenario.systems = NULL;
        setting->scenario.n_systems = 0;
        scenario.replay.n_steps = 0; /* the setting has them */
        scenario.replay.steps = NULL;
    }
    scenario_free(&scenario);
    return ok;
}

bool setting_read(const struct measured *measured, int32_t row, struct setting *setting, struct error *err)
{
    struct reading reading = {.measured = measured, .row = row, .err = err};
    CHECK(err->status == ERROR_NONE);
    snprintf(reading.place, sizeof reading.place, "%.1000s:%d", measured->path, (int)measured->lines[row]);
    *setting = (struct setting){0};
    snprintf(setting->assumed, sizeof setting->assumed, "%s", cell(&reading, "assumed"));
    bool ok = read_row_keys(&reading, setting);
    ok = read_scenario_keys(&reading, setting) && ok;
    struct error wrong = {0};
    reading.err = &wrong;
    if (ok && setting->refusal[0] == '\0' && !setting->varies &&
        !(count_sequences(&reading, &setting->scenario.data) && check_batch(&reading, setting)))
        refuse(&reading, &wrong, setting);
    return ok;
}

void setting_free(struct setting *setting)
{
    if (setting->varies)
        scenario_free(&setting->scenario);
}
