/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count by hand what GEMMs in fp8 change: their time, casts, gathered and kept bytes, and copies of
 * weights. First and last layers may stay in bf16. */
#include "cost/layer.h"
#include "cost/overlap.h"
#include "cost/shards.h"
#include "cost/states.h"
#include "hand_cost.h"
#include "hand_dag.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"

#include <string.h>

extern const struct training_system system_length_balanced;

/** Return hand_device with `peak` FLOP/s in fp8, of which GEMMs reach a half. */
static struct device fp8_device(double peak)
{
    struct device device = hand_device;
    device.peak_flop_per_s[PRECISION_FP8_TENSOR] = peak;
    device.gemm[PRECISION_FP8_TENSOR].efficiency = 0.5;
    return device;
}

static const struct layer_op *find(const struct layer *layer, const char *name)
{
    for (int32_t i = 0; i < layer->n_ops; i++)
        if (layer->ops[i].name[PASS_FORWARD] != NULL && strcmp(layer->ops[i].name[PASS_FORWARD], name) == 0)
            return &layer->ops[i];
    return NULL;
}

/* 1,024 FLOPs at 1 FLOP/s of 2. At 4 of 8 they take 256 s, but memory moves at 0.5 B/s: 128 B read, 128 B written. */
TEST(gemm_in_fp8__reads_one_byte_and_writes_two)
{
    static const struct {
        double peak, seconds;
    } cases[] = {{2, 1024}, {8, 2 * (128 + 2 * 64)}};
    const struct cost_gemm gemm = {1, 8, 8, 8, 0, PRECISION_FP8_TENSOR, DEVICE_SEQUENTIAL};
    for (int i = 0; i < 2; i++) {
        const struct device device = fp8_device(cases[i].peak);
        CHECK_CLOSE(cost_kernel_gemm_s(&device, &gemm), cases[i].seconds, 1e-15);
    }
}

/* QKV 4 x 4 and up 4 x 8 stand behind norms. With delayed scales these write fp8, and a transposed copy reads and
 * writes 1 B of each of 4 columns; Blackwell needs none. The projection's 2 and the down GEMM's 4 columns are read in
 * bf16 and written twice. So are the gradients of all outputs: 4 + 4 + 8 + 4 columns. A current scale reads each of
 * them once more, by three kernels and not one. With it, and in mxfp8, norms write bf16. */
