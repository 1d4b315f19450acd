/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read scenarios and write them back. */
#include "scenario/scenario_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "scenario/layout.h"
#include "scenario_fixture.h"

static const char full[] =
    "name: everything\n"
    "model: llama-13b\n"
    "device: h800\n"
    "platform: hopper-16x8\n"
    "loss: fused\n"
    "attention: cudnn\n"
    "data: {lengths: github, column: 'a, b', context: 128Ki, long_documents: drop, global_batch: 1e3}\n"
    "communication: {tp_overlap: chunked, cp_overlap: false, pp_overlap: false,\n"
    "  dp_overlap: gradients}\n"
    "iterations: {warm_up: 1, measured: 2}\n"
    "seed: 9007199254740991\n"
    "engine: critical-path\n"
    "trace: none\n"
    "all_tensor_ranks: true\n"
    "systems:\n"
    "  - name: best-fit\n"
    "    plan: {tp: 8, pp: 4, cp: 2, dp: 2, recompute: full, offload: 0.7, vpp: 5,\n"
    "           gradients: bf16, recompute_layers: 5, early_stop: true, cp_type: all-gather, optimizer: eager,\n"
    "           gradient_buffers: freed}\n"
    "  - name: slimpack\n"
    "    label: 'slim: one'\n"
    "    plan: {tp: 4, pp: 1, sharding: zero2, shard_group: 2, fsdp: 2, fsdp_ends: own,\n"
    "           recompute: [attention-core, selective, alternate-gemms],\n"
    "           sequence_parallel: false}\n"
    "    knobs: {asymmetric: false, label: \"true\", grid: [1, 2, 80 GiB]}\n";

static const char minimal[] = "model: llama-13b\ndevice: h800\nplatform: hopper-2x8\n"
                              "data: {lengths: github, context: 64Ki, global_batch: 8}\n"
                              "systems: [{name: slimpack, plan: {tp: 2, pp: 2}}]\n";

static bool read_text(const char *text, struct scenario *scenario, struct error *err)
{
    *err = (struct error){0};
    fixture_data("scenario");
    return scenario_read(fixture_write("scenario/run.yaml", text), 0, NULL, scenario, err);
}

TEST(scenario_read__brings_every_key_to_its_field)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(read_text(full, &s, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TEXT(s.name, "everything");
    CHECK_TEXT(s.model.name, "llama-13b");
    CHECK_TEXT(s.device.name, "h800");
    CHECK_EQUAL(platform_n_gpus(&s.platform), 128);
    CHECK_EQUAL(s.attention, DEVICE_CUDNN);
    CHECK_EQUAL(s.loss, SCENARIO_LOSS_FUSED);
    CHECK_TRUE(s.pressure.reserve_most == 0.25 && s.pressure.runs == 2 && s.pressure.slow_runs == 1);
    CHECK_TRUE(s.pressure.other_runs == 4 && s.pressure.other_slow_runs == 3);
    CHECK_TRUE(s.pressure.slower_least == 0.1 && s.pressure.slower_most == 0.2);
    CHECK_TEXT(s.data.lengths, "github");
    CHECK_TEXT(s.data.column, "a, b");
    CHECK_EQUAL(s.data.context, 131072);
    CHECK_EQUAL(s.data.long_documents, SCENARIO_DROP);
    CHECK_EQUAL(s.data.global_batch, 1000);
    CHECK_TRUE(s.communication.tp_overlap == SCENARIO_CHUNKED && !s.communication.cp_overlap &&
               !s.communication.pp_overlap && s.communication.dp_overlap == SCENARIO_OVERLAP_GRADIENTS);
    CHECK_EQUAL(s.warm_up, 1);
    CHECK_EQUAL(s.measured, 2);
    CHECK_TRUE(s.seed == INT64_C(9007199254740991));
    CHECK_EQUAL(s.engine, SCENARIO_CRITICAL_PATH);
    CHECK_EQUAL(s.trace, SCENARIO_TRACE_NONE);
    CHECK_TRUE(s.all_tensor_ranks);
    scenario_free(&s);
    scenario_free(&s);
}

TEST(scenario_read__brings_every_key_of_a_system_to_its_field)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(read_text(full, &s, &err));
    CHECK_EQUAL(s.n_systems, 2);
    const struct scenario_plan *plan = &s.systems[0].plan;
    CHECK_TRUE(plan->tp == 8 && plan->pp == 4 && plan->cp == 2 && plan->dp == 2);
    CHECK_TRUE(plan->recompute == RECOMPUTE_FULL && plan->offload == 0.7 && plan->recompute_layers == 5 &&
               plan->early_stop);
    CHECK_TRUE(plan->vpp == 5 && plan->gradients == SCENARIO_BF16 && plan->sharding == SCENARIO_ZERO1);
    CHECK_TRUE(plan->cp_type == SCENARIO_ALL_GATHER && plan->optimizer == SCENARIO_EAGER);
    CHECK_TRUE(s.systems[1].plan.sharding == SCENARIO_ZERO2 && s.systems[1].plan.vpp == 1);
    CHECK_TRUE(s.systems[1].plan.shard_group == 2 && scenario_plan_shards(&s.systems[1].plan) == 2);
    CHECK_TRUE(s.systems[1].plan.fsdp == 2 && plan->fsdp == 1);
    CHECK_TRUE(s.systems[1].plan.fsdp_ends == SCENARIO_ENDS_OWN && plan->fsdp_ends == SCENARIO_ENDS_ROOT);
    CHECK_EQUAL(plan->gradient_buffers, SCENARIO_GRADIENTS_FREED);
    CHECK_EQUAL(s.systems[1].plan.gradient_buffers, SCENARIO_GRADIENTS_KEPT);
    CHECK_EQUAL(s.systems[1].plan.recompute,
                RECOMPUTE_SELECTIVE | RECOMPUTE_ATTENTION_CORE | RECOMPUTE_ALTERNATE_GEMMS);
    CHECK_TRUE(plan->sequence_parallel && !s.systems[1].plan.sequence_parallel);
    CHECK_EQUAL(s.systems[0].knobs, -1);
    CHECK_TEXT(s.systems[0].label, "best-fit");
    CHECK_TEXT(s.systems[1].label, "slim: one");
    CHECK_EQUAL(s.systems[1].plan.dp, 32); /* 128 / 4 */
    CHECK_TEXT(s.document.node[document_find(&s.document, s.systems[1].knobs, "asymmetric")].value, "false");
    scenario_free(&s);
}

