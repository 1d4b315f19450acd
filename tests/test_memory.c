/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "bounds/states.h"
#include "hand_plan.h"
#include "harness.h"
#include "plan/order.h"

/* A plan's graph, times and memory. */
struct run {
    struct dag dag;
    struct timeline timeline;
    struct memory memory;
};

static void open_run(struct run *run, const struct plan *plan, const struct cost_setting *setting, bool all_ranks)
{
    *run = (struct run){0};
    struct dag_options options = {.all_tensor_ranks = all_ranks, .gradient_sync = true};
    run->dag = hand_built(plan, setting, options);
    critical_path(&run->dag, &run->timeline);
    memory_of(plan, &run->dag, &run->timeline, setting, true, &run->memory);
}

static void close_run(struct run *run)
{
    memory_free(&run->memory);
    timeline_free(&run->timeline);
    dag_free(&run->dag);
}

/* Largest bytes of a class on a place. */
static double highest(const struct memory *memory, int32_t place, enum memory_class class)
{
    double bytes = 0;
    for (int64_t i = 0; i < memory->n_events; i++)
        if (memory->events[i].dag_rank == place)
            bytes = fmax(bytes, memory->events[i].bytes[class]);
    return bytes;
}

static double activation(enum recompute recompute, bool sliced)
{
    return cost_activation_bytes(hand_setting(), recompute, sliced);
}

/* Of the last stage: what its head keeps for the backward, 4V + 4h bytes a token; and the workspace of a unit of
 * `tokens` there: 2V of the head, which is more than a layer's less what the head kept, (4V + 4h) a token. */
static double kept(double tokens)
{
    return tokens * (4.0 * 1000 + 4 * 64);
}

static double passing(double tokens)
{
    return tokens * 2.0 * 1000;
}

/* 6f and 2h a token, full recomputation all of a layer again: 12h + 4k + 6f + 4n. */
static double layer_workspace(enum recompute recompute, double tokens)
{
    double again = recompute == RECOMPUTE_FULL ? 16 * 64 + 6 * 128 + 4 * 4 : 0;
    return tokens * (6.0 * 128 + 2 * 64 + again);
}

/* 1F1B holds min(m, p - s) micro-batches on stage s; states and workspace are those of the stage. */
TEST(one_f_one_b_holds_as_many_units_as_stages_follow)
{
    const struct cost_setting *setting = hand_setting();
    for (int32_t p = 1; p <= 6; p++)
        for (int32_t m = 1; m <= 8; m++) {
            struct plan plan;
            struct run run;
            hand_uniform(&plan, p, m, 16);
            open_run(&run, &plan, setting, false);
            for (int32_t s = 0; s < p; s++) {
                double held = (m < p - s ? m : p - s) * 16.0 * 840 / p * activation(RECOMPUTE_NONE, false);
                double parameters = cost_stage_parameters(setting->model, 1, 840 / p, s == 0, s == p - 1);
                double states = cost_state_bytes(setting, parameters, 1) +
                                cost_state_block_bytes(setting, 840 / p, s == 0, s == p - 1, 1);
                double workspace = s == p - 1 ? passing(16) : layer_workspace(RECOMPUTE_NONE, 16);
                held += s == p - 1 ? kept(16) : 0;
                CHECK_CLOSE(highest(&run.memory, s, MEMORY_ACTIVATIONS), held, 1e-14);
                CHECK_CLOSE(run.memory.peak_bytes[s], held + states + workspace, 1e-14);
                CHECK_CLOSE(run.memory.at_peak[s][MEMORY_WORKSPACE], workspace, 1e-15);
                CHECK_TRUE(highest(&run.memory, s, MEMORY_KV) == 0);
            }
            close_run(&run);
            plan_free(&plan);
        }
}

/* Interleaved, p = 2, v = 2, m = 4: stage 0 starts five forwards of a chunk (four to warm up) before its first
 * backward, stage 1 three, one of them with the head; units of 16 tokens, each chunk a quarter of 840 layers. */
TEST(interleaving_holds_more_chunks)
{
    struct plan plan;
    struct run run;
    hand_uniform(&plan, 2, 4, 16);
    plan.phases[0].pipelines[0].layout.chunks = 2;
    order_interleaved(&plan.phases[0].pipelines[0]);
    open_run(&run, &plan, hand_setting(), false);
    double chunk = 16 * 210 * activation(RECOMPUTE_NONE, false);
    CHECK_CLOSE(highest(&run.memory, 0, MEMORY_ACTIVATIONS), 5 * chunk, 1e-14);
    CHECK_CLOSE(highest(&run.memory, 1, MEMORY_ACTIVATIONS), 3 * chunk + kept(16), 1e-14);
    double parameters = cost_stage_parameters(hand_setting()->model, 1, 420, true, false);
    CHECK_CLOSE(highest(&run.memory, 0, MEMORY_STATES), cost_state_bytes(hand_setting(), parameters, 1), 1e-14);
    close_run(&run);
    plan_free(&plan);
}

/* 1F1B on stages of 80, 680 and 80 layers: they hold 3, 2 and 1 micro-batches of their own layers. */
TEST(uneven_stages_hold_their_own_layers)
{
    static const int32_t layers[] = {80, 680, 80};
    struct plan plan;
    struct run run;
    struct cost_setting setting = *hand_setting();
    setting.plan = &(struct scenario_plan){.stages = {.first_layers = 80, .last_layers = 80}};
    hand_uniform(&plan, 3, 4, 16);
    open_run(&run, &plan, &setting, false);
    for (int32_t s = 0; s < 3; s++) {
        double held = (3 - s) * 16.0 * layers[s] * activation(RECOMPUTE_NONE, false) + (s == 2 ? kept(16) : 0);
        double parameters = cost_stage_parameters(setting.model, 1, layers[s], s == 0, s == 2);
        CHECK_CLOSE(highest(&run.memory, s, MEMORY_ACTIVATIONS), held, 1e-14);
        CHECK_CLOSE(highest(&run.memory, s, MEMORY_STATES), cost_state_bytes(&setting, parameters, 1), 1e-14);
    }
    close_run(&run);
    plan_free(&plan);
}

