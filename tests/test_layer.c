/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check that sums over a layer's operators are the layer, and that a model may have several kinds. */
#include "base/check.h"
#include "bounds/evaluate.h"
#include "cost/flop.h"
#include "cost/layer.h"
#include "cost/pass.h"
#include "hand_cost.h"
#include "hand_memory.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "harness.h"

#include <stdlib.h>

/* hand_toy has h 4, q 4, k 2 and f 8. With TP 2 a rank has (name, in, out) QKV 4 x 4, projection 2 x 4, up 4 x 8 and
 * down 4 x 4: 72 parameters, and two norms of 4. */
TEST(layer_of__has_the_matrices_in_the_order_of_the_forward)
{
    const struct cost_setting setting = hand_toy_setting();
    struct layer layer;
    layer_of(&setting, 0, &layer);
    static const struct {
        const char *name;
        double in, out;
        enum layer_split split;
    } expected[] = {{"QKV GEMM", 4, 4, LAYER_COLUMN},
                    {"projection GEMM", 2, 4, LAYER_ROW},
                    {"up GEMM", 4, 8, LAYER_COLUMN},
                    {"down GEMM", 4, 4, LAYER_ROW}};
    int n = 0;
    for (int32_t i = 0; i < layer.n_ops; i++)
        if (layer.ops[i].kind == LAYER_GEMM && n < 4) {
            CHECK_TEXT(layer.ops[i].name[PASS_FORWARD], expected[n].name);
            CHECK_TRUE(layer.ops[i].in == expected[n].in && layer.ops[i].out == expected[n].out);
            CHECK_EQUAL(layer.ops[i].split, expected[n].split);
            n++;
        }
    CHECK_EQUAL(n, 4);
    CHECK_TRUE(layer_parameters(&setting, &layer) == 72 + 2 * 4);
    CHECK_EQUAL(layer_matrix_parameters(&hand_toy, 0), 4 * (4 + 2 * 2) + 4 * 4 + 3 * 4 * 8);
    CHECK_TEXT(layer_last_gemm(&layer)->name[PASS_FORWARD], "down GEMM");
}

/* With single projections a rank has query 4 x 2, key and value 4 x 1, gate and up 4 x 4: as many parameters, kept
 * bytes and inputs of weight gradients as the joined ones. */
TEST(layer_of__cuts_projections_without_changing_their_sums)
{
    struct cost_setting setting = hand_toy_setting();
    struct layer joined, cut;
    layer_of(&setting, 0, &joined);
    setting.single = COST_SINGLE_QKV | COST_SINGLE_GATE_UP;
    layer_of(&setting, 0, &cut);
    static const char *const names[] = {"query GEMM", "key GEMM", "value GEMM", "projection GEMM",
                                        "gate GEMM",  "up GEMM",  "down GEMM"};
    static const double out[] = {2, 1, 1, 4, 4, 4, 4};
    int n = 0;
    for (int32_t i = 0; i < cut.n_ops; i++)
        if (cut.ops[i].kind == LAYER_GEMM && n < 7) {
            CHECK_TEXT(cut.ops[i].name[PASS_FORWARD], names[n]);
            CHECK_TRUE(cut.ops[i].out == out[n]);
            n++;
        }
    CHECK_EQUAL(n, 7);
    CHECK_TRUE(layer_parameters(&setting, &cut) == layer_parameters(&setting, &joined));
    CHECK_TRUE(layer_weight_gradient_bytes(&setting, &cut) == layer_weight_gradient_bytes(&setting, &joined));
    static const enum recompute lists[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE,
                                           RECOMPUTE_SELECTIVE | RECOMPUTE_ALTERNATE_GEMMS};
    for (int i = 0; i < 3; i++)
        CHECK_TRUE(layer_kept_bytes(&cut, lists[i]) == layer_kept_bytes(&joined, lists[i]));
}

/* Return the bytes that memory-bound kernels of a pass move for a token. */
static double moved_bytes(const struct cost_setting *setting, const struct layer *layer, enum pass pass)
{
    struct cost_kernels kernels = {0};
    double bytes = 0;
    layer_add_memory_bound(&kernels, setting, layer, pass, 1);
    for (int32_t i = 0; i < kernels.n; i++)
        bytes += kernels.kernel[i].bytes;
    return bytes;
}

