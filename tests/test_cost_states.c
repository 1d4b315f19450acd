/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count parameters, states and the optimizer's seconds. */
#include "cost/communication.h"
#include "cost/context.h"
#include "cost/gathered.h"
#include "cost/states.h"
#include "hand_cost.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "harness.h"

/* h = 8, GELU, f = 32, LayerNorm, biases and 6 learned positions. V = 10 is padded to 16 over TP 2, which is 8 rows
 * each. A layer has matrices of (4 x 64 + 2 x 256)/2 = 384, biases of (24 + 32)/2 + 16 = 44 and norms of 32: 460. The
 * first stage has 2 x 460 + 64 + 48. The last has 2 x 460 + 64 + 16. One stage with tied embeddings has 4 x 460 + 64 +
 * 48 + 16. */
TEST(cost_stage_parameters__count_vectors_and_padding)
{
    const struct model model = {
        .hidden = 8,
        .layers = 4,
        .vocabulary = 10,
        .tied_embeddings = true,
        .norm = MODEL_LAYERNORM,
        .positions = 6,
        .vocabulary_multiple = 8,
        .kinds = {{.heads = 2, .kv_heads = 2, .ffn = 32, .activation = MODEL_GELU, .biases = true}}};
    CHECK_CLOSE(hand_stage_parameters(&model, 2, 2, true, false), 1032.0, 1e-15);
    CHECK_CLOSE(hand_stage_parameters(&model, 2, 2, false, true), 1000.0, 1e-15);
    CHECK_CLOSE(hand_stage_parameters(&model, 2, 4, true, true), 1968.0, 1e-15);
    CHECK_EQUAL(hand_parameters(&model), 4 * (768 + 24 + 8 + 32 + 8 + 32) + 16 + 16 * 8);
    CHECK_CLOSE(model_vocabulary_share(&model, 1), 16.0, 1e-15);
    CHECK_CLOSE(model_vocabulary_share(&hand_toy, 2), 8.0, 1e-15); /* not padded */
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
                                .vocabulary = 50257,
                                .tied_embeddings = true,
                                .vocabulary_multiple = 128,
                                .kinds = {{.heads = 8, .kv_heads = 8, .ffn = 2048, .activation = MODEL_GELU}}};
    struct scenario_plan plan = {0};
    struct cost_setting setting = hand_with((struct cost_setting){.model = &model, .tensor = 2, HAND_LAYERS(6)}, &plan);
    double parameters = 6 * (1572864 + 1024) + 512 + 25216 * 512.0;
    double gradients = 86 * mib - 4 * parameters;
    CHECK_CLOSE(cost_state_block_bytes(&setting, false, true, 1), 3 * 0.75 * mib + gradients, 1e-12);
    CHECK_CLOSE(cost_state_block_bytes(&setting, false, true, 2), gradients, 1e-12);
    setting.sharding = SCENARIO_ZERO3;
    CHECK_TRUE(cost_state_block_bytes(&setting, false, true, 2) == 0);
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
                                .vocabulary = 32000,
                                .kinds = {{.heads = 16, .kv_heads = 4, .ffn = 4928, .activation = MODEL_SWIGLU}}};
    struct cost_setting setting = hand_with((struct cost_setting){.model = &model, .tensor = 1, HAND_LAYERS(3)},
                                            &(struct scenario_plan){.gradient_buffers = SCENARIO_GRADIENTS_FREED});
    double layer = 0.5546875 + 3 * (0.2890625 + 0.859375 + 0.21875);
    CHECK_CLOSE(cost_state_block_bytes(&setting, false, false, 1), 3 * layer * mib, 1e-12);
    setting.tensor = 2;
    CHECK_CLOSE(cost_state_block_bytes(&setting, false, false, 1), 3 * (1 + 3) * 0.5546875 * mib, 1e-12);
}

