/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Costs of passes already computed: candidates and iterations of one scenario have many units in common. */
#ifndef SLIMSIM_COST_CACHE_H
#define SLIMSIM_COST_CACHE_H

#include "cost/cost.h"

/** What a stage computes in a pass: cost_of_pass, cost_of_embedding, cost_of_head. */
enum cost_part { COST_LAYERS, COST_EMBEDDING, COST_HEAD, COST_N_PARTS };

enum { COST_CACHE_BLOCKS = 16 };

/** {0} is empty. For one scenario: model, device and platform must not change while it is in use. A plan may. */
struct cost_cache {
    int32_t n_keys, n_costs;
    int32_t latest;                              /* key */
    int32_t slots;                               /* a power of two */
    struct cost_key *keys;                       /* of the settings that costs are known of */
    struct cost_known *costs[COST_CACHE_BLOCKS]; /* of as many each; NULL: none yet */
    uint32_t *slot;                              /* [slots] into costs */
};

/**
 * Costs of the parts asked for, to the last bit those of the functions. What a rank's tokens alone decide (most of it,
 * and mostly known: cost/tokens.h) comes from setting->cache where it is known; without a cache all is computed. A
 * cache that grows large is emptied.
 *
 * @param parts  a bit 1 << enum cost_part for each
 * @param costs  [COST_N_PARTS], the parts asked for are filled in
 */
void cost_cached(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit, unsigned parts,
                 struct cost_pass *costs);

void cost_cache_free(struct cost_cache *cache);

#endif