TEST(scenario_read__takes_the_defaults_of_the_list)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(read_text(minimal, &s, &err));
    CHECK_TEXT(s.name, "run"); /* run.yaml gives it */
    CHECK_TEXT(s.framework_name, "megatron-core");
    CHECK_EQUAL(s.attention, DEVICE_FASTEST);
    CHECK_EQUAL(s.data.long_documents, SCENARIO_CUT);
    CHECK_TRUE(s.communication.tp_overlap == SCENARIO_BULK && s.communication.cp_overlap &&
               s.communication.pp_overlap == SCENARIO_STAGES_INTERLEAVED &&
               s.communication.dp_overlap == SCENARIO_OVERLAP_BOTH);
    CHECK_TRUE(s.warm_up == 5 && s.measured == 20 && s.seed == 1);
    CHECK_TRUE(s.engine == SCENARIO_BOTH && s.trace == SCENARIO_TRACE_SUMMARY && !s.all_tensor_ranks);
    CHECK_TRUE(s.systems[0].plan.cp == 1 && s.systems[0].plan.dp == 4 && s.systems[0].plan.vpp == 1);
    CHECK_TRUE(s.systems[0].plan.sharding == SCENARIO_ZERO1 && s.systems[0].plan.gradients == SCENARIO_FP32);
    CHECK_EQUAL(s.systems[0].plan.recompute_layers, 0);
    CHECK_TRUE(s.systems[0].plan.recompute == RECOMPUTE_NONE && s.systems[0].plan.offload == 0);
    CHECK_EQUAL(s.systems[0].plan.offload_mode, SCENARIO_OFFLOAD_NEVER);
    scenario_free(&s);
}

TEST(scenario_read__takes_one_stage_without_pp)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(read_text("model: llama-13b\ndevice: h800\nplatform: hopper-2x8\n"
                         "data: {lengths: github, context: 64Ki, global_batch: 8}\n"
                         "systems: [{name: slimpack, plan: {tp: 2}}]\n",
                         &s, &err));
    CHECK_TRUE(s.systems[0].plan.pp == 1 && s.systems[0].plan.dp == 8);
    scenario_free(&s);
}

static void check_same(const struct scenario *a, const struct scenario *b)
{
    CHECK_TEXT(a->name, b->name);
    CHECK_TEXT(a->model_name, b->model_name);
    CHECK_TEXT(a->device_name, b->device_name);
    CHECK_TEXT(a->platform.name, b->platform.name);
    CHECK_TEXT(a->data.lengths, b->data.lengths);
    CHECK_TEXT(a->data.column, b->data.column);
    CHECK_TRUE(a->data.context == b->data.context && a->data.long_documents == b->data.long_documents &&
               a->data.global_batch == b->data.global_batch &&
               a->data.global_batch_tokens == b->data.global_batch_tokens);
    CHECK_TRUE(a->communication.tp_overlap == b->communication.tp_overlap &&
               a->communication.cp_overlap == b->communication.cp_overlap &&
               a->communication.pp_overlap == b->communication.pp_overlap &&
               a->communication.dp_overlap == b->communication.dp_overlap);
    CHECK_TRUE(a->attention == b->attention && a->warm_up == b->warm_up && a->measured == b->measured &&
               a->seed == b->seed && a->engine == b->engine && a->trace == b->trace &&
               a->all_tensor_ranks == b->all_tensor_ranks && a->n_systems == b->n_systems);
    for (int32_t i = 0; i < a->n_systems; i++) {
        const struct scenario_plan *left = &a->systems[i].plan, *right = &b->systems[i].plan;
        CHECK_TEXT(a->systems[i].name, b->systems[i].name);
        CHECK_TEXT(a->systems[i].label, b->systems[i].label);
        CHECK_TRUE(left->tp == right->tp && left->pp == right->pp && left->cp == right->cp && left->dp == right->dp &&
                   left->recompute == right->recompute && left->offload == right->offload && left->vpp == right->vpp &&
                   left->sharding == right->sharding && left->gradients == right->gradients &&
                   left->recompute_layers == right->recompute_layers && left->early_stop == right->early_stop &&
                   left->sequence_parallel == right->sequence_parallel);
    }
}

