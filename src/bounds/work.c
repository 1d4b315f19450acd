/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/work.h"

/* What all ranks of a pipeline execute in one pass of one unit. */
static void add_unit(const struct plan_layout *layout, const struct dag_kinds *kinds, const struct cost_pass *costs,
                     struct work *work)
{
    for (int32_t stage = 0; stage < layout->stages * layout->chunks; stage++) {
        const struct cost_pass *cost = &costs[kinds->kind[stage]];
        work->hardware_flop += cost->flop * layout->tensor * layout->context;
        work->tensor_s += cost->tensor_s * layout->context;
        work->shard_s += cost->shard_s * layout->context;
        work->pass_s += cost_pass_s(cost) * layout->context;
        for (int i = 0; i < COST_N_FAMILIES; i++)
            work->outside_s[i] += cost->outside_s[i] * layout->context;
    }
}

struct work work_of(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting,
                    bool all_tensor_ranks)
{
    struct work work = {0};
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            const struct plan_pipeline *pipeline = &plan->phases[i].pipelines[j];
            const struct dag_pipe *pipe = &dag->pipes[dag->first_pipe[i] + j];
            for (int pass = 0; pass < N_PASSES; pass++)
                for (int32_t unit = 0; unit < pipeline->cut[pass].n_units; unit++)
                    add_unit(&pipeline->layout, &pipe->kinds, pipe->cost[pass] + unit * pipe->kinds.n, &work);
        }
    if (all_tensor_ranks) {
        work.tensor_s *= setting->tensor;
        work.shard_s *= setting->tensor;
    }
    return work;
}
