/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This cache holds models, devices, platforms, frameworks and memory pressure that were read, since the points of a
 * sweep share few. */
#ifndef SLIMSIM_SCENARIO_CACHE_H
#define SLIMSIM_SCENARIO_CACHE_H

#include <stddef.h>

#include "scenario/device.h"
#include "scenario/framework.h"
#include "scenario/model.h"
#include "scenario/platform_keys.h"
#include "scenario/pressure.h"

/** Files of one kind, each name once. */
struct cache_list {
    size_t n, capacity;
    struct cache_entry *entries;
};

/** A cache; {0} is empty. It keeps only what was read without errors. */
struct scenario_cache {
    struct cache_list models, devices, platforms, frameworks;
    bool knows_pressure;
    struct memory_pressure pressure;
};

/** Read like model_read, device_read, platform_from_keys, framework_read and pressure_read, and keep the result.
 * cache_platform keeps only XML files. `hash` receives the hash of the file, which identifies its content. */
bool cache_model(struct scenario_cache *cache, const char *data_dir, const char *name, struct model *model,
                 uint64_t *hash, struct error *err);
bool cache_device(struct scenario_cache *cache, const char *data_dir, const char *name, struct device *device,
                  uint64_t *hash, struct error *err);
bool cache_platform(struct scenario_cache *cache, const struct platform_keys *keys, const struct device *device,
                    struct platform *platform, struct error *err);
bool cache_framework(struct scenario_cache *cache, const char *path, const struct schema_key *keys, int32_t n_keys,
                     struct framework *framework, struct error *err);
bool cache_pressure(struct scenario_cache *cache, const char *data_dir, struct memory_pressure *pressure,
                    struct error *err);

void cache_free(struct scenario_cache *cache);

#endif