/* One stage; a sample of 12 tokens forward as 4 + 8, backward as 6 + 6. Activations: 4, 12, then 6 after the first
 * backward unit and 0 after the second. Key and value gradients of the prefix of 6: while both are open. Under full
 * recomputation 2h a token stays and 4k more as keys and values, with alternate-gemms 2k more as keys. The head's
 * probabilities stay in any case: the last stage runs both forwards before the first backward. */
TEST(asymmetric_cuts_free_token_by_token)
{
    static const double live_tokens[] = {0, 4, 4, 12, 12, 12, 6, 6, 0};
    for (int recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute++) {
        struct plan plan;
        struct run run;
        hand_plan(&plan, 1, 1, 1);
        struct plan_cut *cut = plan.phases[0].pipelines[0].cut;
        hand_unit(&cut[PASS_FORWARD], (struct slice){0, 0, 4})->recompute = (enum recompute)recompute;
        hand_unit(&cut[PASS_FORWARD], (struct slice){0, 4, 12})->recompute = (enum recompute)recompute;
        hand_unit(&cut[PASS_BACKWARD], (struct slice){0, 6, 12})->recompute = (enum recompute)recompute;
        hand_unit(&cut[PASS_BACKWARD], (struct slice){0, 0, 6})->recompute = (enum recompute)recompute;
        hand_order(&plan);
        open_run(&run, &plan, hand_setting(), false);
        double bytes = 840 * activation((enum recompute)recompute, false), kv = 840 * 4.0 * 64;
        double again = recompute == RECOMPUTE_FULL ? 1 : recompute & RECOMPUTE_ALTERNATE_GEMMS ? 0.5 : 0;
        CHECK_EQUAL(run.memory.n_events, 9); /* start, begin and end of four passes */
        for (int i = 0; i < 9 && i < run.memory.n_events; i++) {
            const double *live = run.memory.events[i].bytes;
            CHECK_CLOSE(live[MEMORY_ACTIVATIONS], live_tokens[i] * bytes + kept(live_tokens[i]), 1e-14);
            CHECK_CLOSE(live[MEMORY_KV], live_tokens[i] * again * kv, 1e-14);
            CHECK_CLOSE(live[MEMORY_KV_GRADIENTS], i >= 5 && i < 8 ? 6 * kv : 0, 1e-14);
            CHECK_TRUE((live[MEMORY_WORKSPACE] > 0) == (i % 2 == 1));
        }
        close_run(&run);
        plan_free(&plan);
    }
}

/* A whole sample keeps no keys and values of its own under full recomputation. */
TEST(whole_samples_keep_no_keys_and_values)
{
    struct plan plan;
    struct run run;
    hand_uniform(&plan, 2, 2, 16);
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t unit = 0; unit < 2; unit++)
            plan.phases[0].pipelines[0].cut[pass].units[unit].recompute = RECOMPUTE_FULL;
    open_run(&run, &plan, hand_setting(), false);
    CHECK_CLOSE(highest(&run.memory, 0, MEMORY_ACTIVATIONS), 2 * 16 * 420 * 2.0 * 64, 1e-15);
    CHECK_TRUE(highest(&run.memory, 0, MEMORY_KV) == 0 && highest(&run.memory, 0, MEMORY_KV_GRADIENTS) == 0);
    close_run(&run);
    plan_free(&plan);
}

/* One that the backward alone cuts does, from its forward on: its last slice runs backward first, computes its layers
 * again and attends to all before it. And of what is offloaded they stay. */
TEST(samples_cut_backward_keep_keys_and_values)
{
    struct plan plan;
    struct run run;
    hand_plan(&plan, 1, 2, 1);
    struct plan_cut *cut = plan.phases[0].pipelines[0].cut;
    hand_unit(&cut[PASS_FORWARD], (struct slice){0, 0, 16});
    hand_unit(&cut[PASS_BACKWARD], (struct slice){0, 10, 16});
    hand_unit(&cut[PASS_BACKWARD], (struct slice){0, 0, 10});
    hand_order(&plan);
    for (int i = 0; i < 3; i++)
        cut[i > 0].units[i / 2].recompute = RECOMPUTE_FULL;
    open_run(&run, &plan, hand_setting(), false);
    CHECK_CLOSE(highest(&run.memory, 0, MEMORY_ACTIVATIONS), 16 * 420 * 2.0 * 64, 1e-15);
    CHECK_CLOSE(highest(&run.memory, 0, MEMORY_KV), 16 * 420 * 4.0 * 64, 1e-15);
    close_run(&run);
    for (int i = 0; i < 3; i++)
        cut[i > 0].units[i / 2].recompute = RECOMPUTE_NONE;
    cut[PASS_FORWARD].units[0].offload = 1;
    open_run(&run, &plan, hand_setting(), false);
    CHECK_CLOSE(run.memory.host_peak_bytes[0], 16 * 420 * (activation(RECOMPUTE_NONE, false) - 4.0 * 64), 1e-14);
    close_run(&run);
    plan_free(&plan);
}

/* Nine units on one stage, all forwards first: nine units' activations at most. Half of each goes out, copies take a
 * tenth of a pass: when the last forward starts, at 8, seven halves are left of the first seven, the eighth is whole
 * until 8.1, the ninth is new, and the first half comes back for the backward at 9: six halves are away. Keys and
 * values and the head's probabilities stay on the device. */
TEST(offload_halves_what_waits)
{
    struct plan plan;
    struct run run;
    hand_uniform(&plan, 1, 9, 16);
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    for (int i = 0; i < 18; i++)
        pipeline->steps[i] = (struct plan_step){i < 9 ? PASS_FORWARD : PASS_BACKWARD, i % 9, 0};
    double unit = 16.0 * 840 * activation(RECOMPUTE_NONE, false);
    for (int offload = 0; offload < 2; offload++) {
        for (int i = 0; i < 9; i++)
            pipeline->cut[PASS_FORWARD].units[i].offload = 0.5 * offload;
        run = (struct run){0};
        run.dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
        hand_times(&run.dag, 1.0, 1.0);
        hand_send_times(&run.dag, 0.1);
        critical_path(&run.dag, &run.timeline);
        memory_of(&plan, &run.dag, &run.timeline, hand_setting(), true, &run.memory);
        double half = 0.5 * unit;
        CHECK_CLOSE(highest(&run.memory, 0, MEMORY_ACTIVATIONS), 9 * unit - offload * 6 * half + kept(9 * 16), 1e-14);
        const struct memory_event *last = &run.memory.events[run.memory.n_events - 1];
        CHECK_TRUE(fabs(last->bytes[MEMORY_ACTIVATIONS]) <= 1e-9 * unit);
        close_run(&run);
    }
    plan_free(&plan);
}

