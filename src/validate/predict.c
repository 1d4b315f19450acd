/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/predict.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "bounds/stage_memory.h"
#include "cost/activation.h"
#include "cost/attention_choice.h"
#include "cost/states.h"
#include "simulate/summary.h"

/** Return the settings on which the bytes of a rank depend, with all layers. */
static struct cost_setting cost_setting_of(const struct setting *setting, const struct device *device)
{
    const struct scenario_plan *plan = &setting->plan;
    struct cost_setting cost = {.model = &setting->scenario.model,
                                .device = device,
                                .attention = (enum device_attention)setting->scenario.attention};
    cost_take_plan(&cost, plan);
    cost_hold_layers(&cost, 0, (int32_t)setting->scenario.model.layers);
    return cost;
}

static double stage_state_bytes(const struct setting *setting, const struct device *device, int32_t stage)
{
    const struct scenario_plan *plan = &setting->plan;
    const struct cost_setting cost = cost_setting_of(setting, device);
    struct plan_layout layout = {.tensor = (int32_t)plan->tp, .context = 1, .stages = (int32_t)plan->pp, .chunks = 1};
    const struct stage_memory memory =
        stage_memory_of(&cost, &layout, stage, scenario_plan_shards(plan), &(struct stage_memory_micro_batch){0});
    return memory.states_bytes - memory.gradients_bytes + memory.libraries_bytes;
}

double predict_state_bytes(const struct setting *setting, const struct device *device, bool last_stage)
{
    double largest = stage_state_bytes(setting, device, (int32_t)setting->plan.pp - 1);
    for (int32_t stage = 0; stage < (int32_t)setting->plan.pp && !last_stage; stage++)
        largest = fmax(largest, stage_state_bytes(setting, device, stage));
    return largest;
}

double predict_layer_state_bytes(const struct setting *setting)
{
    const struct scenario_plan *plan = &setting->plan;
    struct cost_setting cost = cost_setting_of(setting, NULL);
    int32_t most = 0;
    for (int32_t stage = 0; stage < plan->pp; stage++) {
        int32_t layers = scenario_rank_layers(&plan->stages, setting->scenario.model.layers, (int32_t)plan->pp,
                                              (int32_t)plan->vpp, stage);
        most = layers > most ? layers : most;
    }
    cost_hold_layers(&cost, 0, most);
    return cost_of_stage(cost_state_bytes, &cost, cost_layers_parameters(&cost), scenario_plan_shards(plan));
}

double predict_activation_bytes(const struct setting *setting)
{
    const struct scenario_plan *plan = &setting->plan;
    const struct cost_setting cost = cost_setting_of(setting, NULL);
    struct slice sample = {0, 0, (int32_t)setting->scenario.data.context};
    struct cost_micro_batch micro_batch = {
        .slices = &sample, .n_slices = 1, .context = (int32_t)plan->cp, .recompute = (enum recompute)plan->recompute};
    double layers = cost_activation_bytes(&cost, micro_batch.recompute, false) * cost_micro_batch_tokens(&micro_batch) +
                    cost_copied_kv_bytes(&cost, micro_batch.recompute, micro_batch.context) *
                        cost_micro_batch_tokens(&micro_batch) +
                    cost_scores_bytes(&cost, &micro_batch);
    double stages = (double)plan->pp, interleaved = plan->vpp > 1 ? (stages - 1) / (stages * (double)plan->vpp) : 0;
    return layers * (double)setting->micro_batch * (1 + interleaved);
}

/** Peaks that the observer notes because point_summary does not keep them. */
struct peaks {
    const struct setting *setting;
    struct predict_result *result;
};

static bool observe(void *context, const struct point_view *view, struct error *err)
{
    (void)err;
    struct peaks *peaks = context;
    const struct memory *memory = view->memory;
    int32_t last = (int32_t)peaks->setting->plan.pp - 1;
    for (int32_t i = 0; i < memory->n_ranks; i++) {
        int32_t stage = view->dag->ranks[i].stage;
        double bytes = memory->peak_bytes[i];
        peaks->result->peak_bytes = fmax(peaks->result->peak_bytes, bytes);
        if (stage == 0)
            peaks->result->first_stage_bytes = fmax(peaks->result->first_stage_bytes, bytes);
        if (stage == last)
            peaks->result->last_stage_bytes = fmax(peaks->result->last_stage_bytes, bytes);
    }
    return true;
}

