/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count the bytes that passes keep, work with and gather. */
#include "cost/gathered.h"
#include "hand_cost.h"
#include "hand_model.h"
#include "harness.h"

/* These are GPTs of 2022: GELU, f = 4h, dropout, and scores that are kept. */
static const struct model gpts[] = {
    {.hidden = 6144,
     .layers = 48,
     .heads = 64,
     .kv_heads = 64,
     .ffn = 24576,
     .activation = MODEL_GELU,
     .dropout = true},
    {.hidden = 12288,
     .layers = 96,
     .heads = 96,
     .kv_heads = 96,
     .ffn = 49152,
     .activation = MODEL_GELU,
     .dropout = true},
    {.hidden = 20480,
     .layers = 105,
     .heads = 128,
     .kv_heads = 128,
     .ffn = 81920,
     .activation = MODEL_GELU,
     .dropout = true},
    {.hidden = 25600,
     .layers = 128,
     .heads = 160,
     .kv_heads = 160,
     .ffn = 102400,
     .activation = MODEL_GELU,
     .dropout = true},
};

/* Count the bytes of one layer of a micro-batch of `batch` samples of `tokens`. */
static double layer_bytes(const struct cost_setting *setting, enum recompute recompute, int32_t tokens, int32_t batch)
{
    struct slice slices[8];
    for (int32_t i = 0; i < batch; i++)
        slices[i] = (struct slice){i, 0, tokens};
    struct cost_unit unit = {.slices = slices, .n_slices = batch, .context = 1, .recompute = recompute};
    return cost_activation_bytes(setting, recompute, false) * tokens * batch + cost_scores_bytes(setting, &unit);
}

/* Korthikanti et al. 2022 (arXiv:2205.05198), table 2, gives a row each by s b h, a s / h and t. */
TEST(layer_activations__match_the_published_table)
{
    for (int i = 0; i < 4; i++)
        for (int32_t t = 1; t <= 8; t *= 2)
            for (int32_t b = 1; b <= 4; b *= 4) {
                double s = 2048, h = (double)gpts[i].hidden, a = (double)gpts[i].heads, sbh = s * b * h;
                struct scenario_plan plan = {0};
                struct cost_setting setting = {
                    .model = &gpts[i], .plan = &plan, .attention = DEVICE_UNFUSED, .tensor = t, .layers = 1};
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_NONE, 2048, b), sbh * (10 + 24.0 / t + 5 * a * s / (h * t)),
                            1e-12);
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_ATTENTION_CORE, 2048, b), sbh * (10 + 24.0 / t), 1e-12);
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_FULL, 2048, b), 2 * sbh, 1e-12);
                plan.sequence_parallel = true;
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_NONE, 2048, b), sbh / t * (34 + 5 * a * s / h), 1e-12);
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_ATTENTION_CORE, 2048, b), 34 * sbh / t, 1e-12);
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_FULL, 2048, b), 2 * sbh / t, 1e-12);
            }
}

/* h = 8, n = 4, g = 2 (k = 4), f = 16 and TP 2. By hand a token has norm inputs of 32 and norm outputs of 32. Queries
 * and output have 32, keys and values 16. Gate and up have 64, the product 32, log-sum-exp 16. */
static const struct model small = {.hidden = 8, .layers = 4, .heads = 4, .kv_heads = 2, .ffn = 16, .vocabulary = 10};

