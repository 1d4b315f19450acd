/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/system.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/nearest.h"

#define SYSTEM(name) extern const struct training_system system_##name;
#include "system/systems.def"
#undef SYSTEM

#define SYSTEM(name) &system_##name,
const struct training_system *const training_systems[] = {
#include "system/systems.def"
    NULL};
#undef SYSTEM

enum { SYSTEM_N = sizeof training_systems / sizeof *training_systems - 1 };

const struct training_system *system_find(const char *name, struct error *err)
{
    const char *names[SYSTEM_N];
    char hint[NEAREST_HINT_BYTES];
    for (int32_t i = 0; i < SYSTEM_N; i++) {
        names[i] = training_systems[i]->name;
        if (strcmp(name, names[i]) == 0)
            return training_systems[i];
    }
    nearest_hint(name, names, SYSTEM_N, hint);
    error_set(err, "there is no training system '%s'; %s`slimsim list systems` names them", name, hint);
    return NULL;
}

bool system_read_knobs(const struct training_system *system, const struct scenario *scenario,
                       const struct scenario_system *entry, void *knobs, struct error *err)
{
    return schema_read(&scenario->document, entry->knobs, system->knobs, system->n_knobs, NULL, knobs, err);
}

static bool check_entry(const struct scenario *scenario, const struct scenario_system *entry, struct error *err)
{
    const struct document *document = &scenario->document;
    struct error unknown = {0};
    const struct training_system *system = system_find(entry->name, &unknown);
    if (system == NULL)
        return document_error(document, document_find(document, entry->node, "name"), err, "name: %s", unknown.text);
    void *knobs = check_calloc(1, system->knobs_size);
    bool ok = system_read_knobs(system, scenario, entry, knobs, err);
    free(knobs);
    if (entry->auto_plan)
        return ok;
    if (!system->uses_schedules && entry->plan.vpp != 1)
        ok = document_error(document, document_find(document, entry->node, "plan.vpp"), err,
                            "plan.vpp: %" PRId64 ", but %s takes only 1: it has no interleaved order", entry->plan.vpp,
                            system->name);
    if (!system->uses_schedules && entry->plan.schedule != SCENARIO_ONE_F_ONE_B)
        ok = document_error(document, document_find(document, entry->node, "plan.schedule"), err,
                            "plan.schedule: %s has an order of its own; leave the key out", system->name);
    if (system->whole_model && (entry->plan.tp > 1 || entry->plan.pp > 1))
        ok = document_error(document, document_find(document, entry->node, entry->plan.tp > 1 ? "plan.tp" : "plan.pp"),
                            err, "plan.%s: above 1, but %s takes only 1: each rank runs the whole model",
                            entry->plan.tp > 1 ? "tp" : "pp", system->name);
    if (system->uses_context || entry->plan.cp == 1)
        return ok;
    return document_error(document, document_find(document, entry->node, "plan.cp"), err,
                          "plan.cp: %" PRId64 ", but %s takes only 1: it gives each sample a context degree itself",
                          entry->plan.cp, system->name);
}

bool system_check_entries(const struct scenario *scenario, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; i < scenario->n_systems; i++)
        ok &= check_entry(scenario, &scenario->systems[i], err);
    return ok;
}

double system_memory_bytes(const struct device *device)
{
    return device->memory_bytes - device->context_bytes;
}

struct cost_setting system_setting(const struct scenario *scenario, const struct scenario_plan *layout)
{
    return (struct cost_setting){
        .model = &scenario->model,
        .device = &scenario->device,
        .platform = &scenario->platform,
        .communication = scenario->communication,
        .attention = (enum device_attention)scenario->attention,
        .kernels = (enum scenario_kernels)scenario->kernels,
        .loss = (enum scenario_loss)scenario->loss,
        .tensor = (int32_t)layout->tp,
        .sequence_parallel = layout->sequence_parallel,
        .layers = scenario_stage_layers(&layout->stages, scenario->model.layers, (int32_t)layout->pp,
                                        (int32_t)layout->vpp, 0),
        .split = layout->stages,
        .recompute_layers = (int32_t)(layout->recompute_layers / layout->vpp),
        .early_stop = layout->early_stop,
        .frees_gradients = layout->gradient_buffers == SCENARIO_GRADIENTS_FREED,
        .context_type = (enum scenario_context)layout->cp_type,
        .gradients = (enum scenario_gradients)layout->gradients,
        .optimizer = (enum scenario_kernels)layout->optimizer,
        .sharding = (enum scenario_sharding)layout->sharding,
        .fsdp = (int32_t)layout->fsdp,
        .fsdp_ends = (enum scenario_ends)layout->fsdp_ends,
        .fsdp_prefetch = (enum scenario_prefetch)layout->fsdp_prefetch,
        .shards = scenario_plan_shards(layout),
        .shard_groups = (int32_t)(layout->dp * layout->cp / scenario_plan_shards(layout)),
    };
}

enum system_misfit system_misfit_of(const struct scenario *scenario, double peak_bytes, double host_bytes)
{
    if (peak_bytes > system_memory_bytes(&scenario->device))
        return SYSTEM_GPU_MEMORY;
    return host_bytes > scenario->platform.host_memory_bytes ? SYSTEM_HOST_MEMORY : SYSTEM_FITS;
}

/* Six parameters: what a plan depends on. */
struct system_request system_request_of(const struct scenario *scenario, const struct cost_setting *setting,
                                        const struct scenario_plan *layout, const struct batch *batch,
                                        const void *knobs, int64_t iteration)
{
    return (struct system_request){
        .batch = batch,
        .setting = setting,
        .layout = *layout,
        .context = scenario->data.context,
        .memory_bytes = system_memory_bytes(&scenario->device),
        .iteration = iteration,
        .seed = scenario->seed,
        .knobs = knobs,
    };
}

bool system_streams(const struct system_request *request)
{
    return request->layout.pp * request->layout.vpp == 1;
}

double system_offload_share(const struct system_request *request, double offload)
{
    double layers = (double)request->setting->model->layers;
    return system_streams(request) ? offload * fmax(0, layers - 2) / layers : offload;
}

void system_offload(const struct system_request *request, struct plan_unit *unit)
{
    unit->offload = system_offload_share(request, request->layout.offload);
    unit->streams = system_streams(request);
}

struct plan_layout system_pipeline_layout(const struct system_request *request, int32_t pipeline)
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

void system_megatron_layout(const struct system_request *request, struct plan_phase *phase)
{
    phase->n_pipelines = (int32_t)request->layout.dp;
    phase->pipelines = check_calloc((size_t)phase->n_pipelines, sizeof *phase->pipelines);
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        phase->pipelines[i].layout = system_pipeline_layout(request, i);
}