/* h = 1856 as above. A layer has 36,050,944 parameters in matrices and 2 x 1856 in norms, and the head 32000 x 1856. */
TEST(placeholders__are_a_tensor_of_each_shape)
{
    const struct model model = {.hidden = 1856,
                                .layers = 3,
                                .vocabulary = 32000,
                                .kinds = {{.heads = 16, .kv_heads = 4, .ffn = 4928, .activation = MODEL_SWIGLU}}};
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &model, .tensor = 1, HAND_LAYERS(3)},
                  &(struct scenario_plan){.gradient_buffers = SCENARIO_GRADIENTS_PLACEHOLDERS});
    CHECK_CLOSE(cost_placeholder_bytes(&setting, false), 2.0 * 36054656, 1e-14);
    CHECK_CLOSE(cost_placeholder_bytes(&setting, true), 2.0 * (36054656 + 32000 * 1856), 1e-14);
    CHECK_TRUE(!cost_frees_gradients(&setting));
    setting.gradient_buffers = SCENARIO_GRADIENTS_KEPT;
    CHECK_TRUE(cost_placeholder_bytes(&setting, true) == 0);
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
    setting.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 700.0, 1e-14);
    setting.sharding = SCENARIO_UNSHARDED;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 1), 1600.0, 1e-14);
    CHECK_TRUE(cost_gathered_bytes(&setting) == 0);
    setting.sharding = SCENARIO_ZERO2;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 200 + 350.0, 1e-14);
    CHECK_TRUE(cost_gathered_bytes(&setting) == 0);
    setting.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 400.0, 1e-14);
    setting.gradients = SCENARIO_FP32;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 400.0, 1e-14);
    CHECK_CLOSE(cost_gathered_bytes(&setting), 2 * 68.0, 1e-14);
    setting.on_demand_slowdown = 1; /* the gradients of a layer, 80 parameters, are on their way */
    CHECK_CLOSE(cost_gathered_bytes(&setting), 2 * 68.0 + 2 * 80.0, 1e-14);
    setting.on_demand_slowdown = 0;
    setting.fsdp_ends = SCENARIO_ENDS_OWN;
    setting.fsdp = 2;
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
        setting.sharding = i / 2;
        setting.gradients = i % 2;
        CHECK_CLOSE(cost_gradient_state_bytes(&setting, 100, 4), bytes[i / 2][i % 2], 1e-15);
    }
}

/* 100 parameters over 4 ranks. bf16 moments take 2 + 4 + (4 + 2 + 2)/4, with fp16 main parameters 2 + 4 + (2 + 4)/4.
 * Without main parameters and with bf16 gradients that is 2 + 2 + 4/4, unsharded 2 + 2 + 4 and with zero3 (2 + 2 +
 * 4)/4, of which the gradient has 2/4. zero3 with fp32 shards and bf16 moments takes (4 + 4 + 4)/4. */
TEST(cost_state_bytes__follow_the_precision_of_adam)
{
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    setting.moments = SCENARIO_BF16;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 800.0, 1e-14);
    setting.main_params = SCENARIO_MAIN_FP16;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 750.0, 1e-14);
    setting.main_params = SCENARIO_MAIN_NONE;
    setting.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 500.0, 1e-14);
    setting.sharding = SCENARIO_UNSHARDED;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 1), 800.0, 1e-14);
    setting.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 200.0, 1e-14);
    CHECK_CLOSE(cost_gradient_state_bytes(&setting, 100, 4), 50.0, 1e-14);
    setting.main_params = SCENARIO_MAIN_FP32;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 300.0, 1e-14);
}

/* A bucket of 1,000 elements takes 2,000 bytes, two of them beside passes, and stage 3 has one. 100 parameters over 4
 * ranks: the share of 25 is copied in bf16 and in fp32, 6 bytes each. */
