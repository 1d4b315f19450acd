/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count by hand what collectives expose and slow. */
#include "cost/overlap.h"
#include "hand_model.h"
#include "hand_setting.h"
#include "harness.h"

/* A GEMM takes 1 s a FLOP, a collective 1 s and 0.1 s a byte sent, a copy 2 s and 0.1 s a byte. */
static const struct device plain = {
    .peak_flop_per_s = {1},
    .hbm_bytes_per_s = 1e30,
    .memory_share = {1, 1, 1, 1, 1, 1},
    .gemm = {{.efficiency = 1}},
    .collective = {{.latency_s = 1, .efficiency = 1}, {.latency_s = 1, .efficiency = 1}},
    .nvlink = {.latency_s = 2, .efficiency = 1},
};
static const struct platform links = {
    .gpus_per_node = 8, .nvlink_domain = 8, .nvlink_bytes_per_s = 10, .nic_bytes_per_s = 1};

static const struct scenario_plan sequence_parallel = {.sequence_parallel = true};

static struct cost_setting setting_of(const struct device *device, int32_t tensor,
                                      enum scenario_tensor_overlap tp_overlap)
{
    return hand_with((struct cost_setting){.model = &hand_toy,
                                           .device = device,
                                           .platform = &links,
                                           .tp_overlap = (int32_t)tp_overlap,
                                           .tensor = tensor,
                                           HAND_LAYERS(3)},
                     &sequence_parallel);
}

/* A collective holds a quarter of the multiprocessors. 8 s of kernels beside 4 s lose 1 s. Beside 20 s they end before.
 * At equal ends, 3/4 of 16 s are kernels. In a node a collective holds half of them. */
TEST(overlap_beside_s__takes_multiprocessors_while_it_runs)
{
    struct device device = plain;
    const struct overlap_kernels eight = {8, 6}, twelve = {12, 12};
    device.multiprocessors = 8;
    device.training.collective_multiprocessors = 2;
    device.training.node_multiprocessors = 4;
    CHECK_CLOSE(overlap_beside_s(&device, OVERLAP_OVER_DOMAINS, eight, 4), 9.0, 1e-15);
    CHECK_CLOSE(overlap_beside_s(&device, OVERLAP_OVER_DOMAINS, eight, 20), 20.0, 1e-15);
    CHECK_CLOSE(overlap_beside_s(&device, OVERLAP_OVER_DOMAINS, twelve, 16), 16.0, 1e-15);
    CHECK_CLOSE(overlap_beside_s(&device, OVERLAP_OVER_DOMAINS, eight, 0), 8.0, 1e-15);
    CHECK_CLOSE(overlap_beside_s(&device, OVERLAP_IN_DOMAIN, eight, 4), 10.0, 1e-15);
    device.multiprocessors = 0;
    CHECK_CLOSE(overlap_beside_s(&device, OVERLAP_IN_DOMAIN, eight, 4), 8.0, 1e-15);
}

/* Six of 8 multiprocessors are left to GEMMs of 8 blocks. 6 s take two rounds, 12 s, and 2 s of other kernels take 8/3
 * s. Beside a collective of 4 s 4 x 8/(44/3) s of work are done, beside one of 44/3 s all of it. With four left both
 * take twice the time. With three there are three rounds: 18 s and 16/3 s. */
TEST(persistent_gemms__run_in_rounds_beside_a_collective)
{
    struct device device = plain;
    const struct overlap_kernels kernels = {8, 6}, others = {8, 0}, gemms = {8, 8};
    device.multiprocessors = 8;
    device.training.collective_multiprocessors = 2;
    device.training.node_multiprocessors = 4;
    device.training.persistent_gemms = true;
    CHECK_CLOSE(overlap_beside_s(&device, OVERLAP_OVER_DOMAINS, kernels, 4), 4 + 8 - 4 * 8 * 3 / 44.0, 1e-15);
    CHECK_CLOSE(overlap_beside_s(&device, OVERLAP_OVER_DOMAINS, kernels, 44 / 3.0), 44 / 3.0, 1e-15);
    CHECK_CLOSE(overlap_beside_s(&device, OVERLAP_OVER_DOMAINS, others, 4), 9.0, 1e-15);
    CHECK_CLOSE(overlap_beside_s(&device, OVERLAP_OVER_DOMAINS, gemms, 4), 10.0, 1e-15);
    CHECK_CLOSE(overlap_loss(&device, OVERLAP_IN_DOMAIN, kernels), 0.5, 1e-15);
    device.training.node_multiprocessors = 5;
    CHECK_CLOSE(overlap_loss(&device, OVERLAP_IN_DOMAIN, kernels), 1 - 8 / (18 + 16 / 3.0), 1e-15);
    device.multiprocessors = 0;
    CHECK_CLOSE(overlap_beside_s(&device, OVERLAP_IN_DOMAIN, kernels, 4), 8.0, 1e-15);
}

/* T is 12, TP 4, n 5 and k 4. Chunks of 3 rows take 2 x 3 x 5 x 4 = 120 s. Copies of 3 x 4 x 2 bytes take 4.4 s, and
 * computing hides them. With GEMMs a hundred times as fast, 1.2 s, there are three copies and the last chunk. */
