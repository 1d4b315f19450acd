/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count the bytes that micro-batches keep and work with. */
#include "cost/activation.h"
#include "hand_cost.h"
#include "hand_model.h"
#include "harness.h"

/* These are GPTs of 2022: GELU, f = 4h, dropout, and scores that are kept. */
static const struct model gpts[] = {
    {.hidden = 6144,
     .layers = 48,
     .dropout = true,
     .kinds = {{.heads = 64, .kv_heads = 64, .ffn = 24576, .activation = MODEL_GELU}}},
    {.hidden = 12288,
     .layers = 96,
     .dropout = true,
     .kinds = {{.heads = 96, .kv_heads = 96, .ffn = 49152, .activation = MODEL_GELU}}},
    {.hidden = 20480,
     .layers = 105,
     .dropout = true,
     .kinds = {{.heads = 128, .kv_heads = 128, .ffn = 81920, .activation = MODEL_GELU}}},
    {.hidden = 25600,
     .layers = 128,
     .dropout = true,
     .kinds = {{.heads = 160, .kv_heads = 160, .ffn = 102400, .activation = MODEL_GELU}}},
};

/* Count the bytes of one layer of a micro-batch of `batch` samples of `tokens`. */
static double layer_bytes(const struct cost_setting *setting, enum recompute recompute, int32_t tokens, int32_t batch)
{
    struct slice slices[8];
    for (int32_t i = 0; i < batch; i++)
        slices[i] = (struct slice){i, 0, tokens};
    struct cost_micro_batch micro_batch = {.slices = slices, .n_slices = batch, .context = 1, .recompute = recompute};
    return hand_layer_bytes(setting, recompute, false) * tokens * batch + cost_scores_bytes(setting, &micro_batch);
}

/* Korthikanti et al. 2022 (arXiv:2205.05198), table 2, gives a row each by s b h, a s / h and t. */
TEST(layer_activations__match_the_published_table)
{
    for (int i = 0; i < 4; i++)
        for (int32_t t = 1; t <= 8; t *= 2)
            for (int32_t b = 1; b <= 4; b *= 4) {
                double s = 2048, h = (double)gpts[i].hidden, a = (double)gpts[i].kinds[0].heads, sbh = s * b * h;
                struct scenario_plan plan = {0};
                struct cost_setting setting = hand_with(
                    (struct cost_setting){.model = &gpts[i], .attention = DEVICE_UNFUSED, .tensor = t, HAND_LAYERS(1)},
                    &plan);
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_NONE, 2048, b), sbh * (10 + 24.0 / t + 5 * a * s / (h * t)),
                            1e-12);
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_ATTENTION_CORE, 2048, b), sbh * (10 + 24.0 / t), 1e-12);
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_FULL, 2048, b), 2 * sbh, 1e-12);
                setting.sequence_parallel = true;
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_NONE, 2048, b), sbh / t * (34 + 5 * a * s / h), 1e-12);
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_ATTENTION_CORE, 2048, b), 34 * sbh / t, 1e-12);
                CHECK_CLOSE(layer_bytes(&setting, RECOMPUTE_FULL, 2048, b), 2 * sbh / t, 1e-12);
            }
}

/* h = 8, n = 4, g = 2 (k = 4), f = 16 and TP 2. By hand a token has norm inputs of 32 and norm outputs of 32. Queries
 * and output have 32, keys and values 16. Gate and up have 64, the product 32, log-sum-exp 16. */
static const struct model small = {
    .hidden = 8, .layers = 4, .vocabulary = 10, .kinds = {{.heads = 4, .kv_heads = 2, .ffn = 16}}};

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
        struct cost_setting setting =
            hand_with((struct cost_setting){.model = &small, .tensor = 2, HAND_LAYERS(1)}, &plan);
        CHECK_CLOSE(hand_layer_bytes(&setting, cases[i].recompute, false), cases[i].whole, 1e-15);
        setting.sequence_parallel = true;
        CHECK_CLOSE(hand_layer_bytes(&setting, cases[i].recompute, false), cases[i].shared, 1e-15);
    }
}