/* On a rank of two hand_toy has q 2, k 1 and heads 2 wide, and norms are 2 wide with sequence parallelism, whose
 * weights are 4. A norm reads and writes 2 bytes a column, backward 3 times 2, and keeps 2 a column. */
TEST(layer_of__has_the_norms_that_the_model_says)
{
    static const struct {
        int32_t qk_norm;
        int64_t norms;
        bool parallel;
        double parameters, kept, forward, backward, weight;
    } more[] = {
        {MODEL_NO_QK_NORM, 2, false, 0, 0, 0, 0, 0},
        {MODEL_HEAD_QK_NORM, 2, false, 2 * 2, 2 * 3, 4 * 3, 6 * 3, 0},
        {MODEL_FULL_QK_NORM, 2, false, 3, 2 * 3, 4 * 3, 6 * 3, 0},
        {MODEL_NO_QK_NORM, 4, false, 2 * 4, 2 * 2 * 2, 4 * 2 * 2, 6 * 2 * 2, 0},
        {MODEL_NO_QK_NORM, 2, true, 0, -2 * 2, 0, 0, -2 * 4},                  /* both norms have one input */
        {MODEL_NO_QK_NORM, 1, true, -4, -4 * 2, -4 * 2, -6 * 2, -2 * (4 + 2)}, /* both up and QKV GEMM have one */
    };
    struct cost_setting setting = hand_toy_setting();
    struct model model = hand_toy;
    struct layer plain, layer;
    setting.sequence_parallel = true;
    layer_of(&setting, 0, &plain);
    setting.model = &model;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        model.kinds[0].qk_norm = more[i].qk_norm;
        model.norms = more[i].norms;
        model.parallel_attention = more[i].parallel;
        layer_of(&setting, 0, &layer);
        CHECK_CLOSE(layer_parameters(&setting, &layer), layer_parameters(&setting, &plain) + more[i].parameters, 1e-15);
        CHECK_CLOSE(layer_kept_bytes(&layer, RECOMPUTE_NONE), layer_kept_bytes(&plain, RECOMPUTE_NONE) + more[i].kept,
                    1e-15);
        CHECK_CLOSE(moved_bytes(&setting, &layer, PASS_FORWARD),
                    moved_bytes(&setting, &plain, PASS_FORWARD) + more[i].forward, 1e-15);
        CHECK_CLOSE(moved_bytes(&setting, &layer, PASS_BACKWARD),
                    moved_bytes(&setting, &plain, PASS_BACKWARD) + more[i].backward, 1e-15);
        CHECK_CLOSE(layer_weight_gradient_bytes(&setting, &layer),
                    layer_weight_gradient_bytes(&setting, &plain) + more[i].weight, 1e-15);
        CHECK_TRUE(layer_last_gemm(&layer)->is_end == (more[i].norms != 4));
        CHECK_EQUAL(layer_matrix_parameters(&model, 0), layer_matrix_parameters(&hand_toy, 0));
    }
}

/* GeGLU has the three matrices of SwiGLU, squared ReLU the two of GELU, 3 x 32 and 2 x 32 parameters. */
TEST(layer_of__counts_three_matrices_with_a_gate)
{
    static const int32_t gated[] = {MODEL_SWIGLU, MODEL_GEGLU}, plain[] = {MODEL_GELU, MODEL_SQUARED_RELU};
    struct model model = hand_toy;
    for (int i = 0; i < 2; i++) {
        model.kinds[0].activation = gated[i];
        CHECK_EQUAL(layer_matrix_parameters(&model, 0), 48 + 3 * 32);
        model.kinds[0].activation = plain[i];
        CHECK_EQUAL(layer_matrix_parameters(&model, 0), 48 + 2 * 32);
    }
}

/* Return hand_setting's model with two kinds, of which every third layer has the second. */
static struct model with_kinds(const struct model *model)
{
    struct model mixed = *model;
    mixed.kinds[1] = mixed.kinds[0];
    mixed.n_runs = 2;
    mixed.pattern[0] = (struct model_run){0, 2};
    mixed.pattern[1] = (struct model_run){1, 1};
    return mixed;
}

