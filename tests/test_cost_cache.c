/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check that the cache gives the costs that the functions give. */
#include "cost/cache.h"

#include <string.h>

#include "hand_plan.h"
#include "harness.h"

enum { ALL = (1 << COST_N_COMPONENTS) - 1 };

static struct cost_setting setting_with(struct cost_cache *cache)
{
    struct cost_setting setting = *hand_setting();
    hand_layers(&setting, 3);
    setting.cache = cache;
    return setting;
}

/* Say whether a cost in the cache has the bits of the computed one, except for padding. */
static bool same(const struct cost_pass *a, const struct cost_pass *b)
{
    return a->flop == b->flop && a->kernels_s == b->kernels_s && a->attention_s == b->attention_s &&
           a->tensor_s == b->tensor_s && a->shard_s == b->shard_s && a->ring_bytes == b->ring_bytes &&
           a->ring_steps == b->ring_steps && a->context_s == b->context_s && a->boundary_bytes == b->boundary_bytes &&
           memcmp(a->extrapolated_s, b->extrapolated_s, sizeof a->extrapolated_s) == 0;
}

static bool all_same(const struct cost_setting *setting, enum pass pass, const struct cost_micro_batch *micro_batch)
{
    struct cost_pass costs[COST_N_COMPONENTS];
    cost_cached(setting, pass, micro_batch, ALL, costs);
    struct cost_pass layers = cost_of_pass(setting, pass, micro_batch), head = cost_of_head(setting, pass, micro_batch);
    struct cost_pass embedding = cost_of_embedding(setting, pass, micro_batch);
    return same(&costs[COST_LAYERS], &layers) && same(&costs[COST_HEAD], &head) &&
           same(&costs[COST_EMBEDDING], &embedding);
}

/* Micro-batches differ in one thing each, in both passes and under two settings. Asked for twice, each has the costs
 * that the functions give. */
TEST(cost_cached__gives_the_computed_cost)
{
    struct cost_cache cache = {0};
    struct cost_setting settings[] = {setting_with(&cache), setting_with(&cache)};
    hand_layers(&settings[1], 5);
    const struct slice slices[] = {{0, 0, 100}, {1, 50, 300}, {2, 50, 301}};
    const struct cost_micro_batch micro_batches[] = {
        {slices, 2, 0, 1, RECOMPUTE_NONE, SLICE_PER_DOCUMENT, 1, false},
        {slices + 1, 1, 0, 1, RECOMPUTE_NONE, SLICE_PER_DOCUMENT, 1, false},
        {slices + 2, 1, 0, 1, RECOMPUTE_NONE, SLICE_PER_DOCUMENT, 1, false},
        {slices + 2, 1, 7, 1, RECOMPUTE_NONE, SLICE_PER_DOCUMENT, 1, false},
        {slices, 2, 0, 2, RECOMPUTE_NONE, SLICE_PER_DOCUMENT, 1, false},
        {slices, 2, 0, 2, RECOMPUTE_NONE, SLICE_PER_SEQUENCE, 1, false},
        {slices, 2, 0, 1, RECOMPUTE_FULL, SLICE_PER_DOCUMENT, 1, false},
        {slices, 2, 0, 1, RECOMPUTE_FULL, SLICE_PER_DOCUMENT, 2, false},
        {slices, 2, 0, 2, RECOMPUTE_NONE, SLICE_PLACED, 2, false},
    };
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2; i++)
            for (enum pass pass = PASS_FORWARD; pass <= PASS_INPUT; pass++)
                for (int micro_batch = 0; micro_batch < 9; micro_batch++)
                    CHECK_TRUE(all_same(&settings[i], pass, &micro_batches[micro_batch]));
    /* Seven of nine micro-batches differ in a rank's tokens, 350, 250, 251, 258, 175, or nano-batches: 350, 175. */
    CHECK_EQUAL(cache.n_costs, 2 * 4 * 7);
    cost_cache_free(&cache);
}

/* Compare three passes, the last of which repeats a forward. */
static bool all_passes_same(const struct cost_setting *setting)
{
    static const struct slice slice = {0, 0, 64};
    const struct cost_micro_batch micro_batch = {
        .slices = &slice, .n_slices = 1, .context = 2, .recompute = RECOMPUTE_FULL};
    return all_same(setting, PASS_FORWARD, &micro_batch) && all_same(setting, PASS_BACKWARD, &micro_batch) &&
           all_same(setting, PASS_WEIGHT, &micro_batch);
}

