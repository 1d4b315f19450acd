/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/dag.h"

#include <stdlib.h>

#include "base/check.h"
#include "dag/builder.h"

struct cost_setting dag_setting(const struct cost_setting *setting, const struct plan_layout *layout)
{
    struct cost_setting own = *setting;
    own.tensor = layout->tensor;
    int32_t n_virtual = layout->stages * layout->chunks, layers = (int32_t)setting->model->layers;
    CHECK(layers % n_virtual == 0);
    own.layers = layers / n_virtual;
    return own;
}

static struct cost_unit cost_unit_of(const struct plan_pipeline *pipeline, enum pass pass, int32_t unit)
{
    const struct plan_unit *part = &pipeline->cut[pass].units[unit];
    return (struct cost_unit){.slices = pipeline->cut[pass].slices + part->first_slice,
                              .n_slices = part->n_slices,
                              .padding_tokens = part->padding_tokens,
                              .context = part->context,
                              .recompute = part->recompute};
}

void builder_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                  int32_t unit, struct cost_pass cost[2])
{
    struct cost_setting own = dag_setting(setting, &pipeline->layout);
    struct cost_unit work = cost_unit_of(pipeline, pass, unit);
    struct cost_pass head = cost_of_head(&own, pass, &work);
    cost[0] = cost[1] = cost_of_pass(&own, pass, &work);
    cost[1].flop += head.flop;
    cost[1].other_s += head.other_s;
    cost[1].attention_s += head.attention_s;
    cost[1].tensor_s += head.tensor_s;
    cost[1].tensor_bytes += head.tensor_bytes;
    cost[1].shard_s += head.shard_s;
    cost[1].shard_bytes += head.shard_bytes;
    for (int i = 0; i < COST_N_FAMILIES; i++)
        cost[1].outside_s[i] += head.outside_s[i];
}

struct cost_pass dag_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                               int32_t unit, int32_t stage)
{
    struct cost_pass cost[2];
    builder_cost(pipeline, setting, pass, unit, cost);
    return cost[stage == pipeline->layout.stages * pipeline->layout.chunks - 1];
}

double dag_token_bytes(const struct plan_pipeline *pipeline, const struct cost_setting *setting, int32_t unit)
{
    const struct plan_unit *part = &pipeline->cut[PASS_FORWARD].units[unit];
    struct cost_setting own = dag_setting(setting, &pipeline->layout);
    return cost_layers_activation_bytes(&own, part->recompute, false) / part->context;
}

double dag_offload_bytes(const struct plan_pipeline *pipeline, const struct cost_setting *setting, int32_t unit,
                         int64_t tokens)
{
    const struct plan_unit *part = &pipeline->cut[PASS_FORWARD].units[unit];
    if (part->offload <= 0)
        return 0.0;
    struct cost_setting own = dag_setting(setting, &pipeline->layout);
    int32_t keep = own.layers; /* layers whose activations hold keys and values */
    if (part->recompute == RECOMPUTE_FULL)
        keep = own.recompute_layers > 0 ? own.layers - own.recompute_layers : 0;
    double kept = keep * cost_kv_bytes(own.model, own.tensor);
    double token_bytes = dag_token_bytes(pipeline, setting, unit) - kept / part->context;
    return part->offload * (double)tokens * token_bytes;
}

static int32_t n_tensor(const struct plan_layout *layout, struct dag_options options)
{
    return options.all_tensor_ranks ? layout->tensor : 1;
}

static void add_places(struct dag *dag, const struct plan *plan, int32_t phase, struct dag_options options)
{
    for (int32_t pipeline = 0; pipeline < plan->phases[phase].n_pipelines; pipeline++) {
        const struct plan_layout *layout = &plan->phases[phase].pipelines[pipeline].layout;
        for (int32_t stage = 0; stage < layout->stages; stage++)
            for (int32_t rank = 0; rank < layout->context * n_tensor(layout, options); rank++) {
                int32_t context = rank / n_tensor(layout, options), tensor = rank % n_tensor(layout, options);
                dag->places[dag->n_places++] = (struct dag_place){.phase = (int16_t)phase,
                                                                  .stage = (int16_t)stage,
                                                                  .pipeline = pipeline,
                                                                  .context = context,
                                                                  .tensor = tensor,
                                                                  .rank = plan_rank(layout, stage, context, tensor)};
            }
    }
}

static void make_places(struct dag *dag, const struct plan *plan, struct dag_options options)
{
    size_t n = 0;
    for (int32_t phase = 0; phase < plan->n_phases; phase++)
        for (int32_t pipeline = 0; pipeline < plan->phases[phase].n_pipelines; pipeline++) {
            const struct plan_layout *layout = &plan->phases[phase].pipelines[pipeline].layout;
            n += (size_t)layout->stages * (size_t)layout->context * (size_t)n_tensor(layout, options);
        }
    CHECK(n > 0 && n < INT32_MAX / DAG_N_STREAMS);
    dag->places = check_malloc(n * sizeof *dag->places);
    for (int32_t phase = 0; phase < plan->n_phases; phase++)
        add_places(dag, plan, phase, options);
}

static void open_builder(struct builder *builder)
{
    size_t n_places = (size_t)builder->dag->n_places;
    builder->gate = -1;
    builder->stream_last = check_malloc(n_places * DAG_N_STREAMS * sizeof *builder->stream_last);
    builder->open_ring = check_malloc(n_places * sizeof *builder->open_ring);
    builder->open_send = check_malloc(n_places * sizeof *builder->open_send);
    builder->pass_begin = check_malloc(n_places * sizeof *builder->pass_begin);
    for (size_t i = 0; i < n_places * DAG_N_STREAMS; i++)
        builder->stream_last[i] = -1;
    for (size_t i = 0; i < n_places; i++)
        builder->open_ring[i] = builder->open_send[i] = builder->pass_begin[i] = -1;
}

bool dag_build(const struct plan *plan, const struct cost_setting *setting, struct dag_options options, struct dag *dag,
               struct error *err)
{
    struct builder builder = {.plan = plan, .setting = setting, .options = options, .dag = dag};
    bool ok = true;
    *dag = (struct dag){0};
    make_places(dag, plan, options);
    open_builder(&builder);
    for (int32_t phase = 0; ok && phase < plan->n_phases; phase++) {
        if (phase > 0 || plan->phases[phase].n_reshards > 0)
            builder_gate(&builder, phase);
        ok = builder_phase(&builder, phase, err);
        if (ok && options.gradient_sync && phase == plan->n_phases - 1)
            ok = builder_gradients(&builder, err);
        builder_close_phase(&builder);
    }
    free(builder.mark);
    free(builder.stream_last);
    free(builder.open_ring);
    free(builder.open_send);
    free(builder.pass_begin);
    if (!ok)
        dag_free(dag);
    return ok;
}

void dag_free(struct dag *dag)
{
    free(dag->tasks);
    free(dag->duration_s);
    free(dag->in_first);
    free(dag->in_task);
    free(dag->in_kind);
    free(dag->places);
    *dag = (struct dag){0};
}
