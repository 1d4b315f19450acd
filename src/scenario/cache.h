/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Models, devices, platforms, frameworks and what is known of full memories, read already: the points of a sweep share
 * few. */
#ifndef SLIMSIM_SCENARIO_CACHE_H
#define SLIMSIM_SCENARIO_CACHE_H

#include <stddef.h>

#include "scenario/device.h"
#include "scenario/framework.h"
#include "scenario/model.h"
#include "scenario/platform_keys.h"
#include "scenario/pressure.h"

/** Of one kind of file, each name once. */
struct cache_list {
    size_t n, capacity;
    struct cache_entry *entries;
};

/** {0} is empty. Only what was read without errors is kept. */
struct scenario_cache {
    struct cache_list models, devices, platforms, frameworks;
    bool knows_pressure;
    struct memory_pressure pressure;
};

/** As model_read, device_read, platform_from_keys (an XML file is kept), framework_read and pressure_read; and the hash
 * of the file, which stands for its content. */
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