/* Masks of two dropouts take 16 bytes a token. Full recomputation keeps none. Keys and values that later slices need
 * take 8. */
TEST(layer_activations__grow_by_dropout_and_slices)
{
    struct model dropped = small;
    dropped.dropout = true;
    struct scenario_plan plan = {.sequence_parallel = true};
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &dropped, .tensor = 2, HAND_LAYERS(1)}, &plan);
    CHECK_CLOSE(hand_layer_bytes(&setting, RECOMPUTE_NONE, false), 112 + 8.0, 1e-15);
    CHECK_CLOSE(hand_layer_bytes(&setting, RECOMPUTE_FULL, true), 8 + 8.0, 1e-15);
    CHECK_CLOSE(cost_embedding_bytes(&setting, 10), 40.0, 1e-15);
    setting.sequence_parallel = false;
    CHECK_CLOSE(hand_layer_bytes(&setting, RECOMPUTE_NONE, false), 144 + 16.0, 1e-15);
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
    struct cost_micro_batch micro_batch = {.slices = slices, .n_slices = 2, .context = 1};
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &dropped, .attention = DEVICE_UNFUSED, .tensor = 2, HAND_LAYERS(3)},
                  &(struct scenario_plan){.sequence_parallel = true});
    CHECK_CLOSE(cost_scores_bytes(&setting, &micro_batch), 3 * 2 * 66.0, 1e-15);
    dropped.dropout = true;
    CHECK_CLOSE(cost_scores_bytes(&setting, &micro_batch), 3 * 5 * 66.0, 1e-15);
    micro_batch.context = 2;
    CHECK_CLOSE(cost_scores_bytes(&setting, &micro_batch), 3 * 5 * 33.0, 1e-15);
    micro_batch.recompute = RECOMPUTE_FULL;
    CHECK_TRUE(cost_scores_bytes(&setting, &micro_batch) == 0);
    hand_recompute_layers(&setting, 2);
    CHECK_CLOSE(cost_scores_bytes(&setting, &micro_batch), 5 * 33.0, 1e-15);
    micro_batch.recompute = RECOMPUTE_ATTENTION_CORE;
    CHECK_TRUE(cost_scores_bytes(&setting, &micro_batch) == 0);
    CHECK_CLOSE(cost_workspace_bytes(&setting, &micro_batch), 3.5 * (48 + 32) + 5 * 33.0, 1e-15);
    slices[1].end = 23; /* 24 + 529 scores x 2 heads / 2 ranks, 27/2 tokens: 4 x 553 > 48 x 13.5 */
    CHECK_CLOSE(cost_workspace_bytes(&setting, &micro_batch), 4 * 553.0 + 13.5 * 32 + 5 * 553.0, 1e-15);
    setting.attention = DEVICE_CUDNN;
    CHECK_TRUE(cost_scores_bytes(&setting, &micro_batch) == 0);
}

/* Tokens [2, 6) see 6 keys, [0, 3) of another sample see 3. So 9 x 4k/2 = 72 bytes are gathered on each of 4 context
 * ranks, backward with their gradients. A rank has 7/4 tokens, whose widest gradients are 6f/2 = 48 each: 84. A token
 * has 4h beside that. */
TEST(gathered_kv__covers_the_whole_prefix)
{
    struct slice slices[] = {{0, 2, 6}, {1, 0, 3}};
    struct cost_micro_batch micro_batch = {.slices = slices, .n_slices = 2, .context = 4};
    struct scenario_plan plan = {.sequence_parallel = true};
    struct cost_setting setting = hand_with((struct cost_setting){.model = &small, .tensor = 2, HAND_LAYERS(3)}, &plan);
    CHECK_TRUE(cost_gathered_kv_bytes(&setting, PASS_BACKWARD, &micro_batch) == 0);
    CHECK_CLOSE(cost_workspace_bytes(&setting, &micro_batch), 84 + 1.75 * 32, 1e-15);
    setting.cp_type = SCENARIO_ALL_GATHER;
    CHECK_CLOSE(cost_gathered_kv_bytes(&setting, PASS_FORWARD, &micro_batch), 72.0, 1e-15);
    CHECK_CLOSE(cost_gathered_kv_bytes(&setting, PASS_BACKWARD, &micro_batch), 144.0, 1e-15);
    CHECK_CLOSE(cost_workspace_bytes(&setting, &micro_batch), 144 + 1.75 * 32, 1e-15);
    micro_batch.context = 1;
    CHECK_TRUE(cost_gathered_kv_bytes(&setting, PASS_BACKWARD, &micro_batch) == 0);
}

