/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests read framework presets, take defaults from them and refuse bad ones. */
#include "scenario/framework.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document/library.h"
#include "harness.h"
#include "scenario/scenario_read.h"
#include "scenario/taken.h"
#include "scenario_fixture.h"

static const char minimal[] = "model: llama-13b\ndevice: h800\nplatform: hopper-2x8\n"
                              "data: {lengths: github, context: 64Ki, global_batch: 8}\n"
                              "systems: [{name: slimpack, plan: {tp: 2, pp: 1}}]\n";
static const char searched[] = "model: llama-13b\ndevice: h800\nplatform: hopper-2x8\nframework: mine.yaml\n"
                               "data: {lengths: github, context: 64Ki, global_batch: 8}\n"
                               "systems: [{name: slimpack, plan: auto}]\n";
static const char planned[] = "model: llama-13b\ndevice: h800\nplatform: hopper-2x8\nframework: mine.yaml\n"
                              "data: {lengths: github, context: 64Ki, global_batch: 8}\n"
                              "systems: [{name: slimpack, plan: {tp: 2, pp: 1}}]\n";
static const char mine[] =
    "name: mine\nsource: a test\nkernels: eager\nloss: fused\ncommunication: {pp_overlap: false}\n"
    "plan: {sharding: zero3, fsdp: 2, fsdp_ends: own, gradients: bf16, early_stop: true}\n"
    "sources: {loss: a page, plan: {fsdp: another page}}\n";

/** Read a scenario beside the file mine.yaml, which holds `framework`. */
static bool read_beside(const char *framework, const char *text, const char *set, struct scenario *scenario,
                        struct error *err)
{
    *err = (struct error){0};
    fixture_data("framework");
    fixture_write("framework/mine.yaml", framework);
    return scenario_read(fixture_write("framework/run.yaml", text), set != NULL, &set, scenario, err);
}

/** Return the resolved text of a scenario beside mine.yaml. The caller frees it. */
static char *resolved(const char *framework, const char *text)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(read_beside(framework, text, NULL, &s, &err));
    CHECK_TEXT(err.text, "");
    char *written = scenario_text(&s);
    scenario_free(&s);
    return written;
}

/* A tuned run of Megatron: other scenarios name their framework. */
TEST(framework__megatron_core_is_the_default)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(read_beside(mine, minimal, NULL, &s, &err));
    const struct scenario_plan *plan = &s.systems[0].plan;
    CHECK_TEXT(s.framework_name, "megatron-core");
    CHECK_EQUAL(s.attention, DEVICE_FASTEST);
    CHECK_TRUE(s.communication.tp_overlap == SCENARIO_BULK && s.communication.cp_overlap);
    CHECK_EQUAL(s.communication.pp_overlap, SCENARIO_STAGES_INTERLEAVED);
    CHECK_EQUAL(s.communication.dp_overlap, SCENARIO_OVERLAP_BOTH);
    CHECK_TRUE(plan->sharding == SCENARIO_ZERO1 && plan->sequence_parallel);
    CHECK_EQUAL(plan->offload_mode, SCENARIO_OFFLOAD_NEVER);
    scenario_free(&s);
}