TEST(casts__write_what_gemms_read)
{
    static const struct {
        enum precision precision;
        uint32_t single;
        double compute_capability, forward, backward;
        int32_t kernels[2];
    } cases[] = {{PRECISION_FP8_TENSOR, 0, 9, 2 * 4 + 2 * 4 + 4 * (2 + 4), 4 * 20, {4, 4}},
                 {PRECISION_FP8_TENSOR, COST_SINGLE_AMAX, 9, 6 * (4 + 4 + 2 + 4), 6 * 20, {4 * 3, 4 * 3}},
                 {PRECISION_FP8_TENSOR, 0, 10, 3 * (2 + 4), 3 * 20, {2, 4}},
                 {PRECISION_MXFP8, COST_SINGLE_AMAX, 10, 4 * (4 + 4 + 2 + 4), 4 * 20, {4, 4}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device device = fp8_device(2);
        struct cost_setting setting = hand_toy_setting();
        struct layer layer;
        device.compute_capability = cases[i].compute_capability;
        setting.device = &device;
        setting.precision = cases[i].precision;
        setting.single = (int32_t)cases[i].single;
        layer_of(&setting, 0, &layer);
        const struct layer_op *casts = find(&layer, "casts to fp8");
        CHECK_TRUE(casts->bytes[PASS_FORWARD] == cases[i].forward && casts->bytes[PASS_BACKWARD] == cases[i].backward);
        CHECK_EQUAL(casts->more_launches[PASS_FORWARD], cases[i].kernels[0] - 1);
        CHECK_EQUAL(casts->more_launches[PASS_BACKWARD], cases[i].kernels[1] - 1);
        for (int32_t j = 0; j < layer.n_ops; j++)
            if (layer.ops[j].kind == LAYER_GEMM)
                CHECK_EQUAL(layer.ops[j].precision, cases[i].precision);
    }
}

/** Return a layer of four experts of which a token has two, in fp8 with current scales and multi-stream GEMMs. */
static struct cost_setting expert_setting(const struct device *device)
{
    struct cost_setting setting = hand_toy_setting_of(&(struct scenario_plan){.tp = 1, .dp = 1, .vpp = 1});
    setting.tensor = 1;
    setting.model = &hand_latent;
    setting.device = device;
    setting.precision = PRECISION_FP8_TENSOR;
    setting.single = COST_SINGLE_AMAX;
    setting.expert_gemms = DEVICE_MULTI_STREAM;
    cost_hold_layers(&setting, 1, 1);
    return setting;
}

/* Read in bf16 are the inputs of both compressions (4 columns each), projection (4) and shared down GEMM (6), and for
 * each of two experts those of up (4) and down (8). Norms write 3 + 2 + 4 columns, in bf16 with current scales. Outputs
 * have 3 + 4 + 8 + 8 + 4 of attention, 12 + 4 of shared experts, and 2 (16 + 4) of the others. Seven GEMMs are no
 * expert's, and eight are: each has three kernels, or with delayed scales one, which multi-stream GEMMs share. */
TEST(casts_of_experts__have_kernels_for_each_expert)
{
    static const struct {
        enum cost_single single;
        int32_t gemms, kernels;
        double bytes;
    } cases[] = {{COST_SINGLE_AMAX, DEVICE_MULTI_STREAM, 3 * (7 + 8), 6},
                 {0, DEVICE_MULTI_STREAM, 7 + 2, 4},
                 {0, DEVICE_SEQUENTIAL, 7 + 8, 4}};
    const struct device device = fp8_device(2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cost_setting setting = expert_setting(&device);
        struct layer layer;
        setting.single = cases[i].single;
        setting.expert_gemms = cases[i].gemms;
        layer_of(&setting, 1, &layer);
        const struct layer_op *casts = find(&layer, "casts to fp8");
        double of_norms = cases[i].single == COST_SINGLE_AMAX ? cases[i].bytes : 2;
        CHECK_CLOSE(casts->bytes[PASS_FORWARD], of_norms * 9 + cases[i].bytes * (4 + 4 + 4 + 6 + 2 * (4 + 8)), 1e-14);
        CHECK_CLOSE(casts->bytes[PASS_BACKWARD], cases[i].bytes * (27 + 16 + 2 * (16 + 4)), 1e-14);
        CHECK_EQUAL(casts->more_launches[PASS_FORWARD], cases[i].kernels - 1);
        CHECK_EQUAL(casts->more_launches[PASS_BACKWARD], cases[i].kernels - 1);
        CHECK_EQUAL(find(&layer, "router GEMM")->precision, PRECISION_BF16);
        CHECK_EQUAL(find(&layer, "experts' up GEMM")->precision, PRECISION_FP8_TENSOR);
    }
}

/* Padding copies 4 columns of both experts' inputs and outputs, 2 (2 + 2) 4 B, with three kernels. Multi-stream GEMMs
 * have it, unless experts are padded to their capacity. */
TEST(tokens_of_experts__are_padded_for_gemms_in_fp8)
{
    const struct device device = fp8_device(2);
    struct cost_setting setting = expert_setting(&device);
    struct layer layer;
    layer_of(&setting, 1, &layer);
    const struct layer_op *padded = find(&layer, "experts' tokens padded");
    CHECK_TRUE(padded->bytes[PASS_FORWARD] == 2 * 2 * 4 * 4 && padded->bytes[PASS_BACKWARD] == 2 * 2 * 4 * 4);
    CHECK_EQUAL(padded->more_launches[PASS_FORWARD], 2);
    setting.padded_capacity = setting.capacity_factor = 1;
    layer_of(&setting, 1, &layer);
    CHECK_TRUE(find(&layer, "experts' tokens padded") == NULL);
    setting = expert_setting(&device);
    setting.expert_gemms = DEVICE_SEQUENTIAL;
    layer_of(&setting, 1, &layer);
    CHECK_TRUE(find(&layer, "experts' tokens padded") == NULL);
}

/* A token is cast once, 2 + 1 B a column, and not for each of its two experts. Arrived bytes are read and written once
 * for the other pass: 2 B. So 4 columns of inputs move 3 + 2 x 2 B in place of 2 x 4 B, and so do gradients of outputs.
 * Both arrive in 1 B and 4/128 of a scale, where 2 B are permuted, put back and padded. */
TEST(tokens_sent_in_fp8__are_cast_before_they_are_sent)
{
    const struct device device = fp8_device(2);
    const double sent = 1 + 4 / 128.0;
    struct cost_setting setting = expert_setting(&device);
    struct model model = hand_latent;
    struct layer layer[2];
    setting.precision = PRECISION_FP8_BLOCK;
    setting.model = &model;
    for (int i = 0; i < 2; i++) {
        setting.fp8_dispatch = (int16_t)i;
        layer_of(&setting, 1, &layer[i]);
    }
    const struct layer_op *casts[] = {find(&layer[0], "casts to fp8"), find(&layer[1], "casts to fp8")};
    for (int i = 0; i < 2; i++) {
        enum pass pass = i == 0 ? PASS_FORWARD : PASS_BACKWARD;
        CHECK_CLOSE(casts[0]->bytes[pass] - casts[1]->bytes[pass], 4 * (2 * 4 - (3 + 2 * 2)), 1e-12);
        CHECK_EQUAL(casts[1]->more_launches[pass], casts[0]->more_launches[pass] + 1);
    }
    const struct layer_op *permuted = find(&layer[1], "tokens permuted"), *back = find(&layer[1], "tokens put back");
    CHECK_CLOSE(permuted->bytes[PASS_FORWARD], sent * 4 * (1 + 2), 1e-15);
    CHECK_CLOSE(back->bytes[PASS_BACKWARD], sent * 4 * (1 + 2), 1e-15);
    CHECK_TRUE(permuted->bytes[PASS_BACKWARD] == 2 * 4 * 3 && back->bytes[PASS_FORWARD] == 2 * 4 * 3);
    CHECK_CLOSE(find(&layer[1], "experts' tokens padded")->bytes[PASS_FORWARD], 2 * (sent + 2) * 4 * 2, 1e-15);
    model_keep_bf16(&model, 0, 1);
    layer_of(&setting, MODEL_BF16_KINDS + 1, &layer[1]);
    CHECK_CLOSE(find(&layer[1], "tokens permuted")->bytes[PASS_FORWARD], 2 * 4 * 3, 1e-15);
}

/* Each of 8 tokens has two of four experts, so each computes 4 rows. Four up GEMMs of 4 x 16 x 4 take 512 s each, four
 * down GEMMs of 4 x 4 x 8 256 s. Casts move 6 x (9 + 42) B a token forward, padding 64 B, at 2 s a byte. Inputs of both
 * GEMMs are kept in 1 B: 2 x 4 and 2 x 8 B a token. */
TEST(layer_of_experts_in_fp8__takes_the_seconds_counted_by_hand)
{
    const struct device device = fp8_device(2);
    const struct cost_setting setting = expert_setting(&device);
    static const struct {
        const char *name;
        double seconds;
    } cases[] = {{"experts' up GEMM", 4 * 512},
                 {"experts' down GEMM", 4 * 256},
                 {"casts to fp8", 2 * 8 * 6 * (9 + 42)},
                 {"experts' tokens padded", 2 * 8 * 64}};
    struct cost_kernels kernels = {.n = 0};
    struct layer layer;
    layer_of(&setting, 1, &layer);
    layer_add_gemms(&kernels, &setting, &layer, PASS_FORWARD, 8);
    layer_add_memory_bound(&kernels, &setting, &layer, PASS_FORWARD, 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double seconds = 0;
        for (int32_t j = 0; j < kernels.n; j++)
            if (strcmp(kernels.kernel[j].name, cases[i].name) == 0)
                seconds += kernels.kernel[j].seconds;
        CHECK_CLOSE(seconds, cases[i].seconds, 1e-12);
    }
    CHECK_CLOSE(find(&layer, "tokens permuted")->listed_bytes, 2 * 4, 1e-14);
    CHECK_CLOSE(find(&layer, "experts' activation")->listed_bytes, 2 * 8, 1e-14);
}

/* Norms' outputs (4 columns), attention's copy (2) and the activation's output (4) have 1 B. Attention itself, inputs
 * of norms and everything else stay. */
TEST(gemms_in_fp8__keep_their_inputs_in_one_byte)
{
    struct cost_setting setting = hand_toy_setting();
    struct layer wide, narrow;
    layer_of(&setting, 0, &wide);
    setting.precision = PRECISION_FP8_TENSOR;
    layer_of(&setting, 0, &narrow);
    double kept = 0;
    for (int32_t i = 0; i < wide.n_ops; i++)
        kept +=
            narrow.ops[i].kept_bytes + narrow.ops[i].listed_bytes - wide.ops[i].kept_bytes - wide.ops[i].listed_bytes;
    double norms = -2 * 4.0 / 2; /* sequence parallelism shares them out among 2 ranks */
    CHECK_CLOSE(kept, norms + 2 - 4, 1e-15);
    CHECK_EQUAL(narrow.n_ops, wide.n_ops + 1);
}

/* Two gathers of 1 B and two reduce-scatters of 2 B. */
TEST(gemms_in_fp8__gather_one_byte)
{
    struct device device = fp8_device(2);
    struct cost_setting setting = hand_toy_setting();
    double bytes[2];
    setting.device = &device;
    for (int i = 0; i < 2; i++) {
        struct layer layer;
        setting.precision = i == 0 ? PRECISION_BF16 : PRECISION_FP8_TENSOR;
        layer_of(&setting, 0, &layer);
        bytes[i] = overlap_tensor_layer(&setting, &layer, PASS_FORWARD, 8).bytes;
    }
    CHECK_CLOSE(bytes[1] / bytes[0], 0.75, 1e-15);
}

/* Three layers have 240 parameters. Blackwell needs no transposed copy, and zero3 keeps none. */
TEST(weights_in_fp8__have_copies)
{
    struct device device = fp8_device(2);
    struct cost_setting setting = hand_toy_setting();
    setting.device = &device;
    CHECK_TRUE(cost_cast_weight_bytes(&setting) == 0 && cost_cast_weights_s(&setting) == 0);
    setting.precision = PRECISION_FP8_TENSOR;
    CHECK_TRUE(cost_cast_weight_bytes(&setting) == 2 * 240);
    CHECK_CLOSE(cost_cast_weights_s(&setting), 2 * (2 + 2) * 240, 1e-15);
    device.compute_capability = 10;
    CHECK_TRUE(cost_cast_weight_bytes(&setting) == 240);
    setting.sharding = SCENARIO_ZERO3;
    CHECK_TRUE(cost_cast_weight_bytes(&setting) == 0 && cost_cast_weights_s(&setting) == 0);
}

/* Weights in fp8 leave out 2 B of each of the 240 parameters. A stage with 60 more in bf16 gathers 240 + 2 x 60 B.
 * Hopper then writes the transposed copy. Scales of 1 x 32 do not survive a gather of flat shards. */
TEST(weights_in_fp8_only__are_gathered_in_fp8)
{
    struct device device = fp8_device(2);
    struct cost_setting setting = hand_toy_setting();
    setting.device = &device;
    setting.precision = PRECISION_FP8_TENSOR;
    CHECK_TRUE(cost_gathered_parameter_bytes(&setting, 300) == 2);
    setting.fp8_params = 1;
    CHECK_TRUE(cost_cast_weight_bytes(&setting) == 0);
    CHECK_CLOSE(cost_gathered_parameter_bytes(&setting, 300) * 300, 240 + 2 * 60, 1e-15);
    CHECK_CLOSE(cost_cast_weights_s(&setting), 2 * (1 + 1) * 240, 1e-15);
    device.compute_capability = 10;
    CHECK_TRUE(cost_cast_weight_bytes(&setting) == -240 && cost_cast_weights_s(&setting) == 0);
    setting.precision = PRECISION_MXFP8;
    CHECK_TRUE(cost_gathered_parameter_bytes(&setting, 300) == 2);
    CHECK_CLOSE(cost_cast_weights_s(&setting), 2 * (2 + 2) * 240, 1e-15);
}

/* A layer of 80 parameters is cast in each pass: 2 B read, 1 B written, at 0.5 B/s. A current scale reads 2 B more.
 * A gather in fp8 needs a transposed copy, 1 B read and written, and a half of the bytes. */
TEST(zero3__casts_weights_in_each_pass)
{
    static const struct {
        enum precision precision;
        uint32_t single;
        int32_t fp8_params;
        double cast_bytes, gathered;
    } cases[] = {{PRECISION_BF16, 0, 0, 0, 2},
                 {PRECISION_FP8_TENSOR, 0, 0, 3, 2},
                 {PRECISION_FP8_TENSOR, COST_SINGLE_AMAX, 0, 5, 2},
                 {PRECISION_FP8_TENSOR, COST_SINGLE_AMAX, 1, 2, 1}};
    double none_s = 0, all_bytes = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device device = fp8_device(2);
        struct cost_setting setting = hand_toy_setting();
        struct cost_pass cost = {0};
        setting.device = &device;
        setting.sharding = SCENARIO_ZERO3;
        setting.ranks = 4;
        setting.precision = cases[i].precision;
        setting.single = (int32_t)cases[i].single;
        setting.fp8_params = cases[i].fp8_params;
        shards_of_layers(&setting, true, PASS_FORWARD, &cost);
        none_s = i == 0 ? cost.kernels_s : none_s;
        all_bytes = i == 0 ? cost.shard_bytes : all_bytes;
        CHECK_CLOSE(cost.cast_s, 3 * 2 * cases[i].cast_bytes * 80, 1e-12);
        CHECK_TRUE(i == 3 || fabs(cost.kernels_s - none_s - cost.cast_s) <= 1e-9 * cost.kernels_s);
        CHECK_CLOSE(cost.shard_bytes, all_bytes * cases[i].gathered / 2, 1e-12);
    }
}