TEST(deepspeed__has_buckets_and_copies_of_gradients)
{
    struct scenario_plan plan = hand_toy_plan;
    plan.reduce_bucket = 1000;
    plan.gradient_copy = true;
    plan.gradients = SCENARIO_BF16;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    setting.dp_overlap = SCENARIO_OVERLAP_NONE;
    CHECK_CLOSE(cost_reduce_bucket_bytes(&setting), 2000.0, 1e-15);
    CHECK_CLOSE(cost_gradient_copy_bytes(&setting, 100, 4), 150.0, 1e-15);
    setting.dp_overlap = SCENARIO_OVERLAP_GRADIENTS;
    CHECK_CLOSE(cost_reduce_bucket_bytes(&setting), 4000.0, 1e-15);
    setting.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_reduce_bucket_bytes(&setting), 2000.0, 1e-15);
    CHECK_EQUAL(cost_gradient_copy_bytes(&setting, 100, 4), 0);
    setting.sharding = SCENARIO_UNSHARDED;
    CHECK_EQUAL(cost_reduce_bucket_bytes(&setting), 0);
}

/* 12 parameters take 2 s a byte, in 4 shards of 3. With bf16 moments the norm reads 4 of the gradient. Adam reads 4 of
 * it, moves 2 x 4 of the main parameter and 4 x 2 of the moments, and writes the weight: 26. 12 x 3 x 4 are whole.
 * Without main parameters and with bf16 gradients it is 2, and 2 + 2 x 2 + 8. Eager kernels move 4 of the weight, 2 x
 * 10 of moments, 12 of the denominator and 4 + 4 of the weight: 44. zero3 also clips, 2 + 4 + 14. FSDP2 then gathers 2
 * + 2 whole and 2 + 2 of the shard, which needs no conversion. fp32 gradients (2 + 4 whole) are converted, 4 + 2, and
 * added, 3 x 2. */
TEST(adam__moves_the_bytes_of_its_states)
{
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    const struct cost_micro_batch empty = {.context = 2};
    setting.moments = SCENARIO_BF16;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 2 * (3 * 26 + 144.0), 1e-14);
    setting.main_params = SCENARIO_MAIN_NONE;
    setting.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 2 * (3 * 16 + 72.0), 1e-14);
    setting.optimizer = SCENARIO_EAGER;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 2 * (3 * 46 + 72.0), 1e-14);
    setting.optimizer = SCENARIO_FUSED;
    setting.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 2 * 3 * 20.0, 1e-14);
    setting.gradients = SCENARIO_FP32;
    setting.fsdp = 2;
    setting.ranks = 4;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).kernels_s, 3 * 80 * (4 + 4 / 4.0) * 2, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).kernels_s, 3 * 80 * (10 + 16 / 4.0) * 2, 1e-14);
}

/* zero3 with stages has 2 + 4 whole, and 4 + 8 of a quarter. Gradients are whole. A layer's bf16 gradients are there
 * for a while, 2 x 80. With one stage that frees no parameters it is 2 x (68 + 3 x 80). The step of 12 parameters
 * copies 2 x 4 of each. Each of the 3 in a share adds 3 x 4, clips 4 + 8 and moves 28. bf16 gradients are 2 x 2, and 2
 * + 4 converts them. */
TEST(staged__has_whole_weights_and_gradients)
{
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    setting.sharding = SCENARIO_ZERO3;
    setting.fsdp = 2;
    setting.keeps_gathered = true;
    CHECK_CLOSE(cost_gathered_bytes(&setting), 2 * (68 + 3 * 80.0), 1e-14);
    setting.staged = true;
    CHECK_CLOSE(cost_gathered_bytes(&setting), 2 * 80.0, 1e-14);
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 900.0, 1e-14);
    CHECK_CLOSE(cost_gradient_state_bytes(&setting, 100, 4), 400.0, 1e-14);
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 2 * (12 * 8 + 3 * (12 + 12 + 28.0)), 1e-14);
    setting.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 2 * (12 * 4 + 3 * (6 + 12 + 12 + 28.0)), 1e-14);
}

