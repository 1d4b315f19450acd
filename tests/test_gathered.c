/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count whole tensors under sharding, moment by moment. */
#include "cost/gathered.h"
#include "hand_cost.h"
#include "hand_model.h"
#include "harness.h"

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
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &hand_toy, .tensor = 1, HAND_LAYERS((int32_t)hand_toy.layers)}, &plan);
    setting.sharding = SCENARIO_ZERO3;
    setting.gradients = SCENARIO_BF16;
    setting.fsdp_prefetch = SCENARIO_BACKWARD_POST;
    check_alike_moments(&setting, 0, (double[]){head + down + 2 * p, head + 4 * p, head + 6 * p}, 4 * 132, 2 * p);
    setting.gradients = SCENARIO_FP32;
    check_alike_moments(&setting, 0, (double[]){head + down + 2 * p, head + 4 * p, head + 8 * p}, 4 * 132, 2 * p);
    setting.fsdp_prefetch = SCENARIO_BACKWARD_PRE;
    setting.gradients = SCENARIO_BF16;
    check_alike_moments(&setting, 2 * p, (double[]){head + down + 4 * p, head + 6 * p, head + 8 * p}, 4 * 132, 2 * p);
    setting.sharding = SCENARIO_ZERO2;
    check_alike_moments(&setting, 0, (double[]){head + down, head + 2 * p, head + 4 * p}, 4 * 132, 0);
    setting.gradients = SCENARIO_FP32;
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
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &hand_toy, .tensor = 1, HAND_LAYERS((int32_t)hand_toy.layers)}, &plan);
    setting.sharding = SCENARIO_ZERO3;
    check_moments(&setting,
                  (double[]){2 * p, head + 2 * p, head + down + 4 * p, head + 6 * p, head + 8 * p, head + down + 8 * p,
                             head + 10 * p, head + 8 * p, 2 * 132 + 4 * p},
                  4 * p);
    setting.fsdp_ends = SCENARIO_ENDS_OWN;
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
    struct cost_setting setting = hand_with((struct cost_setting){.model = &model, .tensor = 1, HAND_LAYERS(1)}, &plan);
    setting.fsdp_prefetch = SCENARIO_BACKWARD_PRE;
    model.layers = 1;
    hand_layers(&setting, 1);
    check_alike_moments(&setting, 2 * p, (double[]){head + down + 2 * p, head + 4 * p, head + 6 * p}, 4 * 132, 2 * p);
    setting.fsdp = 2;
    check_moments(&setting,
                  (double[]){2 * p, head + 2 * p, head + down + 2 * p, head + 4 * p, head + 6 * p, head + down + 4 * p,
                             head + 6 * p, head + 6 * p, 2 * 132 + 4 * p},
                  4 * p);
    model.layers = 2;
    hand_layers(&setting, 2);
    check_moments(&setting,
                  (double[]){2 * p, head + 2 * p, head + down + 4 * p, head + 6 * p, head + 8 * p, head + down + 6 * p,
                             head + 8 * p, head + 8 * p, 2 * 132 + 4 * p},
                  4 * p);
}

/* A layer of MTP behind one other has 152 parameters as well, a projection 8 x 4 and three norms of 4. So the other one
 * has a layer behind it, as above with two layers, and the larger one counts. Kept weights are all of them, 2 bytes. */
