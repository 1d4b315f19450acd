/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_plan.h"
#include "hand_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "harness.h"
#include "plan/order.h"

const struct cost_setting *hand_setting(void)
{
    static const struct model model = {.name = "hand",
                                       .hidden = 64,
                                       .layers = 840,
                                       .vocabulary = 1000,
                                       .kinds = {{.heads = 4, .kv_heads = 4, .ffn = 128}}};
    static const struct device device = {
        .name = "hand",
        .peak_flop_per_s = {1e12},
        .hbm_bytes_per_s = 1e12,
        .memory_bytes = 80e9,
        .memory_share = {1, 1, 1, 1, 1, 1},
        .gemm = {{.efficiency = 1}},
        .forward = {{.efficiency = 1}, {.efficiency = 1}, {.efficiency = 1}},
        .backward = {{.efficiency = 1}, {.efficiency = 1}, {.efficiency = 1}},
        .collective = {{.latency_s = 1e-6, .efficiency = 1},
                       {.latency_s = 1e-6, .efficiency = 1},
                       {.latency_s = 2e-6, .efficiency = 1},
                       [DEVICE_ALL_TO_ALL] = {.latency_s = 1e-6, .efficiency = 1}},
        .ring = {{.start_s = 2e-6, .share = 1, .share_alone = 1}},
        .fabric = {.latency_s = 4e-6, .efficiency = 1},
        .nvlink = {.latency_s = 1e-6, .efficiency = 1},
        .nic = {.latency_s = 2e-6, .efficiency = 1},
        .pcie = {.latency_s = 4e-6, .efficiency = 1},
    };
    static const struct platform platform = {.name = "hand",
                                             .n_nodes = 64,
                                             .gpus_per_node = 8,
                                             .nvlink_domain = 8,
                                             .nvlink_bytes_per_s = 200e9,
                                             .nic_bytes_per_s = 50e9,
                                             .pcie_bytes_per_s = 25e9,
                                             .host_memory_bytes = 1e12};
    static const struct cost_setting setting = {.model = &model,
                                                .device = &device,
                                                .platform = &platform,
                                                .ranks = 1,
                                                .cp_overlap = true,
                                                .pp_overlap = SCENARIO_STAGES_OVERLAP,
                                                .sequence_parallel = true,
                                                .tensor = 1,
                                                HAND_LAYERS(840)};
    return &setting;
}

const struct cost_setting *hand_rack_setting(void)
{
    static struct platform platform;
    static struct cost_setting setting;
    platform = *hand_setting()->platform;
    platform.gpus_per_node = 4;
    setting = *hand_setting();
    setting.platform = &platform;
    return &setting;
}

const struct cost_setting *hand_setting_of_heads(uint64_t number)
{
    static struct model models[4];
    static struct cost_setting settings[4];
    size_t i = number % 4;
    models[i] = *hand_setting()->model;
    if (i == 3)
        hand_experts(&models[i]);
    else
        hand_heads(&models[i], i);
    settings[i] = *hand_setting();
    settings[i].model = &models[i];
    return &settings[i];
}

void hand_plan(struct plan *plan, int32_t n_pipelines, int32_t stages, int32_t context)
{
    *plan = (struct plan){.n_phases = 1, .shards = n_pipelines * context};
    plan->phases = check_calloc(1, sizeof *plan->phases);
    plan->phases[0].n_pipelines = n_pipelines;
    plan->phases[0].pipelines = check_calloc((size_t)n_pipelines, sizeof *plan->phases[0].pipelines);
    for (int32_t i = 0; i < n_pipelines; i++)
        plan->phases[0].pipelines[i].layout = (struct plan_layout){.tensor = 1,
                                                                   .context = context,
                                                                   .stages = stages,
                                                                   .chunks = 1,
                                                                   .first_rank = i * context,
                                                                   .stage_stride = n_pipelines * context};
}