/* F0 B0 F1 B1 of 1 and 2 s on one stage, half of each unit offloaded while its passes run: never more than the other
 * half is held. Copies of 0.8 s, out from 0 and back from 1, hide: 6 s. Of 2.5 s: out 0-2.5, back 2.5-5, which F1 waits
 * for; out 5-7.5, back 7.5-10. Copied after their passes, 0.8 s each stand before B0 and B1: 9.2 s. */
TEST(what_streams_is_never_held)
{
    struct plan plan;
    struct run run;
    const double copy_s[] = {0.8, 2.5, 0.8}, end_s[] = {6, 10, 9.2};
    hand_uniform(&plan, 1, 2, 16);
    struct plan_cut *cut = plan.phases[0].pipelines[0].cut;
    double unit = 16.0 * 840 * activation(RECOMPUTE_NONE, false);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 4; k++) {
            cut[k / 2].units[k % 2].offload = 0.5;
            cut[k / 2].units[k % 2].streams = i < 2;
        }
        run = (struct run){0};
        run.dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
        hand_times(&run.dag, 1.0, 2.0);
        hand_send_times(&run.dag, copy_s[i]);
        critical_path(&run.dag, &run.timeline);
        memory_of(&plan, &run.dag, &run.timeline, hand_setting(), true, &run.memory);
        CHECK_CLOSE(run.timeline.makespan_s, end_s[i], 1e-14);
        CHECK_CLOSE(highest(&run.memory, 0, MEMORY_ACTIVATIONS), (i < 2 ? 0.5 : 1) * unit + kept(16), 1e-14);
        CHECK_CLOSE(run.memory.host_peak_bytes[0], 0.5 * unit, 1e-14);
        const struct memory_event *last = &run.memory.events[run.memory.n_events - 1];
        CHECK_TRUE(fabs(last->bytes[MEMORY_ACTIVATIONS]) <= 1e-9 * unit);
        close_run(&run);
    }
    plan_free(&plan);
}

/* The run of offload_halves_what_waits: forwards end at 1, 2, ... 9 and start their copies out then; the backward that
 * begins at 9 has its copy in at 8 to 8.1, the next at 9 to 9.1: at 9 the ninth unit joins seven. Two such pipelines
 * stand on one node of 8 GPUs, or on one node each. */
TEST(the_host_holds_what_all_its_gpus_offload)
{
    struct plan plan;
    struct run run = {0};
    hand_plan(&plan, 2, 1, 1);
    for (int32_t j = 0; j < 2; j++) {
        struct plan_pipeline *pipeline = &plan.phases[0].pipelines[j];
        for (int32_t i = 0; i < 9; i++)
            for (int pass = 0; pass < N_PASSES; pass++)
                hand_unit(&pipeline->cut[pass], (struct slice){9 * j + i, 0, 16})->offload = 0.5;
    }
    hand_order(&plan);
    for (int32_t j = 0; j < 2; j++)
        for (int i = 0; i < 18; i++)
            plan.phases[0].pipelines[j].steps[i] = (struct plan_step){i < 9 ? PASS_FORWARD : PASS_BACKWARD, i % 9, 0};
    run.dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    hand_times(&run.dag, 1.0, 1.0);
    hand_send_times(&run.dag, 0.1);
    critical_path(&run.dag, &run.timeline);
    memory_of(&plan, &run.dag, &run.timeline, hand_setting(), false, &run.memory);
    double half = 0.5 * 16.0 * 840 * activation(RECOMPUTE_NONE, false);
    CHECK_CLOSE(run.memory.host_peak_bytes[0], 8 * half, 1e-14);
    struct memory_host one = memory_host_of(&plan, &run.dag, &run.memory, 8, 0);
    CHECK_CLOSE(one.bytes, 2 * 8 * half, 1e-14);
    CHECK_EQUAL(one.node, 0);
    struct memory_host each = memory_host_of(&plan, &run.dag, &run.memory, 1, 0);
    CHECK_CLOSE(each.bytes, 8 * half, 1e-14);
    run.dag.ranks[1].n_gpus = 4;
    CHECK_CLOSE(memory_host_of(&plan, &run.dag, &run.memory, 8, 0).bytes, 5 * 8 * half, 1e-14);
    close_run(&run);
    plan_free(&plan);
}

/* Two stages, four units of 16 tokens, by numbers: a layer's token holds 12h + 4k + 6f + 4n = 1024 + 768 + 16 = 1808
 * bytes. Stage 0 has two units in flight: 2 x 16 x 420 x 1808 = 24,299,520; parameters 420 x (4 h^2 + 3 h f + 2 h =
 * 41,088) + 64,000 = 17,320,960 at 18 bytes: 311,777,280; workspace 16 x (6f + 2h = 896) = 14,336; libraries 1e6. Stage
 * 1 has one: 12,149,760 and the head's 16 x 4,256; 64 parameters more; workspace 16 x 2,000. */
/* One unit, half of it offloaded: each stage sends away half of its own 80, 680 or 80 layers; by a table of shares,
 * what that says. */
TEST(the_host_holds_the_layers_of_each_stage)
{
    static const int32_t layers[] = {80, 680, 80};
    struct plan plan;
    struct run run;
    struct cost_setting setting = *hand_setting();
    setting.plan = &(struct scenario_plan){.stages = {.first_layers = 80, .last_layers = 80}};
    hand_uniform(&plan, 3, 1, 16);
    for (int pass = 0; pass < N_PASSES; pass++)
        plan.phases[0].pipelines[0].cut[pass].units[0].offload = 0.5;
    open_run(&run, &plan, &setting, false);
    for (int32_t s = 0; s < 3; s++)
        CHECK_CLOSE(run.memory.host_peak_bytes[s], 0.5 * 16 * layers[s] * activation(RECOMPUTE_NONE, false), 1e-14);
    close_run(&run);
    static const double share[] = {0.25, 1, 0};
    plan.phases[0].pipelines[0].offload = check_malloc(sizeof share);
    memcpy(plan.phases[0].pipelines[0].offload, share, sizeof share);
    open_run(&run, &plan, &setting, true);
    for (int32_t s = 0; s < 3; s++)
        CHECK_CLOSE(run.memory.host_peak_bytes[s], share[s] * 16 * layers[s] * activation(RECOMPUTE_NONE, false),
                    1e-14);
    for (int64_t i = 0; i < run.memory.n_events; i++) /* all is freed in the end, and never more than there is */
        CHECK_TRUE(run.memory.events[i].bytes[MEMORY_ACTIVATIONS] >= -1e-6);
    close_run(&run);
    plan_free(&plan);
}

