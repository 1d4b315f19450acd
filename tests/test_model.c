/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read models and count their parameters. */
#include "scenario/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/states.h"
#include "hand_model.h"
#include "harness.h"
#include "scenario_fixture.h"

/* Llama 13B has k = h. A layer has 4 h^2 + 3 h f = 317,194,240 parameters in matrices. 40 of them, 81 norms and two
 * tables of 32000 x 5120 make the 13,015,864,320 of its checkpoint. */
TEST(model_parameters__are_13_015_864_320_for_llama_13b)
{
    struct model model;
    struct error err = {0};
    CHECK_TRUE(model_read(fixture_data("model"), "llama-13b", &model, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TEXT(model.name, "llama-13b");
    CHECK_EQUAL(model_kv_width(&model, 0), 5120);
    CHECK_EQUAL(layer_matrix_parameters(&model, 0), 317194240);
    CHECK_EQUAL(hand_parameters(&model), INT64_C(13015864320));
}

/* h = 8, n = 4 and g = 2, so k = 8/4 x 2 = 4 and P = 8 (8 + 8) + 64 + 2 x 8 x 32 = 704. */
TEST(model_parameters__are_fewer_with_grouped_queries_and_gelu)
{
    struct model model;
    struct error err = {0};
    const char *path =
        fixture_write("small-model.yaml", "name: s\nsource: test\nhidden: 8\nlayers: 1\nheads: 4\nkv_heads: 2\n"
                                          "ffn: 32\nvocabulary: 10\nactivation: gelu\ntied_embeddings: true\n");
    CHECK_TRUE(model_read("/nowhere", path, &model, &err));
    CHECK_EQUAL(model_kv_width(&model, 0), 4);
    CHECK_EQUAL(layer_matrix_parameters(&model, 0), 704);
    CHECK_EQUAL(hand_parameters(&model), 704 + 3 * 8 + 10 * 8);
}

/* These are the parameters of the published checkpoints, and those of them that the file leaves out. Each layer of
 * Qwen1.5, Qwen2.5 and GLM-4 has biases of queries, keys and values, q + 2k. Norms of Command-R have no bias, and norms
 * of OLMo 1 no parameters. The vocabulary of Gemma 3 is padded by 64 above 1B. OPT has two rows of positions, 2h. BLOOM
 * has the norm of its embedding, 2h. "params" in keras_hub/src/models of keras-team/keras-hub give some of the counts,
 * too. They are those of Qwen2.5 (but 14B), Qwen3, Gemma, Mistral 7B, Phi-3-mini, Llama 3 8B, OPT-125M and 1.3B (there
 * without the two rows). */
static const struct {
    const char *name;
    int64_t parameters, left_out;
} checkpoints[] = {
    {"llama2-7b", INT64_C(6738415616), 0},
    {"llama2-13b", INT64_C(13015864320), 0},
    {"llama2-70b", INT64_C(68976648192), 0},
    {"llama3-8b", INT64_C(8030261248), 0},
    {"llama3-70b", INT64_C(70553706496), 0},
    {"llama3-405b", INT64_C(405853388800), 0},
    {"qwen3-8b", INT64_C(8190735360), 0},
    {"qwen2.5-0.5b", INT64_C(494032768), 27648},
    {"qwen2.5-1.5b", INT64_C(1543714304), 57344},
    {"qwen2.5-3b", INT64_C(3085938688), 92160},
    {"qwen2.5-7b", INT64_C(7615616512), 129024},
    {"qwen2.5-14b", INT64_C(14770033664), 344064},
    {"qwen2.5-32b", INT64_C(32763876352), 458752},
    {"qwen2.5-72b", INT64_C(72706203648), 819200},
    {"qwen1.5-7b", INT64_C(7721324544), 393216},
    {"qwen1.5-14b", INT64_C(14167290880), 614400},
    {"qwen1.5-72b", INT64_C(72287920128), 1966080},
    {"qwen3-0.6b", INT64_C(596049920), 0},
    {"qwen3-1.7b", INT64_C(1720574976), 0},
    {"qwen3-4b", INT64_C(4022468096), 0},
    {"qwen3-14b", INT64_C(14768307200), 0},
    {"qwen3-32b", INT64_C(32762123264), 0},
    {"mistral-7b", INT64_C(7241732096), 0},
    {"mistral-7b-v0.3", INT64_C(7248023552), 0},
    {"mistral-nemo-12b", INT64_C(12247782400), 0},
    {"mistral-small-22b", INT64_C(22247282688), 0},
    {"mistral-small-24b", INT64_C(23572403200), 0},
    {"mistral-large-123b", INT64_C(122610069504), 0},
    {"llama3.2-1b", INT64_C(1235814400), 0},
    {"llama3.2-3b", INT64_C(3212749824), 0},
    {"llama-30b", INT64_C(32528943616), 0},
    {"llama-65b", INT64_C(65285660672), 0},
    {"codellama-34b", INT64_C(33743970304), 0},
    {"tinyllama-1.1b", INT64_C(1100048384), 0},
    {"gemma-2b", INT64_C(2506172416), 0},
    {"gemma-7b", INT64_C(8537680896), 0},
    {"phi-3-mini", INT64_C(3821079552), 0},
    {"phi-3-medium", INT64_C(13960238080), 0},
    {"phi-4", INT64_C(14659507200), 0},
    {"olmo-2-7b", INT64_C(7298617344), 0},
    {"olmo-2-13b", INT64_C(13716198400), 0},
    {"olmo-2-32b", INT64_C(32234279936), 0},
    {"yi-6b", INT64_C(6061035520), 0},
    {"yi-34b", INT64_C(34388917248), 0},
    {"deepseek-llm-7b", INT64_C(6910365696), 0},
    {"gpt-neox-20b", INT64_C(20554567680), 0},
    {"opt-125m", INT64_C(125239296), 1536},
    {"opt-1.3b", INT64_C(1315758080), 4096},
    {"opt-2.7b", INT64_C(2651596800), 5120},
    {"opt-6.7b", INT64_C(6658473984), 8192},
    {"opt-13b", INT64_C(12853473280), 10240},
    {"opt-30b", INT64_C(29974540288), 14336},
    {"bloom-7b1", INT64_C(7069016064), 8192},
    {"gemma-2-2b", INT64_C(2614341888), 0},
    {"gemma-2-9b", INT64_C(9241705984), 0},
    {"gemma-2-27b", INT64_C(27227128320), 0},
    {"gemma-3-1b", INT64_C(999885952), 0},
    {"gemma-3-4b", INT64_C(3880099328), -64 * 2560},
    {"gemma-3-12b", INT64_C(11765788416), -64 * 3840},
    {"gemma-3-27b", INT64_C(27009002240), -64 * 5376},
    {"phi-4-mini", INT64_C(3836021760), 0},
    {"falcon-7b", INT64_C(6921720704), 0},
    {"falcon-40b", INT64_C(41303293952), 0},
    {"command-r-35b", INT64_C(34980831232), -41 * 8192},
    {"granite-3.1-8b", INT64_C(8170848256), 0},
    {"starcoder2-3b", INT64_C(3030371328), 0},
    {"starcoder2-7b", INT64_C(7173923840), 0},
    {"starcoder2-15b", INT64_C(15957889024), 0},
    {"smollm3-3b", INT64_C(3075098624), 0},
    {"glm-4-9b", INT64_C(9399951360), 40 * 4608},
    {"olmo-1-7b", INT64_C(6888095744), -65 * 2 * 4096},
    {"bloom-176b", INT64_C(176247271424), 28672},
};

TEST(model_parameters__match_published_checkpoints)
{
    for (size_t i = 0; i < sizeof checkpoints / sizeof *checkpoints; i++) {
        struct model model;
        struct error err = {0};
        CHECK_TRUE(model_read(SLIMSIM_SOURCE_DIR, checkpoints[i].name, &model, &err));
        CHECK_EQUAL(hand_parameters(&model), checkpoints[i].parameters - checkpoints[i].left_out);
        CHECK_CLOSE(cost_model_parameters(&model), (double)checkpoints[i].parameters, 0.005);
    }
}

/* The names of these models say how many billions they have. */
TEST(model_parameters__match_the_names_of_models)
{
    static const struct {
        const char *name;
        double billions;
    } models[] = {{"deepseek-llm-67b", 67}, {"opt-66b", 66},       {"nemotron3-8b", 8.5}, {"nemotron4-15b", 15},
                  {"nemotron4-340b", 340},  {"minitron-8b", 8.27}, {"llama-34b", 34}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct model model;
        struct error err = {0};
        CHECK_TRUE(model_read(SLIMSIM_SOURCE_DIR, models[i].name, &model, &err));
        CHECK_CLOSE((double)hand_parameters(&model) / 1e9, models[i].billions, 0.05);
    }
}

/* h = 8, n = 4, g = 2 and d = 4, so q = 16, k = 8 and P = 8 (16 + 16) + 16 x 8 + 2 x 8 x 32 = 896. */
TEST(head_width__may_differ_from_hidden_over_heads)
{
    struct model model;
    struct error err = {0};
    static const char text[] = "name: s\nsource: test\nhidden: 8\nlayers: 1\nheads: 4\nkv_heads: 2\nhead_width: 4\n"
                               "ffn: 32\nvocabulary: 10\nactivation: gelu\ntied_embeddings: true\n";
    CHECK_TRUE(model_read("/nowhere", fixture_write("wide-heads.yaml", text), &model, &err));
    CHECK_EQUAL(model_query_width(&model, 0), 16);
    CHECK_EQUAL(model_kv_width(&model, 0), 8);
    CHECK_EQUAL(layer_matrix_parameters(&model, 0), 896);
}

static const struct {
    const char *old, *new, *message;
} refused[] = {
    {"heads: 40", "heads: 48", "model.yaml:5:8: heads: 48 does not divide hidden = 5120"},
    {"kv_heads: 40", "kv_heads: 16", "model.yaml:6:11: kv_heads: 16 does not divide heads = 40"},
    {"ffn:", "head_width: 32768\nffn:", "model.yaml:7:13: head_width: 32768 x heads = 40 is more than 1048576"},
    {"hidden: 5120", "hidden: 0", "model.yaml:3:9: hidden: '0' is out of range; allowed: a whole number, 1 to 1048576"},
    {"layers: 40", "layers: -40", "layers: '-40' is out of range"},
    {"activation: swiglu", "activation: relu", "activation: 'relu' is not known; "},
    {"ffn: 13824\n", "", "ffn: is required"},
    {"ffn:", "fnn:", "fnn: unknown key; did you mean 'ffn'?"},
    {"ffn:", "num_experts: 8\nffn:", "model.yaml:7:1: num_experts: unknown key; here it is experts"},
    {"ffn:", "moe_layer_freq: 2\nffn:", "moe_layer_freq: unknown key; which layers have experts is said by `kinds:`"},
    {"ffn:", "sliding_window: 4096\nffn:", "sliding_window: unknown key; a window is the key `window:` of a model"},
    {"source: test", "source: ''", "source: '' is empty"},
    {"ffn:", "norms: 3\nffn:", "model.yaml:7:8: norms: 3 is not allowed; allowed: 2, 4, or 1 with parallel_attention"},
    {"ffn:", "norms: 1\nffn:", "norms: 1 is not allowed"},
    {"ffn:", "norms: 4\nparallel_attention: true\nffn:", "norms: 4 is not allowed; allowed: 2, or 1 with"},
};

TEST(model_read__refuses_impossible_sizes)
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

static const char two_kinds[] = "pattern: [{kind: local, n: 5}, {kind: global}]\n"
                                "kinds: {local: {window: 1024, ffn: 8192}, global: {}}\n";

/* 40 layers in runs of 5 and 1 are 34 and 6. */
TEST(model_read__takes_kinds_and_their_pattern)
{
    struct model model;
    struct error err = {0};
    char all[2048];
    int64_t n[MODEL_MAX_KINDS];
    snprintf(all, sizeof all, "%s%s", fixture_model, two_kinds);
    CHECK_TRUE(model_read("/nowhere", fixture_write("kinds.yaml", all), &model, &err));
    CHECK_TEXT(err.text, "");
    model_count_kinds(&model, n);
    CHECK_TRUE(n[0] == 34 && n[1] == 6 && n[2] == 0);
    CHECK_TEXT(model.kinds[0].name, "local");
    CHECK_TEXT(model.kinds[1].name, "global");
    CHECK_TRUE(model.kinds[0].window == 1024 && model.kinds[1].window == 0 && model_has_windows(&model));
    CHECK_TRUE(model.kinds[0].ffn == 8192 && model.kinds[1].ffn == 13824 && model.kinds[0].heads == 40);
}

static const struct {
    const char *old, *new, *message;
} refused_kinds[] = {
    {"kind: global", "kind: gobal", "pattern: `kinds:` does not name 'gobal'"},
    {", {kind: global}", "", "kinds: no layer of `pattern:` is of kind 'global'"},
    {"n: 5", "n: 0", "n: '0' is out of range; allowed: a whole number, 1 to 65536"},
    {"n: 5", "n: 40", "kinds: no layer of `pattern:` is of kind 'global'"},
    {"global: {}", "global: {}, a: {}, b: {}, c: {}", "kinds: expected a mapping of 1 to 4 entries"},
    {"[{kind: local, n: 5}, {kind: global}]", "local", "pattern: expected a list of 1 to 8 entries"},
    {"kinds: {local: {window: 1024, ffn: 8192}, global: {}}", "", "pattern: needs the key `kinds:` beside it"},
    {"pattern: [{kind: local, n: 5}, {kind: global}]\n", "", "kinds: needs the key `pattern:` beside it"},
    {"ffn: 8192", "vocabulary: 8", "local.vocabulary: unknown key"},
    {"ffn: 8192", "heads: 48", "heads: 48 does not divide hidden = 5120"},
    {"ffn: 8192", "kv_heads: 16", "kv_heads: 16 does not divide heads = 40"},
    {"window: 1024", "window: -1", "local.window: '-1' is out of range"},
};

TEST(model_read__refuses_impossible_kinds)
{
    for (size_t i = 0; i < sizeof refused_kinds / sizeof *refused_kinds; i++) {
        struct model model;
        struct error err = {0};
        char *text = fixture_replace(two_kinds, refused_kinds[i].old, refused_kinds[i].new), all[2048];
        snprintf(all, sizeof all, "%s%s", fixture_model, text);
        CHECK_TRUE(!model_read("/nowhere", fixture_write("kinds.yaml", all), &model, &err));
        CHECK_CONTAINS(err.text, refused_kinds[i].message);
        free(text);
    }
}

TEST(model_read__lists_the_names_there_are)
{
    struct model model;
    struct error err = {0};
    const char *data = fixture_data("model-names");
    fixture_write("model-names/model/llm/another.yaml", "a: 1\n");
    CHECK_TRUE(!model_read(data, "llama-13", &model, &err));
    CHECK_TEXT(
        err.text,
        "there is no model 'llama-13'; did you mean 'llama-13b'? available: another, llama-13b, or the path of a file "
        "that ends in .yaml, or of a config.json");
    err = (struct error){0};
    CHECK_TRUE(!model_read(data, "../llm/llama-13b", &model, &err));
    CHECK_CONTAINS(err.text, "there is no model '../llm/llama-13b'; ");
    err = (struct error){0};
    CHECK_TRUE(!model_read("/nowhere", "llama-13b", &model, &err));
    CHECK_CONTAINS(err.text,
                   "there is no model 'llama-13b', since the folder /nowhere/model/llm cannot be read: No such file");
    err = (struct error){0};
    CHECK_TRUE(!model_read(data, "absent.yaml", &model, &err));
    CHECK_CONTAINS(err.text, "absent.yaml: cannot be read: No such file or directory");
}
