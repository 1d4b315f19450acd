/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This cache stores costs of passes. Candidates and iterations of one scenario have many micro-batches in
 * common. */
#ifndef SLIMSIM_COST_CACHE_H
#define SLIMSIM_COST_CACHE_H

#include "cost/pass.h"

/** Components of a stage's work in a pass: cost_of_pass, cost_of_embedding, cost_of_head. */
enum cost_component { COST_LAYERS, COST_EMBEDDING, COST_HEAD, COST_N_COMPONENTS };

enum { COST_CACHE_BLOCKS = 16 };

/** A cache for one scenario. {0} is empty. Model, device and platform must not change while it is in use. Settings are
 * compared whole. */
struct cost_cache {
    int32_t n_keys, n_costs;
    int32_t latest;                              /* latest key that was used */
    int32_t slots;                               /* number of slots, a power of two */
    struct cost_key *keys;                       /* settings with stored costs */
    struct cost_known *costs[COST_CACHE_BLOCKS]; /* blocks of stored costs; NULL: not allocated yet */
    uint32_t *slot;                              /* [slots] numbers of stored costs */
};

/**
 * Return costs of the components asked for. They equal those of the functions to the last bit.
 *
 * 1. Most of a cost depends on a rank's tokens only (cost_of_tokens), and most of these costs were computed before.
 * They come from setting->cache if it has them.
 * 2. Without a cache everything is computed.
 * 3. A cache that grows large is emptied.
 *
 * @param components  a bit 1 << enum cost_component for each component asked for
 * @param costs       [COST_N_COMPONENTS], the components asked for are filled in
 */
void cost_cached(const struct cost_setting *setting, enum pass pass, const struct cost_micro_batch *micro_batch,
                 unsigned components, struct cost_pass *costs);

/** Return cost_activation_bytes, from the cache if it has them. */
double cost_cached_activation_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced);

void cost_cache_free(struct cost_cache *cache);

#endif