TEST(the_peak_of_one_f_one_b_by_numbers)
{
    struct plan plan;
    struct run run;
    struct device device = *hand_setting()->device;
    struct cost_setting setting = *hand_setting();
    device.workspace_bytes = 1e6;
    setting.device = &device;
    hand_uniform(&plan, 2, 4, 16);
    plan.shards = 1;
    open_run(&run, &plan, &setting, false);
    CHECK_CLOSE(run.memory.peak_bytes[0], 24299520.0 + 311777280 + 14336 + 1000000, 1e-15);
    CHECK_CLOSE(run.memory.peak_bytes[1], 12149760.0 + 68096 + 311777280 + 1152 + 32000 + 1000000, 1e-15);
    CHECK_CLOSE(run.memory.at_peak[1][MEMORY_LIBRARIES], 1e6, 1e-15);
    CHECK_TRUE(run.memory.host_peak_bytes[0] == 0);
    close_run(&run);
    plan_free(&plan);
}

/* A padded unit computes on its padding and holds it until the backward of the same unit. */
TEST(padding_takes_room)
{
    struct plan plan;
    struct run run;
    hand_uniform(&plan, 1, 1, 16);
    for (int pass = 0; pass < N_PASSES; pass++)
        plan.phases[0].pipelines[0].cut[pass].units[0].padding_tokens = 4;
    open_run(&run, &plan, hand_setting(), false);
    CHECK_CLOSE(highest(&run.memory, 0, MEMORY_ACTIVATIONS), 20.0 * 840 * activation(RECOMPUTE_NONE, false) + kept(20),
                1e-15);
    CHECK_TRUE(run.memory.events[run.memory.n_events - 1].bytes[MEMORY_ACTIVATIONS] == 0);
    close_run(&run);
    plan_free(&plan);
}

/* A sample of 16 tokens in two slices that two pipelines share: each holds half of its tokens, of their keys and
 * values, of its prefix' gradients, and computes on half of a slice. */
TEST(shared_units_hold_their_share)
{
    struct plan plan;
    struct run run;
    const struct model *model = hand_setting()->model;
    hand_plan(&plan, 2, 1, 1);
    struct plan_phase *phase = &plan.phases[0];
    hand_group(phase, 2);
    for (int32_t i = 0; i < 4 * N_PASSES; i++) {
        int32_t pass = i / 4, begin = i % 2 == pass ? 0 : 8;
        struct plan_cut *cut = &phase->pipelines[i / 2 % 2].cut[pass];
        struct plan_unit *unit = hand_unit(cut, (struct slice){0, begin, begin + 8});
        unit->context = 2;
        unit->group = 0;
        unit->recompute = RECOMPUTE_FULL;
    }
    hand_order(&plan);
    open_run(&run, &plan, hand_setting(), false);
    for (int32_t place = 0; place < 2; place++) {
        double kv = 840 * cost_kv_bytes(model, 1);
        CHECK_CLOSE(highest(&run.memory, place, MEMORY_ACTIVATIONS),
                    8 * 840 * activation(RECOMPUTE_FULL, false) + kept(8), 1e-15);
        CHECK_CLOSE(highest(&run.memory, place, MEMORY_KV), 8 * kv, 1e-15);
        CHECK_CLOSE(highest(&run.memory, place, MEMORY_KV_GRADIENTS), 4 * kv, 1e-15);
        CHECK_CLOSE(highest(&run.memory, place, MEMORY_WORKSPACE), passing(4), 1e-15);
    }
    close_run(&run);
    plan_free(&plan);
}

/* Two stages of 32 context ranks, 128 tokens: the first one's workspace is that of its layers, with all keys and values
 * that were gathered and, in the backward pass, their gradients. */
TEST(gathered_keys_and_values_are_held)
{
    struct plan plan;
    struct run run;
    struct cost_setting setting = *hand_setting();
    struct scenario_plan layout = *setting.plan;
    struct slice slice = {0, 0, 128};
    struct cost_unit unit = {.slices = &slice, .n_slices = 1, .context = 32};
    setting.plan = &layout;
    hand_plan(&plan, 1, 2, 32);
    for (int pass = 0; pass < N_PASSES; pass++)
        hand_unit(&plan.phases[0].pipelines[0].cut[pass], slice)->context = 32;
    hand_order(&plan);
    double ring = cost_workspace_bytes(&setting, &unit);
    for (int i = 0; i < 2; i++) {
        layout.cp_type = i == 0 ? SCENARIO_RING : SCENARIO_ALL_GATHER;
        open_run(&run, &plan, &setting, false);
        CHECK_CLOSE(highest(&run.memory, 0, MEMORY_WORKSPACE), cost_workspace_bytes(&setting, &unit), 1e-15);
        close_run(&run);
    }
    CHECK_TRUE(cost_workspace_bytes(&setting, &unit) > 1.2 * ring);
    plan_free(&plan);
}

/* Without offload no copy makes the times matter: the peaks without events are those of the events. */
TEST(peaks_follow_from_the_steps_where_nothing_is_copied)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct plan plan;
        struct run run;
        struct memory quick;
        hand_random(&plan, seed);
        for (int32_t i = 0; i < plan.phases[0].n_pipelines; i++)
            for (int32_t unit = 0; unit < plan.phases[0].pipelines[i].cut[PASS_FORWARD].n_units; unit++)
                plan.phases[0].pipelines[i].cut[PASS_FORWARD].units[unit].offload = 0;
        const struct cost_setting *setting = hand_setting_of_heads(seed);
        open_run(&run, &plan, setting, seed % 2);
        memory_of(&plan, &run.dag, &run.timeline, setting, false, &quick);
        size_t n = (size_t)quick.n_ranks;
        CHECK_TRUE(memcmp(quick.peak_bytes, run.memory.peak_bytes, n * sizeof *quick.peak_bytes) == 0);
        CHECK_TRUE(memcmp(quick.at_peak, run.memory.at_peak, n * sizeof *quick.at_peak) == 0);
        CHECK_EQUAL(quick.worst_rank, run.memory.worst_rank);
        memory_free(&quick);
        close_run(&run);
        plan_free(&plan);
    }
}