TEST(framework__slimpack_paper_holds_what_the_paper_says)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(read_beside(mine, minimal, "framework=slimpack-paper", &s, &err));
    const struct scenario_plan *plan = &s.systems[0].plan;
    CHECK_TEXT(s.framework_name, "slimpack-paper");
    CHECK_TRUE(s.attention == DEVICE_FLASH2 && s.kernels == SCENARIO_FUSED && s.loss == SCENARIO_LOSS_PASSES);
    CHECK_EQUAL(s.swiglu, SCENARIO_SWIGLU_FUSED);
    CHECK_EQUAL(s.gradient_accumulation, SCENARIO_ACCUMULATE_FUSED);
    CHECK_TRUE(plan->gradient_reduction == SCENARIO_REDUCE_SCATTER && plan->reduce_precision == SCENARIO_REDUCE_SAME);
    CHECK_TRUE(s.communication.tp_overlap == SCENARIO_BULK && s.communication.dp_overlap == SCENARIO_OVERLAP_NONE);
    CHECK_TRUE(s.communication.cp_overlap && s.communication.pp_overlap == SCENARIO_STAGES_OVERLAP);
    CHECK_EQUAL(plan->offload_mode, SCENARIO_OFFLOAD_AUTO);
    CHECK_TRUE(plan->cp_type == SCENARIO_RING && plan->sharding == SCENARIO_ZERO1 && plan->fsdp == 1);
    CHECK_TRUE(plan->fsdp_prefetch == SCENARIO_BACKWARD_PRE && plan->fsdp_ends == SCENARIO_ENDS_ROOT);
    CHECK_TRUE(plan->gradients == SCENARIO_FP32 && plan->gradient_buffers == SCENARIO_GRADIENTS_KEPT);
    CHECK_TRUE(plan->optimizer == SCENARIO_FUSED && plan->sequence_parallel && !plan->early_stop);
    scenario_free(&s);
}

TEST(framework__stands_between_the_base_and_the_scenario)
{
    struct scenario s;
    struct error err;
    char *text = fixture_replace(minimal, "pp: 1", "pp: 1, gradients: fp32");
    char *named = fixture_replace(text, "device:", "framework: mine.yaml\ndevice:");
    CHECK_TRUE(read_beside(mine, named, "kernels=compiled", &s, &err));
    CHECK_TEXT(err.text, "");
    CHECK_EQUAL(s.swiglu, SCENARIO_SWIGLU_FUSED); /* neither says it: the base */
    CHECK_EQUAL(s.loss, SCENARIO_LOSS_FUSED);     /* the framework */
    CHECK_TRUE(!s.communication.pp_overlap && s.communication.cp_overlap);
    CHECK_EQUAL(s.systems[0].plan.sharding, SCENARIO_ZERO3);
    CHECK_EQUAL(s.systems[0].plan.fsdp, 2);
    CHECK_EQUAL(s.systems[0].plan.gradients, SCENARIO_FP32); /* the scenario */
    CHECK_EQUAL(s.kernels, SCENARIO_COMPILED);               /* --set */
    CHECK_TRUE(library_is_path(s.framework_name, "/framework/mine.yaml") && *s.framework_name == '/');
    scenario_free(&s);
    free(text);
    free(named);
}

TEST(framework__a_value_counts_only_in_a_plan_that_can_have_it)
{
    struct scenario s;
    struct error err;
    char *named = fixture_replace(minimal, "device:", "framework: mine.yaml\ndevice:");
    CHECK_TRUE(read_beside(mine, named, NULL, &s, &err));
    CHECK_TRUE(!s.systems[0].plan.early_stop && s.systems[0].plan.fsdp_ends == SCENARIO_ENDS_OWN);
    scenario_free(&s);
    CHECK_TRUE(read_beside(mine, named, "systems.0.plan.recompute=full", &s, &err));
    CHECK_TRUE(s.systems[0].plan.early_stop);
    scenario_free(&s);
    CHECK_TRUE(read_beside(mine, named, "systems.0.plan={tp: 2, pp: 2, sharding: zero1}", &s, &err));
    CHECK_TRUE(s.systems[0].plan.fsdp == 1 && s.systems[0].plan.fsdp_ends == SCENARIO_ENDS_ROOT);
    scenario_free(&s);
    CHECK_TRUE(!read_beside(mine, named, "systems.0.plan={tp: 2, pp: 1, early_stop: true}", &s, &err));
    CHECK_CONTAINS(err.text, "plan.early_stop: true needs recompute: full");
    CHECK_TRUE(!read_beside(mine, named, "systems.0.plan={tp: 2, pp: 2, fsdp: 1}", &s, &err));
    CHECK_CONTAINS(err.text, "/framework/mine.yaml): zero3 with fsdp 1 needs pp 1");
    CHECK_CONTAINS(err.text, "plan.sharding (of framework /");
    free(named);
}

