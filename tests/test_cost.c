/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/cache.h"
#include "cost/gathered.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* 1 FLOP/s and 1 B/s: GEMMs take 2 s a FLOP, attention 4 (backward 2), memory 2 s a byte, messages 1 s + 0.1 s a byte.
 */
static const struct device plain = {
    .peak_flop_per_s = 1,
    .hbm_bytes_per_s = 1,
    .memory_share = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5},
    .gemm = {.efficiency = 0.5},
    .forward = {{.efficiency = 0.25}},
    .backward = {{.efficiency = 0.5}},
    .collective = {{.latency_s = 1, .efficiency = 1}, {.latency_s = 1, .efficiency = 1}},
    .ring = {{.start_s = 2.5, .share = 1, .share_alone = 1}},
    .fabric = {.efficiency = 1},
    .nvlink = {.latency_s = 1, .efficiency = 1},
    .nic = {.latency_s = 2, .efficiency = 0.5, .ramp_bytes = 50},
    .pcie = {.efficiency = 1}};
static const struct platform links = {
    .gpus_per_node = 8, .nvlink_bytes_per_s = 10, .nic_bytes_per_s = 20, .pcie_bytes_per_s = 40};

static const struct slice two_slices[] = {{.sample = 0, .begin = 0, .end = 4}, {.sample = 1, .begin = 2, .end = 6}};

static const struct scenario_plan toy_plan = {.tp = 2, .pp = 1, .cp = 1, .dp = 1, .vpp = 1, .sequence_parallel = true};

static struct cost_setting toy_setting_of(const struct scenario_plan *plan)
{
    return (struct cost_setting){.model = &hand_toy,
                                 .device = &plain,
                                 .platform = &links,
                                 .plan = plan,
                                 .communication = {.tp_overlap = SCENARIO_EXPOSED},
                                 .attention = DEVICE_FLASH2,
                                 .tensor = 2,
                                 .layers = 3};
}

static struct cost_setting toy_setting(void)
{
    return toy_setting_of(&toy_plan);
}

static struct cost_unit toy_unit(enum recompute recompute)
{
    return (struct cost_unit){
        .slices = two_slices, .n_slices = 2, .padding_tokens = 2, .context = 2, .recompute = recompute};
}

/** Attention of all layers without what a ring copies and sums beside it [s]. */
static double blocks_s(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit)
{
    struct cost_kernels kernels;
    double seconds = 0;
    cost_layer_kernels(setting, pass, unit, &kernels);
    for (int32_t i = 0; i < kernels.n; i++)
        if (strcmp(kernels.kernel[i].name, "attention") == 0)
            seconds += setting->layers * kernels.kernel[i].seconds;
    return seconds;
}

/*
 * T = (4 + 4 + 2)/2 = 5 tokens, each figure for one of 3 layers:
 * GEMMs 2 x 144 x 5/2 = 720 FLOP, 1440 s; attention 2h(20) + 2h(42 - 6) = 448 FLOP, over CP x TP 112, 448 s;
 * memory-bound 8h + 12h + 4h + 4k + 6f = 152 bytes, over TP times T 380, 760 s;
 * TP: 4 collectives of 5 x 4 x 2/2 = 20 bytes, 1 step: 3 s each;
 * ring: (4 + 6 + 2)/2 x 4k/2 = 24 bytes, 1 step; copies and sums, packed, of the rank whose other block has half of the
 * keys: (6 + 8) q + (4 + 8) k = 80 bytes, times T/TP 200, 400 s.
 */
TEST(a_forward_unit_is_counted_by_hand)
{
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    struct cost_pass cost = cost_of_pass(&setting, PASS_FORWARD, &unit);
    CHECK_CLOSE(cost.flop, 3 * (720.0 + 112), 1e-14);
    CHECK_CLOSE(cost.product_s, 3 * 1440.0, 1e-14);
    CHECK_CLOSE(cost.other_s, 3 * (1440.0 + 760), 1e-14);
    CHECK_CLOSE(cost.attention_s, 3 * (448.0 + 400), 1e-14);
    CHECK_CLOSE(cost.tensor_s, 3 * 4 * 3.0, 1e-14);
    CHECK_CLOSE(cost.tensor_bytes, 3 * 4 * 20.0, 1e-14);
    CHECK_CLOSE(cost.ring_bytes, 3 * 24.0, 1e-14);
    CHECK_EQUAL(cost.ring_steps, 3);
    CHECK_CLOSE(cost.boundary_bytes, 20.0, 1e-14);
}

/* The same with heads 4 wide in place of h/n = 2, q = 8 and k = 4: P = 4 (8 + 2 x 4) + 8 x 4 + 3 x 4 x 8 = 192; GEMMs
 * 2 x 192 x 5/2 = 960 FLOP; attention twice as much; 8h + 12h + 4q + 4k + 6f = 176 bytes, backward 24h + 4q + 4k + 10f
 * = 224, times T/TP 440 and 560; TP's tensors are as before; the ring sends twice as much. A token leaves (8h + 4q + 4k
 * + 6f + 4n)/2 = 68 bytes, and waits with (4h + 2q + 2f)/2 + (2(q + 2k) + 4f)/2 + 4h = 72 for its weights' gradients.
 */
TEST(heads_need_not_share_the_hidden_width)
{
    struct model model = hand_toy;
    model.head_width = 4;
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    setting.model = &model;
    struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &unit);
    struct cost_pass backward = cost_of_pass(&setting, PASS_BACKWARD, &unit);
    CHECK_CLOSE(forward.flop, 3 * (960.0 + 224), 1e-14);
    CHECK_CLOSE(backward.flop, 3 * (1920.0 + 560), 1e-14);
    CHECK_CLOSE(forward.other_s - forward.product_s, 3 * 880.0, 1e-13);
    CHECK_CLOSE(backward.other_s - backward.product_s, 3 * 1120.0, 1e-13);
    CHECK_CLOSE(forward.tensor_bytes, 3 * 4 * 20.0, 1e-14);
    CHECK_CLOSE(forward.ring_bytes, 3 * 48.0, 1e-14);
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_NONE, false), 68.0, 1e-14);
    CHECK_CLOSE(cost_weight_bytes(&setting), 72.0, 1e-14);
    CHECK_CLOSE(cost_stage_parameters(&model, 1, 3, false, false), 3 * (192.0 + 2 * 4), 1e-14);
    model.head_width = 2;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).other_s, 3 * (1440.0 + 760), 1e-14);
}

/* GEMMs and ring twice; attention 2.5 x 112 FLOP at 2 s; bytes 12h + 12h + 4h + 4k + 10f = 200: 1000 s; 6 collectives;
 * the ring's copies and sums of the rank whose other block has half of the queries: (9 + 4) q + (12 + 14) k = 104. */
TEST(a_backward_unit_is_counted_by_hand)
{
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    struct cost_pass cost = cost_of_pass(&setting, PASS_BACKWARD, &unit);
    CHECK_CLOSE(cost.flop, 3 * (1440.0 + 280), 1e-14);
    CHECK_CLOSE(cost.product_s, 3 * 2880.0, 1e-14);
    CHECK_CLOSE(cost.other_s, 3 * (2880.0 + 1000), 1e-14);
    CHECK_CLOSE(cost.attention_s, 3 * (560.0 + 520), 1e-14);
    CHECK_CLOSE(cost.tensor_s, 3 * 6 * 3.0, 1e-14);
    CHECK_CLOSE(cost.tensor_bytes, 3 * 6 * 20.0, 1e-14);
    CHECK_CLOSE(cost.ring_bytes, 3 * 48.0, 1e-14);
    CHECK_EQUAL(cost.ring_steps, 3);
    CHECK_CLOSE(cost.boundary_bytes, 20.0, 1e-14);
}

/* Forward 4 GEMMs and 7 memory-bound kernels a layer, 2 blocks of attention, of which the second starts beside the
 * first, 3 + 3 copies and sums; backward 8, 7, 2 one after the other, 6 + 4; each starts in 1 s, blocks in 2. */
TEST(every_kernel_is_launched_once)
{
    struct device device = plain;
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &unit);
    struct cost_pass backward = cost_of_pass(&setting, PASS_BACKWARD, &unit);
    device.launch_s = device.gemm.launch_s = 1;
    device.forward[DEVICE_FLASH2].launch_s = device.backward[DEVICE_FLASH2].launch_s = 2;
    setting.device = &device;
    struct cost_pass slower = cost_of_pass(&setting, PASS_FORWARD, &unit);
    CHECK_CLOSE(slower.other_s - forward.other_s, 3 * 11.0, 1e-12);
    CHECK_CLOSE(slower.attention_s - forward.attention_s, 3 * (2 + 6.0), 1e-12);
    slower = cost_of_pass(&setting, PASS_BACKWARD, &unit);
    CHECK_CLOSE(slower.other_s - backward.other_s, 3 * 15.0, 1e-12);
    CHECK_CLOSE(slower.attention_s - backward.attention_s, 3 * (2 * 2 + 10.0), 1e-12);
}

TEST(full_recomputation_adds_the_forward)
{
    struct cost_setting setting = toy_setting();
    struct cost_unit none = toy_unit(RECOMPUTE_NONE), full = toy_unit(RECOMPUTE_FULL);
    struct cost_pass f = cost_of_pass(&setting, PASS_FORWARD, &none), b = cost_of_pass(&setting, PASS_BACKWARD, &none);
    struct cost_pass sum = cost_of_pass(&setting, PASS_BACKWARD, &full);
    CHECK_CLOSE(sum.flop, f.flop + b.flop, 1e-14);
    CHECK_CLOSE(sum.other_s, f.other_s + b.other_s, 1e-14);
    CHECK_CLOSE(sum.attention_s, f.attention_s + b.attention_s, 1e-14);
    CHECK_CLOSE(sum.tensor_s, f.tensor_s + b.tensor_s, 1e-14);
    CHECK_CLOSE(sum.tensor_bytes, f.tensor_bytes + b.tensor_bytes, 1e-14);
    CHECK_CLOSE(sum.ring_bytes, f.ring_bytes + b.ring_bytes, 1e-14);
    CHECK_EQUAL(sum.ring_steps, f.ring_steps + b.ring_steps);
    CHECK_CLOSE(sum.boundary_bytes, b.boundary_bytes, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &full).other_s, f.other_s, 1e-14);
}

/* Two norms and SwiGLU again: (8h + 6f)/2 x 5 = 200 bytes a layer at 2 s. */
TEST(selective_recomputation_adds_norms_and_activation)
{
    struct cost_setting setting = toy_setting();
    struct cost_unit none = toy_unit(RECOMPUTE_NONE), selective = toy_unit(RECOMPUTE_SELECTIVE);
    struct cost_pass b = cost_of_pass(&setting, PASS_BACKWARD, &none);
    struct cost_pass more = cost_of_pass(&setting, PASS_BACKWARD, &selective);
    CHECK_CLOSE(more.other_s - b.other_s, 3 * 400.0, 1e-12);
    CHECK_CLOSE(more.flop, b.flop, 1e-14);
    CHECK_CLOSE(more.tensor_s, b.tensor_s, 1e-14);
}

/* Two norms of 4h/2 bytes, SwiGLU of 6f/2, attention of 112 FLOP a layer at 4 s with its ring, which moves 400 s:
 * each by itself, and all are their sum. */
TEST(a_list_repeats_what_it_names)
{
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    struct cost_pass f = cost_of_pass(&setting, PASS_FORWARD, &unit), b = cost_of_pass(&setting, PASS_BACKWARD, &unit);
    for (int list = RECOMPUTE_NONE; list < RECOMPUTE_ALTERNATE_GEMMS; list++) {
        unit.recompute = (enum recompute)list;
        struct cost_pass more = cost_of_pass(&setting, PASS_BACKWARD, &unit);
        bool core = list & RECOMPUTE_ATTENTION_CORE;
        double norms_s = list & RECOMPUTE_NORM ? 2 * 8 * 5 * 2 : 0;
        double activation_s = list & RECOMPUTE_ACTIVATION ? 24 * 5 * 2 : 0;
        CHECK_CLOSE(more.other_s - b.other_s, 3 * (norms_s + activation_s), 1e-12);
        CHECK_CLOSE(more.attention_s - b.attention_s, core ? 3 * (448.0 + 400) : 0, 1e-12);
        CHECK_CLOSE(more.flop - b.flop, core ? 3 * 112.0 : 0, 1e-12);
        CHECK_CLOSE(more.ring_bytes - b.ring_bytes, core ? f.ring_bytes : 0, 1e-12);
        CHECK_CLOSE(more.tensor_s, b.tensor_s, 1e-14);
    }
}

/* Without it norms and adds are whole on both ranks: (8h + 12h)/2 more bytes a token and layer at 2 s, backward 12h +
 * 12h. Two all-reduces of 5 x 4 x 2 bytes a layer and pass, of which a rank sends 2 x 20: 1 + 4 s each, all exposed;
 * the head's backward has one. */