/* Qi et al. 2023 (arXiv:2401.10241), table 1, has M_W = 32 s b h, against M_B = s b (34 h + 5 a s). */
TEST(cost_weight_bytes__match_the_zero_bubble_paper)
{
    for (int i = 0; i < 4; i++) {
        struct cost_setting setting = hand_with((struct cost_setting){.model = &gpts[i], .tensor = 1, HAND_LAYERS(1)},
                                                &(struct scenario_plan){0});
        CHECK_CLOSE(cost_weight_bytes(&setting), 32.0 * (double)gpts[i].hidden, 1e-15);
    }
}

/* V is 16 and h 4. A token has gradients of logits in bf16, 2 x 16, for 4 x 16 kept (a fused loss: 2 x 16). It has the
 * input's gradient, 8. TP 2 halves the logits. The input is whole and, with sequence parallelism, gathered again. */
TEST(head_backward__works_on_bf16)
{
    struct scenario_plan plan = {.sequence_parallel = true};
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &hand_toy, .tensor = 1, HAND_LAYERS(1)}, &plan);
    CHECK_CLOSE(cost_head_backward_bytes(&setting, 10), 10 * (8 - 32.0), 1e-15);
    setting.loss = SCENARIO_LOSS_FUSED;
    CHECK_CLOSE(cost_head_backward_bytes(&setting, 10), 10 * 8.0, 1e-15);
    setting.loss = SCENARIO_LOSS_PASSES;
    setting.tensor = 2;
    CHECK_CLOSE(cost_head_backward_bytes(&setting, 10), 10 * (16 - 16.0), 1e-15);
    setting.sequence_parallel = false;
    CHECK_CLOSE(cost_head_backward_bytes(&setting, 10), 10 * (8 - 16.0), 1e-15);
}

/* V is 16 and h 4. PyTorch's loss has two gradients in fp32, 8 x 16, whatever kernels are, and keeps 4 x 16. A fused
 * linear loss keeps no logits. A fourth of the tokens has logits in bf16 at a time, 2 x 16 / 4. Beside the norm's input
 * and output, 2 x 2 x 4, there is the output's gradient, 2 x 4. The weights' gradient is 2 x 16 x 4. */
TEST(head__keeps_no_logits_with_a_fused_linear_loss)
{
    struct scenario_plan plan = {0};
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &hand_toy, .tensor = 1, HAND_LAYERS(1)}, &plan);
    setting.loss = SCENARIO_LOSS_TORCH;
    CHECK_CLOSE(cost_head_workspace_bytes(&setting, 10), 10 * 8 * 16.0, 1e-15);
    CHECK_CLOSE(cost_head_bytes(&setting, 10), 10 * (4 * 16 + 16.0), 1e-15);
    CHECK_CLOSE(cost_head_backward_bytes(&setting, 10), 10 * (8 - 32.0), 1e-15);
    CHECK_TRUE(cost_head_early_bytes(&setting) == 0);
    setting.loss = SCENARIO_LOSS_FUSED_LINEAR;
    CHECK_CLOSE(cost_head_workspace_bytes(&setting, 10), 10 * (2 * 4 + 8.0), 1e-15);
    CHECK_CLOSE(cost_head_bytes(&setting, 10), 10 * 16.0, 1e-15);
    CHECK_TRUE(cost_head_backward_bytes(&setting, 10) == 0);
    CHECK_CLOSE(cost_head_early_bytes(&setting), 128.0, 1e-15);
}

/* With h 4 there are four bf16 tensors. Single operations leave six fp32 and two bf16 tensors. LayerNorm is one
 * kernel. */
