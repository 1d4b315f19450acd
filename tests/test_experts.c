/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count layers with experts, latent attention and MTP by hand: parameters, FLOPs, bytes and states. */
#include "cost/activation.h"
#include "cost/communication.h"
#include "cost/dispatch.h"
#include "cost/flop.h"
#include "cost/layer.h"
#include "cost/pass.h"
#include "cost/states.h"
#include "hand_cost.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "harness.h"
#include "scenario/layout.h"

static const double gib = 1 << 30;

/** Matrices of latent attention: queries 4 x 3 and 3 x 8, keys and values 4 x 4 and 2 x 8, projection 4 x 4. */
enum { LATENT = 12 + 24 + 16 + 16 + 16, ROUTER = 4 * 4, EXPERT = 3 * 4 * 8, SHARED = 3 * 4 * 6, DENSE = 3 * 4 * 12 };
enum { NORMS = 2 * 4 + 3 + 2 }; /* two of the layer, and those of compressed columns */

static struct cost_setting setting_of(const struct model *model, int32_t first, int32_t n)
{
    struct cost_setting setting = hand_toy_setting_of(&(struct scenario_plan){.tp = 1, .dp = 1, .vpp = 1});
    setting.tensor = 1;
    setting.model = model;
    cost_hold_layers(&setting, first, n);
    return setting;
}

/* Published totals and active parameters in billions, with both tables. GPT-OSS counts its active ones without the
 * embedding: 0.579. */
TEST(model_parameters__are_those_of_published_mixtures)
{
    static const struct {
        const char *name;
        double total, active;
    } models[] = {{"mixtral-8x7b", 46.70, 12.88},       {"mixtral-8x22b", 140.63, 39.16},
                  {"deepseek-v3", 671.03, 37.55},       {"qwen3-30b-a3b", 30.53, 3.35},
                  {"qwen3-235b-a22b", 235.09, 22.19},   {"gpt-oss-120b", 116.83, 5.13 + 0.579},
                  {"gpt-oss-20b", 20.92, 3.61 + 0.579}, {"llama-4-scout", 107.77, 17.17},
                  {"llama-4-maverick", 400.71, 17.19},  {"kimi-k2", 1026.4, 32.86},
                  {"deepseek-v2", 235.74, 21.38},       {"grok-1", 315.68, 83.8}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct model model;
        struct error err = {0};
        CHECK_TRUE(model_read(SLIMSIM_SOURCE_DIR, models[i].name, &model, &err));
        CHECK_CLOSE(cost_model_parameters(&model) / 1e9, models[i].total, 0.005);
        CHECK_CLOSE(cost_model_active_parameters(&model) / 1e9, models[i].active, 0.005);
    }
}

TEST(layer_parameters__count_each_expert)
{
    const struct cost_setting dense = setting_of(&hand_latent, 0, 1), experts = setting_of(&hand_latent, 1, 1);
    CHECK_TRUE(cost_layers_parameters(&dense) == LATENT + NORMS + DENSE);
    CHECK_TRUE(cost_layers_parameters(&experts) == LATENT + NORMS + ROUTER + SHARED + 4 * EXPERT);
    CHECK_TRUE(cost_expert_parameters(&dense) == 0 && cost_expert_parameters(&experts) == 4 * EXPERT);
    CHECK_TRUE(cost_model_parameters(&hand_latent) ==
               3 * (LATENT + NORMS) + DENSE + 2 * (ROUTER + SHARED + 4 * EXPERT) + 2 * 16 * 4 + 4);
    CHECK_TRUE(cost_model_active_parameters(&hand_latent) == cost_model_parameters(&hand_latent) - 2 * 2 * EXPERT);
    struct cost_setting half = experts;
    half.expert_ranks = 2;
    CHECK_TRUE(cost_expert_parameters(&half) == 2 * EXPERT);
}