TEST(without_sequence_parallelism_norms_and_adds_are_whole)
{
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    struct device device = plain;
    device.collective[DEVICE_ALL_REDUCE] = (struct device_collective){.latency_s = 1, .efficiency = 1};
    setting.device = &device;
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        plan.sequence_parallel = true;
        struct cost_pass shared = cost_of_pass(&setting, pass, &unit);
        plan.sequence_parallel = false;
        struct cost_pass whole = cost_of_pass(&setting, pass, &unit), head = cost_of_head(&setting, pass, &unit);
        CHECK_CLOSE(whole.other_s - shared.other_s, 3 * 5 * 2 * (pass == PASS_FORWARD ? 40.0 : 48.0), 1e-12);
        CHECK_CLOSE(whole.tensor_bytes, 3 * 2 * 40.0, 1e-14);
        CHECK_CLOSE(whole.tensor_s, 3 * 2 * 5.0, 1e-14);
        CHECK_CLOSE(head.tensor_s, pass == PASS_FORWARD ? 0 : 5.0, 1e-14);
        CHECK_CLOSE(whole.attention_s, shared.attention_s, 1e-15);
        CHECK_CLOSE(shared.boundary_bytes, 20.0, 1e-15);
        CHECK_CLOSE(whole.boundary_bytes, 40.0, 1e-15); /* each TP rank sends the 5 x 4 tensor in bf16 */
    }
}

/* Norm 4h/2, loss 30 x 16/2 bytes and GEMM 2 x 4 x 16/2 FLOP a token, T = 5; backward 6h/2, 14 x 16/2 and twice. */
TEST(the_head_is_counted_by_hand)
{
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_FULL);
    struct cost_pass forward = cost_of_head(&setting, PASS_FORWARD, &unit);
    CHECK_CLOSE(forward.flop, 5 * 64.0, 1e-14);
    CHECK_CLOSE(forward.product_s, 5 * 2 * 64.0, 1e-14);
    CHECK_CLOSE(forward.other_s, 5 * 2 * (8.0 + 240 + 64), 1e-14);
    CHECK_CLOSE(forward.tensor_s, 3.0, 1e-14);
    struct cost_pass backward = cost_of_head(&setting, PASS_BACKWARD, &unit);
    CHECK_CLOSE(backward.flop, 5 * 128.0, 1e-14);
    CHECK_CLOSE(backward.other_s, 5 * 2 * (12.0 + 112 + 128), 1e-14);
    CHECK_CLOSE(backward.tensor_s, 2 * 3.0, 1e-14);
}

/* T = 5, h 4, TP 2, V 16, 2 s a byte: rows 4h and half of them set to zero, 2h/2; backward 2h + 2h/2 and of 8 x 4
 * parameters 12 bytes. A reduce-scatter, backward an all-gather, of 5 x 4 x 2/2 = 20 bytes: 3 s. */
TEST(the_embedding_is_counted_by_hand)
{
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    struct cost_unit unit = toy_unit(RECOMPUTE_FULL);
    struct cost_pass forward = cost_of_embedding(&setting, PASS_FORWARD, &unit);
    CHECK_CLOSE(forward.other_s, 5 * 2 * (16.0 + 4), 1e-14);
    CHECK_CLOSE(forward.tensor_s, 3.0, 1e-14);
    CHECK_CLOSE(forward.tensor_bytes, 20.0, 1e-14);
    CHECK_TRUE(forward.flop == 0 && forward.attention_s == 0 && forward.shard_s == 0);
    struct cost_pass backward = cost_of_embedding(&setting, PASS_BACKWARD, &unit);
    CHECK_CLOSE(backward.other_s, 2 * (5 * (8 + 4.0) + 12 * 32), 1e-14);
    CHECK_CLOSE(backward.tensor_s, 3.0, 1e-14);
    plan.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_BACKWARD, &unit).other_s, 2 * (5 * (8 + 4.0) + 8 * 32), 1e-14);
    plan.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_BACKWARD, &unit).other_s, 2 * (5 * (8 + 4.0) + 2 * 32), 1e-14);
    struct cost_unit empty = {.context = 1};
    CHECK_TRUE(cost_of_embedding(&setting, PASS_BACKWARD, &empty).other_s == 0);
}

/* Without sequence parallelism an all-reduce forward, of which a rank sends 2 x 20 bytes: 1 + 4 s, nothing backward.
 * Learned positions, 7 of them, are added to the whole tensor, so they take it too: 4h + 6h and backward 4h bytes a
 * token, 12 bytes of each of 7 x 4 parameters on every rank. Dropout 5h, with sequence parallelism half of it. */
TEST(learned_positions_and_dropout_belong_to_the_embedding)
{
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    struct device device = plain;
    device.collective[DEVICE_ALL_REDUCE] = (struct device_collective){.latency_s = 1, .efficiency = 1};
    struct model model = hand_toy;
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    setting.device = &device;
    setting.model = &model;
    struct cost_pass f = cost_of_embedding(&setting, PASS_FORWARD, &unit);
    struct cost_pass b = cost_of_embedding(&setting, PASS_BACKWARD, &unit);
    struct cost_pass layers = cost_of_pass(&setting, PASS_FORWARD, &unit);
    model.positions = 7;
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_FORWARD, &unit).other_s - f.other_s, 2 * 5 * 40.0, 1e-12);
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_BACKWARD, &unit).other_s - b.other_s, 2 * (5 * 16 + 12 * 28.0), 1e-12);
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_FORWARD, &unit).tensor_s, 5.0, 1e-14);
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_BACKWARD, &unit).tensor_s, 3.0, 1e-14);
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_INPUT, &unit).tensor_s, 3.0, 1e-14);
    /* no rotation then: 4h + 4k = 24 bytes a token, over TP */
    CHECK_CLOSE(layers.other_s - cost_of_pass(&setting, PASS_FORWARD, &unit).other_s, 3 * 2 * 5 * 12.0, 1e-12);
    model.positions = 0;
    plan.sequence_parallel = false;
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_FORWARD, &unit).tensor_s, 5.0, 1e-14);
    CHECK_TRUE(cost_of_embedding(&setting, PASS_BACKWARD, &unit).tensor_s == 0);
    CHECK_TRUE(cost_of_embedding(&setting, PASS_INPUT, &unit).tensor_s == 0);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        double before_s = pass == PASS_FORWARD ? f.other_s : b.other_s;
        model.dropout = true;
        CHECK_CLOSE(cost_of_embedding(&setting, pass, &unit).other_s - before_s, 2 * 5 * 20.0, 1e-12);
        plan.sequence_parallel = true;
        CHECK_CLOSE(cost_of_embedding(&setting, pass, &unit).other_s - before_s, 2 * 5 * 10.0, 1e-12);
        plan.sequence_parallel = false;
    }
}

/* With CP 1 and TP 1 there are neither ring nor collectives; CP 2 halves the rank's attention and GEMMs. */
TEST(context_parallelism_halves_the_rank)
{
    struct cost_setting setting = toy_setting();
    setting.tensor = 1;
    struct cost_unit unit = {.slices = two_slices, .n_slices = 2, .context = 1};
    struct cost_pass one = cost_of_pass(&setting, PASS_FORWARD, &unit);
    unit.context = 2;
    struct cost_pass two = cost_of_pass(&setting, PASS_FORWARD, &unit);
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), one.attention_s / 2, 1e-14);
    CHECK_CLOSE(two.flop, one.flop / 2, 1e-14);
    CHECK_CLOSE(two.other_s, one.other_s / 2, 1e-14);
    CHECK_TRUE(one.ring_bytes == 0 && one.ring_steps == 0 && two.ring_bytes > 0);
    CHECK_TRUE(one.tensor_s == 0 && one.tensor_bytes == 0);
}

/*
 * Documents of 12 and 4 tokens, h 4, on two ranks, keys gathered. Attention of [a, b) is 8 (b(b+1) - a(a+1)) FLOP:
 * chunks of four tokens have 160, 416, 672 and (the second document) 160. Rank 0 takes the outer two, rank 1 the inner
 * two, 1088, which all wait for; by document each has half of 1408. One document of 16 tokens: 160 + 928 and 416 + 672,
 * both 1088: the zig-zag evens a causal triangle out.
 */
TEST(sharding_by_sequence_waits_for_the_slowest_rank)
{
    const struct slice documents[] = {{0, 0, 12}, {1, 0, 4}}, one = {0, 0, 16};
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    setting.tensor = 1;
    plan.cp_type = SCENARIO_ALL_GATHER;
    struct cost_unit unit = {.slices = documents, .n_slices = 2, .context = 2};
    struct cost_pass even = cost_of_pass(&setting, PASS_FORWARD, &unit);
    unit.sharding = SLICE_PER_SEQUENCE;
    struct cost_pass uneven = cost_of_pass(&setting, PASS_FORWARD, &unit);
    CHECK_CLOSE(even.attention_s, 3 * 4 * 704.0, 1e-14);
    CHECK_CLOSE(uneven.attention_s, 3 * 4 * 1088.0, 1e-14);
    CHECK_CLOSE(uneven.flop, even.flop, 1e-14);
    CHECK_CLOSE(uneven.other_s, even.other_s, 1e-14);
    CHECK_CLOSE(uneven.context_s, even.context_s, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &unit).attention_s, 3 * 2 * 2.5 * 1088, 1e-14);
    struct cost_cache cache = {0};
    struct cost_pass room[COST_N_COMPONENTS];
    setting.cache = &cache;
    for (int i = 0; i < 4; i++) { /* what is known of one is not taken for the other */
        unit.sharding = i % 2 == 0 ? SLICE_PER_SEQUENCE : SLICE_PER_DOCUMENT;
        cost_cached(&setting, PASS_FORWARD, &unit, 1U << COST_LAYERS, room);
        CHECK_CLOSE(room[COST_LAYERS].attention_s, 3 * 4 * (i % 2 == 0 ? 1088.0 : 704.0), 1e-14);
    }
    CHECK_EQUAL(cache.n_costs, 1); /* of their tokens, which are as many */
    cost_cache_free(&cache);
    setting.cache = NULL;
    unit.sharding = SLICE_PER_SEQUENCE;
    plan.cp_type = SCENARIO_RING;
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), 3 * 4 * 1088.0, 1e-14);
    unit.slices = &one;
    unit.n_slices = 1;
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), 3 * 4 * 1088.0, 1e-14);
    unit.sharding = SLICE_PER_DOCUMENT;
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), 3 * 4 * 1088.0, 1e-14);
}

/* Four tokens of padding behind the 12: chunks of four again, the last of nothing: 160 and 416 + 672. */
TEST(padding_stands_at_the_end_of_the_sequence)
{
    const struct slice document = {0, 0, 12};
    struct cost_setting setting = toy_setting();
    setting.tensor = 1;
    struct cost_unit unit = {
        .slices = &document, .n_slices = 1, .padding_tokens = 4, .context = 2, .sharding = SLICE_PER_SEQUENCE};
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), 3 * 4 * 1088.0, 1e-14);
}

TEST(padding_costs_no_attention)
{
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    struct cost_pass padded = cost_of_pass(&setting, PASS_FORWARD, &unit);
    double padded_s = blocks_s(&setting, PASS_FORWARD, &unit);
    unit.padding_tokens = 0;
    struct cost_pass bare = cost_of_pass(&setting, PASS_FORWARD, &unit);
    CHECK_CLOSE(padded_s, blocks_s(&setting, PASS_FORWARD, &unit), 1e-14);
    CHECK_CLOSE(padded.ring_bytes, bare.ring_bytes * 12 / 10, 1e-14);
    CHECK_CLOSE(padded.other_s, bare.other_s * 5 / 4, 1e-14);
    CHECK_CLOSE(padded.tensor_bytes, bare.tensor_bytes * 5 / 4, 1e-14);
}

TEST(a_unit_without_tokens_costs_nothing)
{
    struct device device = plain;
    device.launch_s = device.gemm.launch_s = 1;
    device.forward[DEVICE_FLASH2].q_half = 1;
    struct cost_setting setting = toy_setting();
    setting.device = &device;
    struct slice empty = {.sample = 0, .begin = 0, .end = 0};
    struct cost_unit unit = {.slices = &empty, .n_slices = 1, .context = 2};
    struct cost_pass cost = cost_of_pass(&setting, PASS_FORWARD, &unit),
                     head = cost_of_head(&setting, PASS_FORWARD, &unit);
    CHECK_TRUE(cost.flop == 0 && cost.other_s == 0 && cost.attention_s == 0 && cost.tensor_s == 0);
    CHECK_TRUE(cost.ring_bytes == 0 && cost.ring_steps == 0 && head.other_s == 0);
}

/* A virtual stage of the embedding alone (count_embedding). */
TEST(a_stage_without_layers_costs_nothing)
{
    struct cost_setting setting = toy_setting();
    struct slice slice = {.sample = 0, .begin = 0, .end = 8};
    struct cost_unit unit = {.slices = &slice, .n_slices = 1, .context = 1, .recompute = RECOMPUTE_FULL};
    setting.layers = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(&setting, pass, &unit);
        CHECK_TRUE(cost.flop == 0 && cost_pass_s(&cost) == 0 && cost.boundary_bytes > 0);
    }
}

