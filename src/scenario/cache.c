/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "document/library.h"

struct cache_entry {
    char name[SCHEMA_TEXT_BYTES]; /* as the scenario writes it */
    uint64_t hash;
    void *value;
};

/** Copy what the cache holds of a name. @return whether it holds any */
static bool find_entry(const struct cache_list *list, const char *name, void *value, size_t bytes, uint64_t *hash)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->entries[i].name, name) == 0) {
            memcpy(value, list->entries[i].value, bytes);
            *hash = list->entries[i].hash;
            return true;
        }
    return false;
}

static void add_entry(struct cache_list *list, const char *name, const void *value, size_t bytes, uint64_t hash)
{
    list->entries = check_grow(list->entries, list->n, &list->capacity, sizeof *list->entries);
    struct cache_entry *entry = &list->entries[list->n++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->hash = hash;
    entry->value = memcpy(check_malloc(bytes), value, bytes);
}

/** Hash the file FOLDER/NAME with the suffix, or the file NAME if it is a path. */
static bool hash_named(const char *data_dir, const char *below, const char *name, const char *suffix, uint64_t *hash,
                       struct error *err)
{
    char folder[1024], path[1024];
    snprintf(folder, sizeof folder, "%s/%s", data_dir, below);
    return library_find(folder, name, suffix, "file", path, err) && hash_file(path, hash, err);
}

bool cache_model(struct scenario_cache *cache, const char *data_dir, const char *name, struct model *model,
                 uint64_t *hash, struct error *err)
{
    if (find_entry(&cache->models, name, model, sizeof *model, hash))
        return true;
    if (!model_read(data_dir, name, model, err) ||
        !hash_named(data_dir, "model/llm", name, model_suffix(name), hash, err))
        return false;
    add_entry(&cache->models, name, model, sizeof *model, *hash);
    return true;
}

bool cache_device(struct scenario_cache *cache, const char *data_dir, const char *name, struct device *device,
                  uint64_t *hash, struct error *err)
{
    if (find_entry(&cache->devices, name, device, sizeof *device, hash))
        return true;
    if (!device_read(data_dir, name, device, err) || !hash_named(data_dir, "model/gpu", name, ".yaml", hash, err))
        return false;
    add_entry(&cache->devices, name, device, sizeof *device, *hash);
    return true;
}

bool cache_platform(struct scenario_cache *cache, const struct platform_keys *keys, const struct device *device,
                    struct platform *platform, struct error *err)
{
    uint64_t none = 0;
    bool is_file = library_is_path(keys->name, ".xml");
    if (is_file && find_entry(&cache->platforms, keys->name, platform, sizeof *platform, &none))
        return true;
    if (!platform_from_keys(keys, device, platform, err))
        return false;
    if (is_file)
        add_entry(&cache->platforms, keys->name, platform, sizeof *platform, none);
    return true;
}

bool cache_framework(struct scenario_cache *cache, const char *path, const struct schema_key *keys, int32_t n_keys,
                     struct framework *framework, struct error *err)
{
    uint64_t none = 0;
    if (find_entry(&cache->frameworks, path, framework, sizeof *framework, &none))
        return true;
    if (!framework_read(path, keys, n_keys, framework, err))
        return false;
    add_entry(&cache->frameworks, path, framework, sizeof *framework, none);
    return true;
}

bool cache_pressure(struct scenario_cache *cache, const char *data_dir, struct memory_pressure *pressure,
                    struct error *err)
{
    cache->knows_pressure = cache->knows_pressure || pressure_read(data_dir, &cache->pressure, err);
    *pressure = cache->pressure;
    return cache->knows_pressure;
}

static void list_free(struct cache_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->entries[i].value);
    free(list->entries);
}

void cache_free(struct scenario_cache *cache)
{
    list_free(&cache->models);
    list_free(&cache->devices);
    list_free(&cache->platforms);
    list_free(&cache->frameworks);
    *cache = (struct scenario_cache){0};
}