/* DeepSeek-V3 on 256 GPUs with PP 4, VPP 4 and EP 64: a rank of 16 layers with experts has 36.4 GiB of weights and fp32
 * gradients and 32.1 GiB of optimizer states, printed in arXiv:2603.07685. */
TEST(cost_of_stage__has_the_printed_states_of_deepseek_v3)
{
    struct model model;
    struct error err = {0};
    CHECK_TRUE(model_read(SLIMSIM_SOURCE_DIR, "deepseek-v3", &model, &err));
    struct cost_setting setting = {.model = &model, .tensor = 1, .ranks = 64, .expert_ranks = 64};
    cost_hold_layers(&setting, 3, 16);
    double parameters = cost_layers_parameters(&setting);
    CHECK_CLOSE(parameters, 6.545e9, 1e-3);
    double bytes = cost_of_stage(cost_state_bytes, &setting, parameters, 64);
    CHECK_CLOSE((2 + 4) * parameters / gib, 36.4, 0.01);
    CHECK_CLOSE((bytes - (2 + 4) * parameters) / gib, 32.1, 0.01);
    CHECK_EQUAL(cost_expert_shards(&setting), 1);
}

/* Two TP ranks hold the same four experts: their fp32 gradients are reduce-scattered, and bf16 weights gathered. */
TEST(cost_copied_sum_s__counts_experts_that_tp_ranks_hold_twice)
{
    struct cost_setting setting = setting_of(&hand_latent, 1, 1);
    double sent_bytes;
    setting.device = hand_setting()->device;
    setting.platform = hand_setting()->platform;
    setting.tensor = 2;
    CHECK_EQUAL(cost_expert_peers(&setting), 2);
    CHECK_CLOSE(cost_copied_sum_s(&setting, 1, &sent_bytes),
                cost_collective_s(&setting, DEVICE_REDUCE_SCATTER, 4 * 4 * EXPERT, 2) +
                    cost_collective_s(&setting, DEVICE_ALL_GATHER, 2 * 4 * EXPERT, 2),
                1e-14);
    CHECK_TRUE(sent_bytes == (4 + 2) * 4 * EXPERT / 2.0);
    setting.expert_ranks = 2;
    CHECK_EQUAL(cost_expert_peers(&setting), 1);
    CHECK_TRUE(cost_copied_sum_s(&setting, 1, &sent_bytes) == 0 && sent_bytes == 0);
}

/* P counts two of four experts, and the router. Attention has 8 columns of keys and 4 of values: 12 a key and query
 * forward, 3 x 8 + 2 x 4 backward. */
TEST(flop_curve__counts_the_experts_of_a_token)
{
    const int64_t p = LATENT + ROUTER + SHARED + 2 * EXPERT;
    const struct flop_curve forward = flop_layer_curve(&hand_latent, 1, PASS_FORWARD),
                            backward = flop_layer_curve(&hand_latent, 1, PASS_BACKWARD);
    CHECK_EQUAL(layer_matrix_parameters(&hand_latent, 1), p);
    CHECK_EQUAL(flop_of_prefix(forward, 5), 5 * 2 * p + 12 * 5 * 6);
    CHECK_EQUAL(flop_of_prefix(backward, 5), 5 * 4 * p + 32 * 5 * 6);
    CHECK_EQUAL(flop_attention(&hand_latent, 1, PASS_FORWARD, 0, 5), 12 * 5 * 6);
    /* for MFU without routers: 6 FLOPs a parameter, and 3 x 12 for half of all pairs of tokens in each of 3 layers */
    double parameters = 3 * LATENT + DENSE + 2 * (SHARED + 2 * EXPERT) + 16 * 4;
    CHECK_CLOSE(hand_model_flop(&hand_latent, 5), 6 * 5 * parameters + 3 * 3 * 12 * (5 * 5), 1e-14);
}

