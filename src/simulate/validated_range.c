/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/validated_range.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "document/schema.h"
#include "trace/table.h"

#define FIELD(field) offsetof(struct validated_range, field)
#define LARGEST(name, unit, meaning)                                                                                   \
    {                                                                                                                  \
#name, SCHEMA_INT, unit, 1, INT32_MAX, NULL, NULL, meaning, FIELD(name)                                        \
    }

static const struct schema_key keys[] = {
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "source of the range", FIELD(source)},
    {"devices", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "devices of the runs, separated by blanks", FIELD(devices)},
    {"frameworks", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "frameworks of the runs", FIELD(frameworks)},
    {"systems", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "training systems of the runs", FIELD(systems)},
    {"varying_lengths", SCHEMA_TEXT, "-", 0, 0, NULL, NULL,
     "shardings of the runs whose lengths vary, separated by blanks", FIELD(varying_lengths)},
    {"windows", SCHEMA_BOOL, "-", 0, 0, "false", NULL, "whether a model of any run has sliding windows",
     FIELD(windows)},
    LARGEST(gpus, "GPUs", "most GPUs of a run"),
    LARGEST(tp, "GPUs", "largest tensor-parallel degree"),
    LARGEST(pp, "stages", "largest number of pipeline stages"),
    LARGEST(vpp, "chunks", "largest number of virtual stages of a rank"),
    LARGEST(cp, "GPUs", "largest context-parallel degree"),
    LARGEST(context, "tokens", "longest sequence"),
};

bool validated_range_read(const char *data_dir, struct validated_range *range, struct error *err)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/model/validated_range.yaml", data_dir);
    *range = (struct validated_range){0};
    return schema_read_file(path, keys, sizeof keys / sizeof *keys, NULL, range, err);
}

static bool varies(const struct scenario *scenario)
{
    return strcmp(scenario->data.lengths, "fixed") != 0;
}

bool validated_range_varies(const struct validated_range *range, const struct scenario *scenario, int32_t sharding)
{
    return varies(scenario) && text_has_word(range->varying_lengths, trace_sharding_names.text[sharding]);
}

/** The items so far. */
struct items {
    int32_t n;
    char (*at)[OUTSIDE_SIZE];
};

static void add(struct items *items, const char *name)
{
    for (int32_t i = 0; i < items->n; i++)
        if (strcmp(items->at[i], name) == 0)
            return;
    if (items->n < OUTSIDE_MOST)
        snprintf(items->at[items->n++], OUTSIDE_SIZE, "%.90s", name);
}

static void add_number(struct items *items, const char *name, int64_t value, int64_t most)
{
    char text[OUTSIDE_SIZE], number[TEXT_NUMBER_SIZE], limit[TEXT_NUMBER_SIZE];
    text_number((double)value, 0, number);
    text_number((double)most, 0, limit);
    snprintf(text, sizeof text, "%s %.30s (measured to %.30s)", name, number, limit);
    if (value > most)
        add(items, text);
}

static void add_name(struct items *items, const char *what, const char *names, const char *name)
{
    char text[OUTSIDE_SIZE];
    snprintf(text, sizeof text, "%s %.64s", what, name);
    if (!text_has_word(names, name))
        add(items, text);
}

/** Add options of plans that no measured run has. */
static void add_options(const struct point *point, struct items *items)
{
    bool staged = false, narrow = false, host = false, on_demand = false;
    for (int32_t i = 0; i < point->n_systems; i++) {
        const struct scenario_plan *plan = &point->systems[i].entry->plan;
        staged = staged || (plan->pp > 1 && plan->sharding == SCENARIO_ZERO3);
        narrow = narrow || plan->main_params != SCENARIO_MAIN_FP32 || plan->moments != SCENARIO_FP32;
        host = host || plan->optimizer_offload > 0;
        on_demand = on_demand || plan->shard_communication == SCENARIO_ON_DEMAND;
    }
    if (staged)
        add(items, "FSDP with pipeline stages");
    if (narrow)
        add(items, "Adam below fp32");
    if (host)
        add(items, "an optimizer on the host");
    if (on_demand)
        add(items, "shards on demand");
}

/** Add the largest degrees of all systems, the systems, and what their plans have. */
static void add_systems(const struct validated_range *range, const struct point *point, struct items *items)
{
    int64_t tp = 0, pp = 0, vpp = 0, cp = 0;
    for (int32_t i = 0; i < point->n_systems; i++) {
        const struct scenario_plan *plan = &point->systems[i].entry->plan;
        tp = plan->tp > tp ? plan->tp : tp;
        pp = plan->pp > pp ? plan->pp : pp;
        vpp = plan->vpp > vpp ? plan->vpp : vpp;
        cp = plan->cp > cp ? plan->cp : cp;
    }
    add_number(items, "tp", tp, range->tp);
    add_number(items, "pp", pp, range->pp);
    add_number(items, "vpp", vpp, range->vpp);
    add_number(items, "cp", cp, range->cp);
    for (int32_t i = 0; i < point->n_systems; i++)
        add_name(items, "system", range->systems, point->systems[i].system->name);
    add_options(point, items);
}

int32_t validated_range_outside(const struct validated_range *range, const struct scenario *scenario,
                                const struct point *point, char items[OUTSIDE_MOST][OUTSIDE_SIZE])
{
    struct items list = {.at = items};
    if (scenario->replay.n_steps > 0)
        add(&list, "replayed passes");
    bool outside = varies(scenario) && point->n_systems == 0;
    for (int32_t i = 0; varies(scenario) && i < point->n_systems; i++)
        outside = outside || !validated_range_varies(range, scenario, point->systems[i].entry->plan.sharding);
    if (outside)
        add(&list, "varying lengths");
    if (model_has_experts(&scenario->model))
        add(&list, "experts");
    if (model_has_latent_attention(&scenario->model))
        add(&list, "latent attention");
    if (scenario->model.mtp_layers > 0)
        add(&list, "MTP");
    if (!range->windows && model_has_windows(&scenario->model))
        add(&list, "sliding windows");
    add_name(&list, "device", range->devices, scenario->device.name);
    add_name(&list, "framework", range->frameworks, scenario->framework_name);
    add_number(&list, "context", scenario->data.context, range->context);
    add_number(&list, "GPUs", platform_n_gpus(&scenario->platform), range->gpus);
    add_systems(range, point, &list);
    if (!platform_has_nvlink(&scenario->platform))
        add(&list, "nodes without NVLink");
    if (platform_gpus_per_nic(&scenario->platform) > 1)
        add(&list, "NICs that GPUs share");
    if (platform_nodes_per_domain(&scenario->platform) > 1)
        add(&list, "NVLink over several nodes");
    return list.n;
}

int32_t validated_range_respects(const struct validated_range *range, const struct scenario *scenario, int64_t cp,
                                 int32_t sharding, const char *names[RANGE_N_RESPECTS])
{
    const struct {
        const char *name;
        bool outside;
    } respects[RANGE_N_RESPECTS] = {
        {"experts", model_has_experts(&scenario->model)},
        {"varying lengths", varies(scenario) && !validated_range_varies(range, scenario, sharding)},
        {"device", !text_has_word(range->devices, scenario->device.name)},
        {"framework", !text_has_word(range->frameworks, scenario->framework_name)},
        {"context", scenario->data.context > range->context},
        {"cp", cp > range->cp},
    };
    int32_t n = 0;
    for (int i = 0; i < RANGE_N_RESPECTS; i++)
        if (respects[i].outside)
            names[n++] = respects[i].name;
    return n;
}