TEST(recompute_list__keeps_the_bytes_counted_by_hand)
{
    static const struct {
        enum recompute recompute;
        double shared, whole; /* with sequence parallelism, without */
    } cases[] = {
        {RECOMPUTE_NONE, 112, 144},
        {RECOMPUTE_NORM, 96, 112},
        {RECOMPUTE_ACTIVATION, 96, 128},
        {RECOMPUTE_SELECTIVE, 80, 96},
        {RECOMPUTE_ATTENTION_CORE, 104, 136},
        {RECOMPUTE_NORM | RECOMPUTE_ATTENTION_CORE, 88, 104},
        {RECOMPUTE_ACTIVATION | RECOMPUTE_ATTENTION_CORE, 88, 120},
        {RECOMPUTE_SELECTIVE | RECOMPUTE_ATTENTION_CORE, 72, 88},
        {RECOMPUTE_FULL, 8, 16},
    };
    for (int i = 0; i < 9; i++) {
        struct scenario_plan plan = {0};
        struct cost_setting setting = {.model = &small, .plan = &plan, .tensor = 2, .layers = 1};
        CHECK_CLOSE(cost_activation_bytes(&setting, cases[i].recompute, false), cases[i].whole, 1e-15);
        plan.sequence_parallel = true;
        CHECK_CLOSE(cost_activation_bytes(&setting, cases[i].recompute, false), cases[i].shared, 1e-15);
    }
}

/* Masks of two dropouts take 16 bytes a token. Full recomputation keeps none. Keys and values that later slices need
 * take 8. */
TEST(layer_activations__grow_by_dropout_and_slices)
{
    struct model dropped = small;
    dropped.dropout = true;
    struct scenario_plan plan = {.sequence_parallel = true};
    struct cost_setting setting = {.model = &dropped, .plan = &plan, .tensor = 2, .layers = 1};
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_NONE, false), 112 + 8.0, 1e-15);
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_FULL, true), 8 + 8.0, 1e-15);
    CHECK_CLOSE(cost_embedding_bytes(&setting, 10), 40.0, 1e-15);
    plan.sequence_parallel = false;
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_NONE, false), 144 + 16.0, 1e-15);
    CHECK_CLOSE(cost_embedding_bytes(&setting, 10), 80.0, 1e-15);
}

/* Tokens [2, 6) see 6 keys, [0, 3) of another sample see 3. This makes 24 + 9 scores of 2 heads of a rank. A score
 * takes 2 bytes, with dropout 5. CP 2 halves them. If 2 of 3 layers recompute fully, one keeps its scores. With the
 * core on the list the workspace has a token's 4h = 32 and the scores again. It also has the larger of the gradients:
 * 6f/2 = 48 a token or 4 a score. */
TEST(cost_scores_bytes__are_counted_by_slice)
{
    struct model dropped = small;
    struct slice slices[] = {{0, 2, 6}, {1, 0, 3}};
    struct cost_unit unit = {.slices = slices, .n_slices = 2, .context = 1};
    struct cost_setting setting = {.model = &dropped,
                                   .plan = &(struct scenario_plan){.sequence_parallel = true},
                                   .attention = DEVICE_UNFUSED,
                                   .tensor = 2,
                                   .layers = 3};
    CHECK_CLOSE(cost_scores_bytes(&setting, &unit), 3 * 2 * 66.0, 1e-15);
    dropped.dropout = true;
    CHECK_CLOSE(cost_scores_bytes(&setting, &unit), 3 * 5 * 66.0, 1e-15);
    unit.context = 2;
    CHECK_CLOSE(cost_scores_bytes(&setting, &unit), 3 * 5 * 33.0, 1e-15);
    unit.recompute = RECOMPUTE_FULL;
    CHECK_TRUE(cost_scores_bytes(&setting, &unit) == 0);
    setting.recompute_layers = 2;
    CHECK_CLOSE(cost_scores_bytes(&setting, &unit), 5 * 33.0, 1e-15);
    unit.recompute = RECOMPUTE_ATTENTION_CORE;
    CHECK_TRUE(cost_scores_bytes(&setting, &unit) == 0);
    CHECK_CLOSE(cost_workspace_bytes(&setting, &unit), 3.5 * (48 + 32) + 5 * 33.0, 1e-15);
    slices[1].end = 23; /* 24 + 529 scores x 2 heads / 2 ranks, 27/2 tokens: 4 x 553 > 48 x 13.5 */
    CHECK_CLOSE(cost_workspace_bytes(&setting, &unit), 4 * 553.0 + 13.5 * 32 + 5 * 553.0, 1e-15);
    setting.attention = DEVICE_CUDNN;
    CHECK_TRUE(cost_scores_bytes(&setting, &unit) == 0);
}