/* The executed FLOPs are those of the curve. */
TEST(cost_of_pass__executes_the_flop_of_the_curve)
{
    const struct slice slice = {0, 0, 5};
    const struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    for (int32_t first = 0; first < 2; first++) {
        const struct cost_setting setting = setting_of(&hand_latent, first, 1);
        for (enum pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++)
            CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).flop,
                        (double)flop_of_prefix(flop_layer_curve(&hand_latent, first, pass), 5), 1e-14);
    }
}

/* An imbalance of 1.5 gives the busiest rank half as many tokens more. A capacity of 1.25 drops what is above it, and
 * one of 2 drops nothing. */
TEST(cost_expert_load__is_the_imbalance_up_to_the_capacity)
{
    struct cost_setting setting = setting_of(&hand_latent, 1, 1);
    static const double cases[][3] = {{0, 0, 1}, {1.5, 0, 1.5}, {1.5, 1.25, 1.25}, {1.5, 2, 1.5}, {1, 0.5, 0.5}};
    const struct slice slice = {0, 0, 5};
    const struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    setting.expert_imbalance = 1.5;
    CHECK_TRUE(cost_expert_load(&setting) == 1); /* one rank has all experts */
    double balanced = cost_of_pass(&setting, PASS_FORWARD, &micro_batch).flop;
    setting.expert_ranks = 2;
    setting.device = hand_setting()->device;
    setting.platform = hand_setting()->platform;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setting.expert_imbalance = cases[i][0];
        setting.capacity_factor = cases[i][1];
        CHECK_CLOSE(cost_expert_load(&setting), cases[i][2], 1e-15);
        CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).flop,
                    balanced + 5 * 2 * 2 * EXPERT * (cases[i][2] - 1), 1e-14);
    }
}

/*
 * Bytes that a token keeps: both norms' input 2 x 4 and output 2 x 4; compressed queries and keys before and behind
 * their norms, 2 x 2 x (3 + 2); queries 2 x 8, keys and values 2 x (8 + 4), attention's output 2 x 4 and fp32 sums 4 x
 * 2; router's scores and choice (4 + 1) x 4; shared experts' up 2 x 12 and activation 2 x 6; of 2 experts a token 2 x
 * (4 + 16 + 8) each; the map 4 x 2.
 */
TEST(layer_kept_bytes__count_what_experts_and_latent_attention_keep)
{
    struct cost_setting setting = setting_of(&hand_latent, 1, 1);
    double attention = 2 * 2 * (3 + 2) + 2 * 8 + 2 * (8 + 4) + 2 * 4 + 4 * 2, norms = 2 * (8 + 8);
    double shared = 2 * 12 + 2 * 6, routed = 2 * 2 * (4 + 16 + 8), map = 4 * 2, router = (4 + 1) * 4;
    double all = attention + norms + router + shared + routed + map;
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_NONE, false), all, 1e-15);
    setting.expert_ranks = 2;
    setting.expert_imbalance = 1.5;
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_NONE, false), all + routed / 2, 1e-15);
    setting.expert_imbalance = 1;
    double listed = shared / 3 + 2 * 2 * 8; /* the activation's output */
    const enum recompute both = (enum recompute)(RECOMPUTE_ACTIVATION | RECOMPUTE_MOE_ACT);
    CHECK_CLOSE(cost_activation_bytes(&setting, both, false), all - listed, 1e-15);
}

/* With TP 2 and sequence parallelism a rank has half of the tokens for router, compression and experts, and all of half
 * of the columns otherwise. So it computes half of the FLOPs. */
TEST(cost_of_pass__shares_tokens_and_columns_out_to_tensor_ranks)
{
    const struct slice slice = {0, 0, 8};
    const struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    struct cost_setting whole = setting_of(&hand_latent, 1, 2), half = whole;
    half.tensor = 2;
    half.sequence_parallel = true;
    for (enum pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++)
        CHECK_CLOSE(2 * cost_of_pass(&half, pass, &micro_batch).flop, cost_of_pass(&whole, pass, &micro_batch).flop,
                    1e-14);
    struct layer layer;
    layer_of(&half, 1, &layer);
    CHECK_TRUE(layer_expert_parameters(&half, &layer) == 4 * EXPERT); /* each rank has whole experts */
    CHECK_TRUE(layer_parameters(&half, &layer) ==
               4 * EXPERT + NORMS + 12 + 16 + ROUTER + (24 + 16 + 16 + SHARED) / 2.0);
}