/** Choose the attention of a row that says `fastest`. All its samples are equal. */
static int32_t attention_of(const struct setting *setting, const struct device *device)
{
    double seconds[DEVICE_N_CURVES];
    int32_t tokens = (int32_t)setting->scenario.data.context;
    if (setting->scenario.attention != DEVICE_FASTEST)
        return setting->scenario.attention;
    attention_choice_seconds(&setting->scenario.model, device, 1, &tokens, seconds);
    return (int32_t)attention_choice_fastest(device, seconds);
}

/** Make the scenario of a row. If it names no system, a bin of best-fit packing holds the whole sequences of one
 * micro-batch. */
static struct scenario scenario_of(const struct setting *setting, const struct device *device,
                                   struct scenario_system *system)
{
    struct scenario scenario = setting->scenario;
    scenario.device = *device;
    scenario.attention = attention_of(setting, device);
    if (setting->varies)
        return scenario;
    scenario.data.context *= setting->micro_batch;
    scenario.n_systems = 1;
    scenario.systems = system;
    *system = (struct scenario_system){.name = "best-fit", .plan = setting->plan, .knobs = -1, .node = -1};
    return scenario;
}

double predict_layer_s(const struct setting *setting, const struct device *device, enum pass pass)
{
    struct scenario_system system;
    struct scenario scenario = scenario_of(setting, device, &system);
    struct cost_setting cost = request_setting(&scenario, &setting->plan);
    struct slice *slices = check_calloc((size_t)setting->micro_batch, sizeof *slices);
    for (int32_t i = 0; i < setting->micro_batch; i++)
        slices[i] = (struct slice){.sample = i, .end = (int32_t)setting->scenario.data.context};
    struct cost_micro_batch micro_batch = {.slices = slices,
                                           .n_slices = (int32_t)setting->micro_batch,
                                           .context = (int32_t)setting->plan.cp,
                                           .recompute = (enum recompute)setting->plan.recompute,
                                           .first = true};
    cost_hold_layers(&cost, 0, 1);
    struct cost_pass layer = cost_of_pass(&cost, pass, &micro_batch);
    free(slices);
    return layer.kernels_s + layer.attention_s + layer.tensor_s + layer.expert_s;
}

bool predict_run(const struct setting *setting, const struct device *device, struct predict_result *result,
                 struct error *err)
{
    struct scenario_system system;
    struct scenario scenario = scenario_of(setting, device, &system);
    int32_t tokens = (int32_t)setting->scenario.data.context;
    struct lengths fixed = {.kind = LENGTHS_FILE, .n = 1, .file_tokens = &tokens}, drawn = {0};
    struct peaks peaks = {setting, result};
    struct point point = {0};
    *result = (struct predict_result){0};
    struct point_options options = {.observer = observe, .context = &peaks};
    bool ok = scenario_check_attention(&scenario, err) && scenario_check_dispatcher(&scenario, err) &&
              scenario_check_precision(&scenario, err) && (!setting->varies || point_lengths(&scenario, &drawn, err)) &&
              point_run(&scenario, setting->varies ? &drawn : &fixed, &options, &point, err);
    if (ok) {
        struct trace_summary summary = point_summary_of(&scenario, &point, 0);
        result->time_s = point.systems[0].iterations[0].row.time_s;
        result->tokens_per_s_per_gpu = summary.tokens_per_s_per_gpu;
        result->memory_bytes = point.memory_bytes;
        result->exceeded_limit = summary.exceeded_limit;
        result->tight = summary.tight != 0;
        for (int32_t i = 0; i < point.systems[0].n_iterations; i++)
            result->tokens += (double)point.systems[0].iterations[i].row.tokens / point.systems[0].n_iterations;
    }
    lengths_close(&drawn);
    point_free(&point);
    return ok;
}