/* Tokens [2, 6) see 6 keys, [0, 3) of another sample see 3. So 9 x 4k/2 = 72 bytes are gathered on each of 4 context
 * ranks, backward with their gradients. A rank has 7/4 tokens, whose widest gradients are 6f/2 = 48 each: 84. A token
 * has 4h beside that. */
TEST(gathered_kv__covers_the_whole_prefix)
{
    struct slice slices[] = {{0, 2, 6}, {1, 0, 3}};
    struct cost_unit unit = {.slices = slices, .n_slices = 2, .context = 4};
    struct scenario_plan plan = {.sequence_parallel = true};
    struct cost_setting setting = {.model = &small, .plan = &plan, .tensor = 2, .layers = 3};
    CHECK_TRUE(cost_gathered_kv_bytes(&setting, PASS_BACKWARD, &unit) == 0);
    CHECK_CLOSE(cost_workspace_bytes(&setting, &unit), 84 + 1.75 * 32, 1e-15);
    plan.cp_type = SCENARIO_ALL_GATHER;
    CHECK_CLOSE(cost_gathered_kv_bytes(&setting, PASS_FORWARD, &unit), 72.0, 1e-15);
    CHECK_CLOSE(cost_gathered_kv_bytes(&setting, PASS_BACKWARD, &unit), 144.0, 1e-15);
    CHECK_CLOSE(cost_workspace_bytes(&setting, &unit), 144 + 1.75 * 32, 1e-15);
    unit.context = 1;
    CHECK_TRUE(cost_gathered_kv_bytes(&setting, PASS_BACKWARD, &unit) == 0);
}

/* h = 8, GELU, f = 32, LayerNorm, biases and 6 learned positions. V = 10 is padded to 16 over TP 2, which is 8 rows
 * each. A layer has matrices of (4 x 64 + 2 x 256)/2 = 384, biases of (24 + 32)/2 + 16 = 44 and norms of 32: 460. The
 * first stage has 2 x 460 + 64 + 48. The last has 2 x 460 + 64 + 16. One stage with tied embeddings has 4 x 460 + 64 +
 * 48 + 16. */
TEST(cost_stage_parameters__count_vectors_and_padding)
{
    const struct model model = {.hidden = 8,
                                .layers = 4,
                                .heads = 2,
                                .kv_heads = 2,
                                .ffn = 32,
                                .vocabulary = 10,
                                .activation = MODEL_GELU,
                                .tied_embeddings = true,
                                .norm = MODEL_LAYERNORM,
                                .biases = true,
                                .positions = 6,
                                .vocabulary_multiple = 8};
    CHECK_CLOSE(cost_stage_parameters(&model, 2, 2, true, false), 1032.0, 1e-15);
    CHECK_CLOSE(cost_stage_parameters(&model, 2, 2, false, true), 1000.0, 1e-15);
    CHECK_CLOSE(cost_stage_parameters(&model, 2, 4, true, true), 1968.0, 1e-15);
    CHECK_EQUAL(hand_parameters(&model), 4 * (768 + 24 + 8 + 32 + 8 + 32) + 16 + 16 * 8);
    CHECK_CLOSE(model_vocabulary_share(&model, 1), 16.0, 1e-15);
    CHECK_CLOSE(model_vocabulary_share(&small, 2), 5.0, 1e-15); /* not padded */
}

/* From 10 MiB on blocks grow in steps of 2 MiB, but a rest above 1 MiB is given back. The states of one shard have h =
 * 512, V = 25216 a rank, 6 layers and no other matrix of 10 MiB. The head's fp32 tensors of 49.25 MiB take 50, and its
 * weight of 24.625 is split. Gradients of 22,354,048 parameters at 4 bytes are 85.274 MiB of 86. On two shards the
 * gradients and weights of 42.637 MiB are split. */