static const char searched[] = "model: llama-13b\ndevice: h800\nframework: slimpack-paper\nplatform: hopper-2x8\n"
                               "data: {lengths: github, context: 64Ki, global_batch: 8}\n"
                               "plan_space: {tp: [1, 2], dp: 4, vpp: [2, 4], sharding: zero3}\n"
                               "systems:\n"
                               "  - {name: best-fit, plan: auto}\n"
                               "  - {name: slimpack, plan: auto, plan_space: {name: free, recompute: [full, none],\n"
                               "     offload: [0.25, 1], on_demand: [cp, full-recompute]}}\n";

/* An entry's own space replaces the scenario's. A list replaces that of the named space. */
TEST(plan_space__is_read_over_the_named_one)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(read_text(searched, &s, &err));
    CHECK_TEXT(err.text, "");
    const struct plan_space *space = &s.systems[0].space;
    CHECK_TRUE(s.systems[0].auto_plan && s.systems[1].auto_plan);
    CHECK_TEXT(space->name, "wide");
    CHECK_TEXT(space->source, "a test");
    CHECK_TRUE(space->tp.n == 2 && space->tp.at[0] == 1 && space->tp.at[1] == 2 && space->pp.n == 0);
    CHECK_TRUE(space->dp.n == 1 && space->dp.at[0] == 4 && space->recompute.n == 0);
    CHECK_TRUE(space->vpp.n == 2 && space->vpp.at[1] == 4);
    CHECK_TRUE(space->sharding.n == 1 && space->sharding.at[0] == SCENARIO_ZERO3);
    CHECK_TRUE(space->offload.n == 2 && space->offload.at[1] == 0.5);
    CHECK_TRUE(space->on_demand.n == 1 && space->on_demand.at[0] == PLAN_SPACE_OFFLOAD);
    space = &s.systems[1].space;
    CHECK_TRUE(space->tp.n == 0 && space->dp.n == 0 && space->vpp.n == 0 && space->sharding.n == 0);
    CHECK_TRUE(space->recompute.n == 2 && space->recompute.at[0] == 2 && space->recompute.at[1] == 0);
    CHECK_TRUE(space->offload.n == 2 && space->offload.at[0] == 0.25 && space->offload.at[1] == 1);
    CHECK_TRUE(space->on_demand.n == 2 && space->on_demand.at[1] == PLAN_SPACE_FULL_RECOMPUTE);
    scenario_free(&s);
}

TEST(scenario_text__reads_back_to_the_same_bits)
{
    static const char by_tokens[] = "model: llama-13b\ndevice: h800\nplatform: hopper-2x8\n"
                                    "data: {lengths: github, context: 64Ki, global_batch_tokens: 16Mi}\n"
                                    "systems: [{name: slimpack, plan: {tp: 2, pp: 2}}]\n";
    static const char *const texts[] = {full, minimal, searched, by_tokens};
    for (int i = 0; i < 4; i++) {
        struct scenario first, second;
        struct error err;
        CHECK_TRUE(read_text(texts[i], &first, &err));
        char *once = scenario_text(&first);
        fixture_write("scenario/other/place.yaml", once);
        CHECK_TRUE(scenario_read(harness_path("scenario/other/place.yaml"), 0, NULL, &second, &err));
        CHECK_TEXT(err.text, "");
        check_same(&first, &second);
        char *twice = scenario_text(&second);
        CHECK_TEXT(twice, once);
        if (i == 0)
            CHECK_CONTAINS(once, "    knobs: {asymmetric: false, label: \"true\", grid: [1, 2, 80 GiB]}\n");
        free(once);
        free(twice);
        scenario_free(&first);
        scenario_free(&second);
    }
}

TEST(assignments__win_over_the_file_in_order)
{
    static const char *const set[] = {"data.context=1Ki",    "data.context=2Ki",
                                      "systems.0.plan.tp=4", "systems.0.knobs.lead=persistent",
                                      "platform=hopper-1x8", "name=set"};
    struct scenario s;
    struct error err = {0};
    fixture_data("scenario");
    CHECK_TRUE(scenario_read(fixture_write("scenario/run.yaml", minimal), 6, set, &s, &err));
    CHECK_TEXT(err.text, "");
    CHECK_EQUAL(s.data.context, 2048);
    CHECK_TRUE(s.systems[0].plan.tp == 4 && s.systems[0].plan.dp == 1);
    CHECK_TRUE(document_find(&s.document, s.systems[0].knobs, "lead") >= 0);
    CHECK_TEXT(s.name, "set");
    scenario_free(&s);
}

/* TP 8 does not fit nodes of 4 GPUs. It fits if two of them are one NVLink domain. */
TEST(layout_check__takes_tp_inside_an_nvlink_domain)
{
    struct scenario s;
    struct error err;
    char *text = fixture_replace(minimal, "hopper-2x8", "hopper-4x4");
    CHECK_TRUE(read_text(text, &s, &err));
    CHECK_EQUAL(s.platform.nvlink_domain, 4);
    s.systems[0].plan.tp = 8;
    s.systems[0].plan.dp = 1;
    CHECK_TRUE(!layout_check(&s, &s.systems[0], &err));
    CHECK_CONTAINS(err.text, "plan.tp: 8 does not divide the GPUs of a node");
    err = (struct error){0};
    s.platform.nvlink_domain = 8;
    CHECK_TRUE(layout_check(&s, &s.systems[0], &err));
    CHECK_TEXT(err.text, "");
    scenario_free(&s);
    free(text);
}