/* On every place of random plans: events in order of time, nothing below zero, only states at the end; the peak is the
 * largest sum, and the same without events and with every TP rank. */
TEST(random_plans_give_all_back)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct plan plan;
        struct run run;
        struct memory quick;
        hand_random(&plan, seed);
        const struct cost_setting *setting = hand_setting_of_heads(seed);
        open_run(&run, &plan, setting, seed % 2);
        memory_of(&plan, &run.dag, &run.timeline, setting, false, &quick);
        bool ordered = true, positive = true, empty = true;
        for (int64_t i = 0; i < run.memory.n_events; i++) {
            const struct memory_event *event = &run.memory.events[i];
            bool last = i + 1 == run.memory.n_events || event[1].dag_rank != event->dag_rank;
            ordered = ordered && (last || event[1].time_s >= event->time_s);
            for (int k = MEMORY_ACTIVATIONS; k <= MEMORY_WORKSPACE; k++) {
                positive = positive && event->bytes[k] >= -1e-9 * run.memory.peak_bytes[event->dag_rank];
                empty = empty && (!last || fabs(event->bytes[k]) <= 1e-9 * run.memory.peak_bytes[event->dag_rank]);
            }
        }
        if (!ordered || !positive || !empty)
            printf("seed %llu\n", (unsigned long long)seed);
        CHECK_TRUE(ordered);
        CHECK_TRUE(positive);
        CHECK_TRUE(empty);
        CHECK_EQUAL(quick.n_events, 0);
        CHECK_TRUE(memcmp(quick.peak_bytes, run.memory.peak_bytes, (size_t)quick.n_ranks * sizeof(double)) == 0);
        CHECK_EQUAL(quick.worst_rank, run.memory.worst_rank);
        memory_free(&quick);
        close_run(&run);
        plan_free(&plan);
    }
}

/* The sums of one place are those of its events, moment by moment. @return whether */
static bool sums_are_events(const struct memory_sums *sums, const struct memory *all, int32_t place)
{
    int64_t event = 0;
    while (event < all->n_events && all->events[event].dag_rank < place)
        event++;
    for (int64_t i = sums->first[place]; i < sums->first[place + 1]; i++, event++) {
        double bytes = 0;
        if (event == all->n_events || all->events[event].dag_rank != place)
            return false;
        for (int k = 0; k < MEMORY_N_CLASSES; k++)
            bytes += all->events[event].bytes[k];
        if (sums->all[i].time_s != all->events[event].time_s || sums->all[i].bytes != bytes)
            return false;
    }
    return event == all->n_events || all->events[event].dag_rank != place;
}

/* Sums are told of the places that need more than the limit, and of no others: with a limit that is one place's peak
 * that place has none. The same memory serves every call; peaks are those of memory_of. */
TEST(places_above_a_limit_tell_their_sums)
{
    struct memory above = {0};
    int32_t n_above = 0, n_below = 0, wrong = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct plan plan;
        struct run run;
        struct cost_setting setting = *hand_setting_of_heads(seed);
        setting.plan = &(struct scenario_plan){.gradient_buffers =
                                                   seed % 4 == 0 ? SCENARIO_GRADIENTS_FREED : SCENARIO_GRADIENTS_KEPT};
        hand_random(&plan, seed);
        open_run(&run, &plan, &setting, false);
        const double *peak_bytes = run.memory.peak_bytes;
        const double limits[] = {0, peak_bytes[seed % (uint64_t)run.memory.n_ranks], INFINITY};
        for (int i = 0; i < 3; i++) {
            memory_above(&plan, &run.dag, &run.timeline, &setting, limits[i], &above);
            wrong += memcmp(above.peak_bytes, peak_bytes, (size_t)above.n_ranks * sizeof *peak_bytes) != 0;
            wrong += above.n_ranks != run.memory.n_ranks || above.worst_rank != run.memory.worst_rank;
            wrong += above.sums.n != above.sums.first[above.n_ranks] || above.n_events != 0;
            for (int32_t place = 0; place < above.n_ranks; place++) {
                bool told = above.sums.first[place + 1] > above.sums.first[place];
                wrong += told != (peak_bytes[place] > limits[i]);
                wrong += told && !sums_are_events(&above.sums, &run.memory, place);
                n_above += told;
                n_below += !told && i == 1;
            }
        }
        close_run(&run);
        plan_free(&plan);
    }
    CHECK_EQUAL(wrong, 0);
    CHECK_TRUE(n_above > 0 && n_below > 0);
    memory_free(&above);
}

/* A setting whose optimizer frees the gradients; states then start at 14 bytes a parameter. */
static const struct scenario_plan freeing_plan = {.gradient_buffers = SCENARIO_GRADIENTS_FREED};

static struct cost_setting freeing(void)
{
    struct cost_setting setting = *hand_setting();
    setting.plan = &freeing_plan;
    return setting;
}

/* One stage: 840 layers of 41,088 parameters, two tables of 64,000, the last norm's 64, together P = 34,641,984, with
 * fp32 gradients of 164,352 bytes a layer. A token holds 1808 bytes in a layer, 4256 in the head, and needs 2000 for
 * the loss and 896 for a layer in work. Of one micro-batch of T tokens the most is at one of
 *
 *   the loss              14 P + T (840 x 1808 + 4256 + 2000)
 *   the head's backward   14 P + 4 x 64,064 + T (840 x 1808 + 4256 - 2000 + 128), fp32 logits gone, gradients in bf16
 *   the first layer's     14 P + 4 x 64,064 + 164,352 + T (840 x 1808 + 896): a layer more, the head less
 *   the last layer's      14 P + 4 x 64,064 + 840 x 164,352 + T (1808 + 896)
 *   the end               18 P
 *
 * With 16 tokens it is the end, with 100 and 2000 the loss. Of two micro-batches the second has all gradients from its
 * start: 18 P + T (840 x 1808 + 4256 + 2000). */
