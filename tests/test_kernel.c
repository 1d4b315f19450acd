/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check how long kernels take and which kernels a layer launches. */
#include "cost/kernel.h"
#include "hand_cost.h"
#include "hand_model.h"
#include "harness.h"

#include <math.h>
#include <string.h>

/* A layer's forward has 4 GEMMs, 7 memory-bound kernels, 2 blocks of attention and 3 + 3 copies and sums. The second
 * block starts beside the first. The backward has 8 and 7, 2 blocks one after the other, and 6 + 4. Each starts in 1 s,
 * blocks in 2. */
TEST(kernels__are_launched_once_each)
{
    struct device device = hand_device;
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    struct cost_pass backward = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch);
    device.launch_s = device.gemm[PRECISION_BF16].launch_s = 1;
    device.forward[DEVICE_FLASH2].launch_s = device.backward[DEVICE_FLASH2].launch_s = 2;
    setting.device = &device;
    struct cost_pass slower = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    CHECK_CLOSE(slower.kernels_s - forward.kernels_s, 3 * 11.0, 1e-12);
    CHECK_CLOSE(slower.attention_s - forward.attention_s, 3 * (2 + 6.0), 1e-12);
    slower = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch);
    CHECK_CLOSE(slower.kernels_s - backward.kernels_s, 3 * 15.0, 1e-12);
    CHECK_CLOSE(slower.attention_s - backward.attention_s, 3 * (2 * 2 + 10.0), 1e-12);
}

/* 10 FLOP at 0.5 FLOP/s take 20 s, times (1 + 3/6)(1 + 5/20) at the curve's head width of 128. One second is added to
 * start. */
TEST(cost_attention_s__follows_the_curve_of_the_device)
{
    struct device device = hand_device;
    device.launch_s = 1;
    device.backward[DEVICE_CUDNN] =
        (struct device_flash){.efficiency = 0.5, .q_half = 3, .k_half = 5, .d_half = 8, .launch_s = 1};
    struct cost_attention work = {.flop = 10, .queries = 6, .keys = 20, .head_dim = 128};
    CHECK_CLOSE(cost_attention_s(&device, DEVICE_CUDNN, PASS_BACKWARD, &work), 20 * 1.5 * 1.25 + 1, 1e-14);
    CHECK_CLOSE(cost_memory_bound_s(&device, DEVICE_NORM, 10), 21.0, 1e-14);
}

/* 4 multiprocessors have K = 1, 1 s to start, and half of the last wave's gap idle. 1024 x 1024 has 32 tiles of 128 x
 * 256, 8 full waves. 1024 x 1280 has 40, which are 10 waves. In 128 x 256 one tile is a quarter of a wave and costs
 * (1/4 + 1)/2 of one. Two square tiles, a tenth slower each, cost (1/2 + 1)/2 of half one times 1.1, which is less. 129
 * x 256 has 2 wide tiles or, cheaper, 1 tall one. */
TEST(cost_kernel_gemm_s__runs_in_tiles_and_waves)
{
    struct device device = hand_device;
    device.multiprocessors = 4;
    device.hbm_bytes_per_s = 1e30;
    device.gemm[PRECISION_BF16] =
        (struct device_gemm){.efficiency = 0.5, .small_tile = 0.1, .wave = 0.5, .launch_s = 1};
    const double wave_s = 4 * 2 * 128 * 256 / 0.5;
    CHECK_CLOSE(hand_gemm_s(&device, 1024, 1024, 1), 8 * wave_s + 1, 1e-14);
    CHECK_CLOSE(hand_gemm_s(&device, 1024, 1280, 1), 10 * wave_s + 1, 1e-14);
    CHECK_CLOSE(hand_gemm_s(&device, 128, 256, 1), 0.75 / 2 * 1.1 * wave_s + 1, 1e-14);
    CHECK_CLOSE(hand_gemm_s(&device, 129, 256, 1), 1.1 / 2 * wave_s + 1, 1e-14);
    CHECK_CLOSE(hand_gemm_s(&device, 1024, 1024, 3), 24 * wave_s + 1, 1e-14);
}

/* One row of 1024 x 1024 weights moves 2 x (1024 + 1024 + 1024^2) bytes at half of 1 B/s, longer than its products. */
TEST(cost_kernel_gemm_s__waits_for_the_weights_of_few_rows)
{
    struct device device = hand_device;
    device.peak_flop_per_s[PRECISION_BF16] = 1e6;
    CHECK_CLOSE(hand_gemm_s(&device, 1, 1024, 1024), 2 * 2 * (1024 + 1024 + 1048576.0), 1e-14);
}