/* A sample of 8n tokens cut in n slices sends 8 + 16 + ... + 8n instead of 8n: (n + 1)/2 times. */
TEST(a_sliced_sample_sends_its_prefix_again)
{
    struct cost_setting setting = toy_setting();
    for (int32_t n = 1; n <= 16; n++) {
        struct slice slices[16], whole = {.end = 8 * n};
        for (int32_t i = 0; i < n; i++)
            slices[i] = (struct slice){.begin = 8 * i, .end = 8 * i + 8};
        struct cost_unit one = {.slices = &whole, .n_slices = 1, .context = 4};
        struct cost_unit cut = {.slices = slices, .n_slices = n, .context = 4};
        double ratio = cost_of_pass(&setting, PASS_FORWARD, &cut).ring_bytes /
                       cost_of_pass(&setting, PASS_FORWARD, &one).ring_bytes;
        CHECK_CLOSE(ratio, (n + 1) / 2.0, 1e-14);
    }
}

/*
 * The own block of the ring of two: [0, 4) has 4 x 5/4/2 queries and 5/2 keys on a CP rank; [2, 6), as the causal
 * sample whose queries see 9/2 keys on average, 4 x 9/6/2 = 3 queries and 9/2 keys. In the other one all 2 queries see
 * the same keys, as in causal samples of 4 queries. FLOPs of a block 20 and 36 at 4 s; shapes (1 + 8/2.5)(1 + 16/2.5)
 * and (1 + 8/3)(1 + 16/4.5), with 4 queries 1 + 8/4, all times (1 + 2/2)/(1 + 2/128) = 128/65. Half of the queries on
 * all keys would take less, 5 x 4.2 and 5 x 25/9.
 */
TEST(a_slice_enters_the_curve_as_the_causal_sample_alike)
{
    struct device device = plain;
    device.forward[DEVICE_FLASH2] = (struct device_flash){.efficiency = 0.25, .q_half = 8, .k_half = 16, .d_half = 2};
    struct cost_setting setting = toy_setting();
    setting.device = &device;
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit),
                3 * (20 * 4 * (4.2 + 3) * 7.4 + 36 * 4 * (11 / 3.0 + 3) * 41 / 9) * 128 / 65, 1e-14);
    device.forward[DEVICE_FLASH2].keys = (struct device_range){3, 100}; /* 2 are outside, in both blocks */
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).outside_s[COST_ATTENTION],
                3 * 20 * 4 * (4.2 + 3) * 7.4 * 128 / 65, 1e-14);
}

/*
 * [0, 1024) on a ring of two, 2 heads 2 wide: 8 tiles of 128 queries a block, whose FLOPs 2h 1024 x 1025/4 take 8396800
 * s. The own block ends no earlier than its tile of 512 keys, 524288 x 4 s on one multiprocessor of 8 or 6; the other
 * one on the second stream fills what is idle beside. Backward, 2 s a FLOP, one after the other: 8 tiles of 128 keys,
 * 1310720 FLOP each, end with one alone on a multiprocessor; 4 (512 queries see 256 keys) leave 2 of 6 idle.
 *
 * On a ring of four with 64 multiprocessors nothing is full: of the 3 other blocks 2 run on the second stream one after
 * the other, each as long as a tile of 256.25 keys, those of half the queries: longer than own block and third. On a
 * ring of three one runs behind the own block, a tile of 1025/3 keys behind one of 1024/3.
 */
TEST(blocks_of_other_ranks_run_in_waves)
{
    struct device device = plain;
    struct cost_setting setting = toy_setting();
    const struct slice whole = {.end = 1024};
    struct cost_unit unit = {.slices = &whole, .n_slices = 1, .context = 2};
    setting.device = &device;
    setting.tensor = 1;
    device.multiprocessors = 8;
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), 3 * (8396800.0 + 524288 * 4 * 8), 1e-14);
    device.multiprocessors = 6;
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), 3 * (8396800.0 + 524288 * 4 * 6), 1e-14);
    CHECK_CLOSE(blocks_s(&setting, PASS_BACKWARD, &unit), 3 * 2 * (1310720.0 * 6 + 5248000 + 1310720 * 2), 1e-14);
    unit.context = 4;
    device.multiprocessors = 64;
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), 3 * 2 * 262400.0 * 4 * 64, 1e-14);
    unit.context = 3;
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), 3 * (1024 + 1025) / 3.0 * 4 * 128 * 2 * 4 * 64, 1e-14);
}

/*
 * A sample of 24 tokens on a ring of four, TP 2, h = q 4, k 2: 3 tokens a rank and TP. Plain, of the rank whose blocks
 * have half of the keys: forward (3 x 6 + 4) q + 8 k = 104 bytes, backward (3 x 6 + 4) q + (3 x 6 + 18) k = 160, of
 * half of the queries (3 x 3 + 4) q + (3 x 12 + 14) k = 152; two such samples are plain, too, and twice as much.
 * Packed, with 8 tokens more: 4 tokens, (18 + 8) q + (12 + 8) k = 144 forward. A ring of one moves nothing, nor do
 * gathers.
 */
TEST(a_ring_copies_and_sums_beside_its_blocks)
{
    const struct slice slices[] = {{0, 0, 24}, {1, 0, 24}, {2, 0, 8}};
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    struct cost_unit unit = {.slices = slices, .n_slices = 1, .context = 4};
    struct cost_unit unlike = {.slices = slices + 1, .n_slices = 2, .context = 4};
    const double bytes[] = {104, 160};
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (unit.n_slices = 1; unit.n_slices <= 2; unit.n_slices++)
            CHECK_CLOSE(cost_of_pass(&setting, pass, &unit).attention_s - blocks_s(&setting, pass, &unit),
                        3 * 2 * bytes[pass] * 3 * unit.n_slices, 1e-12);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unlike).attention_s - blocks_s(&setting, PASS_FORWARD, &unlike),
                3 * 2 * 144.0 * 4, 1e-12);
    plan.cp_type = SCENARIO_ALL_GATHER;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unlike).attention_s, blocks_s(&setting, PASS_FORWARD, &unlike),
                1e-14);
    plan.cp_type = SCENARIO_RING;
    unlike.context = 1;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unlike).attention_s, blocks_s(&setting, PASS_FORWARD, &unlike),
                1e-14);
}

/** FLOPs of the queries of rank `rank` that see the keys of rank `other`, of slice [a, b) on a contiguous ring of c. */
static double contiguous_flop(struct slice slice, int32_t context, int32_t rank, int32_t other)
{
    int32_t queries = slice_tokens(slice) / context, prefix = slice.begin / context;
    double pairs = 0;
    for (int32_t i = 0; i < queries; i++)
        pairs += prefix + (rank > other ? queries : rank == other ? i + 1 : 0);
    return 4.0 * 4 * pairs; /* h 4 */
}

/* Query by query: each step of a contiguous ring takes as long as its slowest block, 4 s a FLOP forward and 2 x 2.5
 * backward; that is the last rank's work, of a whole sample of L ((2c - 1) L + c)/(L + 1)/c^2 of one GPU's. FLOPs are
 * an even share. */
TEST(contiguous_ring__takes_as_long_as_its_last_rank)
{
    const struct slice slices[] = {{0, 0, 48}, {1, 0, 12}, {2, 24, 48}, {3, 12, 60}};
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    setting.tensor = 1;
    plan.cp_type = SCENARIO_RING_CONTIGUOUS;
    for (int i = 0; i < 4; i++)
        for (int32_t context = 1; context <= 12; context = context == 4 ? 6 : context == 6 ? 12 : context + 1) {
            const struct cost_unit unit = {.slices = &slices[i], .n_slices = 1, .context = context};
            const struct cost_unit alone = {.slices = &slices[i], .n_slices = 1, .context = 1};
            double steps_flop = 0, last_flop = 0;
            for (int32_t step = 0; step < context; step++) {
                double slowest_flop = 0;
                for (int32_t rank = 0; rank < context; rank++)
                    slowest_flop = fmax(slowest_flop,
                                        contiguous_flop(slices[i], context, rank, (rank + context - step) % context));
                steps_flop += slowest_flop;
                last_flop += contiguous_flop(slices[i], context, context - 1, step);
            }
            CHECK_CLOSE(steps_flop, last_flop, 1e-14);
            CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), 3 * 4 * last_flop, 1e-13);
            CHECK_CLOSE(blocks_s(&setting, PASS_BACKWARD, &unit), 3 * 2 * 2.5 * last_flop, 1e-13);
            double c = context, length = slices[i].end, one_s = blocks_s(&setting, PASS_FORWARD, &alone);
            if (slices[i].begin == 0)
                CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit) / one_s,
                            ((2 * c - 1) * length + c) / (length + 1) / (c * c), 1e-13);
            CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).flop,
                        cost_of_pass(&setting, PASS_FORWARD, &alone).flop / c, 1e-13);
        }
}

/*
 * [0, 1024) on a contiguous ring of two, 2 heads 2 wide. The own block ends no earlier than its tile of 512 keys,
 * 524288 FLOP x 4 s on one multiprocessor of 8 or 6; behind it 8 such tiles run in a wave on 8, in two on 6.
 */
TEST(contiguous_ring__runs_its_blocks_one_after_the_other)
{
    struct device device = plain;
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    const struct slice whole = {.end = 1024};
    const struct cost_unit unit = {.slices = &whole, .n_slices = 1, .context = 2};
    plan.cp_type = SCENARIO_RING_CONTIGUOUS;
    setting.device = &device;
    setting.tensor = 1;
    device.multiprocessors = 8;
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), 3 * (524288.0 * 4 * 8 + 524288.0 * 4 * 8), 1e-14);
    device.multiprocessors = 6;
    CHECK_CLOSE(blocks_s(&setting, PASS_FORWARD, &unit), 3 * (524288.0 * 4 * 6 + 2 * 524288.0 * 4 * 6), 1e-14);
}

/* 24 tokens on four ranks, TP 2, q 4, k 2: 3 tokens a rank and TP; forward (3 x 10 + 12) q = 168 bytes a token,
 * backward as much and (3 x 20 + 24) k = 168. Of 24 x 4k/2 = 96 bytes of keys and values 3/4 are sent in 3 steps;
 * backward so again, and their gradients in fp32, 192, in 4. */
TEST(contiguous_ring__sends_and_sums_gradients_in_fp32)
{
    const struct slice sample = {0, 0, 24};
    const struct cost_unit unit = {.slices = &sample, .n_slices = 1, .context = 4};
    const double bytes[N_PASSES] = {168, 336}, sent[N_PASSES] = {72, 264};
    const int32_t steps[N_PASSES] = {3, 4};
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    plan.cp_type = SCENARIO_RING_CONTIGUOUS;
    for (enum pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
        struct cost_pass cost = cost_of_pass(&setting, pass, &unit);
        CHECK_CLOSE(cost.attention_s - blocks_s(&setting, pass, &unit), 3 * 2 * bytes[pass] * 3, 1e-12);
        CHECK_CLOSE(cost.ring_bytes, 3 * sent[pass], 1e-14);
        CHECK_EQUAL(cost.ring_steps, 3 * steps[pass]);
    }
}

/* Launches of 1 s beside bytes and FLOPs that take no time: the copies and sums of the rank that has more, of each
 * other block and once. One sample: forward 1 and 2, backward of half the queries 3 and 7; packed 3 and 3, 6 and 4. */
TEST(copies_and_sums_of_a_ring_are_so_many_kernels)
{
    const struct slice slices[] = {{0, 0, 24}, {1, 0, 8}};
    const double each[N_PASSES][2] = {{1, 3}, {3, 6}}, once[N_PASSES][2] = {{2, 3}, {7, 4}};
    struct device device = plain;
    struct cost_setting setting = toy_setting();
    setting.device = &device;
    device.peak_flop_per_s = device.hbm_bytes_per_s = 1e30;
    device.launch_s = 1;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (int32_t packed = 0; packed < 2; packed++)
            for (int32_t context = 2; context <= 4; context++) {
                const struct cost_unit unit = {.slices = slices, .n_slices = 1 + packed, .context = context};
                double moves_s = cost_of_pass(&setting, pass, &unit).attention_s - blocks_s(&setting, pass, &unit);
                CHECK_CLOSE(moves_s, 3 * ((context - 1) * each[pass][packed] + once[pass][packed]), 1e-12);
            }
}

/*
 * CP 2, TP 2, a layer of three: keys and values of the prefixes 4 and 6 and of padding are 12 x 4k/2 = 48 bytes, of
 * which half is sent, as by the ring. Gather 1 + 24/10 s before one kernel of whole keys: 4 x 5/4/2 queries see 5 keys,
 * 3 see 9, with the FLOPs of both blocks, 40 and 72. Backward both collectives, and twice the bytes.
 */
TEST(keys_are_gathered_before_attention)
{
    struct device device = plain;
    device.forward[DEVICE_FLASH2] = (struct device_flash){.efficiency = 0.25, .q_half = 8, .k_half = 16};
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    setting.device = &device;
    plan.cp_type = SCENARIO_ALL_GATHER;
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &unit);
    struct cost_pass backward = cost_of_pass(&setting, PASS_BACKWARD, &unit);
    CHECK_CLOSE(forward.context_s, 3 * 3.4, 1e-14);
    CHECK_CLOSE(forward.ring_bytes, 3 * 24.0, 1e-14);
    CHECK_EQUAL(forward.ring_steps, 0);
    CHECK_CLOSE(forward.attention_s, 3 * 4 * (40 * 4.2 * (1 + 16 / 5.0) + 72 * (1 + 8 / 3.0) * (1 + 16 / 9.0)), 1e-14);
    CHECK_CLOSE(backward.context_s, 3 * 6.8, 1e-14);
    CHECK_CLOSE(backward.ring_bytes, 3 * 48.0, 1e-14);
    struct cost_unit full = toy_unit(RECOMPUTE_FULL);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &full).context_s, 3 * 10.2, 1e-14);
}