/* Half of the optimizer of 12 parameters in 4 shards is on the host. The GPU has 2 + 4 + 12/4/2 bytes a parameter. It
 * takes 4 for the norm, half of 28 + 6, and 144. The host has 16 bytes for each of 1.5 parameters. 4 go there and 2
 * come back. All 8 GPUs of a node move 30 each at 10 B/s. */
TEST(optimizer_offload__shares_states_and_step)
{
    struct device device = hand_device;
    struct scenario_plan plan = hand_toy_plan;
    plan.optimizer_offload = 0.5;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    device.node_host_adam_bytes_per_s = 10;
    setting.device = &device;
    CHECK_CLOSE(cost_state_bytes(&setting, 12, 4), 12 * 7.5, 1e-14);
    CHECK_CLOSE(cost_host_state_bytes(&setting, 12, 4), 24.0, 1e-14);
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 2 * (3 * (4 + 17) + 144.0), 1e-14);
    CHECK_CLOSE(cost_host_optimizer_s(&setting, 12, 4), 8 * 1.5 * 30 / 10, 1e-14);
    CHECK_CLOSE(cost_optimizer_copies(&setting, 12, 4).to_host_bytes, 6.0, 1e-14);
    CHECK_CLOSE(cost_optimizer_copies(&setting, 12, 4).from_host_bytes, 3.0, 1e-14);
}

/* Without TP the stages hold the model once. Tied embeddings are on both ends, and once if there is one stage. */
TEST(cost_stage_parameters__add_up_to_the_model)
{
    const struct model *const models[] = {&hand_llama_13b, &hand_gpt_3};
    for (int i = 0; i < 2; i++) {
        const struct model *model = models[i];
        int32_t quarter = (int32_t)model->layers / 4;
        double sum = hand_stage_parameters(model, 1, quarter, true, false) +
                     2 * hand_stage_parameters(model, 1, quarter, false, false) +
                     hand_stage_parameters(model, 1, quarter, false, true);
        double copy = model->tied_embeddings ? (double)(model->vocabulary * model->hidden) : 0;
        CHECK_CLOSE(sum, (double)hand_parameters(model) + copy, 1e-15);
        CHECK_CLOSE(hand_stage_parameters(model, 1, (int32_t)model->layers, true, true), (double)hand_parameters(model),
                    1e-15);
    }
}

/* 12 parameters take 2 s a byte and 1 s to start, in 4 shards. zero1 takes 3 parameters x (4 + 28 + 6) and 12 x 3 x 4.
 * bf16 takes 6 more, and 3 x 2. zero2 takes 3 x (4 + 8 + 28 + 6), and zero3 the same without the weight's copy. Eager
 * takes 88 instead of 28. */
TEST(cost_optimizer_s__is_counted_by_hand)
{
    struct device device = hand_device;
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    device.launch_s = 1;
    setting.device = &device;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * (3 * 38 + 144.0), 1e-14);
    setting.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * (3 * 44 + 72.0), 1e-14);
    setting.gradients = SCENARIO_FP32;
    setting.sharding = SCENARIO_ZERO2;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * 3 * 46.0, 1e-14);
    setting.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * 3 * 40.0, 1e-14);
    setting.optimizer = SCENARIO_EAGER;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * 3 * 100.0, 1e-14);
}

/* h = 64 and f = 128 (SwiGLU), with one head of keys and values for 4 of queries, 16 wide. On TP 4 a rank has the whole
 * head: QKV is 64 x (16 + 2 x 16), the projection 16 x 64, up 64 x 64, down 32 x 64, and norms 128. They are 10,368.
 * The model has P = 64 (64 + 2 x 16) + 64 x 64 + 3 x 64 x 128 = 34,816, of which three copies of 64 x 32 are no part.
 */
static const struct model one_kv_head = {
    .hidden = 64, .layers = 3, .vocabulary = 16, .kinds = {{.heads = 4, .kv_heads = 1, .ffn = 128}}};