/* 4 multiprocessors have 1 FLOP/s each at the curve's efficiency 1/4 x 16 FLOP/s in all. A tile of 10 FLOP takes 10 s
 * alone. Two tiles of 10 take 5 s over all, but no kernel ends before its longest tile. A tile that has a
 * multiprocessor to itself at 4/5 of the rate takes 12.5 s. Equal tiles run in waves: 20 in five, 21 in six. 40 tiles
 * with a mean half of the longest take 50 s, and at the end half a longest tile. */
TEST(cost_attention_s__ends_with_the_longest_tile)
{
    const struct {
        double flop, tiles, alone, expected_s;
    } cases[] = {{20, 2, 0, 10}, {20, 2, 0.8, 12.5}, {200, 20, 0.8, 50}, {210, 21, 1, 60}, {200, 40, 1, 55}};
    struct device device = hand_device;
    device.peak_flop_per_s[PRECISION_BF16] = 16;
    device.multiprocessors = 4;
    device.forward[DEVICE_FLASH2].tail = 0.5;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cost_attention work = {cases[i].flop, 128, 128, 128, 10, cases[i].tiles, 128};
        device.forward[DEVICE_FLASH2].alone = cases[i].alone;
        CHECK_CLOSE(cost_attention_s(&device, DEVICE_FLASH2, PASS_FORWARD, &work), cases[i].expected_s, 1e-14);
    }
}

/* 16 x 8 outputs of 4 inner columns are 128 products of 2 x 4 FLOP at 0.5 FLOP/s. An output has 2 bytes at half of 1
 * B/s, of which a quarter is not hidden. Added to an fp32 sum it has 8 bytes at a tenth. If little is computed, memory
 * decides. */
TEST(cost_kernel_gemm_s__pays_memory_for_outputs_and_sums)
{
    struct device device = hand_device;
    device.gemm[PRECISION_BF16].epilogue = 0.25;
    device.gemm[PRECISION_BF16].sum = 0.1;
    device.peak_flop_per_s[PRECISION_BF16] = 100;
    double work_s = 128 * 2 * 4000 / 50.0;
    CHECK_CLOSE(hand_gemm_s(&device, 16, 8, 4000), fmax(work_s + 0.25 * 512, 512 + 2 * 2 * 24 * 4000.0), 1e-14);
    device.hbm_bytes_per_s = 1000;
    CHECK_CLOSE(hand_gemm_s(&device, 16, 8, 4000), work_s + 0.25 * 0.512, 1e-14);
    const struct cost_gemm summed = {1, 16, 8, 4000, 8, PRECISION_BF16, DEVICE_SEQUENTIAL},
                           short_one = {1, 16, 8, 1, 8, PRECISION_BF16, DEVICE_SEQUENTIAL};
    CHECK_CLOSE(cost_kernel_gemm_s(&device, &summed), work_s + 0.25 * 128 * 8 / 100, 1e-14);
    CHECK_CLOSE(cost_kernel_gemm_s(&device, &short_one), 128 * 8 / 100.0 + 2 * 24 / 500.0, 1e-14);
}

/* GEMMs add weights' gradients to their fp32 or bf16 sum unless other kernels do, and not if every pass reduces. */
TEST(cost_sum_bytes__are_of_fused_accumulation_only)
{
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    CHECK_TRUE(cost_sum_bytes(&setting) == 8);
    setting.gradients = SCENARIO_BF16;
    CHECK_TRUE(cost_sum_bytes(&setting) == 4);
    setting.sharding = SCENARIO_ZERO3;
    CHECK_TRUE(cost_sum_bytes(&setting) == 0);
    setting.sharding = SCENARIO_ZERO1;
    setting.kernels = SCENARIO_COMPILED;
    CHECK_TRUE(cost_sum_bytes(&setting) == 4);
    setting.gradient_accumulation = SCENARIO_ACCUMULATE_AUTOGRAD;
    CHECK_TRUE(cost_sum_bytes(&setting) == 0);
    setting.gradient_accumulation = SCENARIO_ACCUMULATE_FP32_COPY;
    CHECK_TRUE(cost_sum_bytes(&setting) == 0);
}