TEST(allocator__splits_no_block_for_less_than_a_mebibyte)
{
    const double mib = 1 << 20;
    static const double cases[][2] = {{1, 1}, {9.5, 9.5}, {10, 10}, {10.5, 10.5}, {11, 12}, {11.25, 12}, {12, 12}};
    for (int i = 0; i < 7; i++)
        CHECK_CLOSE(cost_block_bytes(cases[i][0] * mib), cases[i][1] * mib, 1e-15);
    const struct model model = {.hidden = 512,
                                .layers = 12,
                                .heads = 8,
                                .kv_heads = 8,
                                .ffn = 2048,
                                .vocabulary = 50257,
                                .activation = MODEL_GELU,
                                .tied_embeddings = true,
                                .vocabulary_multiple = 128};
    struct scenario_plan plan = {0};
    struct cost_setting setting = {.model = &model, .plan = &plan, .tensor = 2};
    double parameters = 6 * (1572864 + 1024) + 512 + 25216 * 512.0;
    double gradients = 86 * mib - 4 * parameters;
    CHECK_CLOSE(cost_state_block_bytes(&setting, 6, false, true, 1), 3 * 0.75 * mib + gradients, 1e-12);
    CHECK_CLOSE(cost_state_block_bytes(&setting, 6, false, true, 2), gradients, 1e-12);
    plan.sharding = SCENARIO_ZERO3;
    CHECK_TRUE(cost_state_block_bytes(&setting, 6, false, true, 2) == 0);
}

/* h = 1856, k = 464 and f = 4928 (SwiGLU). A layer's matrices have 5,167,104, 3,444,736, 18,292,736 and 9,146,368
 * parameters. In bf16 they are 9.855, 6.570, 34.891 and 17.445 MiB, of which the last one wastes 0.5547. In fp32 they
 * are 19.711, 13.141, 69.781 and 34.891, three tensors each. These waste 0.2891, 0.8594, 0.2188 and, above a mebibyte,
 * nothing. TP 2 halves each. In bf16 up wastes as much as down did; in fp32 down wastes that much. */
TEST(allocator__gives_each_matrix_a_block)
{
    const double mib = 1 << 20;
    const struct model model = {.hidden = 1856,
                                .layers = 3,
                                .heads = 16,
                                .kv_heads = 4,
                                .ffn = 4928,
                                .vocabulary = 32000,
                                .activation = MODEL_SWIGLU};
    struct cost_setting setting = {
        .model = &model, .plan = &(struct scenario_plan){.gradient_buffers = SCENARIO_GRADIENTS_FREED}, .tensor = 1};
    double layer = 0.5546875 + 3 * (0.2890625 + 0.859375 + 0.21875);
    CHECK_CLOSE(cost_state_block_bytes(&setting, 3, false, false, 1), 3 * layer * mib, 1e-12);
    setting.tensor = 2;
    CHECK_CLOSE(cost_state_block_bytes(&setting, 3, false, false, 1), 3 * (1 + 3) * 0.5546875 * mib, 1e-12);
}

/* Qi et al. 2023 (arXiv:2401.10241), table 1, has M_W = 32 s b h, against M_B = s b (34 h + 5 a s). */
TEST(cost_weight_bytes__match_the_zero_bubble_paper)
{
    for (int i = 0; i < 4; i++) {
        struct cost_setting setting = {.model = &gpts[i], .plan = &(struct scenario_plan){0}, .tensor = 1, .layers = 1};
        CHECK_CLOSE(cost_weight_bytes(&setting), 32.0 * (double)gpts[i].hidden, 1e-15);
    }
}

/* Check ten tokens of h 4, f 8, V 16 without TP. P is 144 + 8, the root 132, the head 64, the down GEMM 32
 * parameters. */