TEST(freed_gradients_grow_over_the_first_backward)
{
    static const double parameters = 34641984;
    static const int32_t tokens[] = {16, 100, 2000};
    const struct cost_setting setting = freeing();
    for (int32_t i = 0; i < 6; i++) {
        struct plan plan;
        struct run run;
        int32_t n = 1 + i % 2, length = tokens[i / 2];
        double all = length * (840 * 1808.0 + 4256 + 2000), peak = 18 * parameters + all;
        if (n == 1)
            peak = fmax(14 * parameters + all, 18 * parameters);
        hand_uniform(&plan, 1, n, length);
        plan.shards = 1;
        open_run(&run, &plan, &setting, false);
        CHECK_CLOSE(run.memory.peak_bytes[0], peak, 1e-14);
        const struct memory_event *event = run.memory.events, *last = event + run.memory.n_events - 1;
        CHECK_CLOSE(event->bytes[MEMORY_STATES], 14 * parameters, 1e-15);
        CHECK_CLOSE(last->bytes[MEMORY_STATES], 14 * parameters, 1e-15);
        CHECK_CLOSE(last->time_s, run.timeline.makespan_s, 1e-15);
        int32_t n_layers = 0, n_falls = 0; /* steps of a layer's gradients; falls of states */
        for (; event < last; event++) {
            double grown = event[1].bytes[MEMORY_STATES] - event[0].bytes[MEMORY_STATES];
            n_layers += fabs(grown - 164352) < 1;
            n_falls += grown < 0;
        }
        CHECK_EQUAL(n_layers, 840);
        CHECK_EQUAL(n_falls, 1);
        close_run(&run);
        plan_free(&plan);
    }
}

/* Of 100 tokens with a fused loss (bf16 logits kept and their gradient in bf16) the most is at the head's backward:
 * with a tied table of 1200 tokens, whose gradient comes there, 4 x 76,864 bytes, where the loss has 2 x 1200 - 128 a
 * token more. */
TEST(the_heads_gradient_comes_behind_the_loss)
{
    struct cost_setting setting = freeing();
    struct model tied = *setting.model;
    struct plan plan;
    struct run run;
    tied.tied_embeddings = true;
    tied.vocabulary = 1200;
    setting.model = &tied;
    setting.loss = SCENARIO_LOSS_FUSED;
    hand_uniform(&plan, 1, 1, 100);
    plan.shards = 1;
    open_run(&run, &plan, &setting, false);
    CHECK_CLOSE(run.memory.peak_bytes[0],
                14 * (840 * 41088.0 + 76864) + 4 * 76864.0 + 100 * (840 * 1808.0 + 2 * 1200 + 4 * 64 + 2 * 64), 1e-14);
    CHECK_CLOSE(run.memory.at_peak[0][MEMORY_WORKSPACE], 100 * 2 * 64.0, 1e-14);
    close_run(&run);
    plan_free(&plan);
}

/* The events behind these moments, of 100 tokens: when a layer starts its gradients are there, and it and those before
 * it still hold what they kept; the head is over. */
TEST(each_layers_gradients_come_as_its_activations_go)
{
    const struct cost_setting setting = freeing();
    struct plan plan;
    struct run run;
    hand_uniform(&plan, 1, 1, 100);
    plan.shards = 1;
    open_run(&run, &plan, &setting, false);
    int32_t layer = 0;
    double last_s = 0;
    for (int64_t i = 1; i < run.memory.n_events; i++) {
        const struct memory_event *event = &run.memory.events[i];
        if (fabs(event->bytes[MEMORY_STATES] - event[-1].bytes[MEMORY_STATES] - 164352) > 1)
            continue;
        CHECK_CLOSE(event->bytes[MEMORY_ACTIVATIONS], 100 * 1808.0 * (840 - layer), 1e-10);
        CHECK_CLOSE(event->bytes[MEMORY_WORKSPACE], 100 * 896.0, 1e-14);
        CHECK_CLOSE(event->bytes[MEMORY_STATES], 14 * 34641984.0 + 4 * 64064.0 + 164352.0 * ++layer, 1e-13);
        CHECK_TRUE(event->time_s >= last_s);
        last_s = event->time_s;
    }
    CHECK_EQUAL(layer, 840);
    close_run(&run);
    plan_free(&plan);
}

/* Two stages of 420 layers, two micro-batches of 100 tokens. Stage 0, with 17,320,960 parameters, holds both when its
 * first backward starts, at its first layer the most, as 180,800 bytes go with each and 164,352 come. Stage 1, with 64
 * parameters more, starts the second forward when the first backward is over. */
TEST(freed_gradients_of_stages)
{
    const struct cost_setting setting = freeing();
    struct plan plan;
    struct run run;
    hand_uniform(&plan, 2, 2, 100);
    plan.shards = 1;
    open_run(&run, &plan, &setting, false);
    CHECK_CLOSE(run.memory.peak_bytes[0], 14 * 17320960.0 + 164352 + 2 * 100 * 420 * 1808.0 + 100 * 896, 1e-14);
    CHECK_CLOSE(run.memory.peak_bytes[1], 18 * 17321024.0 + 100 * (420 * 1808.0 + 4256 + 2000), 1e-14);
    close_run(&run);
    plan_free(&plan);
}

/* Two stages of one micro-batch of 16 tokens whose backward is split: weights' gradients come in the pass of their own,
 * each layer's as its share of cost_weight_bytes goes; so stage 1 has none while the activations are there. */
TEST(a_split_backward_brings_gradients_with_the_weights_pass)
{
    const struct cost_setting setting = freeing();
    struct plan plan;
    struct run run;
    hand_uniform(&plan, 2, 1, 16);
    plan.shards = 1;
    order_zero_bubble(&plan.phases[0].pipelines[0]);
    open_run(&run, &plan, &setting, false);
    for (int32_t s = 0; s < 2; s++) {
        double first = s == 0 ? 17320960 : 17321024, grown = 0;
        for (int64_t i = 0; i < run.memory.n_events; i++) {
            const struct memory_event *event = &run.memory.events[i];
            if (event->dag_rank != s || event->bytes[MEMORY_STATES] < 14 * first + 1)
                continue;
            grown = fmax(grown, event->bytes[MEMORY_STATES] - 14 * first);
            CHECK_TRUE(event->bytes[MEMORY_ACTIVATIONS] <=
                       16 * (420 * cost_weight_bytes(&setting) + (s == 1 ? cost_head_weight_bytes(&setting, 1) : 0)) +
                           1);
        }
        CHECK_CLOSE(grown, 4 * first, 1e-12);
    }
    close_run(&run);
    plan_free(&plan);
}

