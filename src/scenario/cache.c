/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "scenario/library.h"

struct cached_model {
    char name[SCHEMA_TEXT_BYTES]; /* as the scenario has it */
    uint64_t hash;
    struct model model;
};

struct cached_device {
    char name[SCHEMA_TEXT_BYTES];
    uint64_t hash;
    struct device device;
};

struct cached_platform {
    char name[SCHEMA_TEXT_BYTES];
    struct platform platform;
};

/** The hash of the file FOLDER/NAME.yaml or, a path, NAME. */
static bool hash_named(const char *data_dir, const char *below, const char *name, uint64_t *hash, struct error *err)
{
    char folder[1024], path[1024];
    snprintf(folder, sizeof folder, "%s/%s", data_dir, below);
    return library_find(folder, name, ".yaml", "file", path, err) && hash_file(path, hash, err);
}

bool cache_model(struct scenario_cache *cache, const char *data_dir, const char *name, struct model *model,
                 uint64_t *hash, struct error *err)
{
    for (size_t i = 0; i < cache->n_models; i++)
        if (strcmp(cache->models[i].name, name) == 0) {
            *model = cache->models[i].model;
            *hash = cache->models[i].hash;
            return true;
        }
    if (!model_read(data_dir, name, model, err) || !hash_named(data_dir, "model/llm", name, hash, err))
        return false;
    cache->models = check_grow(cache->models, cache->n_models, &cache->model_capacity, sizeof *cache->models);
    struct cached_model *entry = &cache->models[cache->n_models++];
    snprintf(entry->name, SCHEMA_TEXT_BYTES, "%s", name);
    entry->hash = *hash;
    entry->model = *model;
    return true;
}

bool cache_device(struct scenario_cache *cache, const char *data_dir, const char *name, struct device *device,
                  uint64_t *hash, struct error *err)
{
    for (size_t i = 0; i < cache->n_devices; i++)
        if (strcmp(cache->devices[i].name, name) == 0) {
            *device = cache->devices[i].device;
            *hash = cache->devices[i].hash;
            return true;
        }
    if (!device_read(data_dir, name, device, err) || !hash_named(data_dir, "model/gpu", name, hash, err))
        return false;
    cache->devices = check_grow(cache->devices, cache->n_devices, &cache->device_capacity, sizeof *cache->devices);
    struct cached_device *entry = &cache->devices[cache->n_devices++];
    snprintf(entry->name, SCHEMA_TEXT_BYTES, "%s", name);
    entry->hash = *hash;
    entry->device = *device;
    return true;
}

bool cache_platform(struct scenario_cache *cache, const char *platform_dir, const char *name, struct platform *platform,
                    struct error *err)
{
    for (size_t i = 0; i < cache->n_platforms; i++)
        if (strcmp(cache->platforms[i].name, name) == 0) {
            *platform = cache->platforms[i].platform;
            return true;
        }
    if (!platform_read(platform_dir, name, platform, err))
        return false;
    cache->platforms =
        check_grow(cache->platforms, cache->n_platforms, &cache->platform_capacity, sizeof *cache->platforms);
    struct cached_platform *entry = &cache->platforms[cache->n_platforms++];
    snprintf(entry->name, SCHEMA_TEXT_BYTES, "%s", name);
    entry->platform = *platform;
    return true;
}

bool cache_pressure(struct scenario_cache *cache, const char *data_dir, struct memory_pressure *pressure,
                    struct error *err)
{
    cache->knows_pressure = cache->knows_pressure || pressure_read(data_dir, &cache->pressure, err);
    *pressure = cache->pressure;
    return cache->knows_pressure;
}

void cache_free(struct scenario_cache *cache)
{
    free(cache->models);
    free(cache->devices);
    free(cache->platforms);
    *cache = (struct scenario_cache){0};
}