TEST(framework__a_search_takes_what_it_does_not_decide)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(read_beside(mine, searched, NULL, &s, &err));
    CHECK_TRUE(s.systems[0].auto_plan && s.systems[0].plan.gradients == SCENARIO_BF16);
    CHECK_TRUE(s.systems[0].plan.sequence_parallel && s.systems[0].plan.tp == 0);
    scenario_free(&s);
}

static int32_t recompute_beside(const char *framework, const char *text, const char *set)
{
    struct scenario s;
    struct error err;
    char *named = fixture_replace(text, "pp: 1", "pp: 1, recompute: selective");
    CHECK_TRUE(read_beside(framework, named, set, &s, &err));
    CHECK_TEXT(err.text, "");
    int32_t recompute = s.systems[0].plan.recompute;
    scenario_free(&s);
    free(named);
    return recompute;
}

/* Megatron's --recompute-activations is the attention core. Without a framework's name the word keeps its older
 * meaning. */
TEST(framework__selective_means_what_the_named_framework_means)
{
    struct scenario s;
    struct error err;
    CHECK_EQUAL(recompute_beside(mine, minimal, NULL), RECOMPUTE_NORM | RECOMPUTE_ACTIVATION);
    CHECK_EQUAL(recompute_beside(mine, minimal, "framework=megatron-core"), RECOMPUTE_ATTENTION_CORE);
    CHECK_EQUAL(recompute_beside(mine, minimal, "framework=slimpack-paper"), RECOMPUTE_NORM | RECOMPUTE_ACTIVATION);
    char *own = fixture_replace(mine, "kernels:", "selective: [norm, attention-core]\nkernels:");
    CHECK_EQUAL(recompute_beside(own, planned, NULL), RECOMPUTE_NORM | RECOMPUTE_ATTENTION_CORE);
    char *named = fixture_replace(planned, "pp: 1", "pp: 1, recompute: [selective, norm]");
    CHECK_TRUE(!read_beside(mine, named, NULL, &s, &err));
    CHECK_CONTAINS(err.text, "plan.recompute: 'selective' has no meaning in framework /");
    CHECK_CONTAINS(err.text,
                   "/mine.yaml; allowed: none, full, or a list of norm, activation, attention-core, alternate-gemms");
    CHECK_TEXT(err.notes, "");
    CHECK_TRUE(read_beside(mine, named, "systems.0.plan.recompute=norm+activation", &s, &err));
    CHECK_EQUAL(s.systems[0].plan.recompute, RECOMPUTE_NORM | RECOMPUTE_ACTIVATION);
    scenario_free(&s);
    free(own);
    free(named);
}

TEST(framework__a_search_reads_the_older_name_of_its_level)
{
    struct scenario s;
    struct error err = {0}, notes = {0};
    char *old = fixture_replace(searched, "systems:", "plan_space: {recompute: [selective, full]}\nsystems:");
    CHECK_TRUE(read_beside(mine, old, "framework=megatron-core", &s, &err));
    CHECK_TRUE(s.systems[0].space.recompute.n == 2 && s.systems[0].space.recompute.at[0] == 1);
    char *written = scenario_text(&s);
    CHECK_CONTAINS(written, "recompute: [norm+activation, full]");
    taken_words(&s, &notes);
    CHECK_CONTAINS(notes.text, "plan_space.recompute: 'selective' is taken as norm+activation");
    scenario_free(&s);
    free(written);
    free(old);
}