TEST(gathered__counts_a_layer_of_mtp)
{
    const double p = 152 + 32 + 12, head = 128, down = 64;
    struct model model = hand_toy;
    struct scenario_plan plan = {.sharding = SCENARIO_ZERO3};
    struct cost_setting setting = hand_with((struct cost_setting){.model = &model, .tensor = 1, HAND_LAYERS(1)}, &plan);
    model.layers = model.mtp_layers = 1;
    model.kinds[MODEL_MTP_KIND] = model.kinds[0];
    hand_layers(&setting, 1);
    cost_add_layers(&setting, model.layers, 1);
    setting.fsdp_prefetch = SCENARIO_BACKWARD_PRE;
    check_alike_moments(&setting, 2 * p, (double[]){head + down + 4 * p, head + 6 * p, head + 8 * p}, 4 * 132, 2 * p);
    setting.fsdp = 2;
    check_moments(&setting,
                  (double[]){2 * p, head + 2 * p, head + down + 4 * p, head + 6 * p, head + 8 * p, head + down + 6 * p,
                             head + 8 * p, head + 8 * p, 2 * 132 + 4 * p},
                  4 * p);
    CHECK_TRUE(cost_gathered_bytes(&setting) == 2 * 132);
    setting.keeps_gathered = true;
    CHECK_TRUE(cost_gathered_bytes(&setting) == 2 * (132 + 152 + p));
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
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &hand_toy, .tensor = 1, HAND_LAYERS(3)}, &plan);
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
    setting.fsdp = 2;
    cost_forward_moments_of(&setting, &work, bytes);
    CHECK_CLOSE(bytes[COST_FORWARD_HEAD], 900 - 2 * table + 4 * p, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LOSS], 900 - 2 * table + 2 * p, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LAYER], 5000 - 160 + 4 * p - 700, 1e-14);
    setting.fsdp_ends = SCENARIO_ENDS_OWN;
    cost_forward_moments_of(&setting, &work, bytes);
    CHECK_CLOSE(bytes[COST_FORWARD_HEAD], 900 - 2 * table + 2 * p + 2 * 128, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LOSS], 900 - 2 * table + 2 * p + 128, 1e-14);
    setting.tensor = 2; /* norms are whole */
    cost_forward_moments_of(&setting, &work, bytes);
    CHECK_CLOSE(bytes[COST_FORWARD_HEAD], 900 - table + 2 * (72 + 8) + 128, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LOSS], 900 - table + 2 * (72 + 8) + 64, 1e-14);
    CHECK_CLOSE(bytes[COST_FORWARD_LAYER], 5000 - 80 + 4 * (72 + 8.0) - 700, 1e-14);
}

/* The forward of a fused linear loss has all of the head's workspace, and the gradient of its weights, 2 x 64. The
 * backward has this gradient and nothing more at the loss and at the head. */
TEST(gathered__has_the_gradient_of_a_fused_linear_loss_from_the_forward_on)
{
    const struct cost_work work = {.tokens = 10, .workspace = 5000, .head = 700, .head_workspace = 900};
    struct scenario_plan plan = {.sharding = SCENARIO_ZERO3};
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &hand_toy, .tensor = 1, HAND_LAYERS(3)}, &plan);
    double forward[COST_N_FORWARD_MOMENTS], backward[COST_N_MOMENTS];
    setting.loss = SCENARIO_LOSS_FUSED_LINEAR;
    setting.fsdp_prefetch = SCENARIO_BACKWARD_POST;
    cost_forward_moments_of(&setting, &work, forward);
    cost_moments_of(&setting, &work, backward);
    CHECK_CLOSE(forward[COST_FORWARD_HEAD], 900 + 128.0, 1e-14);
    CHECK_CLOSE(forward[COST_FORWARD_LOSS], 900 + 128.0, 1e-14);
    CHECK_CLOSE(backward[COST_AT_LOSS], 128.0, 1e-14);
    CHECK_CLOSE(backward[COST_AT_HEAD], 128.0, 1e-14);
}

/* Ten tokens run with h 4 and TP 2. At the head there is the input's gradient, 80 bytes. With sequence parallelism the
 * input is gathered again, 80. A layer's first norm has four such tensors. Behind it there is its input's gradient
 * alone, of all tokens or of the rank's half. The embedding's backward gathers it. */
TEST(sequence_parallel__splits_the_gradients_behind_a_layer)
{
    const struct cost_work work = {.tokens = 10};
    struct scenario_plan plan = {0};
    struct cost_setting setting =
        hand_with((struct cost_setting){.model = &hand_toy, .tensor = 2, HAND_LAYERS((int32_t)hand_toy.layers)}, &plan);
    setting.sharding = SCENARIO_ZERO3;
    for (int32_t version = 1; version <= 2; version++) {
        double whole[COST_N_MOMENTS], split[COST_N_MOMENTS];
        setting.fsdp = version;
        setting.sequence_parallel = false;
        cost_moments_of(&setting, &work, whole);
        setting.sequence_parallel = true;
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