/* The pattern is one dense layer and two with experts. The first layer and the last one stay in bf16. */
TEST(model_keep_bf16__copies_the_kinds_of_first_and_last_layers)
{
    struct model model = hand_latent;
    int64_t n[MODEL_MAX_KINDS];
    model_keep_bf16(&model, 1, 1);
    model_count_kinds(&model, n);
    CHECK_TRUE(n[0] == 0 && n[1] == 1 && n[MODEL_BF16_KINDS] == 1 && n[MODEL_BF16_KINDS + 1] == 1);
    CHECK_TRUE(model_has_kind(&model, 0) && model_has_dense_layers(&model) && model_has_experts(&model));
    CHECK_EQUAL(model_kind_of(&model, 3), MODEL_MTP_KIND);
    for (int32_t kind = 0; kind < 2; kind++)
        CHECK_EQUAL(layer_matrix_parameters(&model, MODEL_BF16_KINDS + kind), layer_matrix_parameters(&model, kind));
    model = hand_toy;
    CHECK_TRUE(model_is_uniform(&model));
    model_keep_bf16(&model, 0, 1);
    CHECK_TRUE(!model_is_uniform(&model));
    CHECK_EQUAL(model_kind_of(&model, 1), 0);
    CHECK_EQUAL(model_kind_of(&model, 2), MODEL_BF16_KINDS);
}