static const struct {
    const char *old, *new, *message;
} refused[] = {
    {"model: llama-13b", "model: llama-31b",
     "run.yaml:1:8: model: there is no model 'llama-31b'; available: llama-13b"},
    {"model: llama-13b", "model: absent.yaml", "run.yaml:1:8: model: "},
    {"model: llama-13b", "model: absent.yaml", "scenario/absent.yaml: cannot be read: No such file"},
    {"model: llama-13b\n", "", "run.yaml:1:1: model: is required"},
    {"model: llama-13b", "model: dbrx-base",
     "run.yaml:1:8: model: there is no model 'dbrx-base'; this mixture of experts has no file here; allowed: its "
     "config.json, if its type is in model/huggingface.yaml, or a file of your own with `experts:` (`slimsim help "
     "own-model`)"},
    {"device: h800", "device: h800\nprecision: fp8-tensor\nbf16_layers_at_start: 40\nbf16_layers_at_end: 1",
     "run.yaml:4:23: bf16_layers_at_start: 41 layers stay in bf16 at start and end together, but model llama-13b has "
     "40; "
     "allowed: at most so many together"},
    {"device: h800", "device: h800\nbf16_layers_at_end: -1", "run.yaml:3:21: bf16_layers_at_end: "},
    {"device: h800", "device: b100",
     "run.yaml:2:9: device: there is no device 'b100'; it has no measured curves here; `slimsim help own-device` says "
     "how "
     "to describe or measure one; available: "},
    {"device: h800", "device: x100", "run.yaml:2:9: device: there is no device 'x100'; available: "},
    {"platform: hopper-2x8", "platform: hoper-3x8",
     "run.yaml:3:11: platform: there is no platform 'hoper'; did you mean 'hopper'?"},
    {"platform: hopper-2x8", "platform: ''", "run.yaml:3:11: platform: '' is empty"},
    {"lengths: github", "lengths: githb",
     "run.yaml:4:17: data.lengths: there is no law or table 'githb'; did you mean 'github'?"},
    {"context: 64Ki", "context: 64.5",
     "data.context: '64.5' is not a whole number; allowed: a whole number [tokens], 1 to"},
    {"context: 64Ki", "contxt: 64Ki", "run.yaml:4:25: data.contxt: unknown key; did you mean 'context'?"},
    {"global_batch: 8", "global_batch: -1", "data.global_batch: '-1' is out of range"},
    {"global_batch: 8", "global_batch: 0",
     "run.yaml:4:54: data.global_batch: is required, or data.global_batch_tokens"},
    {"global_batch: 8", "global_batch: 8, global_batch_tokens: 1Mi",
     "data.global_batch_tokens: 1048576, but data.global_batch is 8; allowed: one of them"},
    {"global_batch: 8", "global_batch_tokens: 65535",
     "run.yaml:4:61: data.global_batch_tokens: 65535 is less than one sequence; allowed: at least data.context, 65536"},
    {"global_batch: 8", "global_batch_tokens: 2Gi", "data.global_batch_tokens: '2Gi' is out of range"},
    {"model:", "seed: nan\nmodel:", "run.yaml:1:7: seed: 'nan' is not a number"},
    {"model:", "sweep: {seed: [1, 2]}\nmodel:",
     "run.yaml:1:1: sweep: is allowed only in `slimsim run`, and this command takes one point"},
    {"model:", "name: a/b\nmodel:", "run.yaml:1:7: name: 'a/b' cannot name files"},
    {"model:", "engine: simgird\nmodel:", "did you mean 'simgrid'? allowed: simgrid, critical-path, both"},
    {"model:", "communication: {dp_overlap: true}\nmodel:",
     "run.yaml:1:29: communication.dp_overlap: 'true' is not known; allowed: none, gradients, both"},
    {"{tp: 2, pp: 2}", "automatic",
     "run.yaml:5:34: plan: 'automatic'; allowed: auto, or a layout such as {tp: 4, pp: 4}"},
    {"plan: {tp: 2, pp: 2}", "plan: auto, plan_space: {name: fre}",
     "run.yaml:5:59: plan_space.name: there is no plan space 'fre'; did you mean 'free'?"},
    {"plan: {tp: 2, pp: 2}", "plan: auto, plan_space: {tp: [1, 0]}",
     "run.yaml:5:61: plan_space.tp: '0' is out of range; allowed: a whole number [GPUs], 1 to 32768"},
    {"plan: {tp: 2, pp: 2}", "plan: auto, plan_space: {recompute: [ful]}",
     "recompute: 'ful' is not known; did you mean "},
    {"plan: {tp: 2, pp: 2}", "plan: auto, plan_space: {pp: []}", "pp: is an empty list; name at least one value"},
    {"{tp: 2, pp: 2}", "{tp: 2, pp: 2}, plan_space: {tp: 2}",
     "run.yaml:5:50: plan_space: restricts a search, but this entry names its plan"},
    {"model:", "plan_space: {tp: 2}\nmodel:",
     "run.yaml:1:1: plan_space: restricts a search, but no entry of systems uses it"},
    {", plan: {tp: 2, pp: 2}", "", "run.yaml:5:11: plan.tp: is required"},
    {"plan: {tp: 2, pp: 2}", "tp: 2", "tp: unknown key; did you mean 'plan.tp'"},
    {"tp: 2", "tp: 16", "run.yaml:5:39: plan.tp: 16 does not divide the GPUs of a node"},
    {"tp: 2", "tp: 0", "plan.tp: '0' is out of range; allowed: a whole number [GPUs], 1 to 32768"},
    {"pp: 2", "pp: 16", "plan: tp x pp x cp = 2 x 16 x 1 = 32 does not divide the 16 GPUs of platform hopper-2x8"},
    {"pp: 2", "pp: 16",
     "plan: pp 16 does not divide the model's 40 layers; allowed: pp 1, 2, 4, 8, or first_stage_layers"},
    {"pp: 2", "pp: 2, dp: 3",
     "run.yaml:5:34: plan: tp x pp x cp x dp = 2 x 2 x 1 x 3 = 12, but platform hopper-2x8 has 16 GPUs"},
    {"pp: 2", "pp: 2, vpp: 3",
     "run.yaml:5:46: plan: pp 2, vpp 3 do not divide the model's 40 layers; allowed: first_stage_layers and"},
    {"pp: 2", "pp: 1, vpp: 2", "plan.vpp: 2 chunks of a rank need more than one stage, but pp is 1"},
    {"pp: 2", "pp: 2, schedule: 1f1c", "plan.schedule: '1f1c' is not known; did you mean '1f1b'?"},
    {"pp: 2", "pp: 2, schedule: interleaved", "plan.schedule: interleaved needs plan.vpp above 1"},
    {"pp: 2", "pp: 2, vpp: 2, schedule: zero-bubble", "plan.vpp: 2, but plan.schedule allows only 1"},
    {"pp: 2", "pp: 2, slices: 8", "plan.slices: 8, but only the schedules seq1f1b and terapipe cut micro-batches"},
    {"pp: 2", "pp: 2, first_stage_layers: 41", "pp 2, first_stage_layers 41 do not divide"},
    {"pp: 2", "pp: 2, count_head: true",
     "pp 2, count_head true do not divide the model's 40 layers and one more for each counted table; allowed: pp 1, "
     "or"},
    {"pp: 2", "pp: 2, shard_group: 3", "plan.shard_group: 3 does not divide dp x cp = 4 x 1"},
    {"pp: 2", "pp: 2, sharding: none, shard_group: 2", "plan.shard_group: 2 ranks cannot share with sharding none"},
    {"pp: 2", "pp: 2, sharding: zero2",
     "plan.sharding: zero2 needs pp 1, which is 2, since DeepSpeed's pipelines refuse"},
    {"pp: 2", "pp: 2, sharding: zero3",
     "plan.sharding: zero3 with fsdp 1 needs pp 1, which is 2; with pipeline stages"},
    {"pp: 2}}]", "pp: 1, sharding: zero2}}]\ngradient_accumulation: fp32-copy",
     "plan.sharding: gradient_accumulation fp32-copy needs zero1 or none"},
    {"pp: 2}}]", "pp: 2, gradients: bf16}}]\ngradient_accumulation: fp32-copy",
     "plan.gradients: gradient_accumulation fp32-copy needs fp32"},
    {"pp: 2}}]", "pp: 2}}]\nloss: fused-linear", "plan.tp: 2, but loss fused-linear needs 1"},
    {"tp: 2, pp: 2}}]", "tp: 1, pp: 2}}]\nloss: fused-linear", "plan.pp: 2, but loss fused-linear needs 1"},
    {"pp: 2", "pp: 2, reduce_precision: fp16", "plan.reduce_precision: 'fp16' is not known; allowed: same, bf16, fp32"},
    {"pp: 2", "pp: 2, gradient_reduction: ring", "'ring' is not known; allowed: reduce-scatter, all-reduce"},
    {"pp: 2", "pp: 2, reshard_after_forward: never", "plan.reshard_after_forward: needs sharding zero3"},
    {"pp: 2", "pp: 1, sharding: zero3, main_params: fp16",
     "plan.main_params: fp16 needs sharding zero1, zero2 or none"},
    {"pp: 2", "pp: 1, sharding: zero3, optimizer_offload: 0.5",
     "plan.optimizer_offload: 0.5 needs sharding zero1, zero2 or none"},
    {"pp: 2", "pp: 2, optimizer_offload: 1, moments: bf16",
     "plan.optimizer_offload: 1 needs main_params and moments fp32"},
    {"pp: 2", "pp: 2, recompute: [norm, full]",
     "plan.recompute: 'full' repeats whole layers, so it allows no other entry"},
    {"pp: 2", "pp: 2, recompute: [norm, alternate-gemms]", "alternate-gemms needs norm and activation beside it"},
    {"pp: 2", "pp: 2, recompute: mla-up-proj", "plan.recompute: mla-up-proj needs latent attention (kv_lora_rank)"},
    {"pp: 2", "pp: 2, recompute: [moe-act]", "plan.recompute: moe-act needs experts"},
    {"pp: 2", "pp: 2, recompute: norm+moe", "moe needs experts, which the model does not have; allowed: none, full"},
    {"pp: 2", "pp: 2, recompute: shared_experts", "shared experts alone are not computed again; activation drops"},
    {"pp: 2", "pp: 2, recompute: [layernorm]", "'layernorm' in the list is not known; here it is norm; allowed: "},
    {"pp: 2", "pp: 2, recompute: [norm, activtion]",
     "'activtion' in the list is not known; did you mean 'activation'? allowed: none, one of these or a [list] of "
     "them: norm, "},
    {"pp: 2", "pp: 2, recompute: sometimes",
     "plan.recompute: 'sometimes' is not known; allowed: none, one of these or a"},
    {"pp: 2", "pp: 2, recompute: {norm: true}", "plan.recompute: is a mapping of keys instead of one value"},
    {"pp: 2", "pp: 2, cp: 16, cp_type: ulysses",
     "to divide heads and kv_heads, 40 and 40, or be a multiple of kv_heads; rings and all-gather do not"},
    {"pp: 2", "pp: 2, fsdp: 2", "plan.fsdp: 2 needs sharding zero2 or zero3"},
    {"pp: 2", "pp: 1, sharding: zero3, fsdp_ends: own", "plan.fsdp_ends: 'own' needs fsdp 2"},
    {"pp: 2", "pp: 1, sharding: zero3, schedule: zero-bubble",
     "plan.schedule: zero-bubble needs sharding zero1 or none"},
    {"pp: 2", "pp: 1, sharding: zero3, fsdp: 2, fsdp_prefetch: backward-post",
     "plan.fsdp_prefetch: backward-post needs fsdp 1 and sharding zero2 or zero3"},
    {"pp: 2", "pp: 2, fsdp_prefetch: backward-post",
     "plan.fsdp_prefetch: backward-post needs fsdp 1 and sharding zero2 or zero3"},
    {"pp: 2", "pp: 2, early_stop: true", "plan.early_stop: true needs recompute: full"},
    {"pp: 2", "pp: 2, recompute_layers: 1", "plan.recompute_layers: 1 layers need recompute: full"},
    {"pp: 2", "pp: 2, recompute: full, recompute_layers: 21",
     "plan.recompute_layers: 21 is not allowed; allowed: a multiple of vpp, 1, up to the layers of a stage, 20"},
    {"pp: 2", "pp: 2, vpp: 2, recompute: full, recompute_layers: 3", "a multiple of vpp, 2, up to the layers"},
    {"pp: 2", "pp: 2, offload: 2", "plan.offload: '2' is out of range; allowed: a number, 0 to 1"},
    {"pp: 2", "pp: 2, recompute: some", "plan.recompute: 'some' is not known; "},
    {"pp: 2}", "pp: 2}, knobs: 5", "knobs: expected a mapping of knobs"},
    {"[{name: slimpack, plan: {tp: 2, pp: 2}}]", "[]", "systems: expected a list of at least one"},
    {"[{name: slimpack, plan: {tp: 2, pp: 2}}]", "{name: slimpack}", "systems: expected a list of at least one"},
    {"[{name: slimpack, plan: {tp: 2, pp: 2}}]", "[slimpack]", "run.yaml:5:11: this entry: expected a mapping of keys"},
    {"systems: [{name: slimpack, plan: {tp: 2, pp: 2}}]\n", "", "run.yaml: systems: is required"},
    {"}}]", "}}, {name: slimpack, plan: {tp: 2, pp: 2}}]",
     "label: 'slimpack' is already the label of systems.0; give each entry a `label:`"},
};

