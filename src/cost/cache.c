/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cost/activation.h"

enum { MAX_KEYS = 64, MAX_ACTIVATIONS = 8, BLOCK_COSTS = 1 << 12, MAX_COSTS = COST_CACHE_BLOCKS * BLOCK_COSTS };

/** Costs that depend on a rank's tokens only, and on whether its gradients are the first. */
struct cost_known {
    int32_t key, pass; /* pass: of pass_of */
    double tokens;
    unsigned known; /* components that were computed, a bit each */
    struct cost_pass components[COST_N_COMPONENTS];
};

static struct cost_known *cost_at(const struct cost_cache *cache, int32_t index)
{
    return &cache->costs[index / BLOCK_COSTS][index % BLOCK_COSTS];
}

/** Return the number of a pass. A pass that makes the first gradients has its own, and each number of nano-batches. */
static int32_t pass_of(enum pass pass, const struct cost_micro_batch *micro_batch)
{
    return (int32_t)pass + (2 * (cost_parts(micro_batch) - 1) + micro_batch->first) * N_COST_PASSES;
}

static uint64_t hash_of(int32_t key, int32_t pass, double tokens)
{
    uint64_t bits;
    memcpy(&bits, &tokens, sizeof bits);
    bits = (bits ^ ((uint64_t)key << 3 | (uint64_t)pass)) * 0x9e3779b97f4a7c15U; /* 2^64 over the golden ratio */
    return bits;
}

/** A slot holds the number of a cost, counted from 1, and some bits of its hash. So costs with other bits need not
 * be read. 0 is a free slot. */
enum { INDEX_BITS = 17, TAG_SHIFT = 64 - (32 - INDEX_BITS) };
_Static_assert(MAX_COSTS < 1 << INDEX_BITS, "a slot has room for the number of each cost");

static uint32_t slot_for(int32_t index, uint64_t hash)
{
    return (uint32_t)(index + 1) | (uint32_t)(hash >> TAG_SHIFT) << INDEX_BITS;
}

/** Return the slot at which a search starts. It mixes in high bits, because the low bits of the hash are equal for
 * whole tokens. */
static uint64_t first_slot(uint64_t hash)
{
    return hash >> 32 ^ hash >> 47;
}

static struct cost_known *cost_in(const struct cost_cache *cache, uint32_t slot)
{
    return cost_at(cache, (int32_t)(slot & ((1U << INDEX_BITS) - 1)) - 1);
}

static void empty(struct cost_cache *cache)
{
    cache->n_keys = cache->n_costs = cache->latest = 0;
    if (cache->slot != NULL)
        memset(cache->slot, 0, (size_t)cache->slots * sizeof *cache->slot);
}

/** Bytes of cost_activation_bytes. */
struct cost_activation {
    enum recompute recompute;
    bool sliced;
    double bytes;
};

/** A setting, and what follows from it alone. */
struct cost_key {
    struct cost_setting setting;
    struct layer layer;    /* of its first run */
    int32_t n_activations; /* a plan has few: a list, stronger ones and full, not sliced and sliced */
    struct cost_activation activations[MAX_ACTIVATIONS];
};

/** Return whether a key is that of a setting. Settings have no gaps between fields (cost/setting.h). */
static bool is_of(const struct cost_key *key, const struct cost_setting *setting)
{
    return memcmp(&key->setting, setting, sizeof *setting) == 0;
}

static void open_key(struct cost_key *key, const struct cost_setting *setting)
{
    key->setting = *setting;
    layer_of(setting, setting->runs[0].kind, &key->layer);
    key->n_activations = 0;
}

/** Return the number of a setting's key, which may be new. */
static int32_t key_number(struct cost_cache *cache, const struct cost_setting *setting)
{
    if (cache->latest < cache->n_keys && is_of(&cache->keys[cache->latest], setting))
        return cache->latest;
    for (cache->latest = cache->n_keys - 1; cache->latest >= 0; cache->latest--)
        if (is_of(&cache->keys[cache->latest], setting))
            return cache->latest;
    if (cache->n_keys == MAX_KEYS)
        empty(cache);
    if (cache->keys == NULL)
        cache->keys = check_malloc(MAX_KEYS * sizeof *cache->keys);
    open_key(&cache->keys[cache->n_keys], setting);
    return cache->latest = cache->n_keys++;
}

/** Double the slots, or make the first ones. */
static void add_slots(struct cost_cache *cache)
{
    free(cache->slot);
    cache->slots = cache->slots > 0 ? 2 * cache->slots : 1 << 12;
    cache->slot = check_calloc((size_t)cache->slots, sizeof *cache->slot);
    for (int32_t i = 0; i < cache->n_costs; i++) {
        const struct cost_known *known = cost_at(cache, i);
        uint64_t hash = hash_of(known->key, known->pass, known->tokens), at = first_slot(hash);
        while (cache->slot[at & (uint64_t)(cache->slots - 1)] != 0)
            at++;
        cache->slot[at & (uint64_t)(cache->slots - 1)] = slot_for(i, hash);
    }
}

static struct cost_known *add_known(struct cost_cache *cache, int32_t key, int32_t pass, double tokens)
{
    struct cost_known **block = &cache->costs[cache->n_costs / BLOCK_COSTS];
    if (*block == NULL)
        *block = check_malloc(BLOCK_COSTS * sizeof **block);
    struct cost_known *known = cost_at(cache, cache->n_costs++);
    known->key = key;
    known->pass = pass;
    known->tokens = tokens;
    known->known = 0;
    return known;
}