static void check_moments(const struct cost_setting *setting, const double whole[COST_N_MOMENTS], double forward)
{
    const struct cost_work work = {
        .tokens = 10, .workspace = 5000, .layer = 300, .layers = 1200, .head = 700, .head_workspace = 900};
    const double rest[COST_N_MOMENTS] = {900,
                                         10 * (2 - 4) * 16.0 + 10 * 2 * 4,
                                         5000 - 10 * 2 * 8.0 - 700,
                                         10 * 8 * 4 - 700 - 300.0,
                                         10 * 2 * 4 - 700 - 300.0,
                                         5000 - 10 * 2 * 8.0 - 700 - 300,
                                         10 * 8 * 4 - 700 - 300 - 300.0,
                                         10 * 2 * 4 - 700 - 300 - 300.0,
                                         10 * 2 * 4 - 700 - 1200.0};
    double bytes[COST_N_MOMENTS], forwards[COST_N_FORWARD_MOMENTS], most = -1e9;
    cost_moments_of(setting, &work, bytes);
    for (int i = 0; i < COST_N_MOMENTS; i++) {
        CHECK_CLOSE(bytes[i] - rest[i], whole[i], 1e-12);
        most = bytes[i] > most ? bytes[i] : most;
    }
    CHECK_TRUE(cost_moments_most(setting, PASS_BACKWARD, &work) == most);
    cost_forward_moments_of(setting, &work, forwards);
    CHECK_CLOSE(forwards[COST_FORWARD_LAYER], 5000 - 160 - 700 + forward, 1e-14);
    CHECK_TRUE(cost_moments_most(setting, PASS_FORWARD, &work) == forwards[COST_FORWARD_LAYER]);
}

/* FSDP1 has the same bytes in all layers behind the first one. */
static void check_alike_moments(const struct cost_setting *setting, double at_head, const double layer[3],
                                double at_ends, double forward)
{
    double head = 128; /* the head's gradient */
    const double in = layer[0], norm = layer[1], behind = layer[2];
    const double whole[] = {at_head, head + at_head, in, norm, behind, in, norm, behind, at_ends};
    check_moments(setting, whole, forward);
}

/* Weights of one layer, or backward-pre of two, take 2 bytes. In a layer the head's gradient, 2 x 64, waits, and the
 * down GEMM's, 2 x 32, is there. In its first norm the layer's gradients, 2, are there. At its end there are the
 * gradients of views and the flat ones, 4. In fp32 there are then the next layer's weights, 2, the flat gradient and
 * its copy, 2 + 4. */
TEST(fsdp1__holds_whole_tensors_moment_by_moment)
{
    const double p = 152, head = 128, down = 64;
    struct scenario_plan plan = {0};
    struct cost_setting setting = {.model = &hand_toy, .plan = &plan, .tensor = 1, .layers = (int32_t)hand_toy.layers};
    plan.sharding = SCENARIO_ZERO3;
    plan.gradients = SCENARIO_BF16;
    plan.fsdp_prefetch = SCENARIO_BACKWARD_POST;
    check_alike_moments(&setting, 0, (double[]){head + down + 2 * p, head + 4 * p, head + 6 * p}, 4 * 132, 2 * p);
    plan.gradients = SCENARIO_FP32;
    check_alike_moments(&setting, 0, (double[]){head + down + 2 * p, head + 4 * p, head + 8 * p}, 4 * 132, 2 * p);
    plan.fsdp_prefetch = SCENARIO_BACKWARD_PRE;
    plan.gradients = SCENARIO_BF16;
    check_alike_moments(&setting, 2 * p, (double[]){head + down + 4 * p, head + 6 * p, head + 8 * p}, 4 * 132, 2 * p);
    plan.sharding = SCENARIO_ZERO2;
    check_alike_moments(&setting, 0, (double[]){head + down, head + 2 * p, head + 4 * p}, 4 * 132, 0);
    plan.gradients = SCENARIO_FP32;
    check_alike_moments(&setting, 0, (double[]){head + down, head + 2 * p, head + 6 * p}, 6 * 132, 0);
}

/* Weights of a layer and a buffer of the next take 2 + 2. From the second layer on the first one's fp32 gradients, 4,
 * are being reduced. In a layer's first norm its gradients, 2, are there. At its end they are copied, 2 + 4, when its
 * weights have gone. With own ends the head's weights are there while it works. In the first layer the head's gradients
 * are being reduced, 4 x 64, for 2 x 64 that wait. They have gone when those of the layer are copied. */
