/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check how layers are shared among stages, from the scenario to time and memory. */
#include "scenario/stages.h"

#include <stdlib.h>

#include "bounds/critical_path.h"
#include "bounds/stage_memory.h"
#include "cost/states.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "hand_setting.h"
#include "harness.h"
#include "scenario/layout.h"
#include "scenario/scenario_read.h"
#include "scenario_fixture.h"

static void check_layers(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks,
                         const int32_t *expected)
{
    for (int32_t i = 0; i < stages * chunks; i++)
        CHECK_EQUAL(scenario_stage_layers(split, layers, stages, chunks, i), expected[i]);
    CHECK_TRUE(scenario_stages_fit(split, layers, stages, chunks));
}

/* 64 stages of one layer hold two sequences if only the first layer differs. 64 stages of 17 layers of a pattern of 61
 * hold more than 30. */
TEST(stages__are_few_if_they_hold_the_same_layers)
{
    struct model model = {.layers = 64, .n_runs = 2, .pattern = {{0, 1}, {1, 63}}};
    const struct scenario_plan plan = {.pp = 64, .vpp = 1};
    CHECK_TRUE(layout_stages_are_few(&model, &plan));
    model = (struct model){.layers = 1088, .n_runs = 8};
    for (int i = 0; i < 8; i++)
        model.pattern[i] = (struct model_run){i % 4, (const int32_t[]){3, 5, 7, 9, 4, 11, 6, 16}[i]};
    CHECK_TRUE(!layout_stages_are_few(&model, &plan));
}

TEST(stages__share_layers_equally)
{
    const struct scenario_stages equal = {0};
    check_layers(&equal, 40, 4, 1, (const int32_t[]){10, 10, 10, 10});
    check_layers(&equal, 40, 2, 2, (const int32_t[]){10, 10, 10, 10});
    check_layers(&equal, 40, 1, 1, (const int32_t[]){40});
    CHECK_TRUE(!scenario_stages_fit(&equal, 40, 3, 1));
    CHECK_TRUE(!scenario_stages_fit(&equal, 40, 4, 4));
    CHECK_TRUE(!scenario_stages_fit(&equal, 40, 41, 1));
}

/* Llama 3 405B has 126 layers. With both tables counted 128 go on 4, 8 and 16 stages, first and last with one less
 * (Llama 3, arXiv:2407.21783, section 3.3.2). */
TEST(stages__count_tables_as_layers)
{
    const struct scenario_stages both = {.count_embedding = true, .count_head = true};
    check_layers(&both, 126, 4, 1, (const int32_t[]){31, 32, 32, 31});
    check_layers(&both, 14, 2, 4, (const int32_t[]){1, 2, 2, 2, 2, 2, 2, 1});
    check_layers(&both, 6, 4, 2, (const int32_t[]){0, 1, 1, 1, 1, 1, 1, 0});
    CHECK_TRUE(scenario_stages_fit(&both, 126, 16, 1) && scenario_stages_fit(&both, 126, 8, 8));
    CHECK_TRUE(!scenario_stages_fit(&both, 128, 16, 1));
    const struct scenario_stages head = {.count_head = true};
    check_layers(&head, 31, 4, 2, (const int32_t[]){4, 4, 4, 4, 4, 4, 4, 3});
}

TEST(stages__take_given_first_and_last_stages)
{
    const struct scenario_stages first = {.first_layers = {1, 4}},
                                 ends = {.first_layers = {1, 6}, .last_layers = {1, 2}};
    check_layers(&first, 34, 4, 1, (const int32_t[]){4, 10, 10, 10});
    check_layers(&ends, 32, 4, 1, (const int32_t[]){6, 12, 12, 2});
    check_layers(&ends, 32, 4, 2, (const int32_t[]){3, 6, 6, 1, 3, 6, 6, 1});
    check_layers(&ends, 8, 2, 1, (const int32_t[]){6, 2});
    CHECK_TRUE(!scenario_stages_fit(&ends, 9, 2, 1));  /* one is left over */
    CHECK_TRUE(!scenario_stages_fit(&ends, 8, 4, 1));  /* none is left for the others */
    CHECK_TRUE(!scenario_stages_fit(&ends, 33, 4, 1)); /* 25 on two */
    CHECK_TRUE(!scenario_stages_fit(&ends, 32, 4, 3)); /* 2 in three chunks */
    CHECK_TRUE(!scenario_stages_fit(&first, 3, 4, 1));
}