TEST(scenario_read__refuses_wrong_scenarios_with_what_is_allowed)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct scenario s;
        struct error err;
        char *text = fixture_replace(minimal, refused[i].old, refused[i].new);
        CHECK_TRUE(!read_text(text, &s, &err));
        CHECK_CONTAINS(err.text, refused[i].message);
        CHECK_EQUAL(err.status, ERROR_INVALID);
        CHECK_TRUE(s.systems == NULL && s.document.node == NULL);
        free(text);
    }
}

/* Heads are 40 and key-value heads 20, over tp 8. Only the second does not divide. */
TEST(tensor_parallel__must_divide_heads_and_kv_heads)
{
    struct scenario s;
    struct error err = {0};
    fixture_data("scenario");
    char *model = fixture_replace(fixture_model, "kv_heads: 40", "kv_heads: 20");
    fixture_write("scenario/grouped.yaml", model);
    static const char *const set[] = {"systems.0.plan.tp=8"};
    char *text = fixture_replace(minimal, "model: llama-13b", "model: grouped.yaml");
    CHECK_TRUE(!scenario_read(fixture_write("scenario/run.yaml", text), 1, set, &s, &err));
    CHECK_TEXT(err.text,
               "--set 'systems.0.plan.tp=8': plan.tp: 8 neither divides the model's kv_heads, 20, nor is a multiple of "
               "them");
    free(model);
    free(text);
    model = fixture_replace(fixture_model, "heads: 40\nkv_heads: 40", "heads: 20\nkv_heads: 4");
    fixture_write("scenario/grouped.yaml", model);
    text = fixture_replace(minimal, "model: llama-13b", "model: grouped.yaml");
    CHECK_TRUE(!scenario_read(fixture_write("scenario/run.yaml", text), 1, set, &s, &err));
    CHECK_CONTAINS(err.text, "plan.tp: 8 does not divide the model's heads, 20");
    free(model);
    free(text);
}