TEST(fsdp2__holds_whole_tensors_moment_by_moment)
{
    const double p = 152, head = 128, down = 64;
    struct scenario_plan plan = {.fsdp = 2};
    struct cost_setting setting = {.model = &hand_toy, .plan = &plan, .tensor = 1, .layers = (int32_t)hand_toy.layers};
    plan.sharding = SCENARIO_ZERO3;
    check_moments(&setting,
                  (double[]){2 * p, head + 2 * p, head + down + 4 * p, head + 6 * p, head + 8 * p, head + down + 8 * p,
                             head + 10 * p, head + 8 * p, 2 * 132 + 4 * p},
                  4 * p);
    plan.fsdp_ends = SCENARIO_ENDS_OWN;
    check_moments(&setting,
                  (double[]){2 * p + head, head + 2 * p + head, 2 * head + down + 4 * p, 2 * head + 6 * p, 8 * p,
                             down + 8 * p, 10 * p, 8 * p, 4 * 68 + 4 * p},
                  4 * p);
}

/* One layer of 152 parameters has none behind it. FSDP1 prefetches nothing. It joins the gradients of views and the
 * flat ones, 4; in fp32 it has 2 + 4 beside no weights. FSDP2 has no other buffer, and its copied gradients are 2 + 4.
 * With two layers the first ends beside the second one's weights, which have none behind them: 2 + 4, then 2 + 2 +
 * 4. */
TEST(gathered__prefetches_nothing_in_the_last_layer)
{
    const double p = 152, head = 128, down = 64;
    struct model model = hand_toy;
    struct scenario_plan plan = {.sharding = SCENARIO_ZERO3};
    struct cost_setting setting = {.model = &model, .plan = &plan, .tensor = 1};
    plan.fsdp_prefetch = SCENARIO_BACKWARD_PRE;
    model.layers = setting.layers = 1;
    check_alike_moments(&setting, 2 * p, (double[]){head + down + 2 * p, head + 4 * p, head + 6 * p}, 4 * 132, 2 * p);
    plan.fsdp = 2;
    check_moments(&setting,
                  (double[]){2 * p, head + 2 * p, head + down + 2 * p, head + 4 * p, head + 6 * p, head + down + 4 * p,
                             head + 6 * p, head + 6 * p, 2 * 132 + 4 * p},
                  4 * p);
    model.layers = setting.layers = 2;
    check_moments(&setting,
                  (double[]){2 * p, head + 2 * p, head + down + 4 * p, head + 6 * p, head + 8 * p, head + down + 6 * p,
                             head + 8 * p, head + 8 * p, 2 * 132 + 4 * p},
                  4 * p);
}

/* At the loss there is the head's workspace without the logits' gradient. With V 16 and ten tokens a fused loss has 2
 * bytes, eager passes 4 (of two in fp32). Fused passes have none, as it comes in place. At the head a loss by passes
 * does not keep its 4 either. Only 2 of eager passes' 8 bytes are there. FSDP1 has the weights of the layer in work
 * alone. FSDP2 has the last layer's weights, and until the model's forward is over their buffer. With own ends it has
 * the last layer's and the head's, 2 x 64, with its buffer. TP 2 halves all that. In a layer half of the down GEMM's
 * input, 160 bytes, is gone. */
