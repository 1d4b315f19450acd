/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count the seconds, FLOPs and bytes of a stage's passes by hand. */
#include "hand_cost.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

/* A rank has T = (4 + 4 + 2)/2 = 5 tokens. Each figure is for one of 3 layers.
 *
 *   GEMMs            2 x 144 x 5/2 = 720 FLOP, 1440 s
 *   attention        2h(20) + 2h(42 - 6) = 448 FLOP, over CP x TP 112, 448 s
 *   memory-bound     8h + 12h + 4h + 4k + 6f = 152 bytes, over TP times T 380, 760 s
 *   TP               4 collectives of 5 x 4 x 2/2 = 20 bytes, 1 step: 3 s each
 *   ring             (4 + 6 + 2)/2 x 4k/2 = 24 bytes, 1 step
 *   copies and sums  (6 + 8) q + (4 + 8) k = 80 bytes, times T/TP 200, 400 s
 *
 * The copies and sums are packed, of the rank whose other block has half of the keys. */
TEST(forward_pass__is_counted_by_hand)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    struct cost_pass cost = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    CHECK_CLOSE(cost.flop, 3 * (720.0 + 112), 1e-14);
    CHECK_CLOSE(cost.product_s, 3 * 1440.0, 1e-14);
    CHECK_CLOSE(cost.kernels_s, 3 * (1440.0 + 760), 1e-14);
    CHECK_CLOSE(cost.attention_s, 3 * (448.0 + 400), 1e-14);
    CHECK_CLOSE(cost.tensor_s, 3 * 4 * 3.0, 1e-14);
    CHECK_CLOSE(cost.tensor_bytes, 3 * 4 * 20.0, 1e-14);
    CHECK_CLOSE(cost.ring_bytes, 3 * 24.0, 1e-14);
    CHECK_EQUAL(cost.ring_steps, 3);
    CHECK_CLOSE(cost.boundary_bytes, 20.0, 1e-14);
}

/* Heads are 4 wide instead of h/n = 2, so q = 8 and k = 4. P = 4 (8 + 2 x 4) + 8 x 4 + 3 x 4 x 8 = 192. GEMMs take 2 x
 * 192 x 5/2 = 960 FLOP, and attention twice as much. 8h + 12h + 4q + 4k + 6f = 176 bytes move forward, and 24h + 4q +
 * 4k + 10f = 224 backward, times T/TP 440 and 560. TP's tensors are as before, and the ring sends twice as much. A
 * token leaves (8h + 4q + 4k + 6f + 4n)/2 = 68 bytes. It waits with (4h + 2q + 2f)/2 + (2(q + 2k) + 4f)/2 + 4h = 72 for
 * its weights' gradients. */
TEST(heads__may_have_a_width_of_their_own)
{
    struct model model = hand_toy;
    model.kinds[0].head_width = 4;
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    setting.model = &model;
    struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    struct cost_pass backward = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch);
    CHECK_CLOSE(forward.flop, 3 * (960.0 + 224), 1e-14);
    CHECK_CLOSE(backward.flop, 3 * (1920.0 + 560), 1e-14);
    CHECK_CLOSE(forward.kernels_s - forward.product_s, 3 * 880.0, 1e-13);
    CHECK_CLOSE(backward.kernels_s - backward.product_s, 3 * 1120.0, 1e-13);
    CHECK_CLOSE(forward.tensor_bytes, 3 * 4 * 20.0, 1e-14);
    CHECK_CLOSE(forward.ring_bytes, 3 * 48.0, 1e-14);
    CHECK_CLOSE(hand_layer_bytes(&setting, RECOMPUTE_NONE, false), 68.0, 1e-14);
    CHECK_CLOSE(cost_weight_bytes(&setting), 3 * 72.0, 1e-14);
    CHECK_CLOSE(hand_stage_parameters(&model, 1, 3, false, false), 3 * (192.0 + 2 * 4), 1e-14);
    model.kinds[0].head_width = 2;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).kernels_s, 3 * (1440.0 + 760), 1e-14);
}

/* GEMMs and ring take twice as much. Attention takes 2.5 x 112 FLOP at 2 s. 12h + 12h + 4h + 4k + 10f = 200 bytes take
 * 1000 s. There are 6 collectives. The ring's copies and sums are those of the rank whose other block has half of the
 * queries: (9 + 4) q + (12 + 14) k = 104. */
