/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count FLOPs by hand. */
#include "cost/flop.h"
#include "hand_model.h"
#include "hand_setting.h"
#include "harness.h"

#include <stdio.h>

static const struct model llama_7b = {
    .hidden = 4096,
    .layers = 32,
    .vocabulary = 32000,
    .kinds = {{.heads = 32, .kv_heads = 32, .ffn = 11008, .activation = MODEL_SWIGLU}}};
static const struct model llama_405b = {
    .hidden = 16384,
    .layers = 126,
    .vocabulary = 128256,
    .kinds = {{.heads = 128, .kv_heads = 8, .ffn = 53248, .activation = MODEL_SWIGLU}}};
static const struct model *const models[] = {&llama_7b, &hand_llama_13b, &llama_405b, &hand_gpt_3};

static int64_t all_layers(const struct model *model, enum pass pass, int64_t end)
{
    return model->layers * flop_of_slice(flop_layer_curve(model, 0, pass), 0, end);
}

/* By calculator: layers x (2 h x^2 + (2 P + 2 h) x) forward, layers x (5 h x^2 + (4 P + 5 h) x) backward. P = 4 h^2 + 3
 * h f is 202,375,168 for 7B and 317,194,240 for 13B. */
TEST(flop__matches_the_check_values_of_whole_samples)
{
    CHECK_EQUAL(all_layers(&llama_7b, PASS_FORWARD, 4096), 57450556293120);
    CHECK_EQUAL(all_layers(&llama_7b, PASS_BACKWARD, 4096), 117100672712704);
    CHECK_EQUAL(all_layers(&hand_llama_13b, PASS_FORWARD, 262144), 34799650393292800);
}

/* One token takes every matrix once (2 FLOPs a parameter), one query and one key (4h). Backward takes 4 and 10h. */
TEST(flop__of_one_token_is_counted_by_hand)
{
    int64_t h = 4096, p = h * (3 * h) + h * h + 3 * h * 11008;
    CHECK_EQUAL(layer_matrix_parameters(&llama_7b, 0), p);
    CHECK_EQUAL(flop_of_prefix(flop_layer_curve(&llama_7b, 0, PASS_FORWARD), 1), 2 * p + 4 * h);
    CHECK_EQUAL(flop_of_prefix(flop_layer_curve(&llama_7b, 0, PASS_BACKWARD), 1), 4 * p + 10 * h);
    CHECK_EQUAL(flop_attention(&llama_7b, 0, PASS_FORWARD, 1, 2), 8 * h); /* its query sees two keys */
    CHECK_EQUAL(flop_head(&llama_7b, PASS_FORWARD, 3), 6 * h * 32000);
    CHECK_EQUAL(flop_head(&llama_7b, PASS_BACKWARD, 3), 12 * h * 32000);
}

/* GELU has two matrices of h f, so GPT-3 has P = 12 h^2. */
TEST(flop__counts_two_inner_matrices_for_gelu)
{
    CHECK_EQUAL(layer_matrix_parameters(&hand_gpt_3, 0), 12288LL * 12288 * 12);
}

static int64_t next_below(uint64_t *state, int64_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*state >> 33) % (uint64_t)limit);
}

TEST(flop__of_slices_adds_up_exactly)
{
    uint64_t state = 2025;
    for (int i = 0; i < 4000; i++) {
        const struct model *model = models[i % 4];
        enum pass pass = i / 4 % 2 ? PASS_BACKWARD : PASS_FORWARD;
        struct flop_curve curve = flop_layer_curve(model, 0, pass);
        int64_t c = 1 + next_below(&state, 1 << 23), b = next_below(&state, c + 1), a = next_below(&state, b + 1);
        int64_t gemm = (pass == PASS_FORWARD ? 2 : 4) * layer_matrix_parameters(model, 0) * (c - a);
        bool adds = flop_of_slice(curve, a, b) + flop_of_slice(curve, b, c) == flop_of_slice(curve, a, c);
        bool splits = flop_attention(model, 0, pass, a, c) + gemm == flop_of_slice(curve, a, c);
        if (!harness_true(adds && splits && flop_of_slice(curve, a, c) >= 0, "parts make the whole", __FILE__,
                          __LINE__))
            printf("case %d: model %d pass %d slices %lld %lld %lld\n", i, i % 4, (int)pass, (long long)a, (long long)b,
                   (long long)c);
    }
}

/* The longest sample of the widest model has 5 h x^2 = 5.76e18, below 2^63 = 9.22e18. */
TEST(flop__of_the_longest_sample_does_not_overflow)
{
    int64_t x = 1 << 23;
    struct flop_curve curve = flop_layer_curve(&llama_405b, 0, PASS_BACKWARD);
    double exact = (double)x * ((double)curve.q * (double)x + (double)curve.l);
    CHECK_CLOSE((double)flop_of_prefix(curve, x), exact, 1e-15);
}

/* 6 (l P + h V) s + 6 l h s^2 of 7B at s = 4096 is added term by term. */
TEST(flop_model_of_sample__follows_the_formula)
{
    double layer = (2 + 2.0) * 4096 * 4096 + 3.0 * 4096 * 11008, s = 4096;
    double expected = s * 6 * (32 * layer + 4096.0 * 32000) + s * 3 * (32 * 2.0 * 4096 * s);
    CHECK_CLOSE(hand_model_flop(&llama_7b, 4096), expected, 1e-15);
}

/* 405B has h = 16384. 5 h x^2 + (4 P + 5 h) x is 5.8e18 at 2^23 tokens, below 2^63 = 9.2e18. Two layers are beyond
 * it. */
TEST(flop__is_refused_before_it_overflows)
{
    struct model model = llama_405b;
    CHECK_TRUE(flop_fits(&model, 1, 1 << 23));
    CHECK_TRUE(flop_of_prefix(flop_layer_curve(&model, 0, PASS_BACKWARD), 1 << 23) > 0);
    CHECK_TRUE(!flop_fits(&model, 2, 1 << 23));
    CHECK_TRUE(flop_fits(&model, 126, 1 << 19));
    model.vocabulary = INT64_C(1) << 40;
    CHECK_TRUE(!flop_fits(&model, 1, 1000));
}