/* Two of three layers of 80 parameters stay in bf16. So one has a copy in fp8, or none in bf16, and 80 of 300
 * parameters are gathered in 1 B. */
TEST(weights__have_copies_in_fp8_in_the_other_layers_only)
{
    struct device device = hand_device;
    struct model model = hand_toy;
    struct cost_setting setting = hand_toy_setting();
    model_keep_bf16(&model, 1, 1);
    device.compute_capability = 10;
    setting.device = &device;
    setting.model = &model;
    setting.precision = PRECISION_FP8_TENSOR;
    cost_hold_layers(&setting, 0, 3);
    CHECK_CLOSE(cost_fp8_parameters(&setting), 80, 1e-15);
    CHECK_CLOSE(cost_cast_weight_bytes(&setting), 80, 1e-15);
    CHECK_CLOSE(cost_cast_weights_s(&setting), 2 * (2 + 1) * 80, 1e-15);
    setting.fp8_params = 1;
    CHECK_CLOSE(cost_cast_weight_bytes(&setting), -80, 1e-15);
    CHECK_CLOSE(cost_gathered_parameter_bytes(&setting, 300) * 300, 80 + 2 * 220, 1e-15);
    cost_hold_layers(&setting, 0, 1);
    CHECK_TRUE(cost_cast_weight_bytes(&setting) == 0 && cost_gathered_parameter_bytes(&setting, 300) == 2);
}