/** Return the entry of so many tokens, which may be new. */
static struct cost_known *known_of(struct cost_cache *cache, const struct cost_setting *setting, int32_t pass,
                                   double tokens)
{
    if (cache->n_costs == MAX_COSTS)
        empty(cache);
    if (2 * (int64_t)cache->n_costs >= (int64_t)cache->slots)
        add_slots(cache);
    int32_t number = key_number(cache, setting);
    uint64_t hash = hash_of(number, pass, tokens), at = first_slot(hash), mask = (uint64_t)(cache->slots - 1);
    for (uint32_t slot; (slot = cache->slot[at & mask]) != 0; at++) {
        struct cost_known *known = cost_in(cache, slot);
        if (slot >> INDEX_BITS == hash >> TAG_SHIFT && known->tokens == tokens && known->key == number &&
            known->pass == pass)
            return known;
    }
    cache->slot[at & mask] = slot_for(cache->n_costs, hash);
    return add_known(cache, number, pass, tokens);
}

/** Compute costs that depend on tokens only. For head and embedding these are all their costs. */
static void compute(const struct cost_setting *setting, const struct layer *layer, enum pass pass,
                    const struct cost_micro_batch *micro_batch, unsigned components, struct cost_pass *costs)
{
    if (components & 1U << COST_LAYERS)
        costs[COST_LAYERS] = cost_of_tokens(setting, layer, pass, micro_batch);
    if (components & 1U << COST_EMBEDDING)
        costs[COST_EMBEDDING] = cost_of_embedding(setting, pass, micro_batch);
    if (components & 1U << COST_HEAD)
        costs[COST_HEAD] = cost_of_head(setting, pass, micro_batch);
}

/** Return the same costs, from the cache if it has them. */
static void look_up(const struct cost_setting *setting, enum pass pass, const struct cost_micro_batch *micro_batch,
                    unsigned components, struct cost_pass *costs)
{
    if (setting->cache == NULL) {
        struct layer layer;
        layer_of(setting, setting->runs[0].kind, &layer);
        compute(setting, &layer, pass, micro_batch, components, costs);
        return;
    }
    struct cost_known *known =
        known_of(setting->cache, setting, pass_of(pass, micro_batch), cost_micro_batch_tokens(micro_batch));
    if ((components & ~known->known) != 0) { /* a page that is only read stays shared with SimGrid's processes */
        compute(setting, &setting->cache->keys[known->key].layer, pass, micro_batch, components & ~known->known,
                known->components);
        known->known |= components;
    }
    for (int component = 0; component < COST_N_COMPONENTS; component++)
        if (components & 1U << component)
            costs[component] = known->components[component];
}

/** Return the layer of a setting's first run, from the cache if there is one, otherwise in `room`. */
static const struct layer *layer_in(const struct cost_setting *setting, struct layer *room)
{
    if (setting->cache != NULL)
        return &setting->cache->keys[key_number(setting->cache, setting)].layer;
    layer_of(setting, setting->runs[0].kind, room);
    return room;
}

/** Add what the slices add to the layers of one run. */
static void add_slices(struct cost_pass *layers, const struct cost_setting *setting, bool first, enum pass pass,
                       const struct cost_micro_batch *micro_batch)
{
    struct cost_pass forward[COST_N_COMPONENTS];
    if (cost_repeats(pass, micro_batch)) {
        struct cost_setting again = cost_setting_again(setting);
        look_up(&again, PASS_FORWARD, micro_batch, 1U << COST_LAYERS, forward);
    }
    struct layer room;
    const struct layer *layer = pass != PASS_FORWARD ? layer_in(setting, &room) : NULL;
    cost_add_slices(layers, setting, first, pass, micro_batch, &(struct cost_backward){layer, &forward[COST_LAYERS]});
}

void cost_cached(const struct cost_setting *setting, enum pass pass, const struct cost_micro_batch *micro_batch,
                 unsigned components, struct cost_pass *costs)
{
    struct cost_setting room;
    const struct cost_setting *run = cost_of_one_run(setting, 0, &room);
    look_up(run, pass, micro_batch, components, costs);
    if (!(components & 1U << COST_LAYERS))
        return;
    add_slices(&costs[COST_LAYERS], run, true, pass, micro_batch);
    for (int32_t i = 1; i < setting->n_runs; i++) {
        struct cost_pass more[COST_N_COMPONENTS];
        run = cost_of_one_run(setting, i, &room);
        look_up(run, pass, micro_batch, 1U << COST_LAYERS, more);
        add_slices(&more[COST_LAYERS], run, false, pass, micro_batch);
        cost_add_pass(&costs[COST_LAYERS], &more[COST_LAYERS]);
    }
}

double cost_cached_activation_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced)
{
    if (setting->cache == NULL)
        return cost_activation_bytes(setting, recompute, sliced);
    int32_t number = key_number(setting->cache, setting);
    struct cost_key *key = &setting->cache->keys[number];
    for (int32_t i = 0; i < key->n_activations; i++)
        if (key->activations[i].recompute == recompute && key->activations[i].sliced == sliced)
            return key->activations[i].bytes;
    if (key->n_activations == MAX_ACTIVATIONS)
        key->n_activations = 0;
    double bytes = cost_activation_bytes(setting, recompute, sliced);
    key->activations[key->n_activations++] = (struct cost_activation){recompute, sliced, bytes};
    return bytes;
}

void cost_cache_free(struct cost_cache *cache)
{
    free(cache->keys);
    for (int32_t i = 0; i < COST_CACHE_BLOCKS; i++)
        free(cache->costs[i]);
    free(cache->slot);
    *cache = (struct cost_cache){0};
}
