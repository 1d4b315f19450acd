/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which names mean the same, and that a hint never leads to another model or chip. */
#include "base/name.h"

#include <string.h>

#include "harness.h"

static void check_form(const char *name, const char *expected)
{
    char form[NAME_BYTES];
    name_form(name, form);
    CHECK_TEXT(form, expected);
}

TEST(name_form__joins_words_and_numbers)
{
    check_form("Qwen/Qwen3-8B", "qwen-3-8-b");
    check_form("qwen3_8b", "qwen-3-8-b");
    check_form("qwen2.5-0.5b", "qwen-2.5-0.5-b");
    check_form("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8-b");
    check_form("llama-2-70b-hf", "llama-2-70-b");
    check_form("NVIDIA H100 80GB HBM3", "h-100-80-gb-hbm-3");
    check_form("../llm/llama-13b", "llm-llama-13-b");
    check_form("", "");
}

TEST(name_plain__leaves_out_the_maker)
{
    char plain[NAME_BYTES];
    name_plain("deepseek-ai/DeepSeek_V3", plain);
    CHECK_TEXT(plain, "DeepSeek-V3");
    name_plain("NVIDIA GB200", plain);
    CHECK_TEXT(plain, "GB200");
}

static const char *const names[] = {"a100-80g", "gemma-2b",     "gemma-7b", "h100-sxm", "h200",
                                    "h800",     "nemotron3-8b", "llama-2b", "llama2-b", "llama3-8b"};
enum { N = sizeof names / sizeof *names };

TEST(name_find__takes_only_one)
{
    CHECK_EQUAL(name_find("Gemma/Gemma_2B", names, N), 1);
    CHECK_EQUAL(name_find("Llama-3-8B", names, N), 9);
    CHECK_EQUAL(name_find("llama-2-b", names, N), -1); /* it means two of them */
    CHECK_EQUAL(name_find("gemma-9b", names, N), -1);
    CHECK_EQUAL(name_find("", names, N), -1);
}

static void check_hint(const char *name, const char *expected)
{
    char hint[NEAREST_HINT_BYTES];
    name_hint(name, names, N, hint);
    CHECK_TEXT(hint, expected);
}

TEST(name_hint__keeps_family_and_numbers)
{
    check_hint("a800", "");
    check_hint("b200", "");
    check_hint("gb200", "");
    check_hint("gemma-2-9b", "");
    check_hint("nemotron-h-8b", "");
    check_hint("llama-38b", "");
    check_hint("lama3-8b", "did you mean 'llama3-8b'? ");
    check_hint("llama3-8", "did you mean 'llama3-8b'? ");
    check_hint("h100", "did you mean 'h100-sxm'? ");
    check_hint("gemma", "did you mean 'gemma-2b' or 'gemma-7b'? ");
}

TEST(name_same_family__compares_the_first_word)
{
    CHECK_TRUE(name_same_family("gemma-2-9b", "gemma-7b"));
    CHECK_TRUE(name_same_family("google/Gemma-3-12b", "gemma-7b"));
    CHECK_TRUE(!name_same_family("a800", "h800"));
    CHECK_TRUE(!name_same_family("", ""));
}
