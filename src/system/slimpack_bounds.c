/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/slimpack.h"

#include <math.h>

#include "dag/dag.h"

double slimpack_pass_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass)
{
    int32_t before = pipeline->layout.stages - 1, n_units = pipeline->cut[pass].n_units;
    double sum_s = 0;
    for (int32_t unit = 0; unit < n_units; unit++) {
        struct cost_pass cost = dag_pass_cost(pipeline, setting, pass, unit, before);
        sum_s += cost_pass_s(&cost);
    }
    for (int32_t stage = 0; stage < before && n_units > 0; stage++) {
        struct cost_pass cost = dag_pass_cost(pipeline, setting, pass, pass == PASS_FORWARD ? 0 : n_units - 1, stage);
        sum_s += cost_pass_s(&cost);
    }
    return sum_s;
}

double slimpack_chain_s(const struct system_request *request, int32_t tokens)
{
    struct slice slice = {0, 0, tokens};
    struct cost_unit unit = {.slices = &slice, .n_slices = 1, .context = 1};
    struct cost_setting all = *request->setting;
    double sum_s = 0;
    all.layers = (int32_t)all.model->layers; /* of all stages: seconds are in proportion */
    unit.recompute = RECOMPUTE_NONE;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(&all, pass, &unit);
        sum_s += cost.other_s + cost.attention_s + cost.tensor_s;
    }
    return sum_s;
}

/* What a pipeline's stage holds of each token of a rank, what of it stays there, and what one in work needs beside. */
struct token_bytes {
    double held, kept, work;
};

static struct token_bytes bytes_of_token(const struct plan_pipeline *pipeline, const struct cost_setting *own,
                                         bool last)
{
    const struct plan_unit *unit = &pipeline->cut[PASS_FORWARD].units[0];
    struct slice token = {0, 0, 1};
    struct cost_unit work = {.slices = &token, .n_slices = 1, .context = 1, .recompute = RECOMPUTE_NONE};
    struct token_bytes bytes = {
        .held = cost_layers_activation_bytes(own, unit->recompute, false),
        .work = cost_workspace_bytes(own, &work),
    };
    if (last) { /* the head's memory, or a layer's before the head has run or after it is over (bounds/memory.h) */
        bytes.kept = cost_head_bytes(own, 1);
        bytes.work = fmax(cost_head_workspace_bytes(own, 1), bytes.work - cost_head_bytes(own, 1));
    }
    return bytes;
}

static double stage_bound_bytes(const struct plan_pipeline *pipeline, const struct cost_setting *own, int32_t stage,
                                double host_bytes)
{
    struct token_bytes bytes = bytes_of_token(pipeline, own, stage == pipeline->layout.stages - 1);
    double offload = pipeline->cut[PASS_FORWARD].units[0].offload, live = 0, peak = 0; /* tokens of a rank */
    for (int32_t i = pipeline->step_first[stage]; i < pipeline->step_first[stage + 1]; i++) {
        const struct plan_step *step = &pipeline->steps[i];
        const struct plan_cut *cut = &pipeline->cut[step->pass];
        double tokens = (double)plan_unit_tokens(cut, step->unit) / cut->units[step->unit].context;
        double others = (step->pass == PASS_FORWARD ? live : live - tokens) * bytes.held;
        live += step->pass == PASS_FORWARD ? tokens : 0;
        double here = fmax(others * (1 - offload), others - host_bytes) + tokens * bytes.held;
        peak = fmax(peak, here + live * bytes.kept + tokens * bytes.work);
        live -= step->pass == PASS_BACKWARD ? tokens : 0;
    }
    return peak;
}

static double states_bytes(const struct cost_setting *own, bool first, bool last, int32_t shards)
{
    double parameters = cost_stage_parameters(own->model, own->tensor, own->layers, first, last);
    return cost_state_bytes(own, parameters, shards) + cost_gathered_bytes(own) + own->device->workspace_bytes;
}

double slimpack_bound_bytes(const struct cost_setting *setting, const struct plan_phase *phase, int32_t shards,
                            double host_bytes)
{
    double bound = 0;
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        const struct plan_pipeline *pipeline = &phase->pipelines[i];
        int32_t last = pipeline->layout.stages - 1;
        for (int32_t stage = 0; stage <= last && pipeline->cut[PASS_FORWARD].n_units > 0; stage++) {
            struct cost_setting own = dag_setting(setting, &pipeline->layout, stage);
            double states = states_bytes(&own, stage == 0, stage == last, shards);
            bound = fmax(bound, states + stage_bound_bytes(pipeline, &own, stage, host_bytes));
        }
    }
    return bound;
}

void slimpack_weaken(const struct slimpack_knobs *knobs, struct plan_cut *cut)
{
    for (int32_t i = 0; i < cut->n_units; i++) {
        if (knobs->recompute == SLIMPACK_BY_UNIT)
            cut->units[i].recompute = RECOMPUTE_FULL;
        if (knobs->offload == SLIMPACK_BY_UNIT)
            cut->units[i].offload = 1;
    }
}

int64_t slimpack_rank_tokens(const struct system_request *request)
{
    struct plan_phase phase = {0};
    system_megatron_layout(request, &phase);
    struct plan_pipeline *pipeline = &phase.pipelines[0];
    struct plan_unit *unit = plan_add_unit(&pipeline->cut[PASS_FORWARD]);
    unit->recompute = (enum recompute)request->layout.recompute;
    unit->offload = request->layout.offload;
    slimpack_weaken(request->knobs, &pipeline->cut[PASS_FORWARD]);
    double least = INFINITY;
    for (int end = 0; end < 2; end++) {
        bool first = end == 0 || request->layout.pp == 1, last = end == 1 || request->layout.pp == 1;
        int32_t stage = end == 0 ? 0 : (int32_t)request->layout.pp - 1;
        struct cost_setting own = dag_setting(request->setting, &pipeline->layout, stage);
        double kv = cost_layers_activation_bytes(&own, unit->recompute, true) -
                    cost_layers_activation_bytes(&own, unit->recompute, false);
        double states = states_bytes(&own, first, last, scenario_plan_shards(&request->layout));
        double room = request->memory_bytes - states;
        struct token_bytes bytes = bytes_of_token(pipeline, &own, last);
        least = fmin(least, room / (bytes.held * (1 - unit->offload) + bytes.kept + kv));
    }
    plan_phase_free(&phase);
    if (least <= 0 || least >= 1e18)
        return INT64_MAX;
    return least < 1 ? 1 : (int64_t)least;
}