TEST(backward_pass__is_counted_by_hand)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    struct cost_pass cost = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch);
    CHECK_CLOSE(cost.flop, 3 * (1440.0 + 280), 1e-14);
    CHECK_CLOSE(cost.product_s, 3 * 2880.0, 1e-14);
    CHECK_CLOSE(cost.kernels_s, 3 * (2880.0 + 1000), 1e-14);
    CHECK_CLOSE(cost.attention_s, 3 * (560.0 + 520), 1e-14);
    CHECK_CLOSE(cost.tensor_s, 3 * 6 * 3.0, 1e-14);
    CHECK_CLOSE(cost.tensor_bytes, 3 * 6 * 20.0, 1e-14);
    CHECK_CLOSE(cost.ring_bytes, 3 * 48.0, 1e-14);
    CHECK_EQUAL(cost.ring_steps, 3);
    CHECK_CLOSE(cost.boundary_bytes, 20.0, 1e-14);
}

TEST(recompute_full__adds_the_forward_pass)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch none = hand_toy_micro_batch(RECOMPUTE_NONE), full = hand_toy_micro_batch(RECOMPUTE_FULL);
    struct cost_pass f = cost_of_pass(&setting, PASS_FORWARD, &none), b = cost_of_pass(&setting, PASS_BACKWARD, &none);
    struct cost_pass sum = cost_of_pass(&setting, PASS_BACKWARD, &full);
    CHECK_CLOSE(sum.flop, f.flop + b.flop, 1e-14);
    CHECK_CLOSE(sum.kernels_s, f.kernels_s + b.kernels_s, 1e-14);
    CHECK_CLOSE(sum.attention_s, f.attention_s + b.attention_s, 1e-14);
    CHECK_CLOSE(sum.tensor_s, f.tensor_s + b.tensor_s, 1e-14);
    CHECK_CLOSE(sum.tensor_bytes, f.tensor_bytes + b.tensor_bytes, 1e-14);
    CHECK_CLOSE(sum.ring_bytes, f.ring_bytes + b.ring_bytes, 1e-14);
    CHECK_EQUAL(sum.ring_steps, f.ring_steps + b.ring_steps);
    CHECK_CLOSE(sum.boundary_bytes, b.boundary_bytes, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &full).kernels_s, f.kernels_s, 1e-14);
}

/* Two norms and SwiGLU run again: (8h + 6f)/2 x 5 = 200 bytes a layer at 2 s. */
TEST(recompute_selective__adds_norms_and_activation)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch none = hand_toy_micro_batch(RECOMPUTE_NONE),
                            selective = hand_toy_micro_batch(RECOMPUTE_SELECTIVE);
    struct cost_pass b = cost_of_pass(&setting, PASS_BACKWARD, &none);
    struct cost_pass more = cost_of_pass(&setting, PASS_BACKWARD, &selective);
    CHECK_CLOSE(more.kernels_s - b.kernels_s, 3 * 400.0, 1e-12);
    CHECK_CLOSE(more.flop, b.flop, 1e-14);
    CHECK_CLOSE(more.tensor_s, b.tensor_s, 1e-14);
}

/* Two norms have 4h/2 bytes, SwiGLU 6f/2. Attention has 112 FLOP a layer at 4 s with its ring, which moves 400 s. Each
 * runs by itself, and all run as their sum. */
TEST(recompute_list__repeats_what_it_names)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    struct cost_pass f = cost_of_pass(&setting, PASS_FORWARD, &micro_batch),
                     b = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch);
    for (int list = RECOMPUTE_NONE; list < RECOMPUTE_ALTERNATE_GEMMS; list++) {
        micro_batch.recompute = (enum recompute)list;
        struct cost_pass more = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch);
        bool core = list & RECOMPUTE_ATTENTION_CORE;
        double norms_s = list & RECOMPUTE_NORM ? 2 * 8 * 5 * 2 : 0;
        double activation_s = list & RECOMPUTE_ACTIVATION ? 24 * 5 * 2 : 0;
        CHECK_CLOSE(more.kernels_s - b.kernels_s, 3 * (norms_s + activation_s), 1e-12);
        CHECK_CLOSE(more.attention_s - b.attention_s, core ? 3 * (448.0 + 400) : 0, 1e-12);
        CHECK_CLOSE(more.flop - b.flop, core ? 3 * 112.0 : 0, 1e-12);
        CHECK_CLOSE(more.ring_bytes - b.ring_bytes, core ? f.ring_bytes : 0, 1e-12);
        CHECK_CLOSE(more.tensor_s, b.tensor_s, 1e-14);
    }
}