TEST(norm_backward__holds_what_its_operations_leave)
{
    struct scenario_plan plan = {0};
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &hand_toy, .tensor = 2, HAND_LAYERS(1)}, &plan);
    struct model gpt = hand_toy;
    CHECK_CLOSE(cost_norm_backward_bytes(&setting, 10), 10 * 4 * 8.0, 1e-15);
    setting.kernels = SCENARIO_EAGER;
    CHECK_CLOSE(cost_norm_backward_bytes(&setting, 10), 10 * 4 * 28.0, 1e-15);
    setting.sequence_parallel = true;
    CHECK_CLOSE(cost_norm_backward_bytes(&setting, 10), 10 * 4 * 14.0, 1e-15);
    gpt.kinds[0].activation = MODEL_GELU;
    setting.model = &gpt;
    CHECK_CLOSE(cost_norm_backward_bytes(&setting, 10), 10 * 4 * 4.0, 1e-15);
}

/* 13B keeps 12h + 4k = 16 x 5120, 6f = 6 x 13824 and 4n = 160 with `none`. `selective` keeps 4h and 2f less. GPT-3
 * keeps 32h + 4n. Single operations keep 8h and 2f more, which the list computes again as well. GPT-3 keeps nothing
 * more. */
TEST(cost_activation_bytes__follow_the_breakdown)
{
    struct cost_setting llama =
        hand_with((struct cost_setting){.model = &hand_llama_13b, .tensor = 1, HAND_LAYERS(1)}, &hand_toy_plan);
    struct cost_setting gpt_3 =
        hand_with((struct cost_setting){.model = &hand_gpt_3, .tensor = 1, HAND_LAYERS(1)}, &hand_toy_plan);
    CHECK_CLOSE(hand_layer_bytes(&llama, RECOMPUTE_NONE, true), 81920 + 82944 + 160.0, 1e-14);
    CHECK_CLOSE(hand_layer_bytes(&llama, RECOMPUTE_SELECTIVE, true), 61440 + 55296 + 160.0, 1e-14);
    CHECK_CLOSE(hand_layer_bytes(&llama, RECOMPUTE_FULL, false), 10240.0, 1e-14);
    llama.kernels = gpt_3.kernels = SCENARIO_EAGER;
    CHECK_CLOSE(hand_layer_bytes(&llama, RECOMPUTE_NONE, true), 122880 + 110592 + 160.0, 1e-14);
    CHECK_CLOSE(hand_layer_bytes(&llama, RECOMPUTE_SELECTIVE, true), 61440 + 55296 + 160.0, 1e-14);
    CHECK_CLOSE(cost_head_bytes(&llama, 1), 4 * 32000 + 8 * 5120.0, 1e-14);
    CHECK_CLOSE(cost_head_workspace_bytes(&llama, 1), 8 * 32000.0, 1e-14);
    CHECK_CLOSE(hand_layer_bytes(&gpt_3, RECOMPUTE_NONE, false), 32 * 12288 + 4 * 96.0, 1e-14);
    CHECK_CLOSE(cost_head_bytes(&gpt_3, 1), 4 * 51200 + 4 * 12288.0, 1e-14);
    llama.kernels = gpt_3.kernels = SCENARIO_FUSED;
    llama.tensor = 4;
    CHECK_CLOSE(hand_layer_bytes(&llama, RECOMPUTE_FULL, true), (10240 + 20480) / 4.0, 1e-14);
    llama.tensor = 8;
    CHECK_CLOSE(hand_layer_bytes(&llama, RECOMPUTE_NONE, false), 165024 / 8.0, 1e-14);
    CHECK_CLOSE(hand_layer_bytes(&gpt_3, RECOMPUTE_NONE, false), 32 * 12288 + 4 * 96.0, 1e-14);
    CHECK_CLOSE(hand_layer_bytes(&gpt_3, RECOMPUTE_SELECTIVE, false), 20 * 12288 + 4 * 96.0, 1e-14);
    const struct cost_setting toy = hand_toy_setting();
    CHECK_CLOSE(cost_kv_bytes(&toy, 0), 4.0, 1e-14);
}