TEST(stages__may_have_no_layers_at_an_end)
{
    const struct scenario_stages alone = {.first_layers = {1, 0}},
                                 both = {.first_layers = {1, 0}, .last_layers = {1, 0}};
    check_layers(&alone, 30, 4, 1, (const int32_t[]){0, 10, 10, 10});
    check_layers(&both, 30, 4, 1, (const int32_t[]){0, 15, 15, 0});
    check_layers(&both, 32, 4, 2, (const int32_t[]){0, 8, 8, 0, 0, 8, 8, 0});
    const struct scenario_stages embedding = {.first_layers = {1, 0}, .count_embedding = true};
    CHECK_TRUE(!scenario_stages_fit(&embedding, 30, 4, 1)); /* the first stage has no layer that it could give up */
}

/* DeepSpeed, runtime/utils.py: partition_uniform(70, 12) has 5 in each part, and the first 10 parts have one more. */
TEST(stages__spread_a_rest_over_the_first)
{
    const struct scenario_stages even = {.spread = SCENARIO_EVEN};
    check_layers(&even, 40, 4, 1, (const int32_t[]){10, 10, 10, 10});
    check_layers(&even, 70, 12, 1, (const int32_t[]){6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5, 5});
    check_layers(&even, 60, 8, 1, (const int32_t[]){8, 8, 8, 8, 7, 7, 7, 7});
    check_layers(&even, 60, 16, 1, (const int32_t[]){4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 3, 3});
    check_layers(&even, 10, 2, 2, (const int32_t[]){3, 3, 2, 2}); /* over virtual stages in the order of layers */
    CHECK_TRUE(!scenario_stages_fit(&even, 3, 4, 1));             /* one has none */
    const struct scenario_stages first = {.spread = SCENARIO_EVEN, .first_layers = {1, 2}};
    check_layers(&first, 12, 4, 1, (const int32_t[]){2, 4, 3, 3});
    check_layers(&first, 13, 3, 2, (const int32_t[]){1, 3, 3, 1, 3, 2});
}

/* torchtitan: 32 layers and two tables are 34 on 4 stages, so 9, 9, 8, 8, and the ends have one layer less. */
TEST(stages__spread_counted_tables)
{
    const struct scenario_stages even = {.spread = SCENARIO_EVEN, .count_embedding = true, .count_head = true};
    check_layers(&even, 32, 4, 1, (const int32_t[]){8, 9, 8, 7});
    check_layers(&even, 126, 16, 1, (const int32_t[]){7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7});
}

TEST(stages__take_a_list)
{
    const struct scenario_stages list = {.layers = {4, {20, 20, 21, 19}}};
    check_layers(&list, 80, 4, 1, (const int32_t[]){20, 20, 21, 19});
    check_layers(&list, 80, 2, 2, (const int32_t[]){20, 20, 21, 19});
    CHECK_EQUAL(scenario_rank_layers(&list, 80, 2, 2, 0), 41); /* chunks of 20 and 21 layers */
    CHECK_EQUAL(scenario_rank_layers(&list, 80, 2, 2, 1), 39);
    CHECK_TRUE(!scenario_stages_fit(&list, 81, 4, 1));
    CHECK_TRUE(!scenario_stages_fit(&list, 80, 2, 1));
}

enum { N_STAGES = 4 };
static const int32_t uneven[N_STAGES] = {20, 20, 21, 19};
static const struct plan_layout layout = {.tensor = 1, .context = 1, .stages = N_STAGES, .chunks = 1};

/* The hand model with 80 layers: h 64, q = k = 64, f 128, V 1000. */
static struct cost_setting setting_of(struct model *model, struct scenario_stages stages)
{
    struct cost_setting setting = *hand_setting();
    *model = *setting.model;
    model->layers = 80;
    setting.model = model;
    setting.split = stages;
    return setting;
}

static const struct scenario_stages list = {.layers = {N_STAGES, {20, 20, 21, 19}}};

/* A layer has 64 x 192 + 64 x 64 + 64 x 256 + 128 x 64 and two norms of 64: 41,088. Embedding and head have 64,000
 * each, and the last norm 64. */
TEST(stages__have_the_parameters_of_their_layers)
{
    struct model model;
    struct cost_setting setting = setting_of(&model, list);
    double sum = 0;
    for (int32_t stage = 0; stage < N_STAGES; stage++) {
        double parameters = dag_stage_parameters(&setting, &layout, stage);
        CHECK_CLOSE(parameters, 41088.0 * uneven[stage] + (stage == 0 ? 64000 : stage == 3 ? 64064 : 0), 0);
        sum += parameters;
    }
    CHECK_CLOSE(sum, 80 * 41088.0 + 128064, 0);
    CHECK_CLOSE(sum, cost_model_parameters(&model), 0);
}