/* Without sequence parallelism norms and adds are whole on both ranks. They move (8h + 12h)/2 more bytes a token and
 * layer at 2 s, backward 12h + 12h. Two all-reduces of 5 x 4 x 2 bytes run a layer and pass. A rank sends 2 x 20 of
 * them, 1 + 4 s each, all exposed. The head's backward has one. */
TEST(sequence_parallel__splits_norms_and_adds)
{
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    struct device device = hand_device;
    device.collective[DEVICE_ALL_REDUCE] = (struct device_collective){.latency_s = 1, .efficiency = 1};
    setting.device = &device;
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        setting.sequence_parallel = true;
        struct cost_pass shared = cost_of_pass(&setting, pass, &micro_batch);
        setting.sequence_parallel = false;
        struct cost_pass whole = cost_of_pass(&setting, pass, &micro_batch),
                         head = cost_of_head(&setting, pass, &micro_batch);
        CHECK_CLOSE(whole.kernels_s - shared.kernels_s, 3 * 5 * 2 * (pass == PASS_FORWARD ? 40.0 : 48.0), 1e-12);
        CHECK_CLOSE(whole.tensor_bytes, 3 * 2 * 40.0, 1e-14);
        CHECK_CLOSE(whole.tensor_s, 3 * 2 * 5.0, 1e-14);
        CHECK_CLOSE(head.tensor_s, pass == PASS_FORWARD ? 0 : 5.0, 1e-14);
        CHECK_CLOSE(whole.attention_s, shared.attention_s, 1e-15);
        CHECK_CLOSE(shared.boundary_bytes, 20.0, 1e-15);
        CHECK_CLOSE(whole.boundary_bytes, 40.0, 1e-15); /* each TP rank sends the 5 x 4 tensor in bf16 */
    }
}

/* A token has a norm of 4h/2, a loss of 30 x 16/2 bytes and a GEMM of 2 x 4 x 16/2 FLOP, T = 5. Backward it has 6h/2,
 * 14 x 16/2 and twice the FLOP. */
TEST(head__is_counted_by_hand)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_FULL);
    struct cost_pass forward = cost_of_head(&setting, PASS_FORWARD, &micro_batch);
    CHECK_CLOSE(forward.flop, 5 * 64.0, 1e-14);
    CHECK_CLOSE(forward.product_s, 5 * 2 * 64.0, 1e-14);
    CHECK_CLOSE(forward.kernels_s, 5 * 2 * (8.0 + 240 + 64), 1e-14);
    CHECK_CLOSE(forward.tensor_s, 3.0, 1e-14);
    struct cost_pass backward = cost_of_head(&setting, PASS_BACKWARD, &micro_batch);
    CHECK_CLOSE(backward.flop, 5 * 128.0, 1e-14);
    CHECK_CLOSE(backward.kernels_s, 5 * 2 * (12.0 + 112 + 128), 1e-14);
    CHECK_CLOSE(backward.tensor_s, 2 * 3.0, 1e-14);
}

/* T is 5, h 4, TP 2, V 16, with 2 s a byte. Rows move 4h, and half of them are set to zero, 2h/2. Backward moves 2h +
 * 2h/2, and 12 bytes for each of 8 x 4 parameters. A reduce-scatter, backward an all-gather, of 5 x 4 x 2/2 = 20 bytes
 * takes 3 s. */
TEST(embedding__is_counted_by_hand)
{
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_FULL);
    struct cost_pass forward = cost_of_embedding(&setting, PASS_FORWARD, &micro_batch);
    CHECK_CLOSE(forward.kernels_s, 5 * 2 * (16.0 + 4), 1e-14);
    CHECK_CLOSE(forward.tensor_s, 3.0, 1e-14);
    CHECK_CLOSE(forward.tensor_bytes, 20.0, 1e-14);
    CHECK_TRUE(forward.flop == 0 && forward.attention_s == 0 && forward.shard_s == 0);
    struct cost_pass backward = cost_of_embedding(&setting, PASS_BACKWARD, &micro_batch);
    CHECK_CLOSE(backward.kernels_s, 2 * (5 * (8 + 4.0) + 12 * 32), 1e-14);
    CHECK_CLOSE(backward.tensor_s, 3.0, 1e-14);
    setting.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_BACKWARD, &micro_batch).kernels_s, 2 * (5 * (8 + 4.0) + 8 * 32),
                1e-14);
    setting.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_BACKWARD, &micro_batch).kernels_s, 2 * (5 * (8 + 4.0) + 2 * 32),
                1e-14);
    struct cost_micro_batch empty = {.context = 1};
    CHECK_TRUE(cost_of_embedding(&setting, PASS_BACKWARD, &empty).kernels_s == 0);
}