/* A layer has the operators of bf16 or those of fp8. */
TEST(layer_of__has_no_casts_in_bf16_layers)
{
    struct model model = hand_toy;
    struct cost_setting setting = hand_toy_setting(), wide = setting;
    struct layer kept, plain;
    model_keep_bf16(&model, 1, 0);
    setting.model = &model;
    setting.precision = PRECISION_FP8_TENSOR;
    layer_of(&setting, MODEL_BF16_KINDS, &kept);
    layer_of(&wide, 0, &plain);
    CHECK_EQUAL(kept.n_ops, plain.n_ops);
    for (int32_t i = 0; i < kept.n_ops; i++) {
        CHECK_EQUAL(kept.ops[i].precision, PRECISION_BF16);
        CHECK_TRUE(kept.ops[i].kept_bytes == plain.ops[i].kept_bytes);
        CHECK_TRUE(kept.ops[i].listed_bytes == plain.ops[i].listed_bytes);
    }
    layer_of(&setting, 0, &kept);
    CHECK_EQUAL(kept.n_ops, plain.n_ops + 1);
}

/* zero3 gathers 80 parameters of each of three layers, 2 B each in bf16 and 1 B in fp8, and casts only the latter. */
TEST(zero3__gathers_each_layer_in_its_precision)
{
    double bytes[3], cast_s[3];
    for (int64_t kept = 0; kept < 3; kept++) {
        struct model model = hand_toy;
        struct cost_setting setting = hand_toy_setting();
        model_keep_bf16(&model, kept, 0);
        setting.model = &model;
        setting.sharding = SCENARIO_ZERO3;
        setting.ranks = 4;
        setting.precision = PRECISION_FP8_TENSOR;
        setting.fp8_params = 1;
        cost_hold_layers(&setting, 0, 3);
        struct cost_pass cost = {0};
        shards_gather_layers(&setting, &cost);
        bytes[kept] = cost.shard_bytes;
        cast_s[kept] = cost.cast_s;
    }
    CHECK_CLOSE(bytes[1] / bytes[0], 4 / 3.0, 1e-12);
    CHECK_CLOSE(bytes[2] / bytes[0], 5 / 3.0, 1e-12);
    CHECK_CLOSE(cast_s[1], cast_s[0] * 2 / 3, 1e-12);
    CHECK_CLOSE(cast_s[2], cast_s[0] / 3, 1e-12);
}