/* Suffixes such as -hf are left out of names, but this name is nothing else. */
TEST(framework__hf_is_transformers)
{
    struct scenario s;
    struct error err = {0};
    char *text = fixture_replace(planned, "mine.yaml", "hf");
    char *own = fixture_replace(mine, "name: mine", "name: transformers");
    fixture_data("framework");
    fixture_write("framework/model/framework/transformers.yaml", own);
    CHECK_TRUE(scenario_read(fixture_write("framework/run.yaml", text), 0, NULL, &s, &err));
    CHECK_TEXT(s.framework_name, "transformers");
    CHECK_EQUAL(remove(harness_path("framework/model/framework/transformers.yaml")), 0);
    scenario_free(&s);
    free(own);
    free(text);
}

/* Words that only begin so are errors of their own. */
TEST(framework__notes_no_other_word_than_selective)
{
    static const struct {
        const char *word;
        bool noted;
    } words[] = {{"selective", true}, {"attention-core+selective", true}, {"selective-full", false}};
    for (int i = 0; i < 3; i++) {
        struct scenario s;
        struct error err = {0}, notes = {0};
        char set[64];
        snprintf(set, sizeof set, "systems.0.plan.recompute=%s", words[i].word);
        char *text = fixture_replace(planned, "framework: mine.yaml\n", "");
        CHECK_EQUAL(read_beside(mine, text, set, &s, &err), words[i].noted);
        taken_words(&s, &notes);
        CHECK_EQUAL(strstr(notes.text, "'selective' is taken as") != NULL, words[i].noted);
        if (words[i].noted)
            scenario_free(&s);
        free(text);
    }
}

/* Finished points of a sweep are known by this text. Another source therefore does not run them again. */
TEST(framework__the_resolved_text_has_its_values_and_not_its_sources)
{
    char *other_source = fixture_replace(mine, "a test", "another test");
    char *other_value = fixture_replace(mine, "gradients: bf16", "gradients: fp32");
    char *named = fixture_replace(minimal, "device:", "framework: mine.yaml\ndevice:");
    const char *const texts[] = {named, searched};
    for (int i = 0; i < 2; i++) {
        char *text = resolved(mine, texts[i]), *same = resolved(other_source, texts[i]);
        char *other = resolved(other_value, texts[i]), *again = resolved(mine, text);
        CHECK_CONTAINS(text, "/framework/mine.yaml\n");
        CHECK_CONTAINS(text, "gradients: bf16\n");
        CHECK_TEXT(same, text);
        CHECK_TEXT(again, text);
        CHECK_TRUE(strcmp(other, text) != 0);
        free(text);
        free(same);
        free(other);
        free(again);
    }
    free(other_source);
    free(other_value);
    free(named);
}

/* A framework that offloads nothing leaves it to the user to ask for a share. */
TEST(offload__never_of_the_framework_yields_to_a_share_that_is_asked_for)
{
    static const struct {
        const char *text, *old, *new;
        int32_t mode;
    } cases[] = {{planned, "pp: 1", "pp: 1", SCENARIO_OFFLOAD_NEVER},
                 {planned, "pp: 1", "pp: 1, offload: 0", SCENARIO_OFFLOAD_NEVER},
                 {planned, "pp: 1", "pp: 1, offload: 0.5", SCENARIO_OFFLOAD_PLAN},
                 {planned, "plan:", "offload: auto, plan:", SCENARIO_OFFLOAD_AUTO},
                 {searched, "auto", "auto", SCENARIO_OFFLOAD_NEVER},
                 {searched, "auto", "auto, plan_space: {name: free}", SCENARIO_OFFLOAD_NEVER},
                 {searched, "auto", "auto, plan_space: {offload: [0, 1]}", SCENARIO_OFFLOAD_PLAN},
                 {searched, "systems:", "plan_space: {offload: 0.5}\nsystems:", SCENARIO_OFFLOAD_PLAN},
                 {searched, "plan: auto", "offload: never, plan: auto", SCENARIO_OFFLOAD_NEVER},
                 {searched, "plan: auto", "offload: plan, plan: auto", SCENARIO_OFFLOAD_PLAN},
                 {searched, "plan: auto", "offload: auto, plan: auto", SCENARIO_OFFLOAD_AUTO}};
    char *never = fixture_replace(mine, "kernels: eager", "kernels: eager\noffload: never");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scenario s;
        struct error err;
        char *text = fixture_replace(cases[i].text, cases[i].old, cases[i].new);
        CHECK_TRUE(read_beside(never, text, NULL, &s, &err));
        CHECK_TEXT(err.text, "");
        CHECK_EQUAL(s.systems[0].plan.offload_mode, cases[i].mode);
        const struct schema_reals *shares = &s.systems[0].space.offload;
        if (s.systems[0].auto_plan && cases[i].mode == SCENARIO_OFFLOAD_NEVER)
            CHECK_TRUE(shares->n == 1 && shares->at[0] == 0);
        if (s.systems[0].auto_plan && cases[i].mode != SCENARIO_OFFLOAD_NEVER)
            CHECK_TRUE(shares->n > 0 && shares->at[shares->n - 1] > 0);
        char *once = scenario_text(&s), *again = resolved(never, once);
        CHECK_TEXT(again, once);
        scenario_free(&s);
        free(once);
        free(again);
        free(text);
    }
    free(never);
}