/* Four ranks send three quarters of 2 copies of 4 columns, twice forward and twice backward, in each of two layers. The
 * all-to-all takes as long as the formula of cost_all_to_all_s. */
TEST(cost_of_pass__sends_copies_of_tokens_to_experts_and_back)
{
    const struct slice slice = {0, 0, 8};
    const struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    struct cost_setting setting = setting_of(&hand_latent, 1, 2);
    setting.device = hand_setting()->device;
    setting.platform = hand_setting()->platform;
    CHECK_TRUE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).expert_s == 0);
    setting.expert_ranks = 4;
    double sent = 8 * 2 * 4 * 2.0 * 3 / 4, wire_bytes = 0, one_s = cost_all_to_all_s(&setting, sent, 4, &wire_bytes);
    for (enum pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
        const struct cost_pass cost = cost_of_pass(&setting, pass, &micro_batch);
        CHECK_CLOSE(cost.expert_bytes, 2 * 2 * sent, 1e-15);
        CHECK_CLOSE(cost.expert_s, 2 * 2 * one_s, 1e-15);
    }
    CHECK_TRUE(cost_of_pass(&setting, PASS_WEIGHT, &micro_batch).expert_s == 0);
    setting.tensor = 2;
    setting.sequence_parallel = true;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).expert_bytes, 2 * sent, 1e-15);
}

/* DeepSeek-V3 with EP 64 on nodes of 8 and 4096 tokens, as arXiv:2603.07685 counts them: an all-to-all sends 411 MB of
 * a rank by its NIC. HybridEP sends 185 MB, since a token's experts are in 4 of 8 groups, and each group is on a node.
 */
TEST(cost_dispatch_of__sends_the_bytes_of_a_published_dispatch)
{
    struct model model;
    struct device device;
    struct error err = {0};
    const struct platform platform = {.n_nodes = 8,
                                      .gpus_per_node = 8,
                                      .nvlink_domain = 8,
                                      .gpus_per_nic = 1,
                                      .contention = true,
                                      .nvlink_bytes_per_s = 450e9,
                                      .nic_bytes_per_s = 50e9};
    CHECK_TRUE(model_read(SLIMSIM_SOURCE_DIR, "deepseek-v3", &model, &err) &&
               device_read(SLIMSIM_SOURCE_DIR, "h100-sxm", &device, &err));
    struct cost_setting setting = {
        .model = &model, .device = &device, .platform = &platform, .tensor = 1, .expert_ranks = 64};
    struct cost_dispatch cost = cost_dispatch_of(&setting, 1, 4096, COST_TO_EXPERTS);
    CHECK_CLOSE(cost.sent_bytes * 56 / 63 / 1e6, 411, 0.001);
    setting.dispatcher = SCENARIO_DISPATCH_HYBRID_EP;
    cost = cost_dispatch_of(&setting, 1, 4096, COST_TO_EXPERTS);
    CHECK_CLOSE(cost.nic_bytes * device.experts.hybrid_ep_nic / 1e6, 185, 0.01);
    CHECK_CLOSE(cost.seconds, 4.63e-3, 0.05);
    setting.dispatcher = SCENARIO_DISPATCH_ALL_GATHER;
    cost = cost_dispatch_of(&setting, 1, 4096, COST_TO_EXPERTS);
    CHECK_CLOSE(cost.sent_bytes, 4096.0 * 7168 * 2 * 63, 1e-14);
    double bf16_bytes[COST_N_WAYS];
    setting.dispatcher = SCENARIO_DISPATCH_DEEPEP;
    for (enum cost_way way = COST_TO_EXPERTS; way < COST_N_WAYS; way++)
        bf16_bytes[way] = cost_dispatch_of(&setting, 1, 4096, way).sent_bytes;
    setting.precision = PRECISION_FP8_BLOCK;
    setting.fp8_dispatch = 1; /* 1 B and 4 B for each 128, on the way to experts only */
    CHECK_CLOSE(cost_dispatch_of(&setting, 1, 4096, COST_TO_EXPERTS).sent_bytes / bf16_bytes[COST_TO_EXPERTS],
                (1 + 4 / 128.0) / 2, 1e-14);
    CHECK_TRUE(cost_dispatch_of(&setting, 1, 4096, COST_FROM_EXPERTS).sent_bytes == bf16_bytes[COST_FROM_EXPERTS]);
}