/* Without sequence parallelism an all-reduce runs forward, of which a rank sends 2 x 20 bytes: 1 + 4 s. Nothing runs
 * backward. 7 learned positions are added to the whole tensor, so they need the all-reduce, too. A token moves 4h + 6h
 * and backward 4h bytes. Each of 7 x 4 parameters moves 12 bytes on every rank. Dropout moves 5h, with sequence
 * parallelism half of it. */
TEST(embedding__takes_learned_positions_and_dropout)
{
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    struct device device = hand_device;
    device.collective[DEVICE_ALL_REDUCE] = (struct device_collective){.latency_s = 1, .efficiency = 1};
    struct model model = hand_toy;
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    setting.device = &device;
    setting.model = &model;
    struct cost_pass f = cost_of_embedding(&setting, PASS_FORWARD, &micro_batch);
    struct cost_pass b = cost_of_embedding(&setting, PASS_BACKWARD, &micro_batch);
    struct cost_pass layers = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    model.positions = 7;
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_FORWARD, &micro_batch).kernels_s - f.kernels_s, 2 * 5 * 40.0, 1e-12);
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_BACKWARD, &micro_batch).kernels_s - b.kernels_s,
                2 * (5 * 16 + 12 * 28.0), 1e-12);
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_FORWARD, &micro_batch).tensor_s, 5.0, 1e-14);
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_BACKWARD, &micro_batch).tensor_s, 3.0, 1e-14);
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_INPUT, &micro_batch).tensor_s, 3.0, 1e-14);
    /* there is no rotation then: 4h + 4k = 24 bytes a token, over TP */
    CHECK_CLOSE(layers.kernels_s - cost_of_pass(&setting, PASS_FORWARD, &micro_batch).kernels_s, 3 * 2 * 5 * 12.0,
                1e-12);
    model.positions = 0;
    setting.sequence_parallel = false;
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_FORWARD, &micro_batch).tensor_s, 5.0, 1e-14);
    CHECK_TRUE(cost_of_embedding(&setting, PASS_BACKWARD, &micro_batch).tensor_s == 0);
    CHECK_TRUE(cost_of_embedding(&setting, PASS_INPUT, &micro_batch).tensor_s == 0);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        double before_s = pass == PASS_FORWARD ? f.kernels_s : b.kernels_s;
        model.dropout = true;
        CHECK_CLOSE(cost_of_embedding(&setting, pass, &micro_batch).kernels_s - before_s, 2 * 5 * 20.0, 1e-12);
        setting.sequence_parallel = true;
        CHECK_CLOSE(cost_of_embedding(&setting, pass, &micro_batch).kernels_s - before_s, 2 * 5 * 10.0, 1e-12);
        setting.sequence_parallel = false;
    }
}

TEST(empty_micro_batch__costs_nothing)
{
    struct device device = hand_device;
    device.launch_s = device.gemm[PRECISION_BF16].launch_s = 1;
    device.forward[DEVICE_FLASH2].q_half = 1;
    struct cost_setting setting = hand_toy_setting();
    setting.device = &device;
    struct slice empty = {.sample = 0, .begin = 0, .end = 0};
    struct cost_micro_batch micro_batch = {.slices = &empty, .n_slices = 1, .context = 2};
    struct cost_pass cost = cost_of_pass(&setting, PASS_FORWARD, &micro_batch),
                     head = cost_of_head(&setting, PASS_FORWARD, &micro_batch);
    CHECK_TRUE(cost.flop == 0 && cost.kernels_s == 0 && cost.attention_s == 0 && cost.tensor_s == 0);
    CHECK_TRUE(cost.ring_bytes == 0 && cost.ring_steps == 0 && head.kernels_s == 0);
}

/* A virtual stage may have the embedding alone (count_embedding). */
TEST(empty_stage__costs_nothing)
{
    struct cost_setting setting = hand_toy_setting();
    struct slice slice = {.sample = 0, .begin = 0, .end = 8};
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1, .recompute = RECOMPUTE_FULL};
    hand_layers(&setting, 0);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(&setting, pass, &micro_batch);
        CHECK_TRUE(cost.flop == 0 && cost_pass_s(&cost) == 0 && cost.boundary_bytes > 0);
    }
}

