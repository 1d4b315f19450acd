/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/cache.h"

#include <stddef.h>
#include <string.h>

#include "hand_plan.h"
#include "harness.h"

enum { ALL = (1 << COST_N_PARTS) - 1 };

static struct cost_setting setting_with(struct cost_cache *cache)
{
    struct cost_setting setting = *hand_setting();
    setting.layers = 3;
    setting.cache = cache;
    return setting;
}

/* Whether a cost in the cache has the bits of the computed one, padding aside. */
static bool same(const struct cost_pass *a, const struct cost_pass *b)
{
    return a->flop == b->flop && a->other_s == b->other_s && a->attention_s == b->attention_s &&
           a->tensor_s == b->tensor_s && a->shard_s == b->shard_s && a->ring_bytes == b->ring_bytes &&
           a->ring_steps == b->ring_steps && a->context_s == b->context_s && a->boundary_bytes == b->boundary_bytes &&
           memcmp(a->outside_s, b->outside_s, sizeof a->outside_s) == 0;
}

static bool all_same(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
{
    struct cost_pass costs[COST_N_PARTS];
    cost_cached(setting, pass, unit, ALL, costs);
    struct cost_pass layers = cost_of_pass(setting, pass, unit), head = cost_of_head(setting, pass, unit);
    struct cost_pass embedding = cost_of_embedding(setting, pass, unit);
    return same(&costs[COST_LAYERS], &layers) && same(&costs[COST_HEAD], &head) &&
           same(&costs[COST_EMBEDDING], &embedding);
}

/* Units that differ in one thing each, in both passes and under two settings: asked for twice, each has the costs that
 * the functions give. */
TEST(a_cost_from_the_cache_is_the_computed_one)
{
    struct cost_cache cache = {0};
    struct cost_setting settings[] = {setting_with(&cache), setting_with(&cache)};
    settings[1].layers = 5;
    const struct slice slices[] = {{0, 0, 100}, {1, 50, 300}, {2, 50, 301}};
    const struct cost_unit units[] = {
        {slices, 2, 0, 1, RECOMPUTE_NONE, SLICE_PER_DOCUMENT},
        {slices + 1, 1, 0, 1, RECOMPUTE_NONE, SLICE_PER_DOCUMENT},
        {slices + 2, 1, 0, 1, RECOMPUTE_NONE, SLICE_PER_DOCUMENT},
        {slices + 2, 1, 7, 1, RECOMPUTE_NONE, SLICE_PER_DOCUMENT},
        {slices, 2, 0, 2, RECOMPUTE_NONE, SLICE_PER_DOCUMENT},
        {slices, 2, 0, 2, RECOMPUTE_NONE, SLICE_PER_SEQUENCE},
        {slices, 2, 0, 1, RECOMPUTE_FULL, SLICE_PER_DOCUMENT},
    };
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2; i++)
            for (enum pass pass = PASS_FORWARD; pass <= PASS_INPUT; pass++)
                for (int unit = 0; unit < 7; unit++)
                    CHECK_TRUE(all_same(&settings[i], pass, &units[unit]));
    /* Of seven units five differ in a rank's tokens: 350, 250, 251, 258, 175. */
    CHECK_EQUAL(cache.n_costs, 2 * 4 * 5);
    cost_cache_free(&cache);
}

/* Fields that differ make another setting; bytes between fields do not. */
TEST(settings_are_told_apart_by_their_fields)
{
    struct cost_cache cache = {0};
    struct cost_setting setting = setting_with(&cache), marked;
    const struct slice slice = {0, 0, 64};
    const struct cost_unit unit = {.slices = &slice, .n_slices = 1, .context = 1};
    struct cost_setting other[10];
    for (int i = 0; i < 10; i++)
        other[i] = setting;
    other[0].sequence_parallel = !setting.sequence_parallel;
    other[1].communication.pp_overlap = !setting.communication.pp_overlap;
    other[2].split.count_head = !setting.split.count_head;
    other[3].shard_groups = setting.shard_groups + 1;
    other[4].recompute_layers = 1;
    other[5].early_stop = !setting.early_stop;
    other[6].fsdp = 2;
    other[7].frees_gradients = true;
    other[8].fsdp_prefetch = SCENARIO_BACKWARD_POST;
    other[9].fsdp_ends = SCENARIO_ENDS_OWN;
    memcpy(&marked, &setting, sizeof marked);
    ((unsigned char *)&marked)[offsetof(struct cost_setting, early_stop) + 1] ^= 0xff; /* before an int32_t */
    CHECK_TRUE(all_same(&setting, PASS_FORWARD, &unit));
    CHECK_TRUE(all_same(&marked, PASS_FORWARD, &unit));
    CHECK_EQUAL(cache.n_settings, 1);
    for (int32_t i = 0; i < 10; i++) {
        struct cost_pass costs[COST_N_PARTS];
        cost_cached(&other[i], PASS_FORWARD, &unit, 1U << COST_LAYERS, costs);
        CHECK_EQUAL(cache.n_settings, i + 2);
    }
    cost_cache_free(&cache);
}

/* As many tokens of other samples, and of other slices, are known; parts are added to what is known of them. */
TEST(tokens_are_known_whatever_their_slices_and_parts_are_added)
{
    struct cost_cache cache = {0};
    struct cost_setting setting = setting_with(&cache);
    const struct slice one = {3, 10, 90}, other[] = {{4, 10, 50}, {5, 200, 240}};
    const struct cost_unit first = {.slices = &one, .n_slices = 1, .context = 1};
    const struct cost_unit second = {.slices = other, .n_slices = 2, .context = 1};
    struct cost_pass costs[COST_N_PARTS];
    cost_cached(&setting, PASS_BACKWARD, &first, 1U << COST_LAYERS, costs);
    CHECK_TRUE(all_same(&setting, PASS_BACKWARD, &second));
    CHECK_TRUE(all_same(&setting, PASS_BACKWARD, &first));
    CHECK_EQUAL(cache.n_costs, 1);
    cost_cache_free(&cache);
}

/* More settings than it holds, more units than its first slots: emptied and grown, it still tells the truth. */
TEST(a_full_cache_starts_anew)
{
    struct cost_cache cache = {0};
    for (int32_t layers = 1; layers <= 150; layers++)
        for (int32_t end = 1; end <= 100; end++) {
            struct cost_setting setting = setting_with(&cache);
            setting.layers = layers;
            const struct slice slice = {0, 0, end};
            const struct cost_unit unit = {.slices = &slice, .n_slices = 1, .context = 1};
            if (!all_same(&setting, PASS_FORWARD, &unit)) {
                CHECK_EQUAL(layers, -end);
                break;
            }
        }
    CHECK_TRUE(cache.n_settings < 150);
    cost_cache_free(&cache);
}
