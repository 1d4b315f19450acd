/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/validated_range.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "document/schema.h"
#include "document/schema_text.h"
#include "trace/table.h"

#define FIELD(field) offsetof(struct validated_range, field)
#define LARGEST(key, unit, meaning, of, name)                                                                          \
    {                                                                                                                  \
        key, SCHEMA_INT, unit, 1, INT32_MAX, NULL, NULL, meaning, FIELD(of.name)                                       \
    }
/* Keys of one struct measured_limits. */
#define LIMITS(prefix, of)                                                                                             \
    {prefix "devices", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "devices of the runs, separated by blanks",                 \
     FIELD(of.devices)},                                                                                               \
        {prefix "frameworks", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "frameworks of the runs", FIELD(of.frameworks)},     \
        {prefix "systems", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "training systems of the runs", FIELD(of.systems)},     \
        {prefix "windows", SCHEMA_BOOL, "-", 0, 0, "false", NULL, "whether a model of any run has sliding windows",    \
         FIELD(of.windows)},                                                                                           \
        LARGEST(prefix "gpus", "GPUs", "most GPUs of a run", of, gpus),                                                \
        LARGEST(prefix "tp", "GPUs", "largest tensor-parallel degree", of, tp),                                        \
        LARGEST(prefix "pp", "stages", "largest number of pipeline stages", of, pp),                                   \
        LARGEST(prefix "vpp", "chunks", "largest number of virtual stages of a rank", of, vpp),                        \
        LARGEST(prefix "cp", "GPUs", "largest context-parallel degree", of, cp),                                       \
        LARGEST(prefix "context", "tokens", "longest sequence", of, context),                                          \
    {                                                                                                                  \
        prefix "nvlink_domain", SCHEMA_INT, "GPUs", 0, INT32_MAX, "0", NULL,                                           \
            "GPUs of the largest rack with NVLink over several nodes; 0: none", FIELD(of.nvlink_domain)                \
    }

#define EXPERTS(name, of)                                                                                              \
    LIMITS(name ".", of), LARGEST(name ".experts", "experts", "most experts of a layer", of, experts),                 \
        LARGEST(name ".top_k", "experts", "most experts that compute a token", of, top_k),                             \
        LARGEST(name ".ep", "GPUs", "largest expert-parallel degree", of, ep)

static const struct schema_key keys[] = {
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "source of the range", FIELD(source)},
    {"varying_lengths", SCHEMA_TEXT, "-", 0, 0, NULL, NULL,
     "shardings of the runs whose lengths vary, separated by blanks", FIELD(varying_lengths)},
    LIMITS("", dense),
    LIMITS("fp8.", fp8),
    {"fp8.precisions", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "precisions of the runs", FIELD(fp8.precisions)},
    EXPERTS("experts", experts),
    EXPERTS("experts_fp8", experts_fp8),
    {"experts_fp8.precisions", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "precisions of the runs",
     FIELD(experts_fp8.precisions)},
    LIMITS("blackwell.", blackwell),
    {"blackwell.precisions", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "precisions of the runs", FIELD(blackwell.precisions)},
    EXPERTS("experts_blackwell", experts_blackwell),
    {"experts_blackwell.precisions", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "precisions of the runs",
     FIELD(experts_blackwell.precisions)},
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
    return varies(scenario) && !model_has_experts(&scenario->model) &&
           text_has_word(range->varying_lengths, trace_sharding_names.text[sharding]);
}

/** Return the limits of the runs that a scenario is compared with. */
static const struct measured_limits *limits_of(const struct validated_range *range, const struct scenario *scenario)
{
    bool fp8 = scenario->precision != PRECISION_BF16, experts = model_has_experts(&scenario->model);
    if (device_is_blackwell(&scenario->device))
        return experts ? &range->experts_blackwell : &range->blackwell;
    return experts ? (fp8 ? &range->experts_fp8 : &range->experts) : fp8 ? &range->fp8 : &range->dense;
}

/** Return whether runs of a scenario's precision were measured. In fp8 they have lengths that are all alike, and
 * send tokens to experts in bf16. */
static bool has_precision(const struct validated_range *range, const struct scenario *scenario)
{
    char name[SCHEMA_WORD_BYTES];
    schema_choice_name(PRECISION_NAMES, scenario->precision, name);
    bool sends_fp8 = scenario->communication.fp8_dispatch && model_has_experts(&scenario->model);
    return scenario->precision == PRECISION_BF16 ||
           (!varies(scenario) && !sends_fp8 && text_has_word(limits_of(range, scenario)->precisions, name));
}

/** Return whether runs on a scenario's device were measured. In fp8 or with experts the same chip with other memory
 * counts, if dense runs were measured on it. */
static bool has_device(const struct validated_range *range, const struct scenario *scenario)
{
    const struct device *device = &scenario->device;
    const struct measured_limits *limits = limits_of(range, scenario);
    return text_has_word(limits->devices, device->name) ||
           (limits != &range->dense && device->own_curves && text_has_word(limits->devices, device->curves_of) &&
            text_has_word(range->dense.devices, device->name));
}

/** Return whether a system's runs on this device were not measured. None on Blackwell had varying lengths. */
static bool device_is_outside(const struct validated_range *range, const struct scenario *scenario, int32_t sharding)
{
    return !has_device(range, scenario) ||
           (device_is_blackwell(&scenario->device) && validated_range_varies(range, scenario, sharding));
}