/* Weights 2, gradients 4, optimizer 12 bytes a parameter; a token keeps 21/20 of the bytes of stage 1 on stage 2. */
TEST(stages__have_the_memory_of_their_layers)
{
    struct model model;
    struct cost_setting setting = setting_of(&model, list), equal = setting_of(&model, (struct scenario_stages){0});
    double held = 0, held_equal = 0, states = 0, states_equal = 0;
    const struct stage_memory_micro_batch one = {.recompute = RECOMPUTE_NONE};
    for (int32_t stage = 0; stage < N_STAGES; stage++) {
        struct stage_memory memory = stage_memory_of(&setting, &layout, stage, 1, &one);
        struct stage_memory of_equal = stage_memory_of(&equal, &layout, stage, 1, &one);
        CHECK_CLOSE(memory.token.held, of_equal.token.held / 20 * uneven[stage], 1e-15);
        held += memory.token.held;
        held_equal += of_equal.token.held;
        states += cost_state_bytes(&setting, dag_stage_parameters(&setting, &layout, stage), 1);
        states_equal += cost_state_bytes(&equal, dag_stage_parameters(&equal, &layout, stage), 1);
    }
    CHECK_CLOSE(held, held_equal, 1e-15);
    CHECK_CLOSE(states, states_equal, 1e-15);
    CHECK_CLOSE(states, 18 * (80 * 41088.0 + 128064), 1e-15);
}

/* One micro-batch passes through 80 layers, however they are shared. A pass of stage 2 takes 21/20 of stage 1's. */
TEST(stages__take_the_time_of_their_layers)
{
    double makespan_s[2];
    for (int i = 0; i < 2; i++) {
        struct model model;
        struct plan plan;
        struct timeline timeline = {0};
        struct cost_setting setting = setting_of(&model, i == 0 ? list : (struct scenario_stages){0});
        hand_uniform(&plan, N_STAGES, 1, 16);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
        critical_path(&dag, &timeline);
        makespan_s[i] = timeline.makespan_s;
        int32_t task = hand_find(&dag, DAG_COMPUTE, DAG_PASS, 0),
                stage_1 = hand_find(&dag, DAG_COMPUTE, DAG_PASS, task + 1);
        int32_t stage_2 = hand_find(&dag, DAG_COMPUTE, DAG_PASS, stage_1 + 1);
        CHECK_CLOSE(dag.duration_s[stage_2] / dag.duration_s[stage_1], i == 0 ? 21.0 / 20 : 1, 1e-14);
        timeline_free(&timeline);
        dag_free(&dag);
        plan_free(&plan);
    }
    CHECK_CLOSE(makespan_s[0], makespan_s[1], 1e-14);
}

/* Sequences of layers that differ are kinds, beside the first and the last stage. */
TEST(stages__are_kinds_by_their_layers)
{
    struct model model;
    struct cost_setting setting = setting_of(&model, list);
    struct dag_kinds kinds = dag_kinds_of(&setting, &layout);
    CHECK_EQUAL(kinds.n, 4);
    free(kinds.kind);
    setting.split = (struct scenario_stages){.first_layers = {1, 0}, .last_layers = {1, 0}};
    kinds = dag_kinds_of(&setting, &layout);
    CHECK_EQUAL(kinds.n, 3);
    CHECK_CLOSE(dag_stage_parameters(&setting, &layout, 0), 64000, 0);
    CHECK_CLOSE(dag_stage_parameters(&setting, &layout, 1), 40 * 41088.0, 0);
    CHECK_CLOSE(dag_stage_parameters(&setting, &layout, 3), 64064, 0);
    free(kinds.kind);
}

static const char text_of_plan[] = "model: llama-13b\ndevice: h800\nplatform: hopper-2x8\nframework: slimpack-paper\n"
                                   "data: {lengths: github, context: 64Ki, global_batch: 8}\n"
                                   "systems: [{name: best-fit, plan: {tp: 2, pp: 4, PLAN}}]\n";

static bool read_plan(const char *plan, struct scenario *scenario, struct error *err)
{
    char *text = fixture_replace(text_of_plan, "PLAN", plan);
    *err = (struct error){0};
    fixture_data("stages");
    bool ok = scenario_read(fixture_write("stages/run.yaml", text), 0, NULL, scenario, err);
    free(text);
    return ok;
}