TEST(gathered__counts_forward_moments_by_hand)
{
    const double p = 152, table = 10 * 16.0;
    const struct cost_work work = {.tokens = 10, .workspace = 5000, .head = 700, .head_workspace = 900};
    struct scenario_plan plan = {.sharding = SCENARIO_ZERO3};
    struct cost_setting setting = {.model = &hand_toy, .plan = &plan, .tensor = 1, .layers = 3};
    double bytes[COST_N_FORWARD_MOMENTS];
    cost_forward_moments_of(&setting, &work, bytes);
    CHECK_CLOSE(bytes[COST_FORWARD_HEAD], 900 - 4 * table, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LOSS], 900, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LAYER], 5000 - 160 + 2 * p - 700, 1e-14);
    setting.kernels = SCENARIO_EAGER;
    cost_forward_moments_of(&setting, &work, bytes);
    CHECK_CLOSE(bytes[COST_FORWARD_HEAD], 900 - 10 * table, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LOSS], 900 - 4 * table, 1e-14);
    setting.loss = SCENARIO_LOSS_FUSED;
    plan.fsdp = 2;
    cost_forward_moments_of(&setting, &work, bytes);
    CHECK_CLOSE(bytes[COST_FORWARD_HEAD], 900 - 2 * table + 4 * p, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LOSS], 900 - 2 * table + 2 * p, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LAYER], 5000 - 160 + 4 * p - 700, 1e-14);
    plan.fsdp_ends = SCENARIO_ENDS_OWN;
    cost_forward_moments_of(&setting, &work, bytes);
    CHECK_CLOSE(bytes[COST_FORWARD_HEAD], 900 - 2 * table + 2 * p + 2 * 128, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LOSS], 900 - 2 * table + 2 * p + 128, 1e-14);
    setting.tensor = 2; /* norms are whole */
    cost_forward_moments_of(&setting, &work, bytes);
    CHECK_CLOSE(bytes[COST_FORWARD_HEAD], 900 - table + 2 * (72 + 8) + 128, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LOSS], 900 - table + 2 * (72 + 8) + 64, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LAYER], 5000 - 80 + 4 * (72 + 8.0) - 700, 1e-14);
}

/* V is 16 and h 4. A token has gradients of logits in bf16, 2 x 16, for 4 x 16 kept (a fused loss: 2 x 16). It has the
 * input's gradient, 8. TP 2 halves the logits. The input is whole and, with sequence parallelism, gathered again. */
TEST(head_backward__works_on_bf16)
{
    struct scenario_plan plan = {.sequence_parallel = true};
    struct cost_setting setting = {.model = &hand_toy, .plan = &plan, .tensor = 1};
    CHECK_CLOSE(cost_head_backward_bytes(&setting, 10), 10 * (8 - 32.0), 1e-15);
    setting.loss = SCENARIO_LOSS_FUSED;
    CHECK_CLOSE(cost_head_backward_bytes(&setting, 10), 10 * 8.0, 1e-15);
    setting.loss = SCENARIO_LOSS_PASSES;
    setting.tensor = 2;
    CHECK_CLOSE(cost_head_backward_bytes(&setting, 10), 10 * (16 - 16.0), 1e-15);
    plan.sequence_parallel = false;
    CHECK_CLOSE(cost_head_backward_bytes(&setting, 10), 10 * (8 - 16.0), 1e-15);
}

/* With h 4 there are four bf16 tensors. Single operations leave six fp32 and two bf16 tensors. LayerNorm is one
 * kernel. */
TEST(norm_backward__holds_what_its_operations_leave)
{
    struct scenario_plan plan = {0};
    struct cost_setting setting = {.model = &hand_toy, .plan = &plan, .tensor = 2};
    struct model gpt = hand_toy;
    CHECK_CLOSE(cost_norm_backward_bytes(&setting, 10), 10 * 4 * 8.0, 1e-15);
    setting.kernels = SCENARIO_EAGER;
    CHECK_CLOSE(cost_norm_backward_bytes(&setting, 10), 10 * 4 * 28.0, 1e-15);
    plan.sequence_parallel = true;
    CHECK_CLOSE(cost_norm_backward_bytes(&setting, 10), 10 * 4 * 14.0, 1e-15);
    gpt.activation = MODEL_GELU;
    setting.model = &gpt;
    CHECK_CLOSE(cost_norm_backward_bytes(&setting, 10), 10 * 4 * 4.0, 1e-15);
}

/* Ten tokens run with h 4 and TP 2. At the head there is the input's gradient, 80 bytes. With sequence parallelism the
 * input is gathered again, 80. A layer's first norm has four such tensors. Behind it there is its input's gradient
 * alone, of all tokens or of the rank's half. The embedding's backward gathers it. */