/* Without limits nothing lies outside. With keys up to 2 the slice of 4/2 keys does not, but that of 8/2 does. */
TEST(extrapolated_s__holds_what_was_not_measured)
{
    struct device device = hand_device;
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    setting.device = &device;
    struct cost_pass cost = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    for (int i = 0; i < COST_N_FAMILIES; i++)
        CHECK_TRUE(cost.extrapolated_s[i] == 0);
    device.forward[DEVICE_FLASH2].keys = (struct device_range){1, 2};
    device.gemm[PRECISION_BF16].m = (struct device_range){1, 4}; /* T = 5 */
    device.memory_range = (struct device_range){0, 1e9};
    device.collective[DEVICE_REDUCE_SCATTER].bytes = (struct device_range){30, 40}; /* 20 are sent */
    cost = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    CHECK_CLOSE(cost.extrapolated_s[COST_ATTENTION], 3 * 72 * 4.0, 1e-14);
    CHECK_CLOSE(cost.extrapolated_s[COST_GEMM], 3 * 1440.0, 1e-14);
    CHECK_TRUE(cost.extrapolated_s[COST_MEMORY_BOUND] == 0);
    CHECK_CLOSE(cost.extrapolated_s[COST_COLLECTIVE], 3 * 2 * 3.0, 1e-14);
}

/* Half-lengths are > 0. Longer micro-batches, more layers and less TP cost more, in every pass. */
TEST(cost_of_pass__grows_with_tokens_and_shrinks_with_tensor_ranks)
{
    struct device device = hand_device;
    device.peak_flop_per_s[PRECISION_BF16] = 1e15;
    device.hbm_bytes_per_s = 3e12;
    device.launch_s = 4e-6;
    device.multiprocessors = 132;
    device.gemm[PRECISION_BF16] =
        (struct device_gemm){.efficiency = 0.8, .small_tile = 0.1, .wave = 0.3, .launch_s = 7e-6};
    device.forward[0] = (struct device_flash){0.45, 64, 490, 26, .tail = 0.9};
    device.backward[0] = (struct device_flash){0.42, 725, 64, 30, .tail = 0.3};
    struct cost_setting setting = hand_with(
        (struct cost_setting){
            .model = &hand_llama_13b, .device = &device, .platform = &hand_links, .tensor = 1, HAND_LAYERS(10)},
        &hand_toy_plan);
    for (int32_t tensor = 1; tensor <= 8; tensor *= 2)
        for (int32_t end = 1; end < 1 << 18; end = 3 * end + 1)
            for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
                struct slice slice = {.end = end}, longer = {.end = end + 1};
                struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1},
                                        more = micro_batch;
                more.slices = &longer;
                setting.tensor = tensor;
                struct cost_pass a = cost_of_pass(&setting, pass, &micro_batch),
                                 b = cost_of_pass(&setting, pass, &more);
                setting.tensor = 2 * tensor;
                struct cost_pass c = cost_of_pass(&setting, pass, &micro_batch);
                bool grows = b.kernels_s > a.kernels_s && b.attention_s >= a.attention_s && b.tensor_s >= a.tensor_s;
                if (!harness_true(grows && c.kernels_s < a.kernels_s && c.attention_s <= a.attention_s,
                                  "cost is monotonic", __FILE__, __LINE__))
                    printf("case: tensor %d end %d pass %d\n", (int)tensor, (int)end, (int)pass);
            }
}

/* Two layers of three recompute, which takes two thirds of the forward's kernels and collectives. The third keeps
 * all. */
TEST(recompute_layers__limits_what_is_recomputed)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch none = hand_toy_micro_batch(RECOMPUTE_NONE), full = hand_toy_micro_batch(RECOMPUTE_FULL);
    struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &none);
    struct cost_pass backward = cost_of_pass(&setting, PASS_BACKWARD, &none);
    hand_recompute_layers(&setting, 2);
    struct cost_pass both = cost_of_pass(&setting, PASS_BACKWARD, &full);
    CHECK_CLOSE(both.flop, backward.flop + forward.flop * 2 / 3, 1e-14);
    CHECK_CLOSE(both.kernels_s, backward.kernels_s + forward.kernels_s * 2 / 3, 1e-14);
    CHECK_CLOSE(both.attention_s, backward.attention_s + forward.attention_s * 2 / 3, 1e-14);
    CHECK_CLOSE(both.tensor_s, backward.tensor_s + forward.tensor_s * 2 / 3, 1e-14);
    CHECK_EQUAL(both.ring_steps, backward.ring_steps + 2);
    double kept = hand_layer_bytes(&setting, RECOMPUTE_NONE, true);
    double input = hand_layer_bytes(&setting, RECOMPUTE_FULL, true);
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_FULL, true), 2 * input + kept, 1e-14);
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_NONE, true), 3 * kept, 1e-14);
    hand_recompute_layers(&setting, 0);
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_FULL, true), 3 * input, 1e-14);
}