TEST(cost_cached__tells_settings_apart)
{
    struct cost_cache cache = {0};
    struct cost_setting setting = setting_with(&cache), other[12];
    struct model model = *setting.model;
    struct device device = *setting.device;
    struct platform platform = *setting.platform;
    for (int i = 0; i < 12; i++)
        other[i] = setting;
    hand_layers(&other[1], 5);
    other[2].tensor = 2;
    hand_recompute_layers(&other[3], 1);
    other[4].attention = DEVICE_UNFUSED;
    other[5].kernels = SCENARIO_EAGER;
    other[6].loss = SCENARIO_LOSS_FUSED;
    other[7].tp_overlap = SCENARIO_BULK;
    other[8].dp_overlap = SCENARIO_OVERLAP_GRADIENTS;
    other[9].model = &model;
    other[10].device = &device;
    other[11].platform = &platform;
    for (int32_t round = 0; round < 2; round++)
        for (int i = 0; i < 12; i++)
            CHECK_TRUE(all_passes_same(&other[i]));
    CHECK_EQUAL(cache.n_keys, 12 + 1); /* the one layer that recomputes is a setting of its own */
    cost_cache_free(&cache);
}

/* A plan is borrowed, and the next one has the same address. Costs are those of the plan that is there. Options that no
 * pass depends on share what is known. */
TEST(cost_cached__follows_a_plan_that_changes_in_place)
{
    const struct scenario_plan base = {.tp = 2, .pp = 1, .cp = 2, .dp = 4, .vpp = 1, .sharding = SCENARIO_ZERO3};
    struct scenario_plan plans[13];
    struct cost_cache cache = {0};
    struct cost_setting setting = setting_with(&cache);
    hand_options(&setting, &base);
    setting.tensor = 2;
    for (int i = 0; i < 13; i++)
        plans[i] = base;
    plans[1].dp = 8;
    plans[2].shard_group = 2;
    plans[3].sharding = SCENARIO_ZERO2;
    plans[4].fsdp = 2;
    plans[5].gradients = SCENARIO_BF16;
    plans[6].sequence_parallel = true;
    plans[7].cp_type = SCENARIO_ALL_GATHER;
    plans[8].early_stop = true;
    plans[9].gradient_buffers = SCENARIO_GRADIENTS_FREED;
    plans[10].fsdp_prefetch = SCENARIO_BACKWARD_POST;
    plans[11].recompute = RECOMPUTE_NORM;
    plans[12].offload = 0.5;
    for (int32_t round = 0; round < 2; round++)
        for (int i = 0; i < 13; i++) {
            hand_options(&setting, &plans[i]);
            CHECK_TRUE(all_passes_same(&setting));
        }
    CHECK_EQUAL(cache.n_keys, 11);
    cost_cache_free(&cache);
}

/* The first gradients of a step are not added by autograd, so the cache tells their passes apart. */
TEST(cost_cached__tells_first_gradients_apart)
{
    static const struct slice slice = {0, 0, 64};
    struct cost_cache cache = {0};
    struct cost_setting setting = setting_with(&cache);
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 2};
    setting.gradients = SCENARIO_BF16;
    setting.gradient_accumulation = SCENARIO_ACCUMULATE_AUTOGRAD;
    for (int i = 0; i < 4; i++) {
        micro_batch.first = i % 2 == 0;
        CHECK_TRUE(all_same(&setting, PASS_BACKWARD, &micro_batch));
        CHECK_TRUE(all_same(&setting, PASS_WEIGHT, &micro_batch));
    }
    CHECK_EQUAL(cache.n_costs, 2 * 2);
    cost_cache_free(&cache);
}

/* The cache knows as many tokens of other samples, and of other slices. Parts are added to what it knows of them. */
TEST(cost_cached__knows_tokens_whatever_their_slices)
{
    struct cost_cache cache = {0};
    struct cost_setting setting = setting_with(&cache);
    const struct slice one = {3, 10, 90}, other[] = {{4, 10, 50}, {5, 200, 240}};
    const struct cost_micro_batch first = {.slices = &one, .n_slices = 1, .context = 1};
    const struct cost_micro_batch second = {.slices = other, .n_slices = 2, .context = 1};
    struct cost_pass costs[COST_N_COMPONENTS];
    cost_cached(&setting, PASS_BACKWARD, &first, 1U << COST_LAYERS, costs);
    CHECK_TRUE(all_same(&setting, PASS_BACKWARD, &second));
    CHECK_TRUE(all_same(&setting, PASS_BACKWARD, &first));
    CHECK_EQUAL(cache.n_costs, 1);
    cost_cache_free(&cache);
}

/* There are more settings than the cache holds, and more micro-batches than its first slots. Emptied and grown, it
 * still gives the right costs. */
TEST(cost_cached__starts_anew_if_it_is_full)
{
    struct cost_cache cache = {0};
    for (int32_t layers = 1; layers <= 150; layers++)
        for (int32_t end = 1; end <= 100; end++) {
            struct cost_setting setting = setting_with(&cache);
            hand_layers(&setting, layers);
            const struct slice slice = {0, 0, end};
            const struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
            if (!all_same(&setting, PASS_FORWARD, &micro_batch)) {
                CHECK_EQUAL(layers, -end);
                break;
            }
        }
    CHECK_TRUE(cache.n_keys < 150);
    cost_cache_free(&cache);
}