/* 40 heads and 4 of keys and values on TP 8, and on 20 Ulysses ranks of TP 2. */
TEST(kv_heads__are_copied_unless_the_plan_refuses)
{
    static const struct {
        const char *set[2], *message; /* NULL: is read */
    } cases[] = {
        {{"systems.0.plan.tp=8", "seed=1"}, NULL},
        {{"systems.0.plan.tp=8", "systems.0.plan.kv_copies=false"},
         "plan.kv_copies: false needs tp to divide the model's kv_heads, 4, but tp is 8; allowed: true, which copies"},
        {{"systems.0.plan={tp: 1, pp: 2, cp: 8, cp_type: ulysses}", "seed=1"}, NULL},
        {{"systems.0.plan={tp: 1, pp: 2, cp: 8, cp_type: ulysses, kv_copies: false}", "seed=1"},
         "plan.kv_copies: false lets ulysses have at most kv_heads = 4 ranks, and tp x cp = 1 x 8"},
    };
    fixture_data("scenario");
    char *model = fixture_replace(fixture_model, "kv_heads: 40", "kv_heads: 4");
    fixture_write("scenario/grouped.yaml", model);
    char *text = fixture_replace(minimal, "model: llama-13b", "model: grouped.yaml");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scenario s;
        struct error err = {0};
        bool ok = scenario_read(fixture_write("scenario/run.yaml", text), 2, cases[i].set, &s, &err);
        CHECK_EQUAL(ok, cases[i].message == NULL);
        if (ok)
            scenario_free(&s);
        else
            CHECK_CONTAINS(err.text, cases[i].message);
    }
    free(model);
    free(text);
}