/*
 * Ulysses: 10 tokens with padding, 5 on a rank, in widths 4 (queries, output) and 2 (keys, values) over TP 2: 20 and
 * 10 bytes, but the one head of keys and values goes to both heads of queries, so 20 as well, of which half leaves:
 * four times 10 bytes in all-to-alls of 1 s and 0.1 s a byte, in both passes. Attention: half of the heads, whole
 * samples, one kernel. One CP rank a node: by NIC, 2 s and (10 + 10 x 50/60)/0.5 bytes at 20 B/s.
 */
TEST(heads_are_exchanged_for_tokens)
{
    struct device device = plain;
    device.collective[DEVICE_ALL_TO_ALL] = (struct device_collective){.latency_s = 1, .efficiency = 1};
    device.forward[DEVICE_FLASH2] = (struct device_flash){.efficiency = 0.25, .q_half = 8, .k_half = 16};
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    setting.device = &device;
    plan.cp_type = SCENARIO_ULYSSES;
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        CHECK_CLOSE(cost_of_pass(&setting, pass, &unit).context_s, 3 * 4 * 2.0, 1e-14);
        CHECK_CLOSE(cost_of_pass(&setting, pass, &unit).ring_bytes, 3 * 40.0, 1e-14);
    }
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).attention_s,
                3 * 4 * (40 * 2.6 * (1 + 16 / 5.0) + 72 * (1 + 8 / 6.0) * (1 + 16 / 9.0)), 1e-14);
    struct platform pairs = links;
    pairs.gpus_per_node = 2;
    setting.platform = &pairs;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).context_s, 3 * 4 * (2 + (10 + 10 * 50 / 60.0) / 10), 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).context_wire_bytes, 3 * 4 * (10 + 10 * 50 / 60.0) / 0.5,
                1e-14);
    unit.context = 1;
    CHECK_TRUE(cost_of_pass(&setting, PASS_FORWARD, &unit).context_s == 0);
    unit.context = 4; /* NICs that take no time: a third goes to the other rank of a pair, all else away */
    setting.tensor = 1;
    device.nic = (struct device_link){.efficiency = 1};
    pairs.nic_bytes_per_s = 1e30;
    double apart_s = cost_of_pass(&setting, PASS_FORWARD, &unit).context_s;
    setting.platform = &links;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).context_s - 3 * 4, 3 * (apart_s - 3 * 4), 1e-12);
}

/* One head of keys and values for 16 of queries, no TP: 4 ranks need 4 copies of it, 16 and 32 ranks 16, as wide as the
 * queries. h 64, so 4 wide; T tokens on c ranks: a rank sends T/c (c - 1)/c x 2 x (2 x 64 + 2 x 4 copies) bytes. */
TEST(few_heads_of_keys_are_copied_for_many_ranks)
{
    struct device device = plain;
    device.collective[DEVICE_ALL_TO_ALL] = (struct device_collective){.latency_s = 1, .efficiency = 1};
    struct model model = *toy_setting().model;
    model.hidden = 64;
    model.heads = 16;
    model.kv_heads = 1;
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    setting.model = &model;
    setting.device = &device;
    setting.tensor = 1;
    plan.cp_type = SCENARIO_ULYSSES;
    const struct slice whole = {0, 0, 128};
    static const int32_t ranks[] = {4, 16, 32}, copies[] = {4, 16, 16};
    for (int i = 0; i < 3; i++) {
        struct cost_unit unit = {.slices = &whole, .n_slices = 1, .context = ranks[i]};
        double sent = 128.0 / ranks[i] * (ranks[i] - 1) / ranks[i] * 2 * (2 * 64 + 2 * 4 * copies[i]);
        CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).ring_bytes, 3 * sent, 1e-14);
    }
}

/* 10 FLOP at 0.5 FLOP/s: 20 s, times (1 + 3/6)(1 + 5/20) at the curve's head width of 128, and one second to start. */
TEST(kernels_follow_the_forms_of_the_device)
{
    struct device device = plain;
    device.launch_s = 1;
    device.backward[DEVICE_CUDNN] =
        (struct device_flash){.efficiency = 0.5, .q_half = 3, .k_half = 5, .d_half = 8, .launch_s = 1};
    struct cost_attention work = {.flop = 10, .queries = 6, .keys = 20, .head_dim = 128};
    CHECK_CLOSE(cost_attention_s(&device, DEVICE_CUDNN, PASS_BACKWARD, &work), 20 * 1.5 * 1.25 + 1, 1e-14);
    CHECK_CLOSE(cost_memory_bound_s(&device, DEVICE_NORM, 10), 21.0, 1e-14);
}

/* 12 parameters at 2 s a byte and 1 s to start, 4 shards. zero1: 3 parameters x (4 + 28 + 6) and 12 x 3 x 4; bf16: 6
 * more and 3 x 2. zero2: 3 x (4 + 8 + 28 + 6), zero3 without the weight's copy; eager 88 in place of 28. */
TEST(the_optimizer_is_counted_by_hand)
{
    struct device device = plain;
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    device.launch_s = 1;
    setting.device = &device;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * (3 * 38 + 144.0), 1e-14);
    plan.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * (3 * 44 + 72.0), 1e-14);
    plan.gradients = SCENARIO_FP32;
    plan.sharding = SCENARIO_ZERO2;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * 3 * 46.0, 1e-14);
    plan.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * 3 * 40.0, 1e-14);
    plan.optimizer = SCENARIO_EAGER;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * 3 * 100.0, 1e-14);
}

/*
 * 4 multiprocessors, K = 1, 1 s to start, half of the last wave's gap idle. 1024 x 1024: 32 tiles of 128 x 256 are 8
 * full waves. 1024 x 1280: 40 are 10. 128 x 256: one tile is a quarter of a wave and costs (1/4 + 1)/2 of one; two
 * square tiles, a tenth slower each, (1/2 + 1)/2 of half one times 1.1: less. 129 x 256: 2 wide tiles or, less, 1 tall
 * one.
 */
TEST(a_gemm_runs_in_tiles_and_waves)
{
    struct device device = plain;
    device.multiprocessors = 4;
    device.hbm_bytes_per_s = 1e30;
    device.gemm = (struct device_gemm){.efficiency = 0.5, .small_tile = 0.1, .wave = 0.5, .launch_s = 1};
    const double wave_s = 4 * 2 * 128 * 256 / 0.5;
    CHECK_CLOSE(cost_gemm_s(&device, 1024, 1024, 1), 8 * wave_s + 1, 1e-14);
    CHECK_CLOSE(cost_gemm_s(&device, 1024, 1280, 1), 10 * wave_s + 1, 1e-14);
    CHECK_CLOSE(cost_gemm_s(&device, 128, 256, 1), 0.75 / 2 * 1.1 * wave_s + 1, 1e-14);
    CHECK_CLOSE(cost_gemm_s(&device, 129, 256, 1), 1.1 / 2 * wave_s + 1, 1e-14);
    CHECK_CLOSE(cost_gemm_s(&device, 1024, 1024, 3), 24 * wave_s + 1, 1e-14);
}

/* One row of 1024 x 1024 weights moves 2 x (1024 + 1024 + 1024^2) bytes at half of 1 B/s, longer than its products. */
TEST(a_small_gemm_waits_for_its_weights)
{
    struct device device = plain;
    device.peak_flop_per_s = 1e6;
    CHECK_CLOSE(cost_gemm_s(&device, 1, 1024, 1024), 2 * 2 * (1024 + 1024 + 1048576.0), 1e-14);
}

/*
 * 4 multiprocessors, each 1 FLOP/s at the curve's efficiency 1/4 x 16 FLOP/s in all: a tile of 10 FLOP takes 10 s
 * alone. Two tiles of 10: 5 s over all, but no kernel ends before its longest tile, and one that has a multiprocessor
 * to itself at 4/5 of the rate takes 12.5 s. Tiles all alike run in waves: 20 in five, 21 in six. 40 tiles of a mean
 * half of the longest: 50 s, and at the end half a longest tile.
 */
TEST(the_longest_tile_ends_a_kernel)
{
    const struct {
        double flop, tiles, alone, expected_s;
    } cases[] = {{20, 2, 0, 10}, {20, 2, 0.8, 12.5}, {200, 20, 0.8, 50}, {210, 21, 1, 60}, {200, 40, 1, 55}};
    struct device device = plain;
    device.peak_flop_per_s = 16;
    device.multiprocessors = 4;
    device.forward[DEVICE_FLASH2].tail = 0.5;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cost_attention work = {cases[i].flop, 128, 128, 128, 10, cases[i].tiles, 128};
        device.forward[DEVICE_FLASH2].alone = cases[i].alone;
        CHECK_CLOSE(cost_attention_s(&device, DEVICE_FLASH2, PASS_FORWARD, &work), cases[i].expected_s, 1e-14);
    }
}

/* 16 x 8 outputs of 4 inner columns: 128 products of 2 x 4 FLOP at 0.5 FLOP/s; 2 bytes an output at half of 1 B/s, of
 * which a quarter is not hidden; added to an fp32 sum 8 bytes at a tenth. Where little is computed, memory decides. */
TEST(outputs_and_sums_cost_memory)
{
    struct device device = plain;
    device.gemm.epilogue = 0.25;
    device.gemm.sum = 0.1;
    device.peak_flop_per_s = 100;
    double work_s = 128 * 2 * 4000 / 50.0;
    CHECK_CLOSE(cost_gemm_s(&device, 16, 8, 4000), fmax(work_s + 0.25 * 512, 512 + 2 * 2 * 24 * 4000.0), 1e-14);
    device.hbm_bytes_per_s = 1000;
    CHECK_CLOSE(cost_gemm_s(&device, 16, 8, 4000), work_s + 0.25 * 0.512, 1e-14);
    const struct cost_gemm summed = {1, 16, 8, 4000, 8}, short_one = {1, 16, 8, 1, 8};
    CHECK_CLOSE(cost_kernel_gemm_s(&device, &summed), work_s + 0.25 * 128 * 8 / 100, 1e-14);
    CHECK_CLOSE(cost_kernel_gemm_s(&device, &short_one), 128 * 8 / 100.0 + 2 * 24 / 500.0, 1e-14);
}

/* Weights' gradients are added to their fp32 or bf16 sum by fused kernels alone, and not where every pass reduces. */
TEST(only_fused_kernels_add_gradients_up)
{
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    CHECK_TRUE(cost_sum_bytes(&setting) == 8);
    plan.gradients = SCENARIO_BF16;
    CHECK_TRUE(cost_sum_bytes(&setting) == 4);
    plan.sharding = SCENARIO_ZERO3;
    CHECK_TRUE(cost_sum_bytes(&setting) == 0);
    plan.sharding = SCENARIO_ZERO1;
    setting.kernels = SCENARIO_COMPILED;
    CHECK_TRUE(cost_sum_bytes(&setting) == 0);
    setting.kernels = SCENARIO_EAGER;
    CHECK_TRUE(cost_sum_bytes(&setting) == 0);
}

/*
 * 80 bytes over 4 GPUs: each sends 60, after 2 + 3 x 1 s, with a ramp of 30 (60 + 20), a quarter more for the few GPUs,
 * at 10 B/s. An all-reduce sends 120 (and 24); by the switches, from 5 GPUs on, the 80 once. Over 32 GPUs, 4 nodes: 2 x
 * 31/32 x 80/8 bytes a NIC of 20 B/s, 1 + 2 x 2 s; a reduce-scatter sends half of that, after 2.5 s, and 7/8 of 77.5
 * bytes by NVLink of 1000 B/s meanwhile.
 */
TEST(collectives_follow_their_curves)
{
    struct device device = plain;
    struct cost_setting setting = toy_setting();
    struct device_collective curve = {.latency_s = 2, .step_s = 1, .efficiency = 1, .ramp_bytes = 30, .pair = 1};
    setting.device = &device;
    device.collective[DEVICE_ALL_GATHER] = device.collective[DEVICE_ALL_REDUCE] = curve;
    device.collective[DEVICE_NVLS] = (struct device_collective){.efficiency = 0.5};
    device.fabric = (struct device_fabric){.latency_s = 1, .hop_s = 2, .efficiency = 1};
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_GATHER, 80, 4), 5 + 80 * 1.25 / 10, 1e-14);
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_REDUCE, 80, 4), 5 + 144 * 1.25 / 10, 1e-14);
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_REDUCE, 80, 5), 16.0, 1e-14);
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_REDUCE, 80, 32), 5 + 19.375 / 20, 1e-14);
    struct platform fast = links;
    fast.nvlink_bytes_per_s = 1000;
    setting.platform = &fast;
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_REDUCE_SCATTER, 80, 32), 2.5 + 9.6875 / 20, 1e-14);
    setting.platform = &links;
    CHECK_TRUE(cost_collective_s(&setting, DEVICE_ALL_GATHER, 80, 1) == 0);
    device.collective[DEVICE_NVLS].efficiency = 0; /* none: the ring then */
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_REDUCE, 80, 5), 6 + (128 + 128 * 30 / 158.0) * 1.2 / 10, 1e-14);
}