TEST(model_kind_of__repeats_the_pattern)
{
    struct model model = with_kinds(&hand_llama_13b); /* 40 layers */
    int64_t n[MODEL_MAX_KINDS];
    model_count_kinds(&model, n);
    CHECK_TRUE(n[0] == 27 && n[1] == 13 && n[2] == 0 && n[3] == 0);
    CHECK_EQUAL(model_kind_of(&model, 1), 0);
    CHECK_EQUAL(model_kind_of(&model, 2), 1);
    CHECK_EQUAL(model_kind_of(&model, 39), 0);
    CHECK_EQUAL(model_kind_of(&hand_llama_13b, 39), 0);
    CHECK_TRUE(model_shares_heads(&model, 8, false) && model_is_gated(&model));
    model.kinds[1].kv_heads = 4;
    model.kinds[1].activation = MODEL_GELU;
    CHECK_TRUE(!model_shares_heads(&model, 8, false) && !model_is_gated(&model));
    CHECK_TRUE(model_shares_heads(&hand_llama_13b, 8, false));
}

/* Layers 3 to 7 are of kinds 0 0 1 0 0, of which the first three recompute. */
TEST(cost_hold_layers__counts_them_by_kind)
{
    const struct model model = with_kinds(&hand_llama_13b);
    struct cost_setting setting = {.model = &model, .tensor = 1, .recompute_layers = 3};
    cost_hold_layers(&setting, 3, 5);
    CHECK_EQUAL(setting.n_runs, 2);
    CHECK_TRUE(setting.runs[0].kind == 0 && setting.runs[0].n == 4 && setting.runs[0].again == 2);
    CHECK_TRUE(setting.runs[1].kind == 1 && setting.runs[1].n == 1 && setting.runs[1].again == 1);
    cost_add_layers(&setting, 8, 1);
    CHECK_EQUAL(cost_n_layers(&setting), 6);
    CHECK_TRUE(setting.runs[1].n == 2 && setting.runs[1].again == 2);
    cost_hold_layers(&setting, 2, 2); /* the order is that of the first layers */
    CHECK_TRUE(setting.runs[0].kind == 1 && setting.runs[1].kind == 0);
    cost_hold_layers(&setting, 2, 0);
    CHECK_TRUE(setting.n_runs == 1 && setting.runs[0].kind == 1 && cost_n_layers(&setting) == 0);
}

/* Two kinds: the second has half of the width and biases. Costs, parameters and bytes of 27 and 13 layers are 27 and 13
 * times those of one. */
TEST(costs__are_sums_over_the_kinds_of_layers)
{
    struct model model = with_kinds(&hand_llama_13b);
    model.kinds[1].ffn = model.kinds[0].ffn / 2;
    model.kinds[1].biases = true;
    struct cost_setting mixed = hand_toy_setting(), one = mixed;
    mixed.model = one.model = &model;
    cost_hold_layers(&mixed, 0, 40);
    const struct slice slice = {0, 0, 4096};
    const struct cost_micro_batch micro_batch = {
        .slices = &slice, .n_slices = 1, .context = 2, .recompute = RECOMPUTE_SELECTIVE};
    for (enum pass pass = PASS_FORWARD; pass < N_COST_PASSES; pass++) {
        const struct cost_pass all = cost_of_pass(&mixed, pass, &micro_batch);
        struct cost_pass sum = {0};
        for (int32_t kind = 0; kind < 2; kind++) {
            const int32_t n = kind == 0 ? 27 : 13;
            cost_clear_layers(&one);
            one.n_runs = 1;
            one.runs[0] = (struct cost_run){kind, n, n};
            const struct cost_pass part = cost_of_pass(&one, pass, &micro_batch);
            cost_add_pass(&sum, &part);
        }
        CHECK_CLOSE(cost_pass_s(&all), cost_pass_s(&sum), 1e-14);
        CHECK_CLOSE(all.flop, sum.flop, 1e-14);
        CHECK_CLOSE(all.tensor_bytes, sum.tensor_bytes, 1e-14);
        CHECK_CLOSE(all.ring_bytes, sum.ring_bytes, 1e-14);
        CHECK_EQUAL(all.ring_steps, sum.ring_steps);
    }
    const double h = 5120, f = 13824, layer = 4 * h * h + 3 * h * f + 2 * h;
    const double narrow = layer - 3 * h * f / 2 + 3 * h + f + 2 * h; /* biases: QKV 3h, up f, projection and down h */
    CHECK_CLOSE(cost_model_parameters(&model), 27 * layer + 13 * narrow + h + 2 * 32000 * h, 1e-15);
    struct flop_curve curve = flop_model_curve(&model, PASS_FORWARD), kinds[2];
    for (int32_t kind = 0; kind < 2; kind++)
        kinds[kind] = flop_layer_curve(&model, kind, PASS_FORWARD);
    CHECK_EQUAL(flop_repeats(&model), 1);
    CHECK_TRUE(curve.q == 27 * kinds[0].q + 13 * kinds[1].q && curve.l == 27 * kinds[0].l + 13 * kinds[1].l);
    model.layers = 36; /* 24 and 12 */
    curve = flop_model_curve(&model, PASS_FORWARD);
    CHECK_EQUAL(flop_repeats(&model), 12);
    CHECK_TRUE(curve.l == 2 * kinds[0].l + kinds[1].l);
}

