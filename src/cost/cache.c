/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { MAX_SETTINGS = 64, MAX_COSTS = 1 << 16, MAX_RANGES = 1 << 22 };

struct cost_range {
    int32_t begin, end;
};

/** What a cost depends on. */
struct key {
    int32_t setting, part, pass, padding_tokens, context, recompute, sharding, n_slices;
};

struct cost_known {
    uint64_t hash;
    struct key key;
    int32_t first_range;
    struct cost_pass cost;
};

static struct cost_pass computed(const struct cost_setting *setting, enum cost_part part, enum pass pass,
                                 const struct cost_unit *unit)
{
    switch (part) {
    case COST_EMBEDDING:
        return cost_of_embedding(setting, pass, unit);
    case COST_HEAD:
        return cost_of_head(setting, pass, unit);
    case COST_LAYERS:
        break;
    }
    return cost_of_pass(setting, pass, unit);
}

static uint64_t mixed(uint64_t hash, uint32_t a, uint32_t b)
{
    hash = (hash ^ (a | (uint64_t)b << 32)) * 0x9e3779b97f4a7c15U; /* 2^64 over the golden ratio */
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct key *key, const struct cost_unit *unit)
{
    uint64_t hash = mixed((uint64_t)key->setting, (uint32_t)key->part, (uint32_t)key->pass);
    hash = mixed(hash, (uint32_t)key->padding_tokens, (uint32_t)key->context);
    hash = mixed(hash, (uint32_t)key->recompute | (uint32_t)key->sharding << 16, (uint32_t)key->n_slices);
    for (int32_t i = 0; i < unit->n_slices; i++)
        hash = mixed(hash, (uint32_t)unit->slices[i].begin, (uint32_t)unit->slices[i].end);
    return hash;
}

static void empty(struct cost_cache *cache)
{
    cache->n_settings = cache->n_costs = cache->n_ranges = cache->latest = 0;
    for (int32_t i = 0; i < cache->slots; i++)
        cache->slot[i] = -1;
}

/** Bytes that differ without meaning cost a computation, no more. */
static int32_t setting_number(struct cost_cache *cache, const struct cost_setting *setting)
{
    if (cache->latest < cache->n_settings && memcmp(&cache->settings[cache->latest], setting, sizeof *setting) == 0)
        return cache->latest;
    for (cache->latest = cache->n_settings - 1; cache->latest >= 0; cache->latest--)
        if (memcmp(&cache->settings[cache->latest], setting, sizeof *setting) == 0)
            return cache->latest;
    if (cache->n_settings == MAX_SETTINGS)
        empty(cache);
    if (cache->settings == NULL)
        cache->settings = check_malloc(MAX_SETTINGS * sizeof *cache->settings);
    memcpy(&cache->settings[cache->n_settings], setting, sizeof *setting);
    return cache->latest = cache->n_settings++;
}

static bool is_of(const struct cost_cache *cache, const struct cost_known *known, const struct key *key,
                  const struct cost_unit *unit)
{
    const struct cost_range *range = cache->ranges + known->first_range;
    if (memcmp(&known->key, key, sizeof *key) != 0)
        return false;
    for (int32_t i = 0; i < unit->n_slices; i++)
        if (range[i].begin != unit->slices[i].begin || range[i].end != unit->slices[i].end)
            return false;
    return true;
}

/** Twice as many slots, or the first. */
static void add_slots(struct cost_cache *cache)
{
    free(cache->slot);
    cache->slots = cache->slots > 0 ? 2 * cache->slots : 1 << 12;
    cache->slot = check_malloc((size_t)cache->slots * sizeof *cache->slot);
    for (int32_t i = 0; i < cache->slots; i++)
        cache->slot[i] = -1;
    for (int32_t i = 0; i < cache->n_costs; i++) {
        uint64_t at = cache->costs[i].hash;
        while (cache->slot[at & (uint64_t)(cache->slots - 1)] >= 0)
            at++;
        cache->slot[at & (uint64_t)(cache->slots - 1)] = i;
    }
}

static void add_ranges(struct cost_cache *cache, const struct cost_unit *unit)
{
    for (int32_t i = 0; i < unit->n_slices; i++) {
        cache->ranges = check_grow(cache->ranges, (size_t)cache->n_ranges, &cache->range_room, sizeof *cache->ranges);
        cache->ranges[cache->n_ranges++] = (struct cost_range){unit->slices[i].begin, unit->slices[i].end};
    }
}

struct cost_pass cost_cached(const struct cost_setting *setting, enum cost_part part, enum pass pass,
                             const struct cost_unit *unit)
{
    struct cost_cache *cache = setting->cache;
    if (cache == NULL)
        return computed(setting, part, pass, unit);
    if (cache->n_costs == MAX_COSTS || cache->n_ranges > MAX_RANGES)
        empty(cache);
    struct key key = {.setting = setting_number(cache, setting),
                      .part = (int32_t)part,
                      .pass = (int32_t)pass,
                      .padding_tokens = unit->padding_tokens,
                      .context = unit->context,
                      .recompute = (int32_t)unit->recompute,
                      .sharding = (int32_t)unit->sharding,
                      .n_slices = unit->n_slices};
    if (2 * cache->n_costs >= cache->slots)
        add_slots(cache);
    uint64_t hash = hash_of(&key, unit), at = hash, mask = (uint64_t)(cache->slots - 1);
    for (; cache->slot[at & mask] >= 0; at++) {
        const struct cost_known *known = &cache->costs[cache->slot[at & mask]];
        if (known->hash == hash && is_of(cache, known, &key, unit))
            return known->cost;
    }
    cache->slot[at & mask] = cache->n_costs;
    cache->costs = check_grow(cache->costs, (size_t)cache->n_costs, &cache->cost_room, sizeof *cache->costs);
    struct cost_known *known = &cache->costs[cache->n_costs++];
    *known = (struct cost_known){hash, key, cache->n_ranges, computed(setting, part, pass, unit)};
    add_ranges(cache, unit);
    return known->cost;
}

void cost_cache_free(struct cost_cache *cache)
{
    free(cache->settings);
    free(cache->costs);
    free(cache->ranges);
    free(cache->slot);
    *cache = (struct cost_cache){0};
}