TEST(sequence_parallel__splits_the_gradients_behind_a_layer)
{
    const struct cost_work work = {.tokens = 10};
    struct scenario_plan plan = {0};
    struct cost_setting setting = {.model = &hand_toy, .plan = &plan, .tensor = 2, .layers = (int32_t)hand_toy.layers};
    plan.sharding = SCENARIO_ZERO3;
    for (int32_t version = 1; version <= 2; version++) {
        double whole[COST_N_MOMENTS], split[COST_N_MOMENTS];
        plan.fsdp = version;
        plan.sequence_parallel = false;
        cost_moments_of(&setting, &work, whole);
        plan.sequence_parallel = true;
        cost_moments_of(&setting, &work, split);
        CHECK_CLOSE(whole[COST_IN_NEXT] - whole[COST_IN_NEXT_NORM], -80 + 32 - 2 * 80 - 10 * 4 * 8, 1e-12);
        const double more[COST_N_MOMENTS] = {[COST_AT_HEAD] = 80,
                                             [COST_IN_NORM] = -160,
                                             [COST_BEHIND_LAYER] = -40,
                                             [COST_IN_NEXT_NORM] = -160,
                                             [COST_BEHIND_NEXT] = -40};
        for (int i = 0; i < COST_N_MOMENTS; i++)
            CHECK_CLOSE(split[i] - whole[i], more[i], 1e-12);
    }
}

/* 13B keeps 12h + 4k = 16 x 5120, 6f = 6 x 13824 and 4n = 160 with `none`. `selective` keeps 4h and 2f less. GPT-3
 * keeps 32h + 4n. Single operations keep 8h and 2f more, which the list computes again as well. GPT-3 keeps nothing
 * more. */
TEST(cost_activation_bytes__follow_the_breakdown)
{
    struct cost_setting llama = {.model = &hand_llama_13b, .plan = &hand_toy_plan, .tensor = 1};
    struct cost_setting gpt_3 = {.model = &hand_gpt_3, .plan = &hand_toy_plan, .tensor = 1};
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

/* A token of SwiGLU has 6f/2 = 24, and input and its gradient 16. Recomputed norms and product have (16 + 16)/2. All of
 * a layer has (12h + 4k + 6f + 4n)/2 = 56, except for its input, 2h/2, that was kept. Eager has (8h + 2f)/2 more, and
 * the input in fp32. Without TP it has 48 and one 2h. */
TEST(cost_workspace_bytes__are_counted_by_hand)
{
    struct cost_setting setting = hand_toy_setting();
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

/* 100 parameters over 4 ranks take 2 + 4 + 12/4 bytes. bf16 gradients take 2 bytes less. Sharded gradients take (2 +
 * 12)/4. Sharded weights, too, have no bf16 copy and a gradient in fp32 however it was reduced, 16/4. Unsharded bf16
 * gradients take 2 + 2 + 12. Embedding, head and last norm have 2 x 4 x 16/2 + 4 = 68 parameters. zero3 has their
 * weights throughout, unless they are units of their own. */
TEST(cost_state_bytes__follow_precision_and_sharding)
{
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
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

/* The gradients of 100 parameters over 4 ranks take whole 4 or 2 bytes each. zero2 takes a quarter. zero3 takes fp32 in
 * any case. */
TEST(cost_gradient_state_bytes__follow_precision_and_sharding)
{
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
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

/* Llama 13B keeps 6h + 2k + 2f + 4n = 8 x 5120 + 2 x 13824 + 160. Eager keeps the down GEMM's output, 2h. Sliced
 * samples keep their keys, 2k. TP 8 keeps (8h + 2k + 2f + 4n)/8, eager 2h + 2h/8 more. The toy has TP 2 and 10 tokens.
 * A token computes again 2 (k + f)/2 beside the list's 16 and 40 that no list needs. */
TEST(alternate_gemms__are_not_kept)
{
    const enum recompute list = (enum recompute)(RECOMPUTE_SELECTIVE | RECOMPUTE_ALTERNATE_GEMMS);
    struct cost_setting llama = {.model = &hand_llama_13b, .plan = &hand_toy_plan, .tensor = 1};
    struct cost_setting toy = hand_toy_setting();
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

/* Without TP the stages hold the model once. Tied embeddings are on both ends, and once if there is one stage. */
TEST(cost_stage_parameters__add_up_to_the_model)
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