/* Without limits nothing lies outside; with keys up to 2 the slice of 4/2 keys does not, that of 8/2 does. */
TEST(what_was_not_measured_is_told_apart)
{
    struct device device = plain;
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    setting.device = &device;
    struct cost_pass cost = cost_of_pass(&setting, PASS_FORWARD, &unit);
    for (int i = 0; i < COST_N_FAMILIES; i++)
        CHECK_TRUE(cost.outside_s[i] == 0);
    device.forward[DEVICE_FLASH2].keys = (struct device_range){1, 2};
    device.gemm.m = (struct device_range){1, 4}; /* T = 5 */
    device.memory_range = (struct device_range){0, 1e9};
    device.collective[DEVICE_REDUCE_SCATTER].bytes = (struct device_range){30, 40}; /* 20 are sent */
    cost = cost_of_pass(&setting, PASS_FORWARD, &unit);
    CHECK_CLOSE(cost.outside_s[COST_ATTENTION], 3 * 72 * 4.0, 1e-14);
    CHECK_CLOSE(cost.outside_s[COST_GEMM], 3 * 1440.0, 1e-14);
    CHECK_TRUE(cost.outside_s[COST_MEMORY_BOUND] == 0);
    CHECK_CLOSE(cost.outside_s[COST_COLLECTIVE], 3 * 2 * 3.0, 1e-14);
}

/* 100 bytes with a ramp of 50 take (100 + 100/3)/0.5 on the wire of 20 B/s, after 3 latencies of 2 s. */
TEST(transfers_pay_latency_ramp_and_efficiency)
{
    struct cost_setting setting = toy_setting();
    struct cost_transfer transfer = cost_of_transfer(&setting, COST_NIC, 100, 3);
    CHECK_CLOSE(transfer.latency_s, 6.0, 1e-14);
    CHECK_CLOSE(transfer.wire_bytes, 800.0 / 3, 1e-14);
    CHECK_CLOSE(transfer.duration_s, 6 + 40.0 / 3, 1e-14);
    CHECK_CLOSE(cost_of_transfer(&setting, COST_PCIE, 80, 1).duration_s, 2.0, 1e-14);
    CHECK_TRUE(cost_of_transfer(&setting, COST_NIC, 0, 3).duration_s == 0);
}

/* Half-lengths > 0: longer units, more layers and less TP cost more, in every pass. */
TEST(cost_grows_with_tokens_and_shrinks_with_tensor_ranks)
{
    struct device device = plain;
    device.peak_flop_per_s = 1e15;
    device.hbm_bytes_per_s = 3e12;
    device.launch_s = 4e-6;
    device.multiprocessors = 132;
    device.gemm = (struct device_gemm){.efficiency = 0.8, .small_tile = 0.1, .wave = 0.3, .launch_s = 7e-6};
    device.forward[0] = (struct device_flash){0.45, 64, 490, 26, .tail = 0.9};
    device.backward[0] = (struct device_flash){0.42, 725, 64, 30, .tail = 0.3};
    struct cost_setting setting = {
        .model = &hand_llama_13b, .device = &device, .platform = &links, .plan = &toy_plan, .tensor = 1, .layers = 10};
    for (int32_t tensor = 1; tensor <= 8; tensor *= 2)
        for (int32_t end = 1; end < 1 << 18; end = 3 * end + 1)
            for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
                struct slice slice = {.end = end}, longer = {.end = end + 1};
                struct cost_unit unit = {.slices = &slice, .n_slices = 1, .context = 1}, more = unit;
                more.slices = &longer;
                setting.tensor = tensor;
                struct cost_pass a = cost_of_pass(&setting, pass, &unit), b = cost_of_pass(&setting, pass, &more);
                setting.tensor = 2 * tensor;
                struct cost_pass c = cost_of_pass(&setting, pass, &unit);
                bool grows = b.other_s > a.other_s && b.attention_s >= a.attention_s && b.tensor_s >= a.tensor_s;
                if (!harness_true(grows && c.other_s < a.other_s && c.attention_s <= a.attention_s, "cost is monotonic",
                                  __FILE__, __LINE__))
                    printf("case: tensor %d end %d pass %d\n", (int)tensor, (int)end, (int)pass);
            }
}

/* none of 13B: 12h + 4k = 16 x 5120, 6f = 6 x 13824, 4n = 160; selective less 4h and 2f; GPT-3: 32h + 4n. Of single
 * operations 8h and 2f more, which the list computes again as well; GPT-3 nothing. */
TEST(activations_follow_the_breakdown)
{
    struct cost_setting llama = {.model = &hand_llama_13b, .plan = &toy_plan, .tensor = 1};
    struct cost_setting gpt_3 = {.model = &hand_gpt_3, .plan = &toy_plan, .tensor = 1};
    CHECK_CLOSE(cost_activation_bytes(&llama, RECOMPUTE_NONE, true), 81920 + 82944 + 160.0, 1e-14);
    CHECK_CLOSE(cost_activation_bytes(&llama, RECOMPUTE_SELECTIVE, true), 61440 + 55296 + 160.0, 1e-14);
    CHECK_CLOSE(cost_activation_bytes(&llama, RECOMPUTE_FULL, false), 10240.0, 1e-14);
    llama.kernels = gpt_3.kernels = SCENARIO_EAGER;
    CHECK_CLOSE(cost_activation_bytes(&llama, RECOMPUTE_NONE, true), 122880 + 110592 + 160.0, 1e-14);
    CHECK_CLOSE(cost_activation_bytes(&llama, RECOMPUTE_SELECTIVE, true), 61440 + 55296 + 160.0, 1e-14);
    CHECK_CLOSE(cost_head_bytes(&llama, 1), 4 * 32000 + 8 * 5120.0, 1e-14);
    CHECK_CLOSE(cost_head_workspace_bytes(&llama, 1), 8 * 32000.0, 1e-14);
    CHECK_CLOSE(cost_activation_bytes(&gpt_3, RECOMPUTE_NONE, false), 32 * 12288 + 4 * 96.0, 1e-14);
    CHECK_CLOSE(cost_head_bytes(&gpt_3, 1), 4 * 51200 + 4 * 12288.0, 1e-14);
    llama.kernels = gpt_3.kernels = SCENARIO_FUSED;
    llama.tensor = 4;
    CHECK_CLOSE(cost_activation_bytes(&llama, RECOMPUTE_FULL, true), (10240 + 20480) / 4.0, 1e-14);
    llama.tensor = 8;
    CHECK_CLOSE(cost_activation_bytes(&llama, RECOMPUTE_NONE, false), 165024 / 8.0, 1e-14);
    CHECK_CLOSE(cost_activation_bytes(&gpt_3, RECOMPUTE_NONE, false), 32 * 12288 + 4 * 96.0, 1e-14);
    CHECK_CLOSE(cost_activation_bytes(&gpt_3, RECOMPUTE_SELECTIVE, false), 20 * 12288 + 4 * 96.0, 1e-14);
    CHECK_CLOSE(cost_kv_bytes(&hand_toy, 2), 4.0, 1e-14);
}

/* Per token: SwiGLU 6f/2 = 24, input and its gradient 16; recomputed norms and product (16 + 16)/2; all of a layer
 * (12h + 4k + 6f + 4n)/2 = 56, but for its input, 2h/2, that was kept; eager (8h + 2f)/2 more, and the input in fp32.
 * Without TP: 48 and one 2h. */
TEST(working_memory_is_counted_by_hand)
{
    struct cost_setting setting = toy_setting();
    struct slice slice = {0, 0, 10};
    struct cost_unit unit = {.slices = &slice, .n_slices = 1, .context = 1};
    CHECK_CLOSE(cost_workspace_bytes(&setting, &unit), 400.0, 1e-14);
    unit.recompute = RECOMPUTE_SELECTIVE;
    CHECK_CLOSE(cost_workspace_bytes(&setting, &unit), 560.0, 1e-14);
    unit.recompute = RECOMPUTE_FULL;
    CHECK_CLOSE(cost_workspace_bytes(&setting, &unit), 920.0, 1e-14);
    setting.kernels = SCENARIO_EAGER;
    CHECK_CLOSE(cost_workspace_bytes(&setting, &unit), 1200.0, 1e-14);
    setting.kernels = SCENARIO_FUSED;
    CHECK_CLOSE(cost_head_bytes(&setting, 10), 10 * (4 * 8 + 4 * 4 / 2.0), 1e-14);
    CHECK_CLOSE(cost_head_workspace_bytes(&setting, 10), 10 * (2 * 8 + 2 * 4.0), 1e-14);
    CHECK_TRUE(cost_embedding_bytes(&setting, 10) == 0);
    setting.tensor = 1;
    unit.recompute = RECOMPUTE_NONE;
    CHECK_CLOSE(cost_workspace_bytes(&setting, &unit), 560.0, 1e-14);
    CHECK_CLOSE(cost_head_workspace_bytes(&setting, 10), 10 * 2 * 16.0, 1e-14);
}

/* 100 parameters over 4 ranks: 2 + 4 + 12/4 bytes; bf16 gradients 2 bytes less; sharded gradients (2 + 12)/4; sharded
 * weights too, without their bf16 copy, and a gradient in fp32 however it was reduced, 16/4. Unsharded, bf16 gradients:
 * 2 + 2 + 12. Of embedding, head and last norm, 2 x 4 x 16/2 + 4 = 68 parameters, zero3 has the weights throughout,
 * unless they are units of their own. */
TEST(states_follow_precision_and_sharding)
{
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 900.0, 1e-14);
    CHECK_TRUE(cost_gathered_bytes(&setting) == 0);
    plan.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 700.0, 1e-14);
    plan.sharding = SCENARIO_UNSHARDED;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 1), 1600.0, 1e-14);
    CHECK_TRUE(cost_gathered_bytes(&setting) == 0);
    plan.sharding = SCENARIO_ZERO2;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 200 + 350.0, 1e-14);
    CHECK_TRUE(cost_gathered_bytes(&setting) == 0);
    plan.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 400.0, 1e-14);
    plan.gradients = SCENARIO_FP32;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 400.0, 1e-14);
    CHECK_CLOSE(cost_gathered_bytes(&setting), 2 * 68.0, 1e-14);
    plan.fsdp_ends = SCENARIO_ENDS_OWN;
    plan.fsdp = 2;
    CHECK_TRUE(cost_gathered_bytes(&setting) == 0);
}

/* Of 100 parameters over 4 ranks: whole 4 or 2 bytes each, with zero2 a quarter, with zero3 fp32 in any case. */
TEST(gradients_are_part_of_the_states)
{
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    static const double bytes[][2] = {[SCENARIO_ZERO1] = {400, 200},
                                      [SCENARIO_ZERO2] = {100, 50},
                                      [SCENARIO_ZERO3] = {100, 100},
                                      [SCENARIO_UNSHARDED] = {400, 200}};
    for (int32_t i = 0; i < 8; i++) {
        plan.sharding = i / 2;
        plan.gradients = i % 2;
        CHECK_CLOSE(cost_gradient_state_bytes(&setting, 100, 4), bytes[i / 2][i % 2], 1e-15);
    }
}

/*
 * Tensors of 128 bytes. 4 ranks of a node send 96: 1 s and 96 at 10 B/s. Two on each of two nodes: half of 96 by
 * NVLink, 1 + 4.8 s; half by NIC, a ring of two steps inside nodes and one between them, 3 + 2 x 1 + 2 s. One on each
 * of four: 96 by NIC, three steps between nodes. Tenths of these tensors go by the other protocol, of less latency and
 * less bandwidth: 4 + 2 x 0.5 + 0.25 s and 4 + 3 x 0.25 s.
 */
TEST(rails_share_nic_and_nvlink)
{
    struct device device = plain;
    struct cost_setting setting = toy_setting();
    setting.device = &device;
    device.fabric = (struct device_fabric){.efficiency = 0.5};
    device.ring[DEVICE_SIMPLE] = (struct device_ring){3, 1, 2, 1, 1};
    device.ring[DEVICE_LL128] = (struct device_ring){4, 0.5, 0.25, 0.5, 0.25};
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_GATHER, 128, 4, 4), 10.6, 1e-14);
    CHECK_TRUE(cost_of_rails(&setting, DEVICE_ALL_GATHER, COST_NIC, 128, 4, 4).duration_s == 0);
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_ALL_GATHER, COST_NVLINK, 128, 4, 2).duration_s, 5.8, 1e-14);
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_REDUCE_SCATTER, COST_NIC, 128, 4, 2).latency_s, 7.0, 1e-14);
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_REDUCE_SCATTER, COST_NIC, 128, 4, 2).wire_bytes, 96.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 128, 4, 2), 7 + 96 / 20.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_GATHER, 128, 4, 1), 9 + 192 / 20.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_GATHER, 12.8, 4, 2), 5.25 + 19.2 / 20, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_GATHER, 12.8, 4, 1), 4.75 + 76.8 / 20, 1e-14);
    CHECK_TRUE(cost_of_rails(&setting, DEVICE_ALL_GATHER, COST_NVLINK, 128, 4, 1).duration_s == 0);
    CHECK_TRUE(cost_rails_s(&setting, DEVICE_ALL_GATHER, 128, 1, 1) == 0);
}

/* Six ranks, four on one node and two on the other: the two beyond the rails of the four send their 5/6 inside. With a
 * NIC that takes no time this is what all wait for; on even nodes there are none. */