TEST(offload__never_of_the_entry_contradicts_a_share)
{
    struct scenario s;
    struct error err;
    char *named =
        fixture_replace(minimal, "plan: {tp: 2, pp: 1}", "offload: never, plan: {tp: 2, pp: 1, offload: 0.5}");
    CHECK_TRUE(!read_beside(mine, named, NULL, &s, &err));
    CHECK_CONTAINS(err.text,
                   "framework/run.yaml:5:74: plan.offload: 0.5 is not allowed beside offload: never; allowed: "
                   "0, or offload: plan");
    CHECK_EQUAL(err.status, ERROR_INVALID);
    free(named);
    named = fixture_replace(searched, "plan: auto", "offload: never, plan: auto, plan_space: {offload: [0, 0.5]}");
    CHECK_TRUE(!read_beside(mine, named, NULL, &s, &err));
    CHECK_CONTAINS(err.text, "plan_space.offload: a share above 0 is not allowed beside offload: never; allowed: 0, or "
                             "offload: plan");
    CHECK_EQUAL(err.status, ERROR_INVALID);
    free(named);
}

static const struct {
    const char *old, *new, *message;
} refused[] = {
    {"kernels: eager", "kernels: slow",
     "framework/mine.yaml:3:10: kernels: 'slow' is not known; allowed: fused, eager, compiled"},
    {"gradients: bf16", "tp: 2",
     "framework/mine.yaml:6:50: plan.tp: unknown key; allowed: cp_type, spread, sharding, fsdp, fsdp_prefetch, "
     "fsdp_ends, gradients, gradient_reduction, reduce_precision, gradient_buffers, reduce_bucket, gradient_copy, "
     "optimizer, main_params, moments, "
     "sequence_parallel, kv_copies, early_stop"},
    {"kernels: eager", "seed: 2", "framework/mine.yaml:3:1: seed: unknown key; "},
    {"source: a test\n", "", "framework/mine.yaml:1:1: source: is required (where the values come from)"},
    {"loss: a page", "swiglu: a page",
     "framework/mine.yaml:7:19: sources.swiglu: is not allowed, since this file does not set the key"},
    {"loss: a page", "seed: a page", "framework/mine.yaml:7:11: sources.seed: unknown key; "},
    {"fsdp: 2", "fsdp: 1.000000000000000000000000000000000000000000000000000000000000000",
     "plan.fsdp: is longer than the limit of 63 bytes"},
};

TEST(framework__mistakes_name_file_key_and_what_is_allowed)
{
    struct scenario s;
    struct error err;
    char *named = fixture_replace(minimal, "device:", "framework: mine.yaml\ndevice:");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char *wrong = fixture_replace(mine, refused[i].old, refused[i].new);
        CHECK_TRUE(!read_beside(wrong, named, NULL, &s, &err));
        CHECK_CONTAINS(err.text, refused[i].message);
        free(wrong);
    }
    free(named);
}

