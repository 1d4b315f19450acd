/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Costs of passes already computed: candidates and iterations of one scenario have many units in common. */
#ifndef SLIMSIM_COST_CACHE_H
#define SLIMSIM_COST_CACHE_H

#include "cost/cost.h"

/** What a stage computes in a pass: cost_of_pass, cost_of_embedding, cost_of_head. */
enum cost_part { COST_LAYERS, COST_EMBEDDING, COST_HEAD };

/** {0} is empty. For one scenario: what settings point to must not change while it is in use. */
struct cost_cache {
    int32_t n_settings, n_costs, n_ranges;
    size_t cost_room, range_room;
    int32_t latest; /* setting */
    int32_t slots;  /* a power of two */
    struct cost_setting *settings;
    struct cost_known *costs;
    struct cost_range *ranges; /* slices of the units, one after the other */
    int32_t *slot;             /* [slots] into costs, -1: free */
};

/**
 * cost_of_pass, cost_of_embedding or cost_of_head, from setting->cache where it is known; without a cache computed. Two
 * units are the same when they agree in padding, context degree, sharding, recomputation and their slices' tokens,
 * whatever samples these belong to. Bit for bit what the function gives. A cache that grows large is emptied.
 */
struct cost_pass cost_cached(const struct cost_setting *setting, enum cost_part part, enum pass pass,
                             const struct cost_unit *unit);

void cost_cache_free(struct cost_cache *cache);

#endif