static void check_read(const char *plan, const int32_t *expected)
{
    struct scenario scenario;
    struct error err;
    CHECK_TRUE(read_plan(plan, &scenario, &err));
    CHECK_TEXT(err.text, "");
    for (int32_t i = 0; i < N_STAGES; i++)
        CHECK_EQUAL(scenario_stage_layers(&scenario.systems[0].plan.stages, 40, N_STAGES, 1, i), expected[i]);
    char *text = scenario_text(&scenario);
    scenario_free(&scenario);
    CHECK_TRUE(scenario_read(fixture_write("stages/again.yaml", text), 0, NULL, &scenario, &err));
    for (int32_t i = 0; i < N_STAGES; i++)
        CHECK_EQUAL(scenario_stage_layers(&scenario.systems[0].plan.stages, 40, N_STAGES, 1, i), expected[i]);
    char *again = scenario_text(&scenario);
    CHECK_TEXT(again, text);
    free(again);
    free(text);
    scenario_free(&scenario);
}

TEST(plan_layers__are_read_and_written)
{
    check_read("layers: [10, 9, 11, 10]", (const int32_t[]){10, 9, 11, 10});
    check_read("first_stage_layers: 0, spread: even", (const int32_t[]){0, 14, 13, 13});
    check_read("first_stage_layers: 0, last_stage_layers: 0", (const int32_t[]){0, 20, 20, 0});
    check_read("first_stage_layers: unset", (const int32_t[]){10, 10, 10, 10});
}

TEST(plan_layers__that_do_not_fit_are_refused)
{
    static const struct {
        const char *plan, *message;
    } cases[] = {
        {"layers: [20, 20]", "plan.layers: 2 numbers; allowed: one for each of the 4 stages"},
        {"layers: [10, 10, 10, 10], vpp: 2", "plan.layers: 4 numbers; allowed: one for each of the 8 virtual stages "
                                             "(pp x vpp), in the order of the model's"},
        {"layers: [10, 10, 10, 11]", "plan.layers: the sum is 41, but the model has 40 layers"},
        {"layers: [10, 10, 21, -1]", "plan.layers: '-1' is out of range; allowed: a whole number [layers], 0 to 255"},
        {"layers: [10, 10, 10, 10], count_head: true", "plan.layers: names the layers of every stage, so"},
        {"first_stage_layers: 0", "plan.spread: even, which spreads the rest, or plan.layers with the layers of every"},
        {"first_stage_layers: none", "allowed: a whole number [layers], 0 to 32768, or unset"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scenario scenario;
        struct error err;
        CHECK_TRUE(!read_plan(cases[i].plan, &scenario, &err));
        CHECK_CONTAINS(err.text, cases[i].message);
    }
}

/* Version 0.1.0 wrote each of its 28 keys of an entry, with 0 for a stage whose layers are not given. */
static const char of_0_1_0[] =
    "model: llama-13b\ndevice: h800\nplatform: hopper-2x8\nframework: slimpack-paper\n"
    "data: {lengths: github, context: 64Ki, global_batch: 8}\n"
    "systems: [{name: best-fit, label: best-fit, offload: auto, plan: {tp: 2, pp: 4, cp: 1, cp_type: ring, dp: 2, vpp: "
    "1,\n"
    "  schedule: 1f1b, slices: 0, first_stage_layers: 0, last_stage_layers: 0, count_embedding: false,\n"
    "  count_head: false, sharding: zero1, shard_group: 0, fsdp: 1, fsdp_prefetch: backward-pre, fsdp_ends: root,\n"
    "  gradients: fp32, gradient_buffers: kept, optimizer: fused, sequence_parallel: true, recompute: none,\n"
    "  recompute_layers: 0, early_stop: false, offload: 0}}]\n";

TEST(resolved_scenario__of_the_first_version_has_no_stage_without_layers)
{
    struct scenario scenario;
    struct error err = {0};
    fixture_data("stages");
    CHECK_TRUE(scenario_read(fixture_write("stages/old.yaml", of_0_1_0), 0, NULL, &scenario, &err));
    CHECK_TRUE(!scenario.systems[0].plan.stages.first_layers.given);
    CHECK_TRUE(!scenario.systems[0].plan.stages.last_layers.given);
    scenario_free(&scenario);
    char *text = fixture_replace(of_0_1_0, "vpp: 1,", "vpp: 1, spread: equal,"); /* as today's are */
    CHECK_TRUE(scenario_read(fixture_write("stages/new.yaml", text), 0, NULL, &scenario, &err));
    CHECK_TRUE(scenario.systems[0].plan.stages.first_layers.given);
    CHECK_EQUAL(scenario_stage_layers(&scenario.systems[0].plan.stages, 40, N_STAGES, 1, 1), 20);
    scenario_free(&scenario);
    free(text);
}