TEST(framework__an_unknown_name_is_told_beside_the_other_mistakes)
{
    struct scenario s;
    struct error err;
    char *named = fixture_replace(minimal, "device:", "framework: slimpack\nseed: -1\ndevice:");
    CHECK_TRUE(!read_beside(mine, named, NULL, &s, &err));
    CHECK_CONTAINS(err.text, "framework/run.yaml:2:12: framework: there is no framework 'slimpack'; ");
    CHECK_CONTAINS(err.text, "available: megatron-core, slimpack-paper, or the path of a file that ends in .yaml");
    CHECK_CONTAINS(err.text, "seed: '-1' is out of range");
    CHECK_TRUE(!read_beside(mine, minimal, "framework=missing.yaml", &s, &err));
    CHECK_CONTAINS(err.text, "missing.yaml: cannot be read");
    CHECK_TRUE(!read_beside(mine, minimal, "framework=[a]", &s, &err));
    CHECK_CONTAINS(err.text, "framework: is a list instead of one value");
    free(named);
}

TEST(framework__the_base_sets_every_key)
{
    struct scenario s;
    struct error err = {0};
    char name[] = "framework/model/framework/slimpack-paper.yaml";
    fixture_data("framework");
    fixture_write(name, "name: slimpack-paper\nsource: a test\nkernels: fused\n");
    CHECK_TRUE(!scenario_read(fixture_write("framework/run.yaml", minimal), 0, NULL, &s, &err));
    CHECK_CONTAINS(err.text,
                   "slimpack-paper.yaml: plan.sharding: is required, since other frameworks take from this file");
    fixture_data("framework");
}

TEST(framework__every_shipped_one_is_read_and_has_a_source_for_each_value)
{
    setenv("SLIMSIM_DATA", SLIMSIM_SOURCE_DIR, 1);
    size_t n = 0;
    char **names = library_list(SLIMSIM_SOURCE_DIR "/model/framework", ".yaml", &n);
    CHECK_TRUE(n >= 7);
    for (size_t i = 0; i < n; i++) {
        struct framework framework;
        struct error err = {0};
        CHECK_TRUE(scenario_framework(names[i], &framework, &err));
        CHECK_TEXT(err.text, "");
        CHECK_TEXT(framework.name, names[i]);
        CHECK_EQUAL(framework.n_values, 44);
        for (int32_t value = 0; value < framework.n_values; value++)
            CHECK_EQUAL(*framework.values[value].source != '\0', *framework.values[value].text != '\0');
        free(names[i]);
    }
    free(names);
}

/* Megatron-LM adds up in GEMMs, PyTorch's frameworks by autograd. DeepSpeed alone all-reduces. */
TEST(framework__says_how_gradients_are_added_up_and_reduced)
{
    static const char *const cases[][4] = {
        {"megatron-core", "fused", "reduce-scatter", ""},     {"nemo", "fused", "reduce-scatter", ""},
        {"fsdp1", "autograd", "reduce-scatter", ""},          {"fsdp2", "autograd", "reduce-scatter", ""},
        {"composer", "autograd", "reduce-scatter", ""},       {"deepspeed", "autograd", "all-reduce", "same"},
        {"slimpack-paper", "fused", "reduce-scatter", "same"}};
    static const char *const keys[] = {"gradient_accumulation", "plan.gradient_reduction", "plan.reduce_precision"};
    setenv("SLIMSIM_DATA", SLIMSIM_SOURCE_DIR, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct framework framework;
        struct error err = {0};
        CHECK_TRUE(scenario_framework(cases[i][0], &framework, &err));
        for (int key = 0; key < 3; key++) {
            int32_t value = 0;
            while (strcmp(framework.values[value].key, keys[key]) != 0)
                value++;
            CHECK_TEXT(framework.values[value].text, cases[i][key + 1]);
        }
    }
}
