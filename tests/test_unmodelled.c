/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which names have a reason for not being modelled, and that no shipped name has one. */
#include "base/unmodelled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document/library.h"
#include "harness.h"
#include "scenario/scenario.h"
#include "system/system.h"

static const struct {
    const char *kind, *name, *part; /* NULL: no reason */
} cases[] = {
    {"model", "dbrx", "this mixture of experts has no file here"},
    {"model", "Phi-3.5-MoE-instruct", "this mixture of experts has no file here"},
    {"model", "deepseek-v3.2", "this mixture of experts has no file here"},
    {"model", "Qwen3-Coder-480B-A35B", "this mixture of experts has no file here"},
    {"model", "Qwen3-30B-A3B-Instruct-2507", NULL},
    {"model", "OLMoE-1B-7B-0125", NULL},
    {"model", "mamba-2.8b", "state-space"},
    {"model", "bert-large", "encoders"},
    {"model", "llama-31b", NULL},
    {"model", "deepseek-llm-8b", NULL},
    {"device", "b100", "no measured curves here; `slimsim help own-device`"},
    {"device", "V100", "no measured curves here"},
    {"device", "GB200", NULL},
    {"device", "mi300x", "only NVIDIA"},
    {"device", "tpu-v5p", "only NVIDIA"},
    {"device", "h80", NULL},
    {"device", "mixtral-8x7b", NULL},
    {"training system", "megatron-lm", "`framework:`"},
    {"training system", "expert-parallel", "experts belong to the model"},
    {"training system", "slimpak", NULL},
    {"key", "moe_aux_loss_coeff", "experts of a model are its keys experts, top_k"},
    {"key", "moe_grouped_gemm", NULL},
    {"key", "first_k_dense_replace", "`kinds:` and `pattern:` of a model"},
    {"key", "etp", NULL},
    {"key", "sliding_window", "a window is the key `window:`"},
    {"key", "kv_lora_rank", NULL},
    {"key", "gradient_accumulation_steps", "the number of micro-batches follows"},
    {"key", "grad_accum_dtype", "is the key gradient_accumulation"},
    {"key", "reduce_dtype", "systems.0.plan.reduce_precision"},
    {"key", "hiden", NULL},
};

TEST(unmodelled__has_reasons_for_what_users_ask)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *reason = unmodelled_reason(cases[i].kind, cases[i].name);
        CHECK_TRUE((reason == NULL) == (cases[i].part == NULL));
        if (reason != NULL && cases[i].part != NULL)
            CHECK_CONTAINS(reason, cases[i].part);
    }
}

static void check_folder(const char *kind, const char *below)
{
    size_t n = 0;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/%s", scenario_data_dir(), below);
    char **names = library_list(folder, ".yaml", &n);
    CHECK_TRUE(n > 0);
    for (size_t i = 0; i < n; i++) {
        CHECK_TRUE(unmodelled_reason(kind, names[i]) == NULL);
        free(names[i]);
    }
    free(names);
}

TEST(unmodelled__has_no_shipped_name)
{
    check_folder("model", "model/llm");
    check_folder("device", "model/gpu");
    for (int i = 0; training_systems[i] != NULL; i++)
        CHECK_TRUE(unmodelled_reason("training system", training_systems[i]->name) == NULL);
}

TEST(unmodelled_name_here__knows_words_of_other_tools)
{
    CHECK_TEXT(unmodelled_name_here("key", "tensor_model_parallel_size"), "systems.0.plan.tp");
    CHECK_TEXT(unmodelled_name_here("key", "SEQ_LENGTH"), "data.context");
    CHECK_TEXT(unmodelled_name_here("sharding", "fsdp"), "zero3");
    CHECK_TEXT(unmodelled_name_here("model", "llama-3.1-8-b"), "llama3-8b");
    CHECK_TEXT(unmodelled_name_here("model", "deepseek-r-1"), "deepseek-v3");
    CHECK_TEXT(unmodelled_name_here("key", "n_routed_experts"), "experts, a key of a model's file");
    CHECK_CONTAINS(unmodelled_name_here("key", "moe_intermediate_size"), "ffn of a kind of layers with experts");
    CHECK_TEXT(unmodelled_name_here("key", "expert-model-parallel-size"), "systems.0.plan.ep");
    CHECK_TRUE(unmodelled_name_here("key", "data") == NULL);
    CHECK_TRUE(unmodelled_name_here("model", "llama-3.2-8-b") == NULL);
    CHECK_TRUE(unmodelled_name_here("model", "deepseek-r-1-distill-llama-8-b") == NULL);
}
