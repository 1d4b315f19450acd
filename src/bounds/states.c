/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/states.h"

#include <math.h>

#include "bounds/stage_memory.h"
#include "cost/states.h"

static int32_t shards_of(const struct plan *plan, const struct plan_phase *phase)
{
    return phase->shards > 0 ? phase->shards : plan->shards;
}

double states_standing_bytes(const struct plan *plan, const struct cost_setting *setting,
                             const struct dag_rank *dag_rank)
{
    const struct plan_phase *phase = &plan->phases[dag_rank->phase];
    const struct plan_layout *layout = &phase->pipelines[dag_rank->pipeline].layout;
    const struct stage_memory memory = stage_memory_of(setting, layout, dag_rank->stage, shards_of(plan, phase),
                                                       &(struct stage_memory_micro_batch){0});
    return memory.states_bytes + memory.gathered_bytes;
}

double states_copy_bytes(const struct plan *plan, const struct cost_setting *setting, const struct dag_rank *dag_rank)
{
    const struct plan_phase *phase = &plan->phases[dag_rank->phase];
    const struct plan_layout *layout = &phase->pipelines[dag_rank->pipeline].layout;
    const struct cost_setting rank_setting = dag_rank_setting(setting, layout, dag_rank->stage);
    return cost_of_stage(cost_gradient_copy_bytes, &rank_setting,
                         dag_stage_parameters(setting, layout, dag_rank->stage), shards_of(plan, phase));
}

double states_host_bytes(const struct plan *plan, const struct cost_setting *setting, const struct dag_rank *dag_rank)
{
    const struct plan_phase *phase = &plan->phases[dag_rank->phase];
    const struct plan_layout *layout = &phase->pipelines[dag_rank->pipeline].layout;
    return setting->optimizer_offload <= 0
               ? 0
               : cost_host_state_bytes(setting, dag_stage_parameters(setting, layout, dag_rank->stage),
                                       shards_of(plan, phase));
}

/* Return the most parameters that a layout of a phase has on one of n GPUs, beginning with `rank`. */
static double parameters_of_ranks(const struct plan_phase *phase, const struct cost_setting *setting, int32_t rank,
                                  int32_t n)
{
    double most = 0;
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        const struct plan_layout *layout = &phase->pipelines[i].layout;
        for (int32_t stage = 0; stage < layout->stages; stage++) {
            int32_t first = plan_rank(layout, stage, 0, 0), end = first + layout->context * layout->tensor;
            if (first < rank + n && rank < end)
                most = fmax(most, dag_stage_parameters(setting, layout, stage));
        }
    }
    return most;
}

double states_moving_bytes(const struct plan *plan, const struct cost_setting *setting, const struct dag_rank *dag_rank)
{
    const struct plan_phase *phase = &plan->phases[dag_rank->phase];
    if (phase->n_reshards == 0)
        return 0;
    const struct plan_layout *layout = &phase->pipelines[dag_rank->pipeline].layout;
    const struct plan_phase *before = &plan->phases[(dag_rank->phase > 0 ? dag_rank->phase : plan->n_phases) - 1];
    double gradient_bytes = dag_rank->phase > 0 ? cost_precisions(setting).gradient : 0;
    return (cost_precisions(setting).weight + gradient_bytes) *
           parameters_of_ranks(before, setting, plan_rank(layout, dag_rank->stage, 0, 0),
                               layout->context * layout->tensor);
}

struct states_gradients states_gradients_of(const struct plan *plan, const struct cost_setting *setting,
                                            const struct dag_rank *dag_rank, int32_t chunk)
{
    const struct plan_phase *phase = &plan->phases[dag_rank->phase];
    const struct plan_layout *layout = &phase->pipelines[dag_rank->pipeline].layout;
    const struct model *model = setting->model;
    int32_t stage = chunk * layout->stages + dag_rank->stage, shards = shards_of(plan, phase);
    struct cost_setting stage_setting = dag_setting(setting, layout, stage);
    bool first = stage == 0, last = stage == layout->stages * layout->chunks - 1;
    double ends = cost_ends_parameters(model, stage_setting.tensor, first, last), tables = ends;
    int32_t n_layers = cost_n_layers(&stage_setting);
    if (!cost_shards_in_passes(setting)) /* a tied table on one stage has its gradient with the head */
        tables = !first                           ? 0
                 : last && model->tied_embeddings ? (double)(model->positions * model->hidden)
                                                  : cost_ends_parameters(model, stage_setting.tensor, true, false);
    return (struct states_gradients){
        .layers = n_layers,
        .head = cost_gradient_state_bytes(&stage_setting, ends - tables, shards),
        .layer = n_layers > 0 ? cost_of_stage(cost_gradient_state_bytes, &stage_setting,
                                              cost_layers_parameters(&stage_setting), shards) /
                                    n_layers
                              : 0,
        .tables = cost_gradient_state_bytes(&stage_setting, tables, shards),
    };
}