/* Two experts, one a rank, have 3 and 1 of 4 tokens: the busiest has 1.5 times the mean, and every kernel and message
 * of experts takes so many tokens. With a capacity of 1 it drops one token; padded, both have 2 whatever the routing
 * is. */
TEST(cost_of_pass__takes_as_long_as_the_busier_of_two_experts)
{
    struct model model = hand_latent;
    model.kinds[1].experts = 2;
    model.kinds[1].top_k = 1;
    struct cost_setting setting = setting_of(&model, 1, 1), capped, balanced;
    const struct slice slice = {0, 0, 4};
    const struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    setting.device = hand_setting()->device;
    setting.platform = hand_setting()->platform;
    setting.expert_ranks = 2;
    balanced = capped = setting;
    setting.expert_imbalance = capped.expert_imbalance = 1.5;
    const struct cost_pass uneven = cost_of_pass(&setting, PASS_FORWARD, &micro_batch),
                           even = cost_of_pass(&balanced, PASS_FORWARD, &micro_batch);
    CHECK_CLOSE(uneven.expert_product_flop, 2.0 * 6 * EXPERT, 1e-15); /* 6 rows: 4 tokens at a load of 1.5 */
    CHECK_CLOSE(even.expert_product_flop, 2.0 * 4 * EXPERT, 1e-15);
    CHECK_CLOSE(uneven.expert_bytes, 1.5 * even.expert_bytes, 1e-15);
    CHECK_TRUE(uneven.expert_s > even.expert_s && uneven.combine_s == uneven.expert_s / 2);
    capped.capacity_factor = 1;
    CHECK_CLOSE(cost_of_pass(&capped, PASS_FORWARD, &micro_batch).expert_product_flop, even.expert_product_flop, 1e-15);
    capped.capacity_factor = capped.padded_capacity = 2;
    CHECK_CLOSE(cost_of_pass(&capped, PASS_FORWARD, &micro_batch).expert_product_flop, 2 * even.expert_product_flop,
                1e-15);
}

/* Two TP ranks split each expert: they gather each other's tokens, and have half of each expert's columns. */
TEST(cost_dispatch_of__gathers_tokens_of_ranks_that_split_experts)
{
    struct cost_setting setting = setting_of(&hand_latent, 1, 1);
    setting.device = hand_setting()->device;
    setting.platform = hand_setting()->platform;
    setting.tensor = setting.expert_tensor = setting.expert_ranks = 2;
    setting.sequence_parallel = true;
    const struct cost_dispatch to = cost_dispatch_of(&setting, 1, 8, COST_TO_EXPERTS),
                               from = cost_dispatch_of(&setting, 1, 8, COST_FROM_EXPERTS);
    double gathered = 8 * 2 * 4 * 2; /* tokens, experts of each, columns, bytes */
    CHECK_EQUAL(cost_ep(&setting), 1);
    CHECK_TRUE(cost_expert_parameters(&setting) == 4 * EXPERT / 2.0);
    CHECK_CLOSE(to.sent_bytes, gathered / 2, 1e-15);
    CHECK_CLOSE(to.seconds, cost_collective_s(&setting, DEVICE_ALL_GATHER, gathered, 2), 1e-15);
    CHECK_CLOSE(from.seconds, cost_collective_s(&setting, DEVICE_REDUCE_SCATTER, gathered, 2), 1e-15);
}