/* A token of SwiGLU has 6f/2 = 24, and input and its gradient 16. Recomputed norms and product have (16 + 16)/2. All of
 * a layer has (12h + 4k + 6f + 4n)/2 = 56, except for its input, 2h/2, that was kept. Eager has (8h + 2f)/2 more, and
 * the input in fp32. Without TP it has 48 and one 2h. In place SwiGLU has 2f/2 = 8 alone. */
TEST(cost_workspace_bytes__are_counted_by_hand)
{
    struct cost_setting setting = hand_toy_setting();
    struct slice slice = {0, 0, 10};
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    CHECK_CLOSE(cost_workspace_bytes(&setting, &micro_batch), 400.0, 1e-14);
    setting.swiglu = SCENARIO_SWIGLU_IN_PLACE;
    CHECK_CLOSE(cost_workspace_bytes(&setting, &micro_batch), 240.0, 1e-14);
    setting.swiglu = SCENARIO_SWIGLU_FUSED;
    micro_batch.recompute = RECOMPUTE_SELECTIVE;
    CHECK_CLOSE(cost_workspace_bytes(&setting, &micro_batch), 560.0, 1e-14);
    micro_batch.recompute = RECOMPUTE_FULL;
    CHECK_CLOSE(cost_workspace_bytes(&setting, &micro_batch), 920.0, 1e-14);
    setting.kernels = SCENARIO_EAGER;
    CHECK_CLOSE(cost_workspace_bytes(&setting, &micro_batch), 1200.0, 1e-14);
    setting.kernels = SCENARIO_FUSED;
    CHECK_CLOSE(cost_head_bytes(&setting, 10), 10 * (4 * 8 + 4 * 4 / 2.0), 1e-14);
    CHECK_CLOSE(cost_head_workspace_bytes(&setting, 10), 10 * (2 * 8 + 2 * 4.0), 1e-14);
    CHECK_TRUE(cost_embedding_bytes(&setting, 10) == 0);
    setting.tensor = 1;
    micro_batch.recompute = RECOMPUTE_NONE;
    CHECK_CLOSE(cost_workspace_bytes(&setting, &micro_batch), 560.0, 1e-14);
    CHECK_CLOSE(cost_head_workspace_bytes(&setting, 10), 10 * 2 * 16.0, 1e-14);
}

/* Llama 13B keeps 6h + 2k + 2f + 4n = 8 x 5120 + 2 x 13824 + 160. Eager keeps the down GEMM's output, 2h. Sliced
 * samples keep their keys, 2k. TP 8 keeps (8h + 2k + 2f + 4n)/8, eager 2h + 2h/8 more. The toy has TP 2 and 10 tokens.
 * A token computes again 2 (k + f)/2 beside the list's 16 and 40 that no list needs. */
TEST(alternate_gemms__are_not_kept)
{
    const enum recompute list = (enum recompute)(RECOMPUTE_SELECTIVE | RECOMPUTE_ALTERNATE_GEMMS);
    struct cost_setting llama =
        hand_with((struct cost_setting){.model = &hand_llama_13b, .tensor = 1, HAND_LAYERS(1)}, &hand_toy_plan);
    struct cost_setting toy = hand_toy_setting();
    struct slice slice = {0, 0, 10};
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1, .recompute = list};
    CHECK_CLOSE(hand_layer_bytes(&llama, list, false), 40960 + 27648 + 160.0, 1e-14);
    CHECK_CLOSE(hand_layer_bytes(&llama, list, true), 40960 + 27648 + 160 + 10240.0, 1e-14);
    llama.kernels = SCENARIO_EAGER;
    CHECK_CLOSE(hand_layer_bytes(&llama, list, false), 40960 + 27648 + 160 + 10240.0, 1e-14);
    llama.tensor = 8;
    CHECK_CLOSE(hand_layer_bytes(&llama, list, false), (51200 + 27648 + 160) / 8.0 + 10240 + 1280.0, 1e-14);
    llama.kernels = SCENARIO_FUSED;
    CHECK_CLOSE(hand_layer_bytes(&llama, list, false), (51200 + 27648 + 160) / 8.0, 1e-14);
    CHECK_CLOSE(cost_workspace_bytes(&toy, &micro_batch), 560 + 10 * 10.0, 1e-14);
    CHECK_CLOSE(cost_kept_kv_bytes(&toy, list), 3 * 2.0, 1e-14);
    CHECK_CLOSE(cost_kept_kv_bytes(&toy, RECOMPUTE_NONE), 3 * 4.0, 1e-14);
    CHECK_TRUE(cost_kept_kv_bytes(&toy, RECOMPUTE_FULL) == 0);
}