/* Each of 3 layers (forward_pass__is_counted_by_hand) leaves out the down GEMM of 2 x 5 x 4 x 8/2 = 160 FLOP, 320 s. It
 * leaves out the residual add of 6h/2 x 5 = 60 bytes, 120 s, and the reduce-scatter between them. With dropout, whose
 * mask the backward needs, it leaves out the residual add alone. */
TEST(early_stop__leaves_out_the_last_gemm)
{
    struct cost_setting setting = hand_toy_setting(), dropped = hand_toy_setting();
    struct model dropping = *setting.model;
    struct cost_micro_batch full = hand_toy_micro_batch(RECOMPUTE_FULL),
                            listed = hand_toy_micro_batch(RECOMPUTE_SELECTIVE);
    struct cost_pass all = cost_of_pass(&setting, PASS_BACKWARD, &full);
    struct cost_pass selective = cost_of_pass(&setting, PASS_BACKWARD, &listed);
    setting.early_stop = true;
    struct cost_pass stopped = cost_of_pass(&setting, PASS_BACKWARD, &full);
    CHECK_CLOSE(stopped.flop, all.flop - 3 * 160, 1e-14);
    CHECK_CLOSE(stopped.kernels_s, all.kernels_s - 3 * (320 + 120), 1e-14);
    CHECK_CLOSE(stopped.attention_s, all.attention_s, 1e-14);
    CHECK_CLOSE(stopped.tensor_s, all.tensor_s - 3 * 3, 1e-14);
    CHECK_CLOSE(stopped.tensor_bytes, all.tensor_bytes - 3 * 20, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &listed).kernels_s, selective.kernels_s, 1e-14);
    hand_recompute_layers(&setting, 2);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &full).flop, all.flop - 832 - 2 * 160, 1e-14);
    setting.sequence_parallel = false; /* an all-reduce of twice the bytes */
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &full).tensor_bytes, 40 * (3 * 2 + 2 * 1), 1e-14);
    dropping.dropout = true;
    dropped.model = &dropping;
    struct cost_pass whole = cost_of_pass(&dropped, PASS_BACKWARD, &full);
    dropped.early_stop = true;
    stopped = cost_of_pass(&dropped, PASS_BACKWARD, &full);
    CHECK_CLOSE(stopped.flop, whole.flop, 1e-14);
    CHECK_CLOSE(stopped.kernels_s, whole.kernels_s - 3 * 120, 1e-14);
    CHECK_CLOSE(stopped.tensor_s, whole.tensor_s, 1e-14);
}

/* h is 4, k 2, f 8, TP 2, with 5 tokens, 2 s a FLOP and a byte, and 3 layers. The figures are a token's, beside
 * [selective]. Keys take 2 x 5 x 1 x 4 and up 2 x 5 x 4 x 4 = 200 FLOP. But keys take the copying of 5 x 1 + 5 x 4 + 4
 * x 1 numbers, 58 bytes, for 40 FLOP. Rotations move 4h + 4k and the residual add 6h, over TP 24 bytes. Eager repeats
 * the projection, 2 x 5 x 4 x 2 = 80 FLOP. It rotates by single operations, 16 (h + k)/2 = 48 bytes more. TP 1 takes 2
 * T h (k + h + f) = 560 FLOP and 48 bytes. Eager norms and SwiGLU on the list move 2 x 32h + 4f = 288 bytes more, over
 * TP. */
TEST(alternate_gemms__are_computed_again)
{
    const enum recompute list = (enum recompute)(RECOMPUTE_SELECTIVE | RECOMPUTE_ALTERNATE_GEMMS);
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch none = hand_toy_micro_batch(RECOMPUTE_NONE),
                            selective = hand_toy_micro_batch(RECOMPUTE_SELECTIVE), more = hand_toy_micro_batch(list);
    struct cost_pass a = cost_of_pass(&setting, PASS_BACKWARD, &selective);
    struct cost_pass b = cost_of_pass(&setting, PASS_BACKWARD, &more);
    CHECK_CLOSE(b.flop - a.flop, 3 * 200.0, 1e-12);
    CHECK_CLOSE(b.kernels_s - a.kernels_s, 3 * 2 * (160 + 58 + 5 * 24.0), 1e-12);
    CHECK_CLOSE(b.tensor_s, a.tensor_s, 1e-14);
    CHECK_CLOSE(b.attention_s, a.attention_s, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &more).flop, cost_of_pass(&setting, PASS_FORWARD, &none).flop, 0);
    double fused_s = a.kernels_s - cost_of_pass(&setting, PASS_BACKWARD, &none).kernels_s;
    setting.kernels = SCENARIO_EAGER;
    a = cost_of_pass(&setting, PASS_BACKWARD, &selective);
    b = cost_of_pass(&setting, PASS_BACKWARD, &more);
    CHECK_CLOSE(b.flop - a.flop, 3 * 280.0, 1e-12);
    CHECK_CLOSE(b.kernels_s - a.kernels_s, 3 * 2 * (240 + 58 + 5 * (24 + 48.0)), 1e-12);
    double eager_s = a.kernels_s - cost_of_pass(&setting, PASS_BACKWARD, &none).kernels_s;
    CHECK_CLOSE(eager_s - fused_s, 3 * 2 * 5 * 288 / 2.0, 1e-12);
    setting.kernels = SCENARIO_FUSED;
    setting.tensor = 1;
    a = cost_of_pass(&setting, PASS_BACKWARD, &selective);
    b = cost_of_pass(&setting, PASS_BACKWARD, &more);
    CHECK_CLOSE(b.flop - a.flop, 3 * 560.0, 1e-12);
    CHECK_CLOSE(b.kernels_s - a.kernels_s, 3 * 2 * (560 + 5 * 48.0), 1e-12);
}