TEST(ranks_without_a_rail_send_all_inside)
{
    struct device device = plain;
    struct cost_setting setting = toy_setting();
    struct platform fast = links;
    fast.nic_bytes_per_s = 1e30;
    setting.platform = &fast;
    setting.device = &device;
    struct cost_transfer half = cost_of_rails(&setting, DEVICE_ALL_GATHER, COST_NVLINK, 1200, 6, 2);
    struct cost_transfer all = cost_without_rail(&setting, DEVICE_ALL_GATHER, 1200, 6, 2);
    CHECK_CLOSE(all.wire_bytes, 2 * half.wire_bytes, 1e-15);
    CHECK_CLOSE(all.duration_s, all.latency_s + all.wire_bytes / all.bytes_per_s, 1e-15);
    CHECK_CLOSE(cost_uneven_rails_s(&setting, DEVICE_ALL_GATHER, 1200, 6, 2, 4), all.duration_s, 1e-15);
    CHECK_CLOSE(cost_uneven_rails_s(&setting, DEVICE_ALL_GATHER, 1200, 6, 2, 2), half.duration_s, 1e-15);
}

/* The same tensors all-reduced: both ways inside the nodes, 2 x 5.8 s; between them by the curve of all-reduces, a
 * latency of 3 s and 1 s for the doubling, a ramp of 16 that two nodes double and four treble. */
TEST(rails_of_an_all_reduce_follow_its_curve)
{
    struct device device = plain;
    struct cost_setting setting = toy_setting();
    setting.device = &device;
    device.fabric =
        (struct device_fabric){.latency_s = 3, .hop_s = 1, .efficiency = 0.5, .ramp_bytes = 16, .ramp_hop = 1};
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_ALL_REDUCE, COST_NVLINK, 128, 4, 2).duration_s, 11.6, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_REDUCE, 128, 4, 2), 4 + 2 * 120 / 20.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_REDUCE, 128, 4, 1), 5 + 2 * (192 + 192 * 48 / 240.0) / 20, 1e-14);
}

/* Four TP groups of 2 fill a node of 8. Blocks of three of them, one after the other, leave some block with one on a
 * node, of six with two; a single node has all. */
TEST(groups_that_do_not_fill_nodes_go_by_the_fewest_on_one)
{
    static const struct {
        int32_t nodes, ranks, each;
    } cases[] = {{3, 3, 1}, {3, 6, 2}, {3, 2, 2}, {3, 4, 4}, {3, 12, 4}, {1, 3, 3}};
    struct device device = plain;
    struct platform platform = links;
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    const struct slice slice = {0, 0, 48};
    device.fabric.efficiency = 0.5;
    device.ring[DEVICE_SIMPLE] = (struct device_ring){3, 1, 2, 1, 1};
    platform.gpus_per_node = 8;
    setting.device = &device;
    setting.platform = &platform;
    plan.cp_type = SCENARIO_ALL_GATHER;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t ranks = cases[i].ranks;
        const struct cost_unit unit = {.slices = &slice, .n_slices = 1, .context = ranks}, empty = {.context = ranks};
        platform.n_nodes = cases[i].nodes;
        plan.sharding = SCENARIO_ZERO1;
        double bytes = 48 * cost_kv_bytes(setting.model, 2);
        CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).context_s,
                    3 * cost_rails_s(&setting, DEVICE_ALL_GATHER, bytes, ranks, cases[i].each), 1e-14);
        plan.sharding = SCENARIO_ZERO3;
        plan.dp = 2 * ranks; /* two groups */
        plan.shard_group = ranks;
        double gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, ranks, cases[i].each);
        device.hbm_bytes_per_s = 1e30; /* nothing to hide under */
        CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).shard_s, 3 * gather_s, 1e-14);
        device.hbm_bytes_per_s = plain.hbm_bytes_per_s;
    }
}

/* All ranks on one node: the collective that TP's all-reduces are, by rings up to four GPUs and in the switches, which
 * take each GPU's tensor once, from five on. */
TEST(rails_of_one_node_are_its_collective)
{
    struct device device = plain;
    struct platform node = links;
    struct cost_setting setting = toy_setting();
    node.gpus_per_node = 8;
    setting.platform = &node;
    setting.device = &device;
    device.collective[DEVICE_ALL_REDUCE] = (struct device_collective){.latency_s = 2, .efficiency = 0.5};
    device.collective[DEVICE_NVLS] = (struct device_collective){.latency_s = 3, .efficiency = 0.25};
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_REDUCE, 128, 4, 4), 2 + 192 / 5.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_REDUCE, 128, 8, 8), 3 + 128 / 2.5, 1e-14);
    for (int32_t ranks = 2; ranks <= 8; ranks++)
        for (enum device_collective_kind kind = DEVICE_ALL_GATHER; kind <= DEVICE_ALL_REDUCE; kind++)
            CHECK_CLOSE(cost_rails_s(&setting, kind, 128, ranks, ranks), cost_collective_s(&setting, kind, 128, ranks),
                        1e-14);
}

/* Two layers of three recompute: two thirds of the forward's kernels and collectives; the third keeps all. */
TEST(so_many_layers_recompute)
{
    struct cost_setting setting = toy_setting();
    struct cost_unit none = toy_unit(RECOMPUTE_NONE), full = toy_unit(RECOMPUTE_FULL);
    struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &none);
    struct cost_pass backward = cost_of_pass(&setting, PASS_BACKWARD, &none);
    setting.recompute_layers = 2;
    struct cost_pass both = cost_of_pass(&setting, PASS_BACKWARD, &full);
    CHECK_CLOSE(both.flop, backward.flop + forward.flop * 2 / 3, 1e-14);
    CHECK_CLOSE(both.other_s, backward.other_s + forward.other_s * 2 / 3, 1e-14);
    CHECK_CLOSE(both.attention_s, backward.attention_s + forward.attention_s * 2 / 3, 1e-14);
    CHECK_CLOSE(both.tensor_s, backward.tensor_s + forward.tensor_s * 2 / 3, 1e-14);
    CHECK_EQUAL(both.ring_steps, backward.ring_steps + 2);
    double kept = cost_activation_bytes(&setting, RECOMPUTE_NONE, true);
    double input = cost_activation_bytes(&setting, RECOMPUTE_FULL, true);
    CHECK_CLOSE(cost_layers_activation_bytes(&setting, RECOMPUTE_FULL, true), 2 * input + kept, 1e-14);
    CHECK_CLOSE(cost_layers_activation_bytes(&setting, RECOMPUTE_NONE, true), 3 * kept, 1e-14);
    setting.recompute_layers = 0;
    CHECK_CLOSE(cost_layers_activation_bytes(&setting, RECOMPUTE_FULL, true), 3 * input, 1e-14);
}

/* Of each of 3 layers (a_forward_unit_is_counted_by_hand): the down GEMM 2 x 5 x 4 x 8/2 = 160 FLOP, 320 s; the
 * residual add 6h/2 x 5 = 60 bytes, 120 s; and the reduce-scatter between them. With dropout, whose mask the backward
 * needs, the residual add alone. */
TEST(recomputation_stops_before_the_last_gemm)
{
    struct scenario_plan plan = toy_plan, stopping = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan), dropped = toy_setting();
    struct model dropping = *setting.model;
    struct cost_unit full = toy_unit(RECOMPUTE_FULL), listed = toy_unit(RECOMPUTE_SELECTIVE);
    struct cost_pass all = cost_of_pass(&setting, PASS_BACKWARD, &full);
    struct cost_pass selective = cost_of_pass(&setting, PASS_BACKWARD, &listed);
    stopping.early_stop = plan.early_stop = true;
    struct cost_pass stopped = cost_of_pass(&setting, PASS_BACKWARD, &full);
    CHECK_CLOSE(stopped.flop, all.flop - 3 * 160, 1e-14);
    CHECK_CLOSE(stopped.other_s, all.other_s - 3 * (320 + 120), 1e-14);
    CHECK_CLOSE(stopped.attention_s, all.attention_s, 1e-14);
    CHECK_CLOSE(stopped.tensor_s, all.tensor_s - 3 * 3, 1e-14);
    CHECK_CLOSE(stopped.tensor_bytes, all.tensor_bytes - 3 * 20, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &listed).other_s, selective.other_s, 1e-14);
    setting.recompute_layers = 2;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &full).flop, all.flop - 832 - 2 * 160, 1e-14);
    plan.sequence_parallel = false; /* an all-reduce of twice the bytes */
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &full).tensor_bytes, 40 * (3 * 2 + 2 * 1), 1e-14);
    dropping.dropout = true;
    dropped.model = &dropping;
    struct cost_pass whole = cost_of_pass(&dropped, PASS_BACKWARD, &full);
    dropped.plan = &stopping;
    stopped = cost_of_pass(&dropped, PASS_BACKWARD, &full);
    CHECK_CLOSE(stopped.flop, whole.flop, 1e-14);
    CHECK_CLOSE(stopped.other_s, whole.other_s - 3 * 120, 1e-14);
    CHECK_CLOSE(stopped.tensor_s, whole.tensor_s, 1e-14);
}

/* Per token h 4, k 2, f 8, TP 2, 5 tokens, 2 s a FLOP and a byte, 3 layers, beside [selective]: keys 2 x 5 x 1 x 4 and
 * up 2 x 5 x 4 x 4 = 200 FLOP, but keys take the copying of 5 x 1 + 5 x 4 + 4 x 1 numbers, 58 bytes, for 40 FLOP;
 * rotations 4h + 4k and the residual add 6h, over TP 24 bytes. Eager repeats the projection,
 * 2 x 5 x 4 x 2 = 80 FLOP, and rotates by single operations, 16 (h + k)/2 = 48 bytes more. TP 1: 2 T h (k + h + f) =
 * 560 FLOP and 48 bytes. Eager norms and SwiGLU on the list: 2 x 32h + 4f = 288 bytes more, over TP. */
TEST(every_second_gemm_is_computed_again)
{
    const enum recompute list = (enum recompute)(RECOMPUTE_SELECTIVE | RECOMPUTE_ALTERNATE_GEMMS);
    struct cost_setting setting = toy_setting();
    struct cost_unit none = toy_unit(RECOMPUTE_NONE), selective = toy_unit(RECOMPUTE_SELECTIVE), more = toy_unit(list);
    struct cost_pass a = cost_of_pass(&setting, PASS_BACKWARD, &selective);
    struct cost_pass b = cost_of_pass(&setting, PASS_BACKWARD, &more);
    CHECK_CLOSE(b.flop - a.flop, 3 * 200.0, 1e-12);
    CHECK_CLOSE(b.other_s - a.other_s, 3 * 2 * (160 + 58 + 5 * 24.0), 1e-12);
    CHECK_CLOSE(b.tensor_s, a.tensor_s, 1e-14);
    CHECK_CLOSE(b.attention_s, a.attention_s, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &more).flop, cost_of_pass(&setting, PASS_FORWARD, &none).flop, 0);
    double fused_s = a.other_s - cost_of_pass(&setting, PASS_BACKWARD, &none).other_s;
    setting.kernels = SCENARIO_EAGER;
    a = cost_of_pass(&setting, PASS_BACKWARD, &selective);
    b = cost_of_pass(&setting, PASS_BACKWARD, &more);
    CHECK_CLOSE(b.flop - a.flop, 3 * 280.0, 1e-12);
    CHECK_CLOSE(b.other_s - a.other_s, 3 * 2 * (240 + 58 + 5 * (24 + 48.0)), 1e-12);
    double eager_s = a.other_s - cost_of_pass(&setting, PASS_BACKWARD, &none).other_s;
    CHECK_CLOSE(eager_s - fused_s, 3 * 2 * 5 * 288 / 2.0, 1e-12);
    setting.kernels = SCENARIO_FUSED;
    setting.tensor = 1;
    a = cost_of_pass(&setting, PASS_BACKWARD, &selective);
    b = cost_of_pass(&setting, PASS_BACKWARD, &more);
    CHECK_CLOSE(b.flop - a.flop, 3 * 560.0, 1e-12);
    CHECK_CLOSE(b.other_s - a.other_s, 3 * 2 * (560 + 5 * 48.0), 1e-12);
}

/* Llama 13B keeps 6h + 2k + 2f + 4n = 8 x 5120 + 2 x 13824 + 160; eager the down GEMM's output, 2h; keys of sliced
 * samples 2k. TP 8: (8h + 2k + 2f + 4n)/8, eager 2h + 2h/8 more. Computed again per token of the toy, TP 2, 10 tokens:
 * 2 (k + f)/2 beside the list's 16 and what no list needs, 40. */