/* Autograd reads a gradient of 2 bytes and a sum of 2 or 4, and writes the sum. A first one of the sum's precision is
 * the sum. BF16_Optimizer adds to zeros (2 + 2 + 2), copies (2 + 4), adds (4 + 4 + 4) and zeroes (2). */
TEST(cost_added_bytes__are_those_of_kernels_beside_gemms)
{
    static const struct {
        enum scenario_accumulation accumulation;
        enum scenario_gradients gradients;
        double first, later;
    } cases[] = {{SCENARIO_ACCUMULATE_FUSED, SCENARIO_FP32, 0, 0},
                 {SCENARIO_ACCUMULATE_AUTOGRAD, SCENARIO_BF16, 0, 6},
                 {SCENARIO_ACCUMULATE_AUTOGRAD, SCENARIO_FP32, 10, 10},
                 {SCENARIO_ACCUMULATE_FP32_COPY, SCENARIO_FP32, 26, 26}};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setting.sharding = SCENARIO_ZERO1;
        setting.gradient_accumulation = cases[i].accumulation;
        setting.gradients = (int32_t)cases[i].gradients;
        CHECK_TRUE(cost_added_bytes(&setting, true) == cases[i].first);
        CHECK_TRUE(cost_added_bytes(&setting, false) == cases[i].later);
        setting.sharding = SCENARIO_ZERO3;
        CHECK_TRUE(cost_added_bytes(&setting, false) == 0);
        setting.staged = true;
        CHECK_TRUE(cost_added_bytes(&setting, false) == 0);
        setting.staged = false;
    }
}

/* Count the kernels of a list whose name begins so, with their bytes and FLOPs. */
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

/* Korthikanti's 22B on 8 ranks has a/TP = 8 heads of 96, s = 2048 and b = 4, so E = 8 x 4 x 2048^2 scores. Forward
 * passes over them move 2 + 4 + 5 + 2 bytes a score, backward 2 + 2 + 5 + 6 + 2 + 2. The GEMMs also move their narrow
 * matrices, of 8 x 4 x 2048 x 96 elements each. Forward moves 3 of them (Q, K; V and output: 4), backward 8. A score
 * and GEMM takes 2 x 96 FLOPs. The mask saves nothing. */
TEST(unfused_attention__moves_its_scores)
{
    const struct model model = {.hidden = 6144,
                                .layers = 1,
                                .vocabulary = 8,
                                .dropout = true,
                                .kinds = {{.heads = 64, .kv_heads = 64, .ffn = 24576}}};
    const struct slice slices[] = {{0, 0, 2048}, {1, 0, 2048}, {2, 0, 2048}, {3, 0, 2048}};
    const struct cost_micro_batch micro_batch = {.slices = slices, .n_slices = 4, .context = 1};
    struct cost_setting setting = hand_with((struct cost_setting){.model = &model,
                                                                  .device = &hand_device,
                                                                  .platform = &hand_links,
                                                                  .attention = DEVICE_UNFUSED,
                                                                  .tensor = 8,
                                                                  HAND_LAYERS(1)},
                                            &hand_toy_plan);
    struct cost_kernels kernels;
    double scores = 8.0 * 4 * 2048 * 2048, narrow = 8.0 * 4 * 2048 * 96, bytes, flop;
    cost_layer_kernels(&setting, 0, PASS_FORWARD, &micro_batch, &kernels);
    CHECK_EQUAL(counted(&kernels, "attention", &bytes, &flop), 4);
    CHECK_CLOSE(bytes, 13 * scores + 2 * 4 * narrow, 1e-14);
    CHECK_CLOSE(flop, 4 * 96 * scores, 1e-14);
    counted(&kernels, "dropout", &bytes, &flop);
    CHECK_CLOSE(bytes, 2.0 * 6144 * 4 * 2048 / 8, 1e-14);
    cost_layer_kernels(&setting, 0, PASS_BACKWARD, &micro_batch, &kernels);
    CHECK_EQUAL(counted(&kernels, "attention", &bytes, &flop), 6);
    CHECK_CLOSE(bytes, 19 * scores + 2 * 8 * narrow, 1e-14);
    CHECK_CLOSE(flop, 8 * 96 * scores, 1e-14);
}