/** Find the most experts of a layer of a model, and the most that compute a token. */
static void find_experts(const struct model *model, int64_t *experts, int64_t *top_k)
{
    *experts = *top_k = 0;
    for (int32_t kind = 0; kind < MODEL_NAMED_KINDS; kind++) {
        if (!model_has_kind(model, kind))
            continue;
        *experts = model->kinds[kind].experts > *experts ? model->kinds[kind].experts : *experts;
        *top_k = model->kinds[kind].top_k > *top_k ? model->kinds[kind].top_k : *top_k;
    }
}

static bool has_shared_experts(const struct model *model)
{
    bool shared = false;
    for (int32_t kind = 0; kind < MODEL_NAMED_KINDS; kind++)
        shared = shared || (model_has_kind(model, kind) && model->kinds[kind].shared_ffn > 0);
    return shared;
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

static void add_name(struct items *items, const char *what, bool measured, const char *name)
{
    char text[OUTSIDE_SIZE];
    snprintf(text, sizeof text, "%s %.64s", what, name);
    if (!measured)
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

/** Add what no measured run with experts has. */
static void add_experts(const struct measured_limits *limits, const struct scenario *scenario,
                        const struct point *point, struct items *items)
{
    int64_t experts, top_k, ep = 0;
    bool sharded = false;
    if (!model_has_experts(&scenario->model))
        return;
    find_experts(&scenario->model, &experts, &top_k);
    for (int32_t i = 0; i < point->n_systems; i++) {
        const struct scenario_plan *plan = &point->systems[i].entry->plan;
        ep = plan->ep > ep ? plan->ep : ep;
        sharded = sharded || plan->sharding == SCENARIO_ZERO3;
    }
    add_number(items, "experts", experts, limits->experts);
    add_number(items, "top_k", top_k, limits->top_k);
    add_number(items, "ep", ep, limits->ep);
    if (has_shared_experts(&scenario->model))
        add(items, "shared experts");
    if (sharded)
        add(items, "FSDP with experts");
}

/** Add the largest degrees of all systems, the systems, and what their plans have. */
static void add_systems(const struct measured_limits *range, const struct point *point, struct items *items)
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
        add_name(items, "system", text_has_word(range->systems, point->systems[i].system->name),
                 point->systems[i].system->name);
    add_options(point, items);
}

int32_t validated_range_outside(const struct validated_range *range, const struct scenario *scenario,
                                const struct point *point, char items[OUTSIDE_MOST][OUTSIDE_SIZE])
{
    const struct measured_limits *limits = limits_of(range, scenario);
    struct items list = {.at = items};
    if (scenario->replay.n_steps > 0)
        add(&list, "replayed passes");
    bool outside = varies(scenario) && point->n_systems == 0, other_device = !has_device(range, scenario);
    for (int32_t i = 0; varies(scenario) && i < point->n_systems; i++) {
        int32_t sharding = point->systems[i].entry->plan.sharding;
        outside = outside || !validated_range_varies(range, scenario, sharding);
        other_device = other_device || device_is_outside(range, scenario, sharding);
    }
    if (outside)
        add(&list, "varying lengths");
    add_experts(limits, scenario, point, &list);
    if (!has_precision(range, scenario))
        add(&list, "precision");
    if (model_has_latent_attention(&scenario->model))
        add(&list, "latent attention");
    if (scenario->model.mtp_layers > 0)
        add(&list, "MTP");
    if (!limits->windows && model_has_windows(&scenario->model))
        add(&list, "sliding windows");
    if (scenario_casts_are_eager(scenario) && scenario->precision != PRECISION_BF16)
        add(&list, "casts without torch.compile");
    add_name(&list, "device", !other_device, scenario->device.name);
    add_name(&list, "framework", text_has_word(limits->frameworks, scenario->framework_name), scenario->framework_name);
    add_number(&list, "context", scenario->data.context, limits->context);
    add_number(&list, "GPUs", platform_n_gpus(&scenario->platform), limits->gpus);
    add_systems(limits, point, &list);
    if (!platform_has_nvlink(&scenario->platform))
        add(&list, "nodes without NVLink");
    if (platform_gpus_per_nic(&scenario->platform) > 1)
        add(&list, "NICs that GPUs share");
    if (platform_nodes_per_domain(&scenario->platform) > 1 &&
        platform_nvlink_domain(&scenario->platform) > limits->nvlink_domain)
        add(&list, "NVLink over several nodes");
    return list.n;
}

int32_t validated_range_respects(const struct validated_range *range, const struct scenario *scenario, int64_t cp,
                                 int32_t sharding, const char *names[RANGE_N_RESPECTS])
{
    const struct measured_limits *limits = limits_of(range, scenario);
    const struct model *model = &scenario->model;
    bool with_experts = model_has_experts(model);
    int64_t experts, top_k;
    find_experts(model, &experts, &top_k);
    const struct {
        const char *name;
        bool outside;
    } respects[RANGE_N_RESPECTS] = {
        {"experts", with_experts && (experts > limits->experts || top_k > limits->top_k)},
        {"latent attention", with_experts && model_has_latent_attention(model)},
        {"MTP", with_experts && model->mtp_layers > 0},
        {"varying lengths", varies(scenario) && !validated_range_varies(range, scenario, sharding)},
        {"device", device_is_outside(range, scenario, sharding)},
        {"framework", !text_has_word(limits->frameworks, scenario->framework_name)},
        {"context", scenario->data.context > limits->context},
        {"cp", cp > limits->cp},
        {"precision", !has_precision(range, scenario)},
    };
    int32_t n = 0;
    for (int i = 0; i < RANGE_N_RESPECTS; i++)
        if (respects[i].outside)
            names[n++] = respects[i].name;
    return n;
}