TEST(copied_kv_heads__are_whole_on_each_rank)
{
    struct scenario_plan plan = {.kv_copies = true};
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &one_kv_head, .tensor = 4, HAND_LAYERS(3)}, &plan);
    CHECK_CLOSE(cost_kv_width(&setting, 0), 16, 0);
    CHECK_EQUAL(cost_kv_copies(&setting, 0), 4);
    CHECK_CLOSE(cost_layers_parameters(&setting), 3 * 10368.0, 0);
    CHECK_CLOSE(cost_state_bytes(&setting, cost_layers_parameters(&setting), 2), 3 * 10368.0 * (2 + 4 + 12 / 2.0), 0);
    CHECK_CLOSE(4 * (cost_layers_parameters(&setting) - 3 * 128), 3 * (34816.0 + 3 * 64 * 32), 0);
    CHECK_CLOSE(cost_model_parameters(&one_kv_head), 3 * (34816.0 + 128) + 2 * 16 * 64 + 64, 0);
    CHECK_CLOSE(cost_kv_bytes(&setting, 0), 2 * 2 * 16.0, 0);
    setting.tensor = 1;
    CHECK_EQUAL(cost_kv_copies(&setting, 0), 1);
    CHECK_CLOSE(cost_kv_width(&setting, 0), 16, 0);
}

/* Each of 3 layers has 64 x 32 copied parameters with gradients of 4 bytes, in sum 24,576 bytes. A ring of 4 sends 2 x
 * 3/4 of them. With two heads it is one of 2, and sends as much as they have. */
TEST(copied_kv_heads__sum_their_gradients_among_their_ranks)
{
    struct model model = one_kv_head;
    struct cost_setting setting = *hand_setting();
    double sent_bytes;
    setting.model = &model;
    setting.tensor = 4;
    hand_layers(&setting, 3);
    CHECK_TRUE(cost_copied_sum_s(&setting, 1, &sent_bytes) == 0 && sent_bytes == 0); /* none is copied */
    setting.kv_copies = true;
    CHECK_CLOSE(cost_copied_sum_s(&setting, 1, &sent_bytes), cost_collective_s(&setting, DEVICE_ALL_REDUCE, 24576, 4),
                1e-15);
    CHECK_CLOSE(sent_bytes, 2 * 3.0 / 4 * 24576, 1e-15);
    cost_copied_sum_s(&setting, 8, &sent_bytes); /* ranks that share gradients sum shards */
    CHECK_CLOSE(sent_bytes, 2 * 3.0 / 4 * 24576 / 8, 1e-15);
    model.kinds[0].biases = true; /* 2 x 16 more, with as many ranks */
    cost_copied_sum_s(&setting, 1, &sent_bytes);
    CHECK_CLOSE(sent_bytes, 2 * 3.0 / 4 * 3 * 4 * (64 * 32 + 32), 1e-15);
    model.kinds[0].biases = false;
    model.kinds[0].kv_heads = 2;
    CHECK_CLOSE(cost_copied_sum_s(&setting, 1, &sent_bytes), cost_collective_s(&setting, DEVICE_ALL_REDUCE, 24576, 2),
                1e-15);
    CHECK_CLOSE(sent_bytes, 24576, 1e-15);
    model.kinds[0].kv_heads = 4;
    CHECK_TRUE(cost_copied_sum_s(&setting, 1, &sent_bytes) == 0 && sent_bytes == 0);
}

/* DeepSpeed's BF16_Optimizer keeps gradients of 2 bytes beside their sum of 4. Two shards of the optimizer's 12. */
TEST(fp32_copy__keeps_gradients_beside_their_sum)
{
    struct cost_setting setting = *hand_setting();
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 2), 100 * (2 + 4 + 6.0), 1e-15);
    setting.gradient_accumulation = SCENARIO_ACCUMULATE_FP32_COPY;
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 2), 100 * (2 + 2 + 4 + 6.0), 1e-15);
    CHECK_CLOSE(cost_gradient_state_bytes(&setting, 100, 2), 100 * (2 + 4.0), 1e-15);
}