/* Training's constants multiply the time of GEMMs and attention alone. flash1 is a multiple of flash2's work. */
TEST(training__slows_the_kernels_it_names)
{
    struct device device = hand_device;
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    struct cost_kernels before, after;
    setting.device = &device;
    cost_layer_kernels(&setting, 0, PASS_BACKWARD, &micro_batch, &before);
    device.training = (struct device_training){.products = 0.25, .flash1 = 1};
    cost_layer_kernels(&setting, 0, PASS_BACKWARD, &micro_batch, &after);
    CHECK_EQUAL(after.n, before.n);
    for (int32_t i = 0; i < after.n; i++) {
        bool moves = before.kernel[i].family == COST_MEMORY_BOUND ||
                     strcmp(before.kernel[i].name, "ring's copies and sums") == 0;
        CHECK_CLOSE(after.kernel[i].seconds, before.kernel[i].seconds * (moves ? 1 : 1.25), 1e-14);
    }
    double blocks = hand_blocks_s(&setting, PASS_BACKWARD, &micro_batch);
    struct cost_pass two = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch);
    setting.attention = DEVICE_FLASH1;
    /* and its gathers, 6(h + 2k) + 4h = 64 bytes of each of 4 tokens (8, CP 2), over TP 2, 2 s a byte, 3 layers */
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).attention_s,
                two.attention_s + blocks + 3 * 2 * 64 * 4 / 2.0, 1e-14);
}

/* 16 GEMMs of one tile each fill 16 of 132 multiprocessors once, as one GEMM of 16 tiles does. */
TEST(cost_kernel_gemm_s__shares_waves_in_a_batch)
{
    struct device device = hand_device;
    device.multiprocessors = 132;
    device.gemm[PRECISION_BF16].wave = 1;
    device.gemm[PRECISION_BF16].small_tile = 10;
    CHECK_CLOSE(
        cost_kernel_gemm_s(&device, &(struct cost_gemm){16, 128, 256, 1000, 0, PRECISION_BF16, DEVICE_SEQUENTIAL}),
        hand_gemm_s(&device, 16 * 128, 256, 1000), 1e-14);
    CHECK_CLOSE(
        cost_kernel_gemm_s(&device, &(struct cost_gemm){133, 128, 256, 1000, 0, PRECISION_BF16, DEVICE_SEQUENTIAL}),
        2 * hand_gemm_s(&device, 128, 256, 1000), 1e-14);
}

/* Return the seconds that three GEMMs of queries (2 columns), keys and values (1 each) take beyond one of 4 columns,
 * for 5 tokens of a rank of two. */
static double cut_qkv_s(enum pass pass)
{
    static const double out[] = {2, 1, 1, 4};
    double seconds[4];
    for (int i = 0; i < 4; i++)
        seconds[i] = pass == PASS_FORWARD
                         ? hand_gemm_s(&hand_device, 5, out[i], 4)
                         : hand_gemm_s(&hand_device, 5, 4, out[i]) + hand_gemm_s(&hand_device, 4, out[i], 5);
    return seconds[0] + seconds[1] + seconds[2] - seconds[3];
}

/* A token at h 4, k 2, f 8 moves more in two norms: 2 x 32h = 256 forward, 2 x 62h = 496 backward. Rotations move 16(h
 * + k) = 96, SwiGLU 4f = 32 and 8f = 64. A byte takes 2 s, over TP 2, and a rank has 5 tokens. Half a layer's norms are
 * before the head. Projections are GEMMs of their own: the sums of their inputs' gradients move 18h = 72 backward,
 * whole on both TP ranks. GELU models move two norms' weights backward, 2 x 4h, whole without sequence parallelism.
 * Their gradients of queries, keys and values are joined, 4(h + 2k) = 32, over TP. */
TEST(eager__moves_more_than_fused)
{
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    setting.single = COST_SINGLE_QKV | COST_SINGLE_GATE_UP;
    const double norm_bytes[] = {256, 496}, layer_bytes[] = {256 + 96 + 32, 496 + 96 + 64 + 2 * 72};
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_setting joined = hand_toy_setting_of(&plan);
        struct cost_pass fused = cost_of_pass(&joined, pass, &micro_batch),
                         head = cost_of_head(&joined, pass, &micro_batch);
        setting.kernels = SCENARIO_EAGER;
        CHECK_CLOSE(cost_of_head(&setting, pass, &micro_batch).kernels_s - head.kernels_s,
                    2 * norm_bytes[pass] / 2 * 5 / 2, 1e-12);
        CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).kernels_s - fused.kernels_s,
                    3 * (2 * layer_bytes[pass] * 5 / 2 + cut_qkv_s(pass)), 1e-12);
    }
    setting.sequence_parallel = false; /* norms of all tokens on both TP ranks */
    double eager_s = cost_of_pass(&setting, PASS_FORWARD, &micro_batch).kernels_s;
    setting.kernels = SCENARIO_FUSED;
    CHECK_CLOSE(eager_s - cost_of_pass(&setting, PASS_FORWARD, &micro_batch).kernels_s,
                3 * 2 * (2 * 256 + 96 + 32) * 5.0 / 2, 1e-12);
    struct model gelu = hand_toy;
    gelu.kinds[0].activation = MODEL_GELU;
    setting.model = &gelu;
    setting.single = 0;
    struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    struct cost_pass backward = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch);
    setting.kernels = SCENARIO_EAGER;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).kernels_s, forward.kernels_s, 1e-15);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).kernels_s - backward.kernels_s,
                3 * 2 * 5 * (32 + 32 / 2.0), 1e-12);
}