/* zero2 on 4 ranks: 2 bytes of weights, 12/4 of states, and gradients of 4/4 from the first backward on, the head's
 * with the embedding's; a tied table's come with the head where nothing is sharded. */
TEST(shards_of_gradients_are_freed_too)
{
    struct cost_setting setting = freeing();
    struct model tied = *setting.model;
    struct dag_rank place = {0};
    struct plan plan;
    hand_uniform(&plan, 1, 1, 16);
    plan.shards = 4;
    setting.plan = &(struct scenario_plan){.sharding = SCENARIO_ZERO2, .gradient_buffers = SCENARIO_GRADIENTS_FREED};
    struct states_gradients gradients = states_gradients_of(&plan, &setting, &place, 0);
    CHECK_CLOSE(gradients.head + gradients.tables, 128064.0, 1e-15);
    CHECK_TRUE(gradients.head == 0 && gradients.layers == 840);
    CHECK_CLOSE(gradients.layer, 41088.0, 1e-15);
    tied.tied_embeddings = true;
    setting.model = &tied;
    setting.plan = &freeing_plan;
    gradients = states_gradients_of(&plan, &setting, &place, 0);
    CHECK_CLOSE(gradients.head, 4 * 64064.0, 1e-15);
    CHECK_TRUE(gradients.tables == 0);
    plan_free(&plan);
}

/* Two stages of two chunks, 210 layers each: the embedding's gradients, 4 x 64,000, are the first chunk's of the first
 * stage, the head's with the last norm's, 4 x 64,064, the second's of the last. A tied table of one stage comes with
 * the head; 16 learned positions of 64 do not. */
TEST(gradients_are_of_the_chunk_that_computes_them)
{
    static const double tables[2][2] = {{256000, 0}, {0, 0}}, head[2][2] = {{0, 0}, {0, 256256}};
    struct cost_setting setting = freeing();
    struct model model = *setting.model;
    struct dag_rank place = {0};
    struct plan plan;
    hand_uniform(&plan, 2, 2, 16);
    plan.phases[0].pipelines[0].layout.chunks = 2;
    for (place.stage = 0; place.stage < 2; place.stage++)
        for (int32_t chunk = 0; chunk < 2; chunk++) {
            struct states_gradients gradients = states_gradients_of(&plan, &setting, &place, chunk);
            CHECK_EQUAL(gradients.layers, 210);
            CHECK_CLOSE(gradients.layer, 164352.0, 1e-15);
            CHECK_CLOSE(gradients.tables, tables[place.stage][chunk], 1e-15);
            CHECK_CLOSE(gradients.head, head[place.stage][chunk], 1e-15);
        }
    plan_free(&plan);
    hand_uniform(&plan, 1, 1, 16);
    model.tied_embeddings = true;
    model.positions = 16;
    setting.model = &model;
    place.stage = 0;
    struct states_gradients gradients = states_gradients_of(&plan, &setting, &place, 0);
    CHECK_CLOSE(gradients.tables, 4 * 16 * 64.0, 1e-15);
    CHECK_CLOSE(gradients.head, 4 * 64064.0, 1e-15);
    plan_free(&plan);
}

/* Random plans, with copies and shared samples: peaks are the same with events and without, never above those with
 * gradients that are kept and never below them by more than all gradients; in the end none is left. */
TEST(freed_gradients_are_between_none_and_kept)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const struct cost_setting *keeping = hand_setting_of_heads(seed);
        struct cost_setting setting = *keeping;
        struct plan plan;
        struct run kept, freed;
        struct memory quick;
        setting.plan = &freeing_plan;
        hand_random(&plan, seed);
        open_run(&kept, &plan, keeping, seed % 2);
        open_run(&freed, &plan, &setting, seed % 2);
        memory_of(&plan, &freed.dag, &freed.timeline, &setting, false, &quick);
        size_t n = (size_t)quick.n_ranks;
        CHECK_TRUE(memcmp(quick.peak_bytes, freed.memory.peak_bytes, n * sizeof *quick.peak_bytes) == 0);
        for (size_t i = 0; i < n; i++) {
            double all = 0;
            for (int32_t chunk = 0; chunk < plan.phases[0].pipelines[0].layout.chunks; chunk++) {
                struct states_gradients of = states_gradients_of(&plan, &setting, &freed.dag.ranks[i], chunk);
                all += of.head + of.layers * of.layer + of.tables;
            }
            /* The buffer of gradients that are kept is rounded. */
            CHECK_TRUE(freed.memory.peak_bytes[i] <= kept.memory.peak_bytes[i] * (1 + 1e-12));
            CHECK_TRUE(freed.memory.peak_bytes[i] >= kept.memory.peak_bytes[i] - all - (2 << 20));
        }
        for (int64_t i = 0; i < freed.memory.n_events; i++) {
            const struct memory_event *event = &freed.memory.events[i];
            bool last = i + 1 == freed.memory.n_events || event[1].dag_rank != event->dag_rank;
            CHECK_TRUE(last || event[1].time_s >= event->time_s);
            for (int k = 0; k < MEMORY_N_CLASSES; k++)
                CHECK_TRUE(event->bytes[k] >= -1e-9 * freed.memory.peak_bytes[event->dag_rank]);
        }
        memory_free(&quick);
        close_run(&kept);
        close_run(&freed);
        plan_free(&plan);
    }
}

/* The head's backward frees the logits in fp32 and makes their gradient in bf16: a workspace below 0, if it were not
 * taken off the activations. Whatever is recomputed, sharded and gathered, no class is below 0 at any moment. */