/* The core runs again, exactly its forward, and nothing else, whatever kernel runs it. */
TEST(recompute_core__repeats_the_forward_attention)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE),
                            core = hand_toy_micro_batch(RECOMPUTE_ATTENTION_CORE);
    for (int unfused = 0; unfused < 2; unfused++) {
        setting.attention = unfused ? DEVICE_UNFUSED : DEVICE_FLASH2;
        struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
        struct cost_pass once = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch);
        struct cost_pass again = cost_of_pass(&setting, PASS_BACKWARD, &core);
        CHECK_CLOSE(again.attention_s - once.attention_s, forward.attention_s, 1e-12);
        CHECK_CLOSE(again.kernels_s, once.kernels_s, 1e-14);
    }
}

/* A split backward is the whole one. This holds for FLOPs, kernels, attention (which has no weights) and, if none
 * hides, all collectives. The four weights' GEMMs have half of the backward's GEMM FLOPs. The embedding's backward is
 * not split: all of it runs with the inputs' gradients. */
TEST(split_backward__adds_up_to_the_whole)
{
    const struct slice slices[] = {{0, 0, 4096}, {1, 512, 3000}};
    for (int32_t tensor = 1; tensor <= 4; tensor *= 4)
        for (int recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute++) {
            struct cost_setting setting = *hand_setting();
            setting.tensor = tensor;
            setting.tp_overlap = SCENARIO_EXPOSED;
            struct cost_micro_batch micro_batch = {slices, 2,    100, 1, (enum recompute)recompute, SLICE_PER_DOCUMENT,
                                                   1,      false};
            struct cost_pass whole = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch);
            struct cost_pass input = cost_of_pass(&setting, PASS_INPUT, &micro_batch);
            struct cost_pass weight = cost_of_pass(&setting, PASS_WEIGHT, &micro_batch);
            CHECK_CLOSE(input.flop + weight.flop, whole.flop, 1e-12);
            CHECK_CLOSE(input.kernels_s + weight.kernels_s, whole.kernels_s, 1e-12);
            CHECK_CLOSE(input.attention_s, whole.attention_s, 1e-15);
            CHECK_CLOSE(input.tensor_s + weight.tensor_s, whole.tensor_s, 1e-12);
            CHECK_CLOSE(input.tensor_bytes + weight.tensor_bytes, whole.tensor_bytes, 1e-12);
            CHECK_TRUE(weight.attention_s == 0 && weight.boundary_bytes == 0 && weight.ring_bytes == 0);
            CHECK_TRUE(input.boundary_bytes == whole.boundary_bytes);
            double tokens = cost_micro_batch_tokens(&micro_batch),
                   parameters = (double)layer_matrix_parameters(setting.model, 0);
            CHECK_CLOSE(weight.flop, 840 * 2 * parameters * tokens / tensor, 1e-12);
            struct cost_pass head = cost_of_head(&setting, PASS_BACKWARD, &micro_batch);
            struct cost_pass head_input = cost_of_head(&setting, PASS_INPUT, &micro_batch);
            struct cost_pass head_weight = cost_of_head(&setting, PASS_WEIGHT, &micro_batch);
            CHECK_CLOSE(head_input.flop + head_weight.flop, head.flop, 1e-12);
            CHECK_CLOSE(head_input.kernels_s + head_weight.kernels_s, head.kernels_s, 1e-12);
            CHECK_CLOSE(head_input.tensor_s + head_weight.tensor_s, head.tensor_s, 1e-12);
            struct cost_pass embedding = cost_of_embedding(&setting, PASS_BACKWARD, &micro_batch);
            struct cost_pass embedding_input = cost_of_embedding(&setting, PASS_INPUT, &micro_batch);
            CHECK_TRUE(embedding_input.kernels_s == embedding.kernels_s &&
                       embedding_input.tensor_s == embedding.tensor_s);
            CHECK_TRUE(cost_of_embedding(&setting, PASS_WEIGHT, &micro_batch).kernels_s == 0);
        }
}