TEST(gathered_gemm__takes_the_longer_of_chunk_and_copy)
{
    struct device device = plain;
    struct cost_setting setting = setting_of(&device, 4, SCENARIO_CHUNKED);
    CHECK_CLOSE(overlap_gather_gemm_s(&setting, (struct cost_gemm){1, 12, 5, 4, 0, PRECISION_BF16, DEVICE_SEQUENTIAL}),
                4 * 120.0, 1e-14);
    device.peak_flop_per_s[PRECISION_BF16] = 100;
    CHECK_CLOSE(overlap_gather_gemm_s(&setting, (struct cost_gemm){1, 12, 5, 4, 0, PRECISION_BF16, DEVICE_SEQUENTIAL}),
                3 * 4.4 + 1.2, 1e-14);
}

/* T is 12, TP 2, n 4 and k 5. Four chunks of 3 rows take 120 s each. Their 24 bytes are reduced in 1 + 12/10 s. A
 * hundred times as fast they take 1.2 s, then four reductions. */
TEST(reduced_gemm__takes_the_longer_of_chunk_and_reduction)
{
    struct device device = plain;
    struct cost_setting setting = setting_of(&device, 2, SCENARIO_CHUNKED);
    CHECK_CLOSE(overlap_gemm_scatter_s(&setting, (struct cost_gemm){1, 12, 4, 5, 0, PRECISION_BF16, DEVICE_SEQUENTIAL}),
                4 * 120 + 2.2, 1e-14);
    device.peak_flop_per_s[PRECISION_BF16] = 100;
    CHECK_CLOSE(overlap_gemm_scatter_s(&setting, (struct cost_gemm){1, 12, 4, 5, 0, PRECISION_BF16, DEVICE_SEQUENTIAL}),
                1.2 + 4 * 2.2, 1e-14);
}

/* 8 multiprocessors have 1 FLOP/s. 1024 x 1024 are 32 tiles of 128 x 256, four waves. A quarter of the rows, 8 tiles,
 * is one wave. On the six multiprocessors that are left there are two, and the second costs all of its gap. So each
 * takes twice as long. */
TEST(gemm_chunks__run_in_waves_of_what_is_left)
{
    struct device device = plain;
    device.peak_flop_per_s[PRECISION_BF16] = 8;
    device.multiprocessors = 8;
    device.gemm[PRECISION_BF16].wave = 1;
    device.gemm[PRECISION_BF16].small_tile = 1;
    device.collective[DEVICE_REDUCE_SCATTER] = (struct device_collective){.efficiency = 1};
    const double wave_s = 2 * 128 * 256;
    struct cost_setting setting = setting_of(&device, 2, SCENARIO_CHUNKED);
    const double scatter_s = 256 * 1024 * 2 / 2.0 / 10;
    CHECK_CLOSE(
        overlap_gemm_scatter_s(&setting, (struct cost_gemm){1, 1024, 1024, 1, 0, PRECISION_BF16, DEVICE_SEQUENTIAL}),
        4 * wave_s + scatter_s, 1e-14);
    device.training.collective_multiprocessors = 2;
    CHECK_CLOSE(
        overlap_gemm_scatter_s(&setting, (struct cost_gemm){1, 1024, 1024, 1, 0, PRECISION_BF16, DEVICE_SEQUENTIAL}),
        4 * 2 * wave_s + scatter_s, 1e-14);
}

/* Return the collectives of a layer on 10 tokens. */
static struct overlap_tensor of_layer(const struct cost_setting *setting, enum pass pass)
{
    struct layer layer;
    layer_of(setting, 0, &layer);
    return overlap_tensor_layer(setting, &layer, pass, 10);
}

static double layer_s(const struct cost_setting *setting, enum pass pass)
{
    return of_layer(setting, pass).exposed_s;
}

/* Return the seconds of the head's collectives on 10 tokens. */
static double head_s(const struct cost_setting *setting, enum pass pass)
{
    struct layer head;
    layer_of_head(setting, &head);
    return overlap_tensor_head(setting, layer_last_gemm(&head), pass, 10).exposed_s;
}

/* T is 10 and TP 2. Each collective of 80 bytes sends 40, which takes 5 s. Widths of hand_toy are h 4, qkv 4, heads 2,
 * up 8, ffn 4, logits 8. GEMMs of a FLOP a second are longer than all collectives, so bulk leaves two of the six
 * backward. Chunked forward hides a gather under halves of rows. It leaves the last of four chunks of a reduce-scatter,
 * 20 bytes: 2 s. */