TEST(memory_classes__are_never_negative)
{
    for (int i = 0; i < 2 * 4 * 2; i++) {
        struct cost_setting setting = *hand_setting();
        struct plan plan;
        struct run run;
        struct scenario_plan states = *setting.plan;
        states.gradient_buffers = SCENARIO_GRADIENTS_FREED;
        setting.loss = i % 2 == 0 ? SCENARIO_LOSS_PASSES : SCENARIO_LOSS_FUSED;
        states.sharding = i / 2 % 4;
        setting.plan = &states;
        hand_uniform(&plan, 1, 4, 4096);
        for (int32_t unit = 0; unit < 4; unit++)
            for (int pass = 0; pass < N_PASSES; pass++)
                plan.phases[0].pipelines[0].cut[pass].units[unit].recompute = i < 8 ? RECOMPUTE_NONE : RECOMPUTE_FULL;
        open_run(&run, &plan, &setting, false);
        for (int64_t k = 0; k < run.memory.n_events; k++)
            for (int class = 0; class < MEMORY_N_CLASSES; class ++)
                CHECK_TRUE(run.memory.events[k].bytes[class] >= 0);
        close_run(&run);
        plan_free(&plan);
    }
}

/* Of two graphs of a plan, stream by stream: the same tasks at the same times, to the last bit. */
static bool same_times(const struct dag *a, const struct timeline *at_a, const struct dag *b,
                       const struct timeline *at_b)
{
    bool same = a->n_tasks == b->n_tasks && at_a->makespan_s == at_b->makespan_s;
    for (int32_t stream = 0; same && stream < dag_n_streams(a); stream++) {
        int32_t x = a->stream_first[stream], y = b->stream_first[stream];
        for (; same && x >= 0 && y >= 0; x = a->stream_next[x], y = b->stream_next[y])
            same = memcmp(&a->tasks[x], &b->tasks[y], sizeof *a->tasks) == 0 && a->duration_s[x] == b->duration_s[y] &&
                   at_a->start_s[x] == at_b->start_s[y] && at_a->finish_s[x] == at_b->finish_s[y];
        same = same && x == y;
    }
    return same;
}

/* Other shares for the host on each virtual stage: of two units of three none, or of all. */
static void draw_shares(struct plan_pipeline *pipeline, uint64_t seed)
{
    int32_t n = pipeline->cut[PASS_FORWARD].n_units * pipeline->layout.stages * pipeline->layout.chunks;
    if (pipeline->offload == NULL)
        pipeline->offload = check_malloc((size_t)n * sizeof *pipeline->offload);
    for (int32_t i = 0; i < n; i++)
        pipeline->offload[i] = (hash_bytes(seed, &i, sizeof i) >> 16) % 3 == 0 ? (double)(1 + i % 4) / 4 : 0;
}

/* The shares of random plans change: none, the units' own, drawn. Times and memory are those of a new graph. */
TEST(dag_rebuild__gives_the_same_graph_as_a_new_build)
{
    struct dag again = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct plan plan;
        struct error err = {0};
        struct cost_setting setting = *hand_setting_of_heads(seed / 2);
        setting.communication.cp_overlap = seed % 2 == 0;
        setting.plan = &(struct scenario_plan){.cp_type = seed % 3 == 0 ? SCENARIO_ULYSSES : SCENARIO_RING};
        hand_random(&plan, seed);
        for (uint64_t round = 0; round < 4; round++) {
            struct run run = {0};
            struct timeline timeline = {0};
            struct memory memory = {0};
            for (int32_t i = 0; round > 0 && i < plan.phases[0].n_pipelines; i++)
                draw_shares(&plan.phases[0].pipelines[i], 4 * seed + round);
            run.dag = hand_built(&plan, &setting, (struct dag_options){0});
            critical_path(&run.dag, &run.timeline);
            memory_of(&plan, &run.dag, &run.timeline, &setting, false, &run.memory);
            CHECK_TRUE(dag_rebuild(&plan, &setting, (struct dag_options){0}, &again, &err));
            critical_path(&again, &timeline);
            memory_of(&plan, &again, &timeline, &setting, false, &memory);
            size_t n = (size_t)memory.n_ranks * sizeof(double);
            CHECK_TRUE(same_times(&run.dag, &run.timeline, &again, &timeline));
            CHECK_TRUE(memcmp(memory.peak_bytes, run.memory.peak_bytes, n) == 0);
            CHECK_TRUE(memcmp(memory.host_peak_bytes, run.memory.host_peak_bytes, n) == 0);
            memory_free(&memory);
            timeline_free(&timeline);
            close_run(&run);
        }
        plan_free(&plan);
    }
    dag_free(&again);
}

/* One pipeline of two stages (parameters of the test above), then two whole replicas on the same GPUs, then again:
 * while the model moves to the stages, each GPU still has the whole weights, 2 x 34,641,984 bytes; while it moves on,
 * its stage's weights and gradients, 6 bytes a parameter. Activations of 16 tokens are less. Gradients that are freed
 * are not there at first: 4 bytes less; the most is when the last layer of the second stage, which has no embedding, is
 * in work, 16 tokens of 1808 + 896 bytes, and of the first one when its embedding's have come. */
TEST(both_layouts_are_held_while_the_model_moves)
{
    struct plan plan, second;
    hand_uniform(&plan, 2, 1, 16);
    hand_plan(&second, 2, 1, 1);
    for (int32_t i = 0; i < 2; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_unit(&second.phases[0].pipelines[i].cut[pass], (struct slice){1 + i, 0, 16});
    hand_order(&second);
    hand_append(&plan, &second);
    plan.shards = 1;
    for (int32_t i = 0; i < 2; i++) {
        plan.phases[i].n_reshards = 1;
        plan.phases[i].reshards = check_malloc(sizeof(struct plan_reshard));
        plan.phases[i].reshards[0] = (struct plan_reshard){0, 1, 1e6};
    }
    static const double stage[] = {17320960, 17321024}, whole = 34641984;
    const struct cost_setting settings[] = {*hand_setting(), freeing()};
    for (int events = 0; events < 4; events++) {
        struct run run;
        const struct cost_setting *setting = &settings[events / 2];
        open_run(&run, &plan, setting, false);
        if (events % 2 == 0) {
            memory_free(&run.memory);
            memory_of(&plan, &run.dag, &run.timeline, setting, false, &run.memory);
        }
        for (int32_t i = 0; i < 2; i++) {
            double first = (events < 2 ? 18 : 14) * stage[i] + 2 * whole, last_layer = i == 1 ? 16 * (1808 + 896) : 0;
            CHECK_CLOSE(run.memory.peak_bytes[i], fmax(first, 18 * stage[i] + last_layer), 1e-15);
            CHECK_CLOSE(run.memory.peak_bytes[2 + i], 18 * whole + 6 * stage[i], 1e-15);
        }
        close_run(&run);
    }
    plan_free(&plan);
}