TEST(every_second_gemm_is_not_kept)
{
    const enum recompute list = (enum recompute)(RECOMPUTE_SELECTIVE | RECOMPUTE_ALTERNATE_GEMMS);
    struct cost_setting llama = {.model = &hand_llama_13b, .plan = &toy_plan, .tensor = 1};
    struct cost_setting toy = toy_setting();
    struct slice slice = {0, 0, 10};
    struct cost_unit unit = {.slices = &slice, .n_slices = 1, .context = 1, .recompute = list};
    CHECK_CLOSE(cost_activation_bytes(&llama, list, false), 40960 + 27648 + 160.0, 1e-14);
    CHECK_CLOSE(cost_activation_bytes(&llama, list, true), 40960 + 27648 + 160 + 10240.0, 1e-14);
    llama.kernels = SCENARIO_EAGER;
    CHECK_CLOSE(cost_activation_bytes(&llama, list, false), 40960 + 27648 + 160 + 10240.0, 1e-14);
    llama.tensor = 8;
    CHECK_CLOSE(cost_activation_bytes(&llama, list, false), (51200 + 27648 + 160) / 8.0 + 10240 + 1280.0, 1e-14);
    llama.kernels = SCENARIO_FUSED;
    CHECK_CLOSE(cost_activation_bytes(&llama, list, false), (51200 + 27648 + 160) / 8.0, 1e-14);
    CHECK_CLOSE(cost_workspace_bytes(&toy, &unit), 560 + 10 * 10.0, 1e-14);
    CHECK_CLOSE(cost_kept_kv_bytes(&toy, list), 2.0, 1e-14);
    CHECK_CLOSE(cost_kept_kv_bytes(&toy, RECOMPUTE_FULL), 4.0, 1e-14);
}

/* TP 2 on nodes of 8: 4 shards on one node, each sends 3/4. A layer's 80 parameters in bf16: g = 1 + 120/10 = 13 s;
 * gradients in fp32: r = 1 + 24 s. Layers and the head take longer than both: only the first gather of the forward and
 * the last reduce-scatter show. Of 80 parameters at 2 s a byte are moved: forward of the shard 4 + 2 bytes; backward of
 * the whole gradient 2 + 2 (joined), 2 + 4 (converted; bf16 none), 2 x 4 (divided; bf16 2 x 2), and of the shard 4 + 2
 * again, zero2 not, and 5 x 4 (divided, added; bf16 5 x 2). Embedding and head, 68 parameters: 102 B or 204 B and 1 s,
 * exposed; with a head in no time the backward's first gather shows too, whatever the root's gradients then move.
 * zero2: what does not overlap is all exposed. */
TEST(sharded_parameters_are_gathered_and_gradients_reduced_in_every_pass)
{
    struct platform nodes = links;
    struct device device = plain;
    nodes.gpus_per_node = 8;
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE), empty = {.context = 2};
    setting.device = &device;
    setting.platform = &nodes;
    plan.dp = 4;
    plan.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).shard_s, 13.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).shard_bytes, 3 * 120.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).other_s, 3 * 80 * 6 / 4.0 * 2, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &unit).shard_s, 25.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &unit).shard_bytes, 3 * (120 + 240.0), 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 25.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).other_s, 3 * 80 * (18 + 26 / 4.0) * 2, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_FORWARD, &unit).shard_s, 1 + 10.2, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &unit).shard_s, 1 + 20.4, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &unit).shard_bytes, 68 * 4 * 0.75, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &empty).shard_s, 1 + 20.4 + 13, 1e-14);
    plan.gradients = SCENARIO_BF16;
    plan.sharding = SCENARIO_ZERO2;
    setting.communication.dp_overlap = SCENARIO_OVERLAP_GRADIENTS;
    CHECK_TRUE(cost_of_pass(&setting, PASS_FORWARD, &unit).shard_s == 0);
    CHECK_TRUE(cost_of_head(&setting, PASS_FORWARD, &unit).shard_bytes == 0);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &unit).shard_s, 13.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).other_s, 3 * 80 * (8 + 10 / 4.0) * 2, 1e-14);
    setting.communication.dp_overlap = SCENARIO_OVERLAP_NONE;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &unit).shard_s, 3 * 13.0, 1e-14);
    device.hbm_bytes_per_s = 1e30; /* nothing to hide under */
    setting.communication.dp_overlap = SCENARIO_OVERLAP_BOTH;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 3 * 13.0, 1e-14);
    plan.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &empty).shard_s, 1 + 10.2 + 13, 1e-14);
    plan.dp = 1;
    CHECK_TRUE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s == 0);
}

/* The same by FSDP2: forward the whole tensor is copied out, 2 + 2, and of the shard 4 + 2 converted and 2 + 2 copied
 * in; backward both again, gradients joined as fp32, 2 + 4, and 3 x 4 of the shard added; bf16 joined 2 + 2, and the
 * shard converted, 2 + 4, before it is added. zero2 gathers nothing. Collectives are FSDP1's. The root is gathered
 * forward and reduced backward. With bf16 the optimizer has no gradient to convert: 40 bytes of a share of 10. */
TEST(fsdp2_copies_in_and_out)
{
    struct platform nodes = links;
    nodes.gpus_per_node = 8;
    struct scenario_plan plan = toy_plan, first_plan;
    struct cost_setting setting = toy_setting_of(&plan), first = toy_setting_of(&first_plan);
    const struct cost_unit empty = {.context = 2};
    setting.platform = first.platform = &nodes;
    plan.dp = 4;
    plan.sharding = SCENARIO_ZERO3;
    first_plan = plan;
    plan.fsdp = 2;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).other_s, 3 * 80 * (4 + 10 / 4.0) * 2, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).other_s, 3 * 80 * (10 + 22 / 4.0) * 2, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_FORWARD, &empty).other_s, 68 * (4 + 10 / 4.0) * 2, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &empty).other_s, 68 * (6 + 12 / 4.0) * 2, 1e-14);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        CHECK_CLOSE(cost_of_pass(&setting, pass, &empty).shard_bytes, cost_of_pass(&first, pass, &empty).shard_bytes,
                    1e-15);
    plan.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).other_s, 3 * 80 * (8 + 28 / 4.0) * 2, 1e-14);
    CHECK_CLOSE(cost_optimizer_s(&setting, 40, 4), 2 * 10 * 40.0, 1e-14);
    plan.sharding = SCENARIO_ZERO2;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).other_s, 0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).other_s, 3 * 80 * (4 + 18 / 4.0) * 2, 1e-14);
}

/* A quarter of four multiprocessors is held by a gather of 13 s, or a gather and a reduction of 25 s. Kernels take 4/3
 * as long beside it, persistent GEMMs twice as long: two rounds on three multiprocessors. It shows for two of three
 * layers; behind the first gather, before the last reduction. */
TEST(collectives_of_shards_slow_what_runs_beside_them)
{
    struct platform nodes = links;
    struct device device = plain;
    nodes.gpus_per_node = 8;
    device.multiprocessors = 4;
    device.training.node_multiprocessors = 1;
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    setting.device = &device;
    setting.platform = &nodes;
    plan.dp = 4;
    plan.sharding = SCENARIO_ZERO3;
    const double alone_s[] = {13, 25}, beside_s[] = {13, 13 + 25};
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        device.training.persistent_gemms = false;
        struct cost_pass cost = cost_of_pass(&setting, pass, &unit);
        double all_s = cost.other_s + cost.attention_s + cost.tensor_s;
        double slower_s = 2 * cost.product_s + 4.0 / 3 * (all_s - cost.product_s);
        CHECK_TRUE(cost.product_s > 0 && cost.product_s < all_s && all_s > 100 * beside_s[pass]);
        CHECK_CLOSE(cost.shard_s, alone_s[pass] + 2 * beside_s[pass] / 4, 1e-9);
        device.training.persistent_gemms = true;
        cost = cost_of_pass(&setting, pass, &unit);
        CHECK_CLOSE(cost.shard_s, alone_s[pass] + 2 * beside_s[pass] * (1 - all_s / slower_s), 1e-9);
    }
}

/* Groups of 4 shards on a node each, TP 2, two of them: gathers and reduce-scatters hold a quarter of the
 * multiprocessors, the all-reduces over nodes half. Of three layers two run beside a gather; backward beside a gather
 * and a reduction; behind the first gather, before the last reduction. Of groups of 3 some are over nodes. */
TEST(groups_hold_a_nodes_channels_inside_it)
{
    struct platform nodes = links;
    struct device device = plain;
    nodes.gpus_per_node = 8;
    device.multiprocessors = 4;
    device.training.node_multiprocessors = 1;
    device.training.collective_multiprocessors = 2;
    device.fabric = (struct device_fabric){.latency_s = 3, .efficiency = 0.5};
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    setting.device = &device;
    setting.platform = &nodes;
    plan.dp = 8; /* two groups */
    plan.shard_group = 4;
    plan.sharding = SCENARIO_ZERO3;
    double gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, 4, 4);
    double scatter_s = cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 320, 4, 4);
    double across_s = cost_rails_s(&setting, DEVICE_ALL_REDUCE, 80, 2, 1);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).shard_s, gather_s + 2 * gather_s / 4, 1e-9);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &unit).shard_s,
                scatter_s + across_s + 2 * ((gather_s + scatter_s) / 4 + across_s / 2), 1e-9);
    plan.dp = 6;
    plan.shard_group = 3;
    device.ring[DEVICE_SIMPLE] = (struct device_ring){3, 1, 2, 1, 1};
    nodes.n_nodes = 2;
    gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, 3, 1);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).shard_s, gather_s + 2 * gather_s / 2, 1e-9);
}

/* HSDP: groups of 4 shards, each on its node of 8 GPUs with TP 2, two of them. A layer's 80 parameters are gathered and
 * their fp32 gradients scattered inside the group; then a rank all-reduces its quarter of them, 80 bytes, with its
 * counterpart on the other node, half of them sent for the reduction and half for the gather. */
TEST(groups_of_shards_reduce_their_gradients)
{
    struct platform nodes = links;
    nodes.gpus_per_node = 8;
    struct device device = plain;
    device.hbm_bytes_per_s = 1e30; /* nothing to hide under */
    device.fabric =
        (struct device_fabric){.latency_s = 3, .hop_s = 1, .efficiency = 0.5, .ramp_bytes = 16, .ramp_hop = 1};
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    struct cost_unit empty = {.context = 2};
    setting.device = &device;
    setting.platform = &nodes;
    plan.dp = 8; /* two groups */
    plan.shard_group = 4;
    plan.sharding = SCENARIO_ZERO3;
    double gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, 4, 4);
    double scatter_s = cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 320, 4, 4);
    double across_s = cost_rails_s(&setting, DEVICE_ALL_REDUCE, 80, 2, 1);
    CHECK_TRUE(across_s > 0);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 2 * gather_s + 3 * (scatter_s + across_s),
                1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_bytes, 3 * (120 + 240 + 80.0), 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).shard_s, 3 * gather_s, 1e-14);
    plan.shard_group = 2; /* four groups on two nodes, two on each: their rings share NICs and NVLink */
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_bytes, 3 * (80 + 160 + 2 * 160 * 0.75), 1e-14);
    across_s = cost_rails_s(&setting, DEVICE_ALL_REDUCE, 160, 4, 2);
    gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, 2, 2);
    scatter_s = cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 320, 2, 2);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 2 * gather_s + 3 * (scatter_s + across_s),
                1e-14);
    nodes.gpus_per_node = 16; /* six groups, four on the one node, two on the other: by the NICs of two */
    plan.dp = 12;
    across_s = cost_uneven_rails_s(&setting, DEVICE_ALL_REDUCE, 160, 6, 2, 4);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 2 * gather_s + 3 * (scatter_s + across_s),
                1e-14);
    plan.shard_group = 3; /* three of groups 0-2, 3-5, 6-8, 9-11 begin on the first node, 8 is on the other with 11 */
    gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, 3, 1);
    scatter_s = cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 320, 3, 1);
    across_s = cost_rails_s(&setting, DEVICE_ALL_REDUCE, 320.0 / 3, 4, 1);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 2 * gather_s + 3 * (scatter_s + across_s),
                1e-14);
    plan.dp = 24; /* eight groups: of each shard three, three and two on three nodes, in some order */
    across_s = cost_uneven_rails_s(&setting, DEVICE_ALL_REDUCE, 320.0 / 3, 8, 2, 3);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 2 * gather_s + 3 * (scatter_s + across_s),
                1e-14);
}

/* Without TP the stages hold the model once; tied embeddings stand on both ends, on one stage once. */
TEST(stages_hold_all_parameters)
{
    const struct model *const models[] = {&hand_llama_13b, &hand_gpt_3};
    for (int i = 0; i < 2; i++) {
        const struct model *model = models[i];
        int32_t quarter = (int32_t)model->layers / 4;
        double sum = cost_stage_parameters(model, 1, quarter, true, false) +
                     2 * cost_stage_parameters(model, 1, quarter, false, false) +
                     cost_stage_parameters(model, 1, quarter, false, true);
        double copy = model->tied_embeddings ? (double)(model->vocabulary * model->hidden) : 0;
        CHECK_CLOSE(sum, (double)hand_parameters(model) + copy, 1e-15);
        CHECK_CLOSE(cost_stage_parameters(model, 1, (int32_t)model->layers, true, true), (double)hand_parameters(model),
                    1e-15);
    }
}

/* Kernels of a list whose name begins so: how many, their bytes and FLOPs. */
static int32_t counted(const struct cost_kernels *kernels, const char *name, double *bytes, double *flop)
{
    int32_t n = 0;
    *bytes = *flop = 0;
    for (int32_t i = 0; i < kernels->n; i++)
        if (strncmp(kernels->kernel[i].name, name, strlen(name)) == 0) {
            n++;
            *bytes += kernels->kernel[i].bytes;
            *flop += kernels->kernel[i].flop;
        }
    return n;
}