TEST(exposed_s__is_counted_by_hand_for_a_layer)
{
    const double forward_s[] = {4 * 5.0, 4 * 5.0, 2 * 2.0}, backward_s[] = {6 * 5.0, 2 * 5.0, 0};
    for (int i = 0; i < 3; i++) {
        struct cost_setting setting = setting_of(&plain, 2, (enum scenario_tensor_overlap)i);
        struct overlap_tensor forward = of_layer(&setting, PASS_FORWARD);
        struct overlap_tensor backward = of_layer(&setting, PASS_BACKWARD);
        CHECK_CLOSE(forward.exposed_s, forward_s[i], 1e-12);
        CHECK_CLOSE(backward.exposed_s, backward_s[i], 1e-12);
        CHECK_CLOSE(forward.bytes, 4 * 40.0, 1e-15);
        CHECK_CLOSE(backward.bytes, 6 * 40.0, 1e-15);
        CHECK_CLOSE(head_s(&setting, PASS_FORWARD), 5.0, 1e-12);
        CHECK_CLOSE(head_s(&setting, PASS_BACKWARD), i == 0 ? 10 : 0, 1e-12);
        setting.tensor = 1;
        CHECK_TRUE(layer_s(&setting, PASS_FORWARD) == 0);
    }
}

/* GEMMs take no time except 3 s to start. Bulk leaves 5 - 3 s of each of four collectives. Chunked forward has TP 2. A
 * gather's two chunks start in 3 s each while one copy of 40 bytes takes 6 s: 6 + 3 instead of 3. A reduce-scatter's
 * four chunks are reduced in 2 s each, under 3: 4 x 3 + 2 instead of 3. Together it is slower than 5 s exposed. */
TEST(gemm_chunks__may_cost_more_than_they_hide)
{
    struct device device = plain;
    device.peak_flop_per_s[PRECISION_BF16] = 1e30;
    device.gemm[PRECISION_BF16].launch_s = 3;
    struct cost_setting setting = setting_of(&device, 2, SCENARIO_BULK);
    CHECK_CLOSE(layer_s(&setting, PASS_FORWARD), 4 * 5.0, 1e-14);
    CHECK_CLOSE(layer_s(&setting, PASS_BACKWARD), 2 * 5 + 4 * 2.0, 1e-14);
    setting.tp_overlap = SCENARIO_CHUNKED;
    CHECK_CLOSE(layer_s(&setting, PASS_FORWARD), 2 * 6 + 2 * 11.0, 1e-14);
    CHECK_CLOSE(layer_s(&setting, PASS_BACKWARD), 2 * 6 + 4 * 2.0, 1e-14);
}

/* Without sequence parallelism, with TP 2 and T 10, an all-reduce of 80 bytes takes 1 + 8 s. Training slows GEMMs by a
 * quarter. The GEMMs of the weight gradients of up, QKV and head take 1.25 x 640/100, 320/100 and 640/100 s. */
TEST(all_reduce__hides_under_the_gemms_of_training)
{
    struct device device = plain;
    device.peak_flop_per_s[PRECISION_BF16] = 100;
    device.training.products = 0.25;
    device.collective[DEVICE_ALL_REDUCE] = (struct device_collective){.latency_s = 1, .efficiency = 1};
    struct cost_setting setting = setting_of(&device, 2, SCENARIO_BULK);
    hand_options(&setting, &(struct scenario_plan){.sequence_parallel = false});
    CHECK_CLOSE(layer_s(&setting, PASS_FORWARD), 2 * 9.0, 1e-14);
    CHECK_CLOSE(layer_s(&setting, PASS_BACKWARD), (9 - 8) + (9 - 4), 1e-13);
    CHECK_CLOSE(head_s(&setting, PASS_BACKWARD), 9 - 8, 1e-13);
    CHECK_TRUE(head_s(&setting, PASS_FORWARD) == 0);
    setting.tp_overlap = SCENARIO_EXPOSED;
    CHECK_CLOSE(layer_s(&setting, PASS_BACKWARD), 2 * 9.0, 1e-14);
    setting.single = COST_SINGLE_QKV | COST_SINGLE_GATE_UP; /* five GEMMs reduce their input's gradient */
    CHECK_CLOSE(layer_s(&setting, PASS_FORWARD), 2 * 9.0, 1e-14);
    CHECK_CLOSE(layer_s(&setting, PASS_BACKWARD), 5 * 9.0, 1e-14);
    setting.single = COST_SINGLE_GATE_UP;
    CHECK_CLOSE(layer_s(&setting, PASS_BACKWARD), 3 * 9.0, 1e-14);
    setting.sequence_parallel = true; /* the input is gathered once for all, and its gradients' sum is reduced once */
    double single_s = layer_s(&setting, PASS_BACKWARD);
    setting.single = 0;
    CHECK_CLOSE(layer_s(&setting, PASS_BACKWARD), single_s, 1e-14);
}

/* TP 2 gathers 10 tokens x 16 logits of 2 bytes: a rank sends 160, which takes 1 + 160/10 s more. */
TEST(gathered_logits__are_one_more_collective_of_the_forward)
{
    struct cost_setting setting = setting_of(&plain, 2, SCENARIO_EXPOSED);
    double parallel_s = head_s(&setting, PASS_FORWARD), backward_s = head_s(&setting, PASS_BACKWARD);
    setting.whole_logits = true;
    CHECK_CLOSE(head_s(&setting, PASS_FORWARD) - parallel_s, 1 + 160 / 10.0, 1e-12);
    CHECK_CLOSE(head_s(&setting, PASS_BACKWARD), backward_s, 1e-14);
}
