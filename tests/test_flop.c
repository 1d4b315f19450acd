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

/* With a window of 4 tokens 10 queries see 1 + 2 + 3 + 7 x 4 = 34 keys, and 3 queries see 6. Queries 2 to 6 see 3 + 4 x
 * 4 = 19. */
TEST(window__limits_the_keys_of_each_query)
{
    CHECK_EQUAL(flop_twice_keys(4, 0, 10), 2 * 34);
    CHECK_EQUAL(flop_twice_keys(4, 0, 3), 2 * 6);
    CHECK_EQUAL(flop_twice_keys(4, 0, 4), 2 * 10);
    CHECK_EQUAL(flop_twice_keys(4, 2, 7), 2 * 19);
    CHECK_EQUAL(flop_twice_keys(1, 5, 9), 2 * 4);
    CHECK_EQUAL(flop_twice_keys(0, 2, 7), 2 * 25);
    struct model model = hand_toy; /* w = 4: 16 FLOPs a key forward, 40 backward */
    model.kinds[0].window = 4;
    CHECK_EQUAL(flop_attention(&model, 0, PASS_FORWARD, 2, 7), 16 * 19);
    CHECK_EQUAL(flop_attention(&model, 0, PASS_BACKWARD, 0, 10), 40 * 34);
    struct flop_curve curve = flop_model_curve(&model, PASS_FORWARD);
    const int64_t packed[] = {10, 3, 4}; /* samples of one micro-batch do not see each other */
    int64_t flop = 0;
    for (int i = 0; i < 3; i++)
        flop += flop_of_prefix(curve, packed[i]);
    CHECK_EQUAL(flop, 2 * 144 * 17 + 16 * (34 + 6 + 10));
    CHECK_EQUAL(flop_of_slice(curve, 2, 7), 2 * 144 * 5 + 16 * 19);
}

/* Mistral 7B has w = 4096 and a window of 4096: on 32768 tokens its queries see 4096 x 4097/2 + 28672 x 4096 keys. */
TEST(window__of_mistral_on_32768_tokens)
{
    struct model model = llama_7b;
    model.kinds[0].window = 4096;
    int64_t keys = INT64_C(4096) * 4097 / 2 + INT64_C(28672) * 4096;
    CHECK_EQUAL(flop_attention(&model, 0, PASS_FORWARD, 0, 32768), 4 * 4096 * keys);
    CHECK_EQUAL(flop_attention(&model, 0, PASS_BACKWARD, 0, 32768), 10 * 4096 * keys);
    /* For MFU a sample has 6 parameters a token, and 6 w x 2 keys less a token for itself. */
    struct flop_model of = flop_model_of(&model);
    CHECK_CLOSE(flop_model_of_sample(&of, 32768),
                32768 * 6 * of.parameters + 32.0 * 6 * 4096 * (2.0 * (double)keys - 32768), 1e-15);
}

/* Three of four layers have a window of 4. On 10 tokens the four have 3 x 34 + 55 keys, 16 FLOPs each. */
TEST(window__of_a_pattern_is_summed_over_its_kinds)
{
    struct model model = hand_toy;
    model.layers = 8;
    model.kinds[1] = model.kinds[0];
    model.kinds[0].window = 4;
    model.n_runs = 2;
    model.pattern[0] = (struct model_run){0, 3};
    model.pattern[1] = (struct model_run){1, 1};
    struct flop_curve curve = flop_model_curve(&model, PASS_FORWARD);
    CHECK_EQUAL(flop_repeats(&model), 2);
    CHECK_EQUAL(flop_of_prefix(curve, 10), 4 * 2 * 144 * 10 + 16 * (3 * 34 + 55));
    CHECK_EQUAL(flop_of_slice(curve, 2, 7), 4 * 2 * 144 * 5 + 16 * (3 * 19 + 25));
    CHECK_TRUE(flop_fits(&model, 8, 1 << 23));
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