/* h = 64, so a head is 16 wide. With one head of keys and values on TP 4 a rank keeps 2 x 2 x 16 bytes of it, without
 * copies a fourth of that. All else is equal. */
TEST(copied_kv_heads__are_kept_on_each_rank)
{
    const struct model model = {
        .hidden = 64, .layers = 3, .vocabulary = 16, .kinds = {{.heads = 4, .kv_heads = 1, .ffn = 128}}};
    struct scenario_plan plan = {.kv_copies = true}, divided = {0};
    struct cost_setting setting = hand_with((struct cost_setting){.model = &model, .tensor = 4, HAND_LAYERS(3)}, &plan);
    struct cost_setting other =
        hand_with((struct cost_setting){.model = &model, .tensor = 4, HAND_LAYERS(3)}, &divided);
    CHECK_CLOSE(cost_kept_kv_bytes(&setting, RECOMPUTE_NONE), 3 * 64.0, 0);
    CHECK_CLOSE(cost_activation_bytes(&setting, RECOMPUTE_NONE, false) -
                    cost_activation_bytes(&other, RECOMPUTE_NONE, false),
                3 * 48.0, 1e-14);
}

/* 32 heads of 4 and 8 of keys and values: 16 Ulysses ranks have 2 of queries each, and one of keys and values, of which
 * two ranks hold a copy. A rank of 1600 tokens keeps K and V of 1600 x 4 in bf16, 25,600 bytes, and has 100 of the
 * tokens. */
TEST(ulysses__keeps_copies_of_few_heads)
{
    const struct model model = {
        .hidden = 128, .layers = 3, .vocabulary = 16, .kinds = {{.heads = 32, .kv_heads = 8, .ffn = 128}}};
    struct scenario_plan plan = {.kv_copies = true, .cp_type = SCENARIO_ULYSSES};
    struct cost_setting setting = hand_with((struct cost_setting){.model = &model, .tensor = 1, HAND_LAYERS(3)}, &plan);
    double kept = cost_kept_kv_bytes(&setting, RECOMPUTE_NONE);
    CHECK_CLOSE(100 * (kept + cost_copied_kv_bytes(&setting, RECOMPUTE_NONE, 16)), 3 * 25600.0, 1e-15);
    CHECK_TRUE(cost_copied_kv_bytes(&setting, RECOMPUTE_NONE, 8) == 0);
    CHECK_TRUE(cost_copied_kv_bytes(&setting, RECOMPUTE_FULL, 16) == 0);
    CHECK_TRUE(cost_copied_kv_bytes(&setting, RECOMPUTE_ATTENTION_CORE, 16) == 0);
    setting.tensor = 4; /* with 4 ranks of context there are as many: half of a head each, in 2 copies */
    CHECK_CLOSE(100 *
                    (cost_kept_kv_bytes(&setting, RECOMPUTE_NONE) + cost_copied_kv_bytes(&setting, RECOMPUTE_NONE, 4)),
                3 * 25600.0 / 4, 1e-15);
    setting.tensor = 16; /* a rank has a copy before the exchange */
    CHECK_TRUE(cost_copied_kv_bytes(&setting, RECOMPUTE_NONE, 1) == 0);
    CHECK_CLOSE(cost_copied_kv_bytes(&setting, RECOMPUTE_NONE, 2), cost_kept_kv_bytes(&setting, RECOMPUTE_NONE), 1e-15);
    setting.cp_type = SCENARIO_RING;
    CHECK_TRUE(cost_copied_kv_bytes(&setting, RECOMPUTE_NONE, 16) == 0);
}