/* Korthikanti's 22B on 8 ranks: a/TP = 8 heads of 96, s = 2048, b = 4, so E = 8 x 4 x 2048^2 scores. Forward passes
 * over them move 2 + 4 + 5 + 2 bytes a score, backward 2 + 2 + 5 + 6 + 2 + 2; the GEMMs also their narrow matrices, of
 * 8 x 4 x 2048 x 96 elements each: 3 of them forward (Q, K; V and output: 4), backward 8. FLOPs: 2 x 96 a score and
 * GEMM, nothing saved by the mask. */
TEST(unfused_attention_moves_its_scores)
{
    const struct model model = {
        .hidden = 6144, .layers = 1, .heads = 64, .kv_heads = 64, .ffn = 24576, .vocabulary = 8, .dropout = true};
    const struct slice slices[] = {{0, 0, 2048}, {1, 0, 2048}, {2, 0, 2048}, {3, 0, 2048}};
    const struct cost_unit unit = {.slices = slices, .n_slices = 4, .context = 1};
    struct cost_setting setting = {.model = &model,
                                   .device = &plain,
                                   .platform = &links,
                                   .plan = &toy_plan,
                                   .attention = DEVICE_UNFUSED,
                                   .tensor = 8,
                                   .layers = 1};
    struct cost_kernels kernels;
    double scores = 8.0 * 4 * 2048 * 2048, narrow = 8.0 * 4 * 2048 * 96, bytes, flop;
    cost_layer_kernels(&setting, PASS_FORWARD, &unit, &kernels);
    CHECK_EQUAL(counted(&kernels, "attention", &bytes, &flop), 4);
    CHECK_CLOSE(bytes, 13 * scores + 2 * 4 * narrow, 1e-14);
    CHECK_CLOSE(flop, 4 * 96 * scores, 1e-14);
    counted(&kernels, "dropout", &bytes, &flop);
    CHECK_CLOSE(bytes, 2.0 * 6144 * 4 * 2048 / 8, 1e-14);
    cost_layer_kernels(&setting, PASS_BACKWARD, &unit, &kernels);
    CHECK_EQUAL(counted(&kernels, "attention", &bytes, &flop), 6);
    CHECK_CLOSE(bytes, 19 * scores + 2 * 8 * narrow, 1e-14);
    CHECK_CLOSE(flop, 8 * 96 * scores, 1e-14);
}

/* The core again, exactly its forward, and nothing else, whatever kernel runs it. */
TEST(recomputation_of_the_core_repeats_it)
{
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE), core = toy_unit(RECOMPUTE_ATTENTION_CORE);
    for (int unfused = 0; unfused < 2; unfused++) {
        setting.attention = unfused ? DEVICE_UNFUSED : DEVICE_FLASH2;
        struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &unit);
        struct cost_pass once = cost_of_pass(&setting, PASS_BACKWARD, &unit);
        struct cost_pass again = cost_of_pass(&setting, PASS_BACKWARD, &core);
        CHECK_CLOSE(again.attention_s - once.attention_s, forward.attention_s, 1e-12);
        CHECK_CLOSE(again.other_s, once.other_s, 1e-14);
    }
}

/* What training takes longer multiplies GEMMs and attention alone; flash1 is a multiple of flash2's work. */
TEST(training_constants_slow_what_they_name)
{
    struct device device = plain;
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    struct cost_kernels before, after;
    setting.device = &device;
    cost_layer_kernels(&setting, PASS_BACKWARD, &unit, &before);
    device.training = (struct device_training){.products = 0.25, .flash1 = 1};
    cost_layer_kernels(&setting, PASS_BACKWARD, &unit, &after);
    CHECK_EQUAL(after.n, before.n);
    for (int32_t i = 0; i < after.n; i++) {
        bool moves = before.kernel[i].family == COST_MEMORY_BOUND ||
                     strcmp(before.kernel[i].name, "ring's copies and sums") == 0;
        CHECK_CLOSE(after.kernel[i].seconds, before.kernel[i].seconds * (moves ? 1 : 1.25), 1e-14);
    }
    double blocks = blocks_s(&setting, PASS_BACKWARD, &unit);
    struct cost_pass two = cost_of_pass(&setting, PASS_BACKWARD, &unit);
    setting.attention = DEVICE_FLASH1;
    /* and its gathers: 6(h + 2k) + 4h = 64 bytes of each of 4 tokens (8, CP 2), over TP 2, 2 s a byte, 3 layers */
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &unit).attention_s,
                two.attention_s + blocks + 3 * 2 * 64 * 4 / 2.0, 1e-14);
}

/* 16 GEMMs of one tile each fill 16 of 132 multiprocessors once, as one GEMM of 16 tiles does. */
TEST(batched_gemms_share_their_waves)
{
    struct device device = plain;
    device.multiprocessors = 132;
    device.gemm.wave = 1;
    device.gemm.small_tile = 10;
    CHECK_CLOSE(cost_kernel_gemm_s(&device, &(struct cost_gemm){16, 128, 256, 1000, 0}),
                cost_gemm_s(&device, 16 * 128, 256, 1000), 1e-14);
    CHECK_CLOSE(cost_kernel_gemm_s(&device, &(struct cost_gemm){133, 128, 256, 1000, 0}),
                2 * cost_gemm_s(&device, 128, 256, 1000), 1e-14);
}

/* Per token at h 4, k 2, f 8: two norms 2 x 32h = 256 more forward, 2 x 62h = 496 backward; rotations 16(h + k) = 96;
 * SwiGLU 4f = 32 and 8f = 64. 2 s a byte, over TP 2; 5 tokens of a rank; half a layer's norms before the head. Backward
 * sums of the inputs' gradients 18h = 72, whole on both TP ranks. GELU models: backward two norms' weights 2 x 4h,
 * whole without sequence parallelism, and queries, keys and values joined 4(h + 2k) = 32, over TP. */
TEST(eager_modules_move_more)
{
    struct scenario_plan plan = toy_plan;
    struct cost_setting setting = toy_setting_of(&plan);
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    const double norm_bytes[] = {256, 496}, layer_bytes[] = {256 + 96 + 32, 496 + 96 + 64 + 2 * 72};
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        setting.kernels = SCENARIO_FUSED;
        struct cost_pass fused = cost_of_pass(&setting, pass, &unit), head = cost_of_head(&setting, pass, &unit);
        setting.kernels = SCENARIO_EAGER;
        CHECK_CLOSE(cost_of_head(&setting, pass, &unit).other_s - head.other_s, 2 * norm_bytes[pass] / 2 * 5 / 2,
                    1e-12);
        CHECK_CLOSE(cost_of_pass(&setting, pass, &unit).other_s - fused.other_s, 3 * 2 * layer_bytes[pass] * 5 / 2,
                    1e-12);
    }
    plan.sequence_parallel = false; /* norms of all tokens on both TP ranks */
    double eager_s = cost_of_pass(&setting, PASS_FORWARD, &unit).other_s;
    setting.kernels = SCENARIO_FUSED;
    CHECK_CLOSE(eager_s - cost_of_pass(&setting, PASS_FORWARD, &unit).other_s, 3 * 2 * (2 * 256 + 96 + 32) * 5.0 / 2,
                1e-12);
    struct model gelu = hand_toy;
    gelu.activation = MODEL_GELU;
    setting.model = &gelu;
    struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &unit);
    struct cost_pass backward = cost_of_pass(&setting, PASS_BACKWARD, &unit);
    setting.kernels = SCENARIO_EAGER;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unit).other_s, forward.other_s, 1e-15);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &unit).other_s - backward.other_s, 3 * 2 * 5 * (32 + 32 / 2.0),
                1e-12);
}

/* SwiGLU as two operations: 4f = 32 bytes a token more forward and 8f = 64 backward, over TP 2, in three layers, as in
 * Llama's modules; silu(x) of 2f is kept, 8f in place of 6f with its input and the product. */
TEST(separate_swiglu__moves_and_keeps_more)
{
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    const double bytes[] = {32, 64};
    double passes_s[N_PASSES], kept = cost_activation_bytes(&setting, RECOMPUTE_NONE, false);
    double listed = cost_activation_bytes(&setting, RECOMPUTE_ACTIVATION, false);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        passes_s[pass] = cost_of_pass(&setting, pass, &unit).other_s;
    setting.swiglu = SCENARIO_SWIGLU_SEPARATE;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        CHECK_CLOSE(cost_of_pass(&setting, pass, &unit).other_s - passes_s[pass], 3 * 2 * bytes[pass] * 5 / 2, 1e-12);
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_NONE, false) - kept, 2 * 8 / 2.0, 1e-12);
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_ACTIVATION, false), listed, 1e-12);
}

/* Bytes a logit of 16, over TP 2; 2 s a byte, 5 tokens of 2 bytes a rank's half: passes 30 and 14; fused reads 2, and
 * reads 2 and writes 2; two metrics, each a copy 2 + 4 and logarithms 4 + 4, behind the backward. Fused keeps 2 bytes a
 * logit in place of 4, and eager's fp32 copy of 4 is not there. */
TEST(a_fused_loss_moves_and_keeps_less)
{
    struct cost_setting setting = toy_setting();
    struct cost_unit unit = toy_unit(RECOMPUTE_NONE);
    static const double bytes[][N_PASSES] = {{30, 14}, {2, 4}, {2, 4 + 2 * 14}};
    double passes_s[N_PASSES], kept = cost_head_bytes(&setting, 10), tokens = cost_unit_tokens(&unit);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        passes_s[pass] = cost_of_head(&setting, pass, &unit).other_s;
    for (int32_t loss = SCENARIO_LOSS_FUSED; loss <= SCENARIO_LOSS_FUSED_METRICS; loss++) {
        setting.loss = (enum scenario_loss)loss;
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
            CHECK_CLOSE(passes_s[pass] - cost_of_head(&setting, pass, &unit).other_s,
                        2 * tokens * 16 / 2 * (bytes[0][pass] - bytes[loss][pass]), 1e-12);
        CHECK_CLOSE(kept - cost_head_bytes(&setting, 10), 10 * 2 * 16 / 2.0, 1e-14);
        setting.kernels = SCENARIO_EAGER;
        CHECK_CLOSE(cost_head_workspace_bytes(&setting, 10), 10 * (2 * 16 / 2.0 + 2 * 4), 1e-14);
        setting.kernels = SCENARIO_FUSED;
    }
}

/* A split backward is the whole one: FLOPs, kernels, attention (which has no weights) and, where none hides, all
 * collectives. The four weights' GEMMs have half of the backward's GEMM FLOPs. The embedding's backward is not split:
 * all of it runs with the inputs' gradients. */
TEST(a_split_backward_adds_up)
{
    const struct slice slices[] = {{0, 0, 4096}, {1, 512, 3000}};
    for (int32_t tensor = 1; tensor <= 4; tensor *= 4)
        for (int recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute++) {
            struct cost_setting setting = *hand_setting();
            setting.tensor = tensor;
            setting.communication.tp_overlap = SCENARIO_EXPOSED;
            struct cost_unit unit = {slices, 2, 100, 1, (enum recompute)recompute, SLICE_PER_DOCUMENT};
            struct cost_pass whole = cost_of_pass(&setting, PASS_BACKWARD, &unit);
            struct cost_pass input = cost_of_pass(&setting, PASS_INPUT, &unit);
            struct cost_pass weight = cost_of_pass(&setting, PASS_WEIGHT, &unit);
            CHECK_CLOSE(input.flop + weight.flop, whole.flop, 1e-12);
            CHECK_CLOSE(input.other_s + weight.other_s, whole.other_s, 1e-12);
            CHECK_CLOSE(input.attention_s, whole.attention_s, 1e-15);
            CHECK_CLOSE(input.tensor_s + weight.tensor_s, whole.tensor_s, 1e-12);
            CHECK_CLOSE(input.tensor_bytes + weight.tensor_bytes, whole.tensor_bytes, 1e-12);
            CHECK_TRUE(weight.attention_s == 0 && weight.boundary_bytes == 0 && weight.ring_bytes == 0);
            CHECK_TRUE(input.boundary_bytes == whole.boundary_bytes);
            double tokens = cost_unit_tokens(&unit), parameters = (double)model_layer_parameters(setting.model);
            CHECK_CLOSE(weight.flop, 840 * 2 * parameters * tokens / tensor, 1e-12);
            struct cost_pass head = cost_of_head(&setting, PASS_BACKWARD, &unit);
            struct cost_pass head_input = cost_of_head(&setting, PASS_INPUT, &unit);
            struct cost_pass head_weight = cost_of_head(&setting, PASS_WEIGHT, &unit);
            CHECK_CLOSE(head_input.flop + head_weight.flop, head.flop, 1e-12);
            CHECK_CLOSE(head_input.other_s + head_weight.other_s, head.other_s, 1e-12);
            CHECK_CLOSE(head_input.tensor_s + head_weight.tensor_s, head.tensor_s, 1e-12);
            struct cost_pass embedding = cost_of_embedding(&setting, PASS_BACKWARD, &unit);
            struct cost_pass embedding_input = cost_of_embedding(&setting, PASS_INPUT, &unit);
            CHECK_TRUE(embedding_input.other_s == embedding.other_s && embedding_input.tensor_s == embedding.tensor_s);
            CHECK_TRUE(cost_of_embedding(&setting, PASS_WEIGHT, &unit).other_s == 0);
        }
}
