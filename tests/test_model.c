/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/model.h"

#include <stdlib.h>
#include <string.h>

#include "hand_model.h"
#include "harness.h"
#include "scenario_fixture.h"

/* Llama 13B: k = h; a layer has 4 h^2 + 3 h f = 317,194,240 parameters in matrices; 40 of them, 81 norms and two
 * tables of 32000 x 5120 make the 13,015,864,320 of its checkpoint. */
TEST(llama_13b_has_its_13_015_864_320_parameters)
{
    struct model model;
    struct error err = {0};
    CHECK_TRUE(model_read(fixture_data("model"), "llama-13b", &model, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TEXT(model.name, "llama-13b");
    CHECK_EQUAL(model_kv_width(&model), 5120);
    CHECK_EQUAL(model_layer_parameters(&model), 317194240);
    CHECK_EQUAL(hand_parameters(&model), INT64_C(13015864320));
}

/* h = 8, n = 4, g = 2: k = 8/4 x 2 = 4; P = 8 (8 + 8) + 64 + 2 x 8 x 32 = 704. */
TEST(grouped_queries_and_gelu_count_fewer)
{
    struct model model;
    struct error err = {0};
    const char *path =
        fixture_write("small-model.yaml", "name: s\nsource: test\nhidden: 8\nlayers: 1\nheads: 4\nkv_heads: 2\n"
                                          "ffn: 32\nvocabulary: 10\nactivation: gelu\ntied_embeddings: true\n");
    CHECK_TRUE(model_read("/nowhere", path, &model, &err));
    CHECK_EQUAL(model_kv_width(&model), 4);
    CHECK_EQUAL(model_layer_parameters(&model), 704);
    CHECK_EQUAL(hand_parameters(&model), 704 + 3 * 8 + 10 * 8);
}

/* What the published checkpoints hold; Qwen3's less its norms of queries and keys, 36 x 2 x 128. */
TEST(public_models_have_the_parameters_of_their_checkpoints)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } checkpoints[] = {
        {"llama2-7b", INT64_C(6738415616)},       {"llama2-13b", INT64_C(13015864320)},
        {"llama2-70b", INT64_C(68976648192)},     {"llama3-8b", INT64_C(8030261248)},
        {"llama3-70b", INT64_C(70553706496)},     {"llama3-405b", INT64_C(405853388800)},
        {"qwen3-8b", INT64_C(8190735360) - 9216},
    };
    for (size_t i = 0; i < sizeof checkpoints / sizeof *checkpoints; i++) {
        struct model model;
        struct error err = {0};
        CHECK_TRUE(model_read(SLIMSIM_SOURCE_DIR, checkpoints[i].name, &model, &err));
        CHECK_EQUAL(hand_parameters(&model), checkpoints[i].parameters);
    }
}

static const struct {
    const char *old, *new, *message;
} refused[] = {
    {"heads: 40", "heads: 48", "model.yaml:5:8: heads: 48 does not divide hidden = 5120"},
    {"kv_heads: 40", "kv_heads: 16", "model.yaml:6:11: kv_heads: 16 does not divide heads = 40"},
    {"hidden: 5120", "hidden: 0", "model.yaml:3:9: hidden: '0' is out of range; allowed: a whole number, 1 to 1048576"},
    {"layers: 40", "layers: -40", "layers: '-40' is out of range"},
    {"activation: swiglu", "activation: relu", "activation: 'relu' is not known; "},
    {"ffn: 13824\n", "", "ffn: is required"},
    {"ffn:", "fnn:", "fnn: unknown key; did you mean 'ffn'?"},
    {"source: test", "source: ''", "source: '' is empty"},
};

TEST(impossible_sizes_are_refused)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct model model;
        struct error err = {0};
        char *text = fixture_replace(fixture_model, refused[i].old, refused[i].new);
        CHECK_TRUE(!model_read("/nowhere", fixture_write("model.yaml", text), &model, &err));
        CHECK_CONTAINS(err.text, refused[i].message);
        free(text);
    }
}

TEST(an_unknown_name_lists_those_there_are)
{
    struct model model;
    struct error err = {0};
    const char *data = fixture_data("model-names");
    fixture_write("model-names/model/llm/another.yaml", "a: 1\n");
    CHECK_TRUE(!model_read(data, "llama-13", &model, &err));
    CHECK_TEXT(err.text,
               "no model 'llama-13'; did you mean 'llama-13b'? available: another, llama-13b, or the path of a file "
               "that ends in .yaml");
    err = (struct error){0};
    CHECK_TRUE(!model_read(data, "../llm/llama-13b", &model, &err));
    CHECK_CONTAINS(err.text, "no model '../llm/llama-13b'; ");
    err = (struct error){0};
    CHECK_TRUE(!model_read("/nowhere", "llama-13b", &model, &err));
    CHECK_CONTAINS(err.text, "no model 'llama-13b': the folder /nowhere/model/llm cannot be read: No such file");
    err = (struct error){0};
    CHECK_TRUE(!model_read(data, "absent.yaml", &model, &err));
    CHECK_CONTAINS(err.text, "absent.yaml: cannot be read: No such file or directory");
}