struct plan_micro_batch *hand_micro_batch(struct plan_partition *partition, struct slice slice)
{
    plan_add_slice(partition, slice);
    return plan_add_micro_batch(partition);
}

void hand_order(struct plan *plan)
{
    for (int32_t phase = 0; phase < plan->n_phases; phase++)
        for (int32_t i = 0; i < plan->phases[phase].n_pipelines; i++) {
            plan_fill_need(&plan->phases[phase].pipelines[i]);
            order_one_f_one_b(&plan->phases[phase].pipelines[i], ORDER_JUST_IN_TIME);
        }
}

void hand_whole_samples(struct plan *plan, int32_t n_pipelines, int32_t stages, int32_t tokens)
{
    hand_plan(plan, n_pipelines, stages, 1);
    for (int32_t i = 0; i < n_pipelines; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_micro_batch(&plan->phases[0].pipelines[i].partition[pass], (struct slice){i, 0, tokens});
    hand_order(plan);
}

void hand_uniform(struct plan *plan, int32_t stages, int32_t n_micro_batches, int32_t tokens)
{
    hand_plan(plan, 1, stages, 1);
    for (int32_t micro_batch = 0; micro_batch < n_micro_batches; micro_batch++)
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_micro_batch(&plan->phases[0].pipelines[0].partition[pass], (struct slice){micro_batch, 0, tokens});
    hand_order(plan);
}

void hand_figure(struct plan *plan)
{
    hand_plan(plan, 1, 2, 1);
    struct plan_partition *partition = plan->phases[0].pipelines[0].partition;
    hand_micro_batch(&partition[PASS_FORWARD], (struct slice){0, 0, 4});
    hand_micro_batch(&partition[PASS_FORWARD], (struct slice){0, 4, 8});
    hand_micro_batch(&partition[PASS_FORWARD], (struct slice){1, 0, 4});
    hand_micro_batch(&partition[PASS_BACKWARD], (struct slice){0, 4, 8});
    hand_micro_batch(&partition[PASS_BACKWARD], (struct slice){0, 0, 4});
    hand_micro_batch(&partition[PASS_BACKWARD], (struct slice){1, 0, 4});
    plan_fill_need(&plan->phases[0].pipelines[0]);
    order_one_f_one_b(&plan->phases[0].pipelines[0], ORDER_PERSISTENT);
}

/* This is Knuth's MMIX generator. Its low bits are poor, so the high ones are used. */
static int32_t draw(uint64_t *state, int32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((*state >> 33) % (uint64_t)n);
}

/* Cut samples [first, first + n) of these lengths into micro-batches at random tokens. */
static void random_cut(struct plan_partition *partition, enum pass pass, int32_t first, int32_t n,
                       const int32_t *tokens, uint64_t *state)
{
    int32_t room = 1 + draw(state, 40);
    for (int32_t sample = first; sample < first + n; sample++)
        for (int32_t at = 0, length = tokens[sample]; at < length;) {
            int32_t taken = length - at < room ? length - at : room;
            struct slice slice = {sample, at, at + taken};
            if (pass == PASS_BACKWARD)
                slice = (struct slice){sample, length - at - taken, length - at};
            plan_add_slice(partition, slice);
            at += taken;
            room -= taken;
            if (room > 0 && (sample < first + n - 1 || at < length))
                continue;
            plan_add_micro_batch(partition);
            room = 1 + draw(state, 40);
        }
}

static void finish_micro_batches(struct plan_pipeline *pipeline, uint64_t *state)
{
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t micro_batch = 0; micro_batch < pipeline->partition[pass].n_micro_batches; micro_batch++) {
            struct plan_micro_batch *part = &pipeline->partition[pass].micro_batches[micro_batch];
            if (part->group < 0)
                part->context = pipeline->layout.context;
            part->recompute = (enum recompute)(1 << draw(state, 4)); /* an entry of a list, or full */
            if (draw(state, 4) == 0)
                part->recompute = RECOMPUTE_NONE;
            part->offload = pass == PASS_FORWARD && draw(state, 4) == 0 ? 0.5 : 0;
        }
}