/* Flags without `kernels: eager` move the same: a norm more 32h = 128 forward and 62h = 248 backward, rotations 16(h +
 * k) = 96, sums of inputs' gradients 2 x 6h = 48 (QKV) and 6h = 24 backward. Norms are over TP, sums are whole.
 * Compiled kernels fuse norms and rotations, and add inputs' gradients up in GEMMs. */
TEST(single_operators__move_more_one_by_one)
{
    static const struct {
        enum cost_single single;
        double bytes[N_PASSES];
    } rows[] = {{COST_SINGLE_NORM, {2 * 128, 2 * 248}},
                {COST_SINGLE_ROTATION, {96, 96}},
                {COST_SINGLE_QKV, {0, 2 * 48}},
                {COST_SINGLE_GATE_UP, {0, 2 * 24}}};
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            setting.single = 0;
            setting.kernels = SCENARIO_FUSED;
            double fused_s = cost_of_pass(&setting, pass, &micro_batch).kernels_s;
            setting.single = rows[i].single;
            double cut_s = rows[i].single == COST_SINGLE_QKV ? cut_qkv_s(pass) : 0;
            CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).kernels_s - fused_s,
                        3 * (2 * rows[i].bytes[pass] * 5 / 2 + cut_s), 1e-12);
            setting.kernels = SCENARIO_COMPILED;
            double single_s = cost_of_pass(&setting, pass, &micro_batch).kernels_s;
            setting.single = 0;
            CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).kernels_s + 3 * cut_s, single_s, 1e-15);
        }
}

/* With TP 2 a rank has 8 of 16 logits. Gathered, the loss moves 30 and 14 bytes of all 16. They are joined, 2 x 2 bytes
 * of 16, and backward the rank's 8 are cut out, 2 x 2 bytes of 8. A byte takes 2 s, and 5 tokens are a rank's. The fp32
 * copy of all logits is kept, 4 bytes each. Parameters and GEMM stay. */
TEST(gathered_logits__compute_the_whole_loss_on_each_rank)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    static const double share[N_PASSES] = {30 * 8, 14 * 8}, whole[N_PASSES] = {30 * 16 + 4 * 16, 14 * 16 + 4 * 8};
    double tokens = cost_micro_batch_tokens(&micro_batch), kept = cost_head_bytes(&setting, 10);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        setting.whole_logits = false;
        struct cost_pass parallel = cost_of_head(&setting, pass, &micro_batch);
        setting.whole_logits = true;
        struct cost_pass gathered = cost_of_head(&setting, pass, &micro_batch);
        CHECK_CLOSE(gathered.kernels_s - parallel.kernels_s, 2 * tokens * (whole[pass] - share[pass]), 1e-12);
        CHECK_TRUE(gathered.flop == parallel.flop);
    }
    CHECK_CLOSE(cost_head_bytes(&setting, 10) - kept, 10 * 4 * 8, 1e-14);
    setting.tensor = 1;
    double whole_s = cost_of_head(&setting, PASS_FORWARD, &micro_batch).kernels_s;
    setting.whole_logits = false;
    CHECK_TRUE(cost_of_head(&setting, PASS_FORWARD, &micro_batch).kernels_s == whole_s);
}

/* SwiGLU runs as two operations in three layers, as in Llama's modules. A token moves 4f = 32 bytes more forward and 8f
 * = 64 backward, over TP 2. silu(x) of 2f is kept: 8f instead of 6f with its input and the product. */