/* Beside another micro-batch's kernels tokens cost what these lose to the collective's multiprocessors. */
TEST(ep_overlap__costs_what_kernels_lose)
{
    struct cost_setting setting = setting_of(&hand_latent, 1, 1);
    const struct slice slice = {0, 0, 8};
    const struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    setting.device = hand_setting()->device;
    setting.platform = hand_setting()->platform;
    setting.expert_ranks = 4;
    const struct cost_pass open = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    setting.ep_overlap = 1;
    const struct cost_pass beside = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    CHECK_TRUE(0 <= beside.expert_s && beside.expert_s < open.expert_s && beside.expert_bytes == open.expert_bytes);
    CHECK_CLOSE(beside.combine_s / beside.expert_s, open.combine_s / open.expert_s, 1e-14);
}

/* Layers that are computed again have nothing hidden, and stages of Megatron-LM have to be interleaved. */
TEST(ep_overlap__needs_interleaved_stages_without_repeated_experts)
{
    const struct {
        int64_t pp, vpp;
        int32_t recompute;
        bool takes, takes_in_own_order;
    } cases[] = {{1, 1, RECOMPUTE_SELECTIVE, true, true},
                 {2, 1, RECOMPUTE_NONE, false, true},
                 {2, 2, RECOMPUTE_NORM | RECOMPUTE_MOE_ACT, true, true},
                 {2, 2, RECOMPUTE_MOE, false, false},
                 {1, 1, RECOMPUTE_FULL, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct scenario_plan plan = {
            .ep = 2, .pp = cases[i].pp, .vpp = cases[i].vpp, .recompute = cases[i].recompute};
        CHECK_EQUAL(layout_takes_ep_overlap(&plan, true, false), cases[i].takes);
        CHECK_EQUAL(layout_takes_ep_overlap(&plan, true, true), cases[i].takes_in_own_order);
        CHECK_TRUE(layout_takes_ep_overlap(&plan, false, false));
    }
}

/* A layer of MTP is one of the last kind, with a projection 8 x 4, three norms of 4, and another pass of the head. */
TEST(mtp_layers__add_a_layer_and_a_pass_of_the_head)
{
    struct model model = hand_latent;
    model.mtp_layers = 1;
    model.kinds[MODEL_MTP_KIND] = model.kinds[1];
    double layer = LATENT + NORMS + ROUTER + SHARED + 4 * EXPERT;
    CHECK_TRUE(cost_mtp_parameters(&model) == layer + 8 * 4 + 3 * 4);
    CHECK_TRUE(cost_model_parameters(&model) == cost_model_parameters(&hand_latent));
    CHECK_EQUAL(flop_head(&model, PASS_FORWARD, 3), 2 * flop_head(&hand_latent, PASS_FORWARD, 3));
    CHECK_EQUAL(layer_matrix_parameters(&model, MODEL_MTP_KIND), layer_matrix_parameters(&hand_latent, 1) + 8 * 4);
    CHECK_CLOSE(hand_model_flop(&model, 1) - hand_model_flop(&hand_latent, 1),
                6 * (LATENT + SHARED + 2 * EXPERT + 8 * 4 + 16 * 4) + 6 * 12 / 2.0, 1e-14);
    /* the last stage has a copy of the embedding, too */
    CHECK_TRUE(cost_ends_parameters(&model, 1, false, true) == 2 * 16 * 4 + 4);
    CHECK_TRUE(cost_ends_parameters(&model, 1, true, true) == 2 * 16 * 4 + 4);
    const struct cost_setting with = setting_of(&model, 1, 1), without = setting_of(&hand_latent, 1, 1);
    CHECK_CLOSE(cost_head_bytes(&with, 7), 2 * cost_head_bytes(&without, 7), 1e-15);
}