/* A context of as many tokens as learned positions is the longest that has all of them. */
TEST(learned_positions__bound_the_context)
{
    struct scenario s;
    struct error err = {0};
    fixture_data("scenario");
    char *model = fixture_replace(fixture_model, "kv_heads: 40", "kv_heads: 40\npositions: 2048");
    char *text = fixture_replace(minimal, "model: llama-13b", "model: learned.yaml");
    static const char *const most[] = {"data.context=2048"}, *const more[] = {"data.context=2049"};
    fixture_write("scenario/learned.yaml", model);
    CHECK_TRUE(scenario_read(fixture_write("scenario/run.yaml", text), 1, most, &s, &err));
    scenario_free(&s);
    CHECK_TRUE(!scenario_read(fixture_write("scenario/run.yaml", text), 1, more, &s, &err));
    CHECK_CONTAINS(err.text, "data.context: 2049 tokens are more than the learned positions of model llama-13b");
    CHECK_CONTAINS(err.text, "allowed: at most 2048");
    free(model);
    free(text);
}

/* A model with GELU has no SwiGLU to separate. */
TEST(swiglu__is_refused_for_other_activations)
{
    struct scenario s;
    struct error err = {0};
    fixture_data("scenario");
    char *model = fixture_replace(fixture_model, "activation: swiglu", "activation: gelu");
    char *text = fixture_replace(minimal, "model: llama-13b", "model: gelu.yaml");
    static const char *const separate[] = {"swiglu=separate"};
    fixture_write("scenario/gelu.yaml", model);
    CHECK_TRUE(scenario_read(fixture_write("scenario/run.yaml", minimal), 1, separate, &s, &err));
    CHECK_EQUAL(s.swiglu, SCENARIO_SWIGLU_SEPARATE);
    scenario_free(&s);
    CHECK_TRUE(!scenario_read(fixture_write("scenario/run.yaml", text), 1, separate, &s, &err));
    CHECK_CONTAINS(err.text,
                   "swiglu: 'separate' needs SwiGLU or GeGLU, which model llama-13b does not have; leave the key out");
    free(model);
    free(text);
}

/* Only modules like Llama's are known operation by operation. */
TEST(fused__is_refused_for_models_without_a_gate)
{
    static const char *const set[] = {"fused.norm=false", "fused.rotation=false"};
    fixture_data("scenario");
    char *model = fixture_replace(fixture_model, "activation: swiglu", "activation: squared-relu");
    char *text = fixture_replace(minimal, "model: llama-13b", "model: relu.yaml");
    fixture_write("scenario/relu.yaml", model);
    for (int i = 0; i < 2; i++) {
        struct scenario s;
        struct error err = {0};
        CHECK_TRUE(scenario_read(fixture_write("scenario/run.yaml", minimal), 1, set + i, &s, &err));
        scenario_free(&s);
        CHECK_TRUE(!scenario_read(fixture_write("scenario/run.yaml", text), 1, set + i, &s, &err));
        CHECK_CONTAINS(err.text, ": 'false' needs SwiGLU or GeGLU, since only modules like Llama's are known one by "
                                 "one, and model llama-13b has neither; leave the key out");
    }
    free(model);
    free(text);
}

