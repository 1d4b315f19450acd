/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/files.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "document/library.h"
#include "document/path.h"

/* Find the file that a key names. `text` is a name below `folder`, or a path, which becomes absolute. */
static bool resolve_name(const struct document *document, const char *key, const char *folder, const char *suffix,
                         char *text, struct error *err)
{
    char path[1024];
    struct error unknown = {0};
    if (*text == '\0') /* the error was already added */
        return false;
    int32_t node = document_find(document, 0, key);
    if (library_is_path(text, suffix))
        return path_resolve(document, node, key, text, err) &&
               (access(text, R_OK) == 0 ||
                document_error(document, node, err, "%s: %s: cannot be read: %s", key, text, strerror(errno)));
    library_shipped(folder, suffix, key, text, SCHEMA_TEXT_BYTES);
    if (library_find(folder, text, suffix, key, path, &unknown))
        return true;
    return document_error(document, node, err, "%s: %s", key, unknown.text);
}

/* Find lengths. A law or table is a name of model/lengths without dot or slash, a user's file is a path. `fixed` and
 * listed lengths, which begin with a digit, need no file. */
static bool resolve_source(const struct document *document, const char *key, char lengths[SCHEMA_TEXT_BYTES],
                           struct error *err)
{
    char folder[PATH_MAX], path[1024];
    struct error unknown = {0};
    bool is_path = strpbrk(lengths, "./") != NULL;
    if (*lengths == '\0') /* the error was already added */
        return false;
    if (strcmp(lengths, "fixed") == 0 || (!is_path && '0' <= *lengths && *lengths <= '9'))
        return true;
    if (is_path)
        return path_resolve(document, document_find(document, 0, key), key, lengths, err);
    snprintf(folder, sizeof folder, "%s/model/lengths", scenario_data_dir());
    if (library_find(folder, lengths, ".yaml", "law or table", path, &unknown))
        return true;
    return document_error(document, document_find(document, 0, key), err,
                          "%s: %s; a file of your own is named by its path, with a . or / in it", key, unknown.text);
}

/* Find the lengths, or those of each part. */
static bool resolve_lengths(struct scenario *scenario, struct error *err)
{
    struct scenario_data *data = &scenario->data;
    bool ok = true;
    char key[64];
    if (strcmp(data->lengths, "mix") != 0 && strcmp(data->lengths, "schedule") != 0)
        return resolve_source(&scenario->document, "data.lengths", data->lengths, err);
    for (int32_t i = 0; i < data->n_parts; i++) {
        snprintf(key, sizeof key, "data.%s.%d.lengths", data->scheduled ? "schedule" : "mix", i);
        ok &= resolve_source(&scenario->document, key, data->part[i].lengths, err);
    }
    return ok;
}

/* Check the keys of the platform in any case. Their defaults come from the device. */
static bool resolve_platform(struct scenario *scenario, bool device_ok, struct scenario_cache *cache, struct error *err)
{
    struct platform_keys keys;
    struct error wrong = {0};
    if (!platform_keys_read(&scenario->document, scenario_data_dir(), &keys, err) || !device_ok)
        return false;
    if (cache_platform(cache, &keys, &scenario->device, &scenario->platform, &wrong))
        return true;
    if (*scenario->platform.path != '\0') /* errors of an XML file already name their places */
        return error_add(err, "%s", wrong.text);
    return document_error(&scenario->document, document_find(&scenario->document, 0, "platform"), err, "%s",
                          wrong.text);
}

/* Read the power of nodes: of the scenario's key, or of the device's file. */
static bool resolve_power(struct scenario *scenario, bool device_ok, struct error *err)
{
    const char *data = scenario_data_dir();
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/model/power", data);
    if (*scenario->power_name != '\0')
        return resolve_name(&scenario->document, "power", folder, ".yaml", scenario->power_name, err) &&
               power_read(data, scenario->power_name, &scenario->power, err);
    return !device_ok || *scenario->device.power == '\0' ||
           power_read(data, scenario->device.power, &scenario->power, err);
}

bool files_resolve(struct scenario *scenario, struct scenario_cache *cache, struct error *err)
{
    const struct document *document = &scenario->document;
    const char *data = scenario_data_dir();
    char models[PATH_MAX], devices[PATH_MAX];
    snprintf(models, sizeof models, "%s/model/llm", data);
    snprintf(devices, sizeof devices, "%s/model/gpu", data);
    bool ok = resolve_name(document, "model", models, model_suffix(scenario->model_name), scenario->model_name, err) &&
              cache_model(cache, data, scenario->model_name, &scenario->model, &scenario->model_hash, err);
    bool device_ok = resolve_name(document, "device", devices, ".yaml", scenario->device_name, err) &&
                     cache_device(cache, data, scenario->device_name, &scenario->device, &scenario->device_hash, err);
    ok &= resolve_platform(scenario, device_ok, cache, err);
    ok &= cache_pressure(cache, data, &scenario->pressure, err);
    ok &= resolve_power(scenario, device_ok, err);
    ok &= price_read(&scenario->document, data, &scenario->price, err);
    return resolve_lengths(scenario, err) && ok;
}

bool files_framework(const struct document *document, char name[SCHEMA_TEXT_BYTES], struct error *err)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/model/framework", scenario_data_dir());
    return resolve_name(document, "framework", folder, ".yaml", name, err);
}

bool files_framework_path(const char *name, char path[1024], struct error *err)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/model/framework", scenario_data_dir());
    return library_find(folder, name, ".yaml", "framework", path, err);
}
