/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/request.h"

#include <math.h>

#include "base/check.h"

double request_memory_bytes(const struct scenario *scenario)
{
    return scenario->memory_limit * (scenario->device.memory_bytes - scenario->device.context_bytes);
}

double request_sure_bytes(const struct scenario *scenario)
{
    return request_memory_bytes(scenario) / (1 + scenario->pressure.reserve_most);
}

double request_planned_bytes(const struct scenario *scenario, const struct scenario_plan *plan)
{
    return plan->fits == SCENARIO_FITS_TIGHT ? request_memory_bytes(scenario) : request_sure_bytes(scenario);
}

/** Return the operators that the scenario does not run as one kernel or GEMM. */
static enum cost_single single_of(const struct scenario_fused *fused, int32_t scaling)
{
    return (enum cost_single)((fused->norm ? 0 : COST_SINGLE_NORM) | (fused->rotation ? 0 : COST_SINGLE_ROTATION) |
                              (fused->qkv ? 0 : COST_SINGLE_QKV) | (fused->gate_up ? 0 : COST_SINGLE_GATE_UP) |
                              (fused->permute ? 0 : COST_SINGLE_PERMUTE) |
                              (scaling == SCENARIO_SCALING_CURRENT ? COST_SINGLE_AMAX : 0));
}

/** Return the host's time of launches. A graph of a layer has one launch and a time for each kernel. */
static struct cost_host host_of(const struct scenario *scenario)
{
    const struct scenario_host *host = &scenario->host;
    if (scenario->cuda_graphs == SCENARIO_GRAPH_FULL)
        return (struct cost_host){0};
    struct cost_launch kernel = {host->launch_s, scenario->cuda_launch_blocking ? host->launch_s : 0};
    if (scenario->cuda_graphs == SCENARIO_GRAPH_NONE)
        return (struct cost_host){kernel, kernel, 0};
    return (struct cost_host){kernel, {host->graph_kernel_s, 0}, host->graph_s};
}

struct cost_setting request_setting(const struct scenario *scenario, const struct scenario_plan *plan)
{
    struct cost_setting setting = {
        .model = &scenario->model,
        .device = &scenario->device,
        .platform = &scenario->platform,
        .tp_overlap = scenario->communication.tp_overlap,
        .cp_overlap = scenario->communication.cp_overlap,
        .pp_overlap = scenario->communication.pp_overlap,
        .dp_overlap = scenario->communication.dp_overlap,
        .attention = (enum device_attention)scenario->attention,
        .kernels = (enum scenario_kernels)scenario->kernels,
        .loss = (enum scenario_loss)scenario->loss,
        .swiglu = (enum scenario_swiglu)scenario->swiglu,
        .whole_logits = scenario->logits == SCENARIO_LOGITS_GATHERED,
        .precision = (enum precision)scenario->precision,
        .fp8_params = scenario->fp8_params && scenario->precision != PRECISION_BF16,
        .expert_gemms = scenario->expert_gemms,
        .dispatcher = scenario->communication.dispatcher,
        .ep_overlap = scenario->communication.ep_overlap,
        .fp8_dispatch = scenario->communication.fp8_dispatch,
        .single = single_of(&scenario->fused, scenario->fp8_scaling),
        .gradient_accumulation = (enum scenario_accumulation)scenario->gradient_accumulation,
        .host = host_of(scenario),
        .expert_imbalance = scenario->expert_imbalance,
        .on_demand_slowdown =
            plan->shard_communication == SCENARIO_ON_DEMAND ? scenario->communication.on_demand_slowdown : 0,
    };
    cost_take_plan(&setting, plan);
    int32_t layers = 0;
    for (int32_t stage = 0; stage < plan->pp * plan->vpp && layers == 0; stage++) /* the first one with layers */
        layers =
            scenario_stage_layers(&plan->stages, scenario->model.layers, (int32_t)plan->pp, (int32_t)plan->vpp, stage);
    cost_hold_layers(&setting, 0, layers);
    return setting;
}

struct plan_request plan_request_of(const struct scenario *scenario, const struct cost_setting *setting,
                                    const struct scenario_plan *layout, const struct batch *batch, const void *knobs,
                                    int64_t iteration)
{
    return (struct plan_request){
        .batch = batch,
        .setting = setting,
        .layout = *layout,
        .context = scenario->data.context,
        .memory_bytes = request_planned_bytes(scenario, layout),
        .iteration = iteration,
        .seed = scenario->seed,
        .knobs = knobs,
    };
}

bool request_check_windows(const struct plan_request *request, const char *system, struct error *err)
{
    const struct model *model = request->setting->model;
    if (request->layout.dp == 1 || !scenario_is_ring(request->layout.cp_type) || !model_has_windows(model))
        return true;
    return error_set(err,
                     "%s: plan.cp_type: a ring does not run the sliding windows of model %s; allowed: all-gather, "
                     "ulysses",
                     system, model->name);
}

bool request_streams(const struct plan_request *request)
{
    return request->layout.pp * request->layout.vpp == 1;
}

double request_offload_share(const struct plan_request *request, double offload)
{
    double layers = (double)request->setting->model->layers;
    return request_streams(request) ? offload * fmax(0, layers - 2) / layers : offload;
}

void request_offload(const struct plan_request *request, struct plan_micro_batch *micro_batch)
{
    micro_batch->offload = request_offload_share(request, request->layout.offload);
    micro_batch->streams = request_streams(request);
}

struct plan_layout request_pipeline_layout(const struct plan_request *request, int32_t pipeline)
{
    int32_t ranks = (int32_t)(request->layout.tp * request->layout.cp);
    return (struct plan_layout){
        .tensor = (int32_t)request->layout.tp,
        .context = (int32_t)request->layout.cp,
        .stages = (int32_t)request->layout.pp,
        .chunks = (int32_t)request->layout.vpp,
        .first_rank = pipeline * ranks,
        .stage_stride = (int32_t)request->layout.dp * ranks,
    };
}

void request_megatron_layout(const struct plan_request *request, struct plan_phase *phase)
{
    phase->n_pipelines = (int32_t)request->layout.dp;
    phase->pipelines = check_calloc((size_t)phase->n_pipelines, sizeof *phase->pipelines);
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        phase->pipelines[i].layout = request_pipeline_layout(request, i);
}