TEST(scenario_read__names_all_errors_in_one_pass)
{
    static const char *const set[] = {"seed=x", "systems.7.name=y", "nothing"};
    struct scenario s;
    struct error err = {0};
    fixture_data("scenario");
    const char *path =
        fixture_write("scenario/run.yaml", "modle: llama-13b\ndevice: h80\nplatform: hopper-2x8\nname: .x\n"
                                           "data: {lengths: github, context: big}\n"
                                           "systems: [{name: slimpack, plan: {tp: 2.5}}]\n");
    CHECK_TRUE(!scenario_read(path, 3, set, &s, &err));
    static const char *const parts[] = {
        "--set 'systems.7.name=y': '7' selects nothing from the list 'systems'; allowed: 0 to 0",
        "--set 'nothing': expected KEY=VALUE",
        "run.yaml:1:1: modle: unknown key; did you mean 'model'?",
        "run.yaml:1:1: model: is required",
        "run.yaml:5:34: data.context: 'big' is not a number",
        "run.yaml:5:7: data.global_batch: is required",
        "--set 'seed=x': seed: 'x' is not a number",
        "run.yaml:4:7: name: '.x' cannot name files",
        "run.yaml:6:39: plan.tp: '2.5' is not a whole number",
        "run.yaml:2:9: device: there is no device 'h80'; available: ",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        CHECK_CONTAINS(err.text, parts[i]);
    int n_lines = 1;
    for (const char *at = err.text; (at = strchr(at, '\n')) != NULL; at++)
        n_lines++;
    CHECK_EQUAL(n_lines, sizeof parts / sizeof *parts);
}

TEST(path__starts_at_the_file_or_the_working_directory)
{
    struct scenario s;
    struct error err = {0};
    char folder[2048], expected[2048], *real = NULL;
    fixture_data("scenario");
    fixture_write("scenario/own.txt", "5\n");
    char *text = fixture_replace(minimal, "lengths: github", "lengths: ./own.txt");
    CHECK_TRUE(scenario_read(fixture_write("scenario/run.yaml", text), 0, NULL, &s, &err));
    real = realpath(harness_path("scenario"), NULL);
    snprintf(expected, sizeof expected, "%s/own.txt", real);
    CHECK_TEXT(s.data.lengths, expected);
    scenario_free(&s);
    static const char *const set[] = {"data.lengths=not/there.csv"};
    CHECK_TRUE(getcwd(folder, sizeof folder - 32) != NULL);
    strcat(folder, "/not/there.csv");
    CHECK_TRUE(scenario_read(harness_path("scenario/run.yaml"), 1, set, &s, &err));
    CHECK_TEXT(s.data.lengths, folder);
    scenario_free(&s);
    free(real);
    free(text);
}

TEST(path__is_refused_if_too_long)
{
    struct scenario s;
    struct error err = {0};
    char set[600] = "data.lengths=";
    const char *const sets[] = {set};
    fixture_data("scenario");
    memset(set + 13, 'd', 500);
    strcpy(set + 513, "/x");
    CHECK_TRUE(!scenario_read(fixture_write("scenario/run.yaml", minimal), 1, sets, &s, &err));
    CHECK_CONTAINS(err.text, "ddd...': data.lengths: the absolute path is longer than 511 bytes");
}

TEST(quickstart__is_the_main_comparison)
{
    struct scenario s;
    struct error err = {0};
    setenv("SLIMSIM_DATA", SLIMSIM_SOURCE_DIR, 1);
    CHECK_TRUE(scenario_read(SLIMSIM_SOURCE_DIR "/scenarios/quickstart.yaml", 0, NULL, &s, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TEXT(s.name, "quickstart");
    CHECK_EQUAL(platform_n_gpus(&s.platform), 256);
    CHECK_TRUE(s.data.context == 131072 && s.data.global_batch == 512);
    CHECK_TRUE(s.warm_up == 5 && s.measured == 20 && s.seed == 1);
    CHECK_EQUAL(s.n_systems, 3);
    CHECK_TEXT(s.systems[0].name, "best-fit");
    CHECK_TEXT(s.systems[1].name, "slimpack");
    CHECK_TRUE(s.systems[1].plan.dp >= 8); /* DP-Merge needs ranks to merge */
    scenario_free(&s);
    fixture_data("scenario");
}

TEST(scenario_list_keys__names_all_keys)
{
    char *text = NULL;
    size_t n;
    struct error err = {0};
    FILE *file = open_memstream(&text, &n);
    CHECK_TRUE(scenario_list_keys(&(struct schema_listing){.file = file}, &err));
    fclose(file);
    CHECK_CONTAINS(text, "\ndata.context ");
    CHECK_CONTAINS(text, "tokens     1 to 8388608");
    CHECK_CONTAINS(text, "\nsystems.N.plan.recompute  ");
    CHECK_CONTAINS(text, "\n  kv_heads "); /* a key of a model file is not offered behind --set */
    CHECK_CONTAINS(text, " systems.N.knobs ");
    CHECK_CONTAINS(text,
                   "none|[norm|activation|attention-core|alternate-gemms|mla-up-proj|moe-act|mlp|moe|full|selective]");
    free(text);
}