TEST(separate_swiglu__moves_and_keeps_more)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    const double bytes[] = {32, 64};
    double passes_s[N_PASSES], kept = hand_layer_bytes(&setting, RECOMPUTE_NONE, false);
    double listed = hand_layer_bytes(&setting, RECOMPUTE_ACTIVATION, false);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        passes_s[pass] = cost_of_pass(&setting, pass, &micro_batch).kernels_s;
    setting.swiglu = SCENARIO_SWIGLU_SEPARATE;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).kernels_s - passes_s[pass], 3 * 2 * bytes[pass] * 5 / 2,
                    1e-12);
    CHECK_CLOSE(hand_layer_bytes(&setting, RECOMPUTE_NONE, false) - kept, 2 * 8 / 2.0, 1e-12);
    CHECK_CLOSE(hand_layer_bytes(&setting, RECOMPUTE_ACTIVATION, false), listed, 1e-12);
}

/* The figures are bytes a logit of 16, over TP 2, with 2 s a byte and 5 tokens of 2 bytes a rank's half. Passes take 30
 * and 14. Fused reads 2, and reads 2 and writes 2. Two metrics each have a copy, 2 + 4, and logarithms, 4 + 4, behind
 * the backward. Fused keeps 2 bytes a logit instead of 4, and eager's fp32 copy of 4 is not there. */
TEST(fused_loss__moves_and_keeps_less)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    static const double bytes[][N_PASSES] = {{30, 14}, {2, 4}, {2, 4 + 2 * 14}};
    double passes_s[N_PASSES], kept = cost_head_bytes(&setting, 10), tokens = cost_micro_batch_tokens(&micro_batch);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        passes_s[pass] = cost_of_head(&setting, pass, &micro_batch).kernels_s;
    for (int32_t loss = SCENARIO_LOSS_FUSED; loss <= SCENARIO_LOSS_FUSED_METRICS; loss++) {
        setting.loss = (enum scenario_loss)loss;
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
            CHECK_CLOSE(passes_s[pass] - cost_of_head(&setting, pass, &micro_batch).kernels_s,
                        2 * tokens * 16 / 2 * (bytes[0][pass] - bytes[loss][pass]), 1e-12);
        CHECK_CLOSE(kept - cost_head_bytes(&setting, 10), 10 * 2 * 16 / 2.0, 1e-14);
        setting.kernels = SCENARIO_EAGER;
        CHECK_CLOSE(cost_head_workspace_bytes(&setting, 10), 10 * (2 * 16 / 2.0 + 2 * 4), 1e-14);
        setting.kernels = SCENARIO_FUSED;
    }
}

/* V / h is 4, so a chunk has at least 10 / 4 tokens, rounded up to 4: two chunks and a half. The forward has all three
 * GEMMs, 2 x 10 x 4 x 16 FLOPs each, and moves 6 bytes a logit of 16. The sum of the weights' gradient is read and
 * written in each chunk, 4 bytes an element. The backward has neither. */
TEST(fused_linear_loss__runs_the_head_in_chunks_of_the_forward)
{
    struct cost_setting setting = hand_toy_setting();
    struct slice slice = {0, 0, 10};
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    struct cost_kernels forward, backward;
    double flop = 0, launches = 0, loss_bytes = 0;
    setting.tensor = 1;
    setting.loss = SCENARIO_LOSS_FUSED_LINEAR;
    cost_head_kernels(&setting, PASS_FORWARD, &micro_batch, &forward);
    cost_head_kernels(&setting, PASS_BACKWARD, &micro_batch, &backward);
    for (int32_t i = 0; i < forward.n; i++) {
        const struct cost_kernel *kernel = &forward.kernel[i];
        flop += kernel->flop;
        launches += kernel->family == COST_GEMM ? kernel->launches : 0;
        if (strcmp(kernel->name, "cross-entropy") == 0)
            loss_bytes = kernel->bytes;
    }
    CHECK_CLOSE(flop, 3 * 2 * 10 * 4 * 16.0, 1e-14);
    CHECK_CLOSE(launches, 3 * 3.0, 1e-14);
    CHECK_CLOSE(loss_bytes, 10 * 16 * 6.0, 1e-14);
    CHECK_CLOSE(forward.kernel[forward.n - 1].bytes, 2.5 * (4 * 4 * 16 + 2 * 4 * (4 + 16)), 1e-14);
    for (int32_t i = 0; i < backward.n; i++)
        CHECK_TRUE(backward.kernel[i].family != COST_GEMM && strcmp(backward.kernel[i].name, "cross-entropy") != 0);
}