/* Return the seconds of a plan on two stages whose first and last layers stay in bf16. */
static double planned_s(enum precision precision, int64_t at_start, int64_t at_end)
{
    struct hand_request hand;
    struct plan plan;
    struct device device = *hand_setting()->device;
    device.peak_flop_per_s[PRECISION_FP8_TENSOR] = 2e12;
    device.gemm[PRECISION_FP8_TENSOR].efficiency = 1;
    hand_request_real(&hand, 1, 2, 5000);
    hand_batch(&hand, 3, (int32_t[]){5000, 800, 1700});
    hand.setting.device = &device;
    hand.setting.precision = precision;
    model_keep_bf16(&hand.model, at_start, at_end);
    cost_hold_layers(&hand.setting, 0, 420);
    hand_planned(&hand, &system_length_balanced, "", &plan);
    double seconds = hand_plan_makespan_s(&plan, &hand.setting, (struct dag_options){0});
    plan_free(&plan);
    hand_request_free(&hand);
    return seconds;
}

/* 840 layers in bf16 take what they take without fp8, however they are counted. A few lie between. */
TEST(bf16_layers__take_the_time_of_bf16)
{
    double wide_s = planned_s(PRECISION_BF16, 0, 0), narrow_s = planned_s(PRECISION_FP8_TENSOR, 0, 0);
    CHECK_TRUE(narrow_s < wide_s);
    CHECK_CLOSE(planned_s(PRECISION_FP8_TENSOR, 840, 0), wide_s, 1e-12);
    CHECK_CLOSE(planned_s(PRECISION_FP8_TENSOR, 500, 340), wide_s, 1e-12);
    double few_s = planned_s(PRECISION_FP8_TENSOR, 10, 10), more_s = planned_s(PRECISION_FP8_TENSOR, 100, 100);
    CHECK_TRUE(narrow_s < few_s && few_s < more_s && more_s < wide_s);
}
