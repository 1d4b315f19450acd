/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cost/tokens.h"

enum { MAX_SETTINGS = 64, BLOCK_COSTS = 1 << 12, MAX_COSTS = COST_CACHE_BLOCKS * BLOCK_COSTS };

/** What the tokens of a rank decide. */
struct cost_known {
    int32_t setting, pass;
    double tokens;
    unsigned known; /* parts: a bit each */
    struct cost_pass parts[COST_N_PARTS];
};

static struct cost_known *cost_at(const struct cost_cache *cache, int32_t index)
{
    return &cache->costs[index / BLOCK_COSTS][index % BLOCK_COSTS];
}

static uint64_t hash_of(int32_t setting, enum pass pass, double tokens)
{
    uint64_t bits;
    memcpy(&bits, &tokens, sizeof bits);
    bits = (bits ^ ((uint64_t)setting << 3 | (uint64_t)pass)) * 0x9e3779b97f4a7c15U; /* 2^64 over the golden ratio */
    return bits;
}

/** A slot tells which of the costs is there, from 1 on, and beside that some of its hash: of what differs the costs
 * are not read. 0: free. */
enum { INDEX_BITS = 17, TAG_SHIFT = 64 - (32 - INDEX_BITS) };
_Static_assert(MAX_COSTS < 1 << INDEX_BITS, "a slot has room for the number of each cost");

static uint32_t slot_for(int32_t index, uint64_t hash)
{
    return (uint32_t)(index + 1) | (uint32_t)(hash >> TAG_SHIFT) << INDEX_BITS;
}

/** Where to look first: whole tokens leave the low bits of the hash alike. */
static uint64_t place_for(uint64_t hash)
{
    return hash >> 32 ^ hash >> 47;
}

static struct cost_known *cost_in(const struct cost_cache *cache, uint32_t slot)
{
    return cost_at(cache, (int32_t)(slot & ((1U << INDEX_BITS) - 1)) - 1);
}

static void empty(struct cost_cache *cache)
{
    cache->n_settings = cache->n_costs = cache->latest = 0;
    if (cache->slot != NULL)
        memset(cache->slot, 0, (size_t)cache->slots * sizeof *cache->slot);
}

/* All fields: bytes between them differ without meaning. */
static bool same_setting(const struct cost_setting *a, const struct cost_setting *b)
{
    const struct scenario_communication *x = &a->communication, *y = &b->communication;
    const struct scenario_stages *s = &a->split, *t = &b->split;
    _Static_assert(sizeof *a == 152, "a field more is compared here, too");
    return a->model == b->model && a->device == b->device && a->platform == b->platform &&
           a->shards_platform == b->shards_platform && a->faults == b->faults && a->cache == b->cache &&
           a->layers == b->layers && a->tensor == b->tensor && a->attention == b->attention &&
           a->sequence_parallel == b->sequence_parallel && a->recompute_layers == b->recompute_layers &&
           a->early_stop == b->early_stop && a->frees_gradients == b->frees_gradients && a->kernels == b->kernels &&
           a->loss == b->loss && a->context_type == b->context_type && a->gradients == b->gradients &&
           a->optimizer == b->optimizer && a->sharding == b->sharding && a->fsdp == b->fsdp &&
           a->fsdp_prefetch == b->fsdp_prefetch && a->fsdp_ends == b->fsdp_ends && a->shards == b->shards &&
           a->shard_groups == b->shard_groups && x->tp_overlap == y->tp_overlap && x->cp_overlap == y->cp_overlap &&
           x->pp_overlap == y->pp_overlap && x->dp_overlap == y->dp_overlap && s->first_layers == t->first_layers &&
           s->last_layers == t->last_layers && s->count_embedding == t->count_embedding &&
           s->count_head == t->count_head;
}

static int32_t setting_number(struct cost_cache *cache, const struct cost_setting *setting)
{
    if (cache->latest < cache->n_settings && same_setting(&cache->settings[cache->latest], setting))
        return cache->latest;
    for (cache->latest = cache->n_settings - 1; cache->latest >= 0; cache->latest--)
        if (same_setting(&cache->settings[cache->latest], setting))
            return cache->latest;
    if (cache->n_settings == MAX_SETTINGS)
        empty(cache);
    if (cache->settings == NULL)
        cache->settings = check_malloc(MAX_SETTINGS * sizeof *cache->settings);
    cache->settings[cache->n_settings] = *setting;
    return cache->latest = cache->n_settings++;
}

