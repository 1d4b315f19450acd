/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/setting.h"

#include <string.h>

#include "base/check.h"

void cost_take_plan(struct cost_setting *setting, const struct scenario_plan *plan)
{
    setting->split = plan->stages;
    setting->ranks = plan->dp * plan->cp;
    setting->expert_ranks = (int32_t)scenario_expert_ranks(plan);
    setting->expert_tensor = (int32_t)plan->etp;
    setting->capacity_factor = plan->capacity_factor;
    setting->padded_capacity = plan->pad_to_capacity ? plan->capacity_factor : 0;
    setting->shard_group = plan->shard_group;
    setting->fsdp = (int32_t)plan->fsdp;
    setting->cp_type = plan->cp_type;
    setting->sharding = plan->sharding;
    setting->fsdp_prefetch = plan->fsdp_prefetch;
    setting->fsdp_ends = plan->fsdp_ends;
    setting->gradients = plan->gradients;
    setting->gradient_reduction = plan->gradient_reduction;
    setting->reduce_precision = plan->reduce_precision;
    setting->gradient_buffers = plan->gradient_buffers;
    setting->reduce_bucket = (int32_t)plan->reduce_bucket;
    setting->gradient_copy = plan->gradient_copy;
    setting->optimizer = plan->optimizer;
    int32_t reshard = plan->reshard_after_forward;
    setting->staged = plan->sharding == SCENARIO_ZERO3 && plan->pp > 1;
    setting->keeps_gathered =
        plan->sharding == SCENARIO_ZERO3 &&
        (reshard == SCENARIO_RESHARD_NEVER || (reshard == SCENARIO_RESHARD_DEFAULT && plan->pp > 1));
    setting->main_params = plan->main_params;
    setting->moments = plan->moments;
    setting->optimizer_offload = plan->optimizer_offload;
    setting->sequence_parallel = plan->sequence_parallel;
    setting->kv_copies = plan->kv_copies;
    setting->early_stop = plan->early_stop;
    setting->tensor = (int32_t)plan->tp;
    setting->recompute_layers = (int32_t)(plan->recompute_layers / plan->vpp);
}

/** Return the run of a kind. If there is none yet, append it. */
static struct cost_run *run_of(struct cost_setting *setting, int32_t kind)
{
    int32_t i = 0;
    while (i < setting->n_runs && setting->runs[i].kind != kind)
        i++;
    CHECK(i < MODEL_MAX_KINDS);
    if (i == setting->n_runs)
        setting->runs[setting->n_runs++] = (struct cost_run){.kind = kind};
    return &setting->runs[i];
}

void cost_add_layers(struct cost_setting *setting, int64_t first, int32_t n)
{
    const struct model *model = setting->model;
    int32_t again = setting->recompute_layers > 0 && setting->recompute_layers < n ? setting->recompute_layers : n;
    CHECK(n >= 0);
    if (model_is_uniform(model) || n == 0) {         /* all layers are alike, or none of a kind is held */
        bool there = n > 0 || first < model->layers; /* an empty last stage is behind all layers */
        struct cost_run *run = run_of(setting, there ? model_kind_of(model, first) : 0);
        run->n += n;
        run->again += again;
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        struct cost_run *run = run_of(setting, model_kind_of(model, first + i));
        run->n++;
        run->again += i < again;
    }
}

void cost_clear_layers(struct cost_setting *setting)
{
    for (int32_t i = 0; i < MODEL_MAX_KINDS; i++)
        setting->runs[i] = (struct cost_run){0};
    setting->n_runs = 0;
}

void cost_hold_layers(struct cost_setting *setting, int64_t first, int32_t n)
{
    cost_clear_layers(setting);
    cost_add_layers(setting, first, n);
}

bool cost_same_layers(const struct cost_setting *a, const struct cost_setting *b)
{
    return a->n_runs == b->n_runs && memcmp(a->runs, b->runs, sizeof a->runs) == 0;
}

int32_t cost_first_same_layers(const struct cost_setting *settings, int32_t i)
{
    int32_t first = 0;
    while (!cost_same_layers(&settings[first], &settings[i]))
        first++;
    return first;
}

int32_t cost_n_layers(const struct cost_setting *setting)
{
    int32_t n = 0;
    for (int32_t i = 0; i < setting->n_runs; i++)
        n += setting->runs[i].n;
    return n;
}

bool cost_has_gemms_in(const struct cost_setting *setting, bool fp8)
{
    bool has = false;
    for (int32_t i = 0; i < setting->n_runs; i++)
        has = has || (cost_kind_precision(setting, setting->runs[i].kind) != PRECISION_BF16) == fp8;
    return has;
}

const struct cost_setting *cost_of_one_run(const struct cost_setting *setting, int32_t run, struct cost_setting *room)
{
    if (setting->n_runs <= 1)
        return setting;
    *room = *setting;
    for (int32_t i = 0; i < MODEL_MAX_KINDS; i++)
        room->runs[i] = (struct cost_run){0};
    room->n_runs = 1;
    room->runs[0] = setting->runs[run];
    return room;
}

struct cost_setting cost_setting_again(const struct cost_setting *setting)
{
    struct cost_setting again = *setting;
    for (int32_t i = 0; i < setting->n_runs; i++)
        again.runs[i].n = setting->runs[i].again;
    return again;
}