/* Two kinds that are alike give what one kind gives: times and peaks of random plans, with zero3 too. */
TEST(kinds_that_are_alike__change_nothing)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct plan plan;
        struct error err = {0};
        struct cost_setting one = *hand_setting();
        one.tp_overlap = (int32_t)(seed % 3);
        const struct model model = with_kinds(one.model);
        struct cost_setting mixed = one;
        mixed.model = &model;
        struct evaluator evaluators[2] = {{.n_gpus = 512}, {.n_gpus = 512}};
        struct evaluation evaluations[2];
        hand_random(&plan, seed);
        CHECK(
            evaluate(&evaluators[0], &plan, &one, (struct dag_options){.gradient_sync = true}, &evaluations[0], &err));
        CHECK(evaluate(&evaluators[1], &plan, &mixed, (struct dag_options){.gradient_sync = true}, &evaluations[1],
                       &err));
        CHECK_CLOSE(evaluations[1].makespan_s, evaluations[0].makespan_s, 1e-12);
        CHECK_CLOSE(evaluations[1].peak_bytes, evaluations[0].peak_bytes, 1e-12);
        for (int i = 0; i < 2; i++)
            evaluator_free(&evaluators[i]);
        plan_free(&plan);
    }
}

/* So it is with parameters that each layer gathers, and with stages that hold other mixtures. */
TEST(kinds_that_are_alike__gather_alike)
{
    struct cost_setting one = *hand_setting();
    one.sharding = SCENARIO_ZERO3;
    one.ranks = 16;
    const struct model model = with_kinds(one.model);
    struct cost_setting mixed = one;
    mixed.model = &model;
    const struct slice slice = {0, 0, 4096};
    const struct cost_micro_batch micro_batch = {
        .slices = &slice, .n_slices = 1, .context = 1, .recompute = RECOMPUTE_FULL};
    for (int32_t first = 0; first < 3; first++) {
        hand_layers(&one, 40);
        cost_hold_layers(&mixed, first, 40);
        for (enum pass pass = PASS_FORWARD; pass < N_COST_PASSES; pass++) {
            const struct cost_pass a = cost_of_pass(&one, pass, &micro_batch),
                                   b = cost_of_pass(&mixed, pass, &micro_batch);
            CHECK_CLOSE(cost_pass_s(&b), cost_pass_s(&a), 1e-13);
            CHECK_CLOSE(b.shard_bytes, a.shard_bytes, 1e-13);
        }
    }
}

/* Stages of 4 layers of a pattern of 3 hold three mixtures; first and last stage are kinds of their own. */
TEST(dag_kinds_of__tells_mixtures_of_layers_apart)
{
    struct model model = with_kinds(hand_setting()->model);
    struct cost_setting setting = *hand_setting();
    model.layers = 48;
    setting.model = &model;
    const struct plan_layout layout = {.tensor = 1, .context = 1, .stages = 12, .chunks = 1};
    struct dag_kinds kinds = dag_kinds_of(&setting, &layout);
    /* 0 0 1 0 | 0 1 0 0 | 1 0 0 1 | 0 0 1 0: the first two hold as many of each kind */
    CHECK_EQUAL(kinds.n, 4);
    CHECK_TRUE(kinds.kind[0] == 0 && kinds.kind[1] == 1 && kinds.kind[2] == 2 && kinds.kind[3] == 1);
    CHECK_EQUAL(kinds.kind[11], 3);
    double parameters = 0;
    for (int32_t stage = 0; stage < 12; stage++)
        parameters += dag_stage_parameters(&setting, &layout, stage);
    CHECK_CLOSE(parameters, cost_model_parameters(&model), 1e-15);
    free(kinds.kind);
}