void hand_group(struct plan_phase *phase, int32_t n)
{
    phase->n_groups = 1;
    phase->groups = check_calloc(1, sizeof *phase->groups);
    phase->groups[0].n_pipelines = n;
    phase->groups[0].pipelines = check_calloc((size_t)n, sizeof(int32_t));
    for (int32_t i = 0; i < n; i++)
        phase->groups[0].pipelines[i] = i;
}

/* Pipelines 0 and 1 share sample 0, which is cut equally in both. */
static void add_outlier(struct plan *plan, const int32_t *tokens, uint64_t seed)
{
    struct plan_phase *phase = &plan->phases[0];
    hand_group(phase, 2);
    for (int32_t i = 0; i < 2; i++) {
        uint64_t state = seed;
        for (int pass = 0; pass < N_PASSES; pass++) {
            struct plan_partition *partition = &phase->pipelines[i].partition[pass];
            random_cut(partition, (enum pass)pass, 0, 1, tokens, &state);
            for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++) {
                partition->micro_batches[micro_batch].group = 0;
                partition->micro_batches[micro_batch].context = 2 * phase->pipelines[i].layout.context;
            }
        }
    }
}

void hand_random(struct plan *plan, uint64_t seed)
{
    uint64_t state = seed;
    int32_t n_pipelines = 1 + draw(&state, 3), stages = 1 << draw(&state, 3), context = 1 + draw(&state, 2);
    int32_t tokens[64], n_each = 1 + draw(&state, 8), next = 1;
    for (int32_t i = 0; i < 64; i++)
        tokens[i] = 1 + draw(&state, 60);
    hand_plan(plan, n_pipelines, stages, context);
    if (n_pipelines > 1)
        add_outlier(plan, tokens, seed + 1);
    for (int32_t i = 0; i < n_pipelines; i++, next += n_each) {
        struct plan_pipeline *pipeline = &plan->phases[0].pipelines[i];
        for (int pass = 0; pass < N_PASSES; pass++)
            random_cut(&pipeline->partition[pass], (enum pass)pass, next, n_each, tokens, &state);
        finish_micro_batches(pipeline, &state);
    }
    hand_order(plan);
}

void hand_append(struct plan *plan, struct plan *second)
{
    size_t n = (size_t)plan->n_phases + (size_t)second->n_phases;
    plan->phases = check_realloc(plan->phases, n * sizeof *plan->phases);
    memcpy(plan->phases + plan->n_phases, second->phases, (size_t)second->n_phases * sizeof *plan->phases);
    plan->n_phases += second->n_phases;
    second->n_phases = 0;
    plan_free(second);
}

struct dag hand_built(const struct plan *plan, const struct cost_setting *setting, struct dag_options options)
{
    struct dag dag = {0};
    struct error err = {0};
    if (!CHECK_TRUE(dag_build(plan, setting, options, &dag, &err)))
        printf("%s\n", err.text);
    return dag;
}

void hand_times(struct dag *dag, double forward_s, double backward_s)
{
    hand_split_times(dag, forward_s, backward_s, 0);
}

void hand_send_times(struct dag *dag, double seconds)
{
    for (int32_t i = 0; i < dag->n_tasks; i++)
        if (dag->tasks[i].kind == DAG_SEND)
            dag->duration_s[i] = seconds;
}

void hand_split_times(struct dag *dag, double forward_s, double input_s, double weight_s)
{
    const double seconds[] = {forward_s, input_s, weight_s};
    for (int32_t i = 0; i < dag->n_tasks; i++)
        dag->duration_s[i] = dag->tasks[i].kind == DAG_COMPUTE ? seconds[dag->tasks[i].pass] : 0;
}