/* A TP rank has 80 parameters a layer, 32 of the embedding, 36 of last norm and head. Memory takes 2 s a byte. Autograd
 * moves 6 bytes of each in a backward behind the first, BF16_Optimizer 26 in all. The embedding's gradient is zeroed, 2
 * bytes, and added, 6 as with fused sums. */
TEST(gradient_accumulation__is_a_kernel_of_the_backward)
{
    static const enum pass passes[] = {PASS_FORWARD, PASS_INPUT, PASS_WEIGHT, PASS_BACKWARD};
    struct cost_setting setting = hand_toy_setting(), fused;
    struct cost_micro_batch later = hand_toy_micro_batch(RECOMPUTE_FULL), first = later, empty = {.context = 2};
    first.first = true;
    setting.gradients = SCENARIO_BF16;
    fused = setting;
    setting.gradient_accumulation = SCENARIO_ACCUMULATE_AUTOGRAD;
    for (int i = 0; i < 4; i++) {
        double bytes = i < 2 ? 0 : 6;
        CHECK_CLOSE(cost_of_pass(&setting, passes[i], &later).kernels_s -
                        cost_of_pass(&setting, passes[i], &first).kernels_s,
                    3 * 80 * bytes * 2, 1e-12);
        CHECK_CLOSE(cost_of_head(&setting, passes[i], &later).kernels_s -
                        cost_of_head(&setting, passes[i], &first).kernels_s,
                    36 * bytes * 2, 1e-12);
        CHECK_CLOSE(cost_of_embedding(&setting, passes[i], &later).kernels_s -
                        cost_of_embedding(&setting, passes[i], &first).kernels_s,
                    32 * bytes * 2, 1e-12);
        CHECK_TRUE(cost_of_pass(&setting, passes[i], &empty).kernels_s == 0);
    }
    CHECK_CLOSE(cost_of_embedding(&setting, PASS_BACKWARD, &later).kernels_s,
                cost_of_embedding(&fused, PASS_BACKWARD, &later).kernels_s, 1e-14);
    double anew_s = cost_of_pass(&setting, PASS_WEIGHT, &first).kernels_s;
    setting.gradient_accumulation = SCENARIO_ACCUMULATE_FP32_COPY;
    setting.gradients = SCENARIO_FP32;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_WEIGHT, &first).kernels_s - anew_s, 3 * 80 * 26 * 2.0, 1e-12);
    struct cost_kernels kernels;
    cost_layer_kernels(&setting, 0, PASS_BACKWARD, &later, &kernels);
    CHECK_TEXT(kernels.kernel[kernels.n - 1].name, "sum of gradients");
    CHECK_TRUE(kernels.kernel[kernels.n - 1].bytes == 80 * 26);
}

/* Two nano-batches of 300 tokens take twice as long as one in linear layers, and launch twice as many kernels. Their
 * attention is one kernel, and boundaries carry all tokens. */
TEST(cost_of_pass__runs_nano_batches_one_after_the_other)
{
    struct cost_setting setting = *hand_setting();
    setting.host.layer_kernel.host_s = 1e-6;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (int recompute = 0; recompute < 2; recompute++) {
            struct cost_micro_batch half = {.padding_tokens = 300, .context = 1}, both = half;
            half.recompute = both.recompute = recompute ? RECOMPUTE_FULL : RECOMPUTE_NONE;
            both.padding_tokens = 600;
            both.parts = 2;
            struct cost_pass one = cost_of_pass(&setting, pass, &half), two = cost_of_pass(&setting, pass, &both);
            CHECK_CLOSE(two.kernels_s, 2 * one.kernels_s, 1e-12);
            CHECK_CLOSE(two.product_s, 2 * one.product_s, 1e-12);
            CHECK_CLOSE(two.boundary_bytes, 2 * one.boundary_bytes, 1e-12);
            both.parts = 1;
            CHECK_TRUE(cost_of_pass(&setting, pass, &both).host_s < two.host_s);
        }
}