/** Twice as many slots, or the first. */
static void add_slots(struct cost_cache *cache)
{
    free(cache->slot);
    cache->slots = cache->slots > 0 ? 2 * cache->slots : 1 << 12;
    cache->slot = check_calloc((size_t)cache->slots, sizeof *cache->slot);
    for (int32_t i = 0; i < cache->n_costs; i++) {
        const struct cost_known *known = cost_at(cache, i);
        uint64_t hash = hash_of(known->setting, (enum pass)known->pass, known->tokens), at = place_for(hash);
        while (cache->slot[at & (uint64_t)(cache->slots - 1)] != 0)
            at++;
        cache->slot[at & (uint64_t)(cache->slots - 1)] = slot_for(i, hash);
    }
}

static struct cost_known *add_known(struct cost_cache *cache, int32_t setting, enum pass pass, double tokens)
{
    struct cost_known **block = &cache->costs[cache->n_costs / BLOCK_COSTS];
    if (*block == NULL)
        *block = check_malloc(BLOCK_COSTS * sizeof **block);
    struct cost_known *known = cost_at(cache, cache->n_costs++);
    known->setting = setting;
    known->pass = (int32_t)pass;
    known->tokens = tokens;
    known->known = 0;
    return known;
}

/** The entry of so many tokens, perhaps a new one. */
static struct cost_known *known_of(struct cost_cache *cache, const struct cost_setting *setting, enum pass pass,
                                   double tokens)
{
    if (cache->n_costs == MAX_COSTS)
        empty(cache);
    if (2 * (int64_t)cache->n_costs >= (int64_t)cache->slots)
        add_slots(cache);
    int32_t number = setting_number(cache, setting);
    uint64_t hash = hash_of(number, pass, tokens), at = place_for(hash), mask = (uint64_t)(cache->slots - 1);
    for (uint32_t slot; (slot = cache->slot[at & mask]) != 0; at++) {
        struct cost_known *known = cost_in(cache, slot);
        if (slot >> INDEX_BITS == hash >> TAG_SHIFT && known->tokens == tokens && known->setting == number &&
            known->pass == (int32_t)pass)
            return known;
    }
    cache->slot[at & mask] = slot_for(cache->n_costs, hash);
    return add_known(cache, number, pass, tokens);
}

/** Of the layers what tokens decide; head and embedding know nothing else. */
static void compute(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit, unsigned parts,
                    struct cost_pass *costs)
{
    if (parts & 1U << COST_LAYERS)
        costs[COST_LAYERS] = cost_of_tokens(setting, pass, cost_unit_tokens(unit));
    if (parts & 1U << COST_EMBEDDING)
        costs[COST_EMBEDDING] = cost_of_embedding(setting, pass, unit);
    if (parts & 1U << COST_HEAD)
        costs[COST_HEAD] = cost_of_head(setting, pass, unit);
}

/** The same, from the cache where it is known. */
static void look_up(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit, unsigned parts,
                    struct cost_pass *costs)
{
    if (setting->cache == NULL) {
        compute(setting, pass, unit, parts, costs);
        return;
    }
    struct cost_known *known = known_of(setting->cache, setting, pass, cost_unit_tokens(unit));
    if ((parts & ~known->known) != 0)
        compute(setting, pass, unit, parts & ~known->known, known->parts);
    known->known |= parts;
    for (int part = 0; part < COST_N_PARTS; part++)
        if (parts & 1U << part)
            costs[part] = known->parts[part];
}

void cost_cached(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit, unsigned parts,
                 struct cost_pass *costs)
{
    struct cost_pass forward;
    look_up(setting, pass, unit, parts, costs);
    if (!(parts & 1U << COST_LAYERS))
        return;
    if (cost_repeats(pass, unit)) {
        struct cost_setting again = cost_setting_again(setting);
        look_up(&again, PASS_FORWARD, unit, 1U << COST_LAYERS, &forward);
    }
    cost_add_slices(&costs[COST_LAYERS], setting, pass, unit, &forward);
}

void cost_cache_free(struct cost_cache *cache)
{
    free(cache->settings);
    for (int32_t i = 0; i < COST_CACHE_BLOCKS; i++)
        free(cache->costs[i]);
    free(cache->slot);
    *cache = (struct cost_cache){0};
}
