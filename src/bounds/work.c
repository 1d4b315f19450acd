/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/work.h"

static void add_pass(const struct cost_pass *cost, int32_t n_gpus, struct work *work)
{
    work->hardware_flop += cost->flop * n_gpus;
    work->product_flop += cost->product_flop * n_gpus;
    work->kernels_s += (cost->kernels_s + cost->attention_s) * n_gpus;
    work->product_s += cost->product_s * n_gpus;
    work->fp8_flop += cost->fp8_flop * n_gpus;
    work->cast_s += cost->cast_s * n_gpus;
    work->expert_product_s += cost->expert_product_s * n_gpus;
    work->expert_product_flop += cost->expert_product_flop * n_gpus;
    work->combine_s += cost->combine_s * n_gpus;
    work->attention_s += cost->attention_s * n_gpus;
    work->tensor_s += cost->tensor_s * n_gpus;
    work->shard_s += cost->shard_s * n_gpus;
    work->expert_s += cost->expert_s * n_gpus;
    work->wait_s += cost_wait_s(cost) * n_gpus;
    work->pass_s += cost_pass_s(cost) * n_gpus;
    for (int i = 0; i < COST_N_FAMILIES; i++)
        work->extrapolated_s[i] += cost->extrapolated_s[i] * n_gpus;
}

/* Add the work of all ranks of a pipeline in one pass of one micro-batch. */
static void add_micro_batch(const struct plan_layout *layout, const struct dag_kinds *kinds,
                            const struct cost_pass *costs, struct work *work)
{
    for (int32_t stage = 0; stage < layout->stages * layout->chunks; stage++)
        add_pass(&costs[kinds->kind[stage]], layout->tensor * layout->context, work);
}

/*
 * Add the work of a micro-batch with faults, or of a replay. A context rank's TP group has the factors of its first
 * GPU. Before, faults_fold gave that GPU the slowest factors of the group.
 */
static void add_faulty_micro_batch(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                                   enum pass pass, int32_t micro_batch, struct work *work)
{
    const struct plan_layout *layout = &pipeline->layout;
    for (int32_t stage = 0; stage < layout->stages * layout->chunks; stage++)
        for (int32_t context = 0; context < layout->context; context++) {
            int32_t gpu = plan_rank(layout, stage % layout->stages, context, 0);
            struct cost_pass cost = dag_gpu_pass_cost(pipeline, setting, pass, micro_batch, stage, gpu);
            add_pass(&cost, layout->tensor, work);
        }
}

struct work work_of(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting)
{
    struct work work = {0};
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            const struct plan_pipeline *pipeline = &plan->phases[i].pipelines[j];
            const struct dag_pipe *pipe = &dag->pipes[dag->pipes[dag->first_pipe[i] + j].representative];
            for (enum pass pass = PASS_FORWARD; pass < plan_n_passes(pipeline); pass++)
                for (int32_t micro_batch = 0; micro_batch < plan_partition_of(pipeline, pass)->n_micro_batches;
                     micro_batch++)
                    if (dag_differs_by_gpu(setting))
                        add_faulty_micro_batch(pipeline, setting, pass, micro_batch, &work);
                    else
                        add_micro_batch(&pipeline->layout, &pipe->kinds, pipe->cost[pass] + micro_batch * pipe->kinds.n,
                                        &work);
        }
    return work;
}

struct cost_pass work_cost_of_task(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting,
                                   const struct dag_task *task)
{
    const struct plan_pipeline *pipeline = &plan->phases[task->phase].pipelines[task->pipeline];
    int32_t stage = task->chunk * pipeline->layout.stages + task->stage;
    if (dag_differs_by_gpu(setting))
        return dag_gpu_pass_cost(pipeline, setting, (enum pass)task->pass, task->micro_batch, stage,
                                 dag->ranks[task->dag_rank].rank);
    int32_t representative = dag->pipes[dag->first_pipe[task->phase] + task->pipeline].representative;
    const struct dag_pipe *pipe = &dag->pipes[representative];
    return pipe->cost[task->pass][task->micro_batch * pipe->kinds.n + pipe->kinds.kind[stage]];
}

void work_exposed_of(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting,
                     struct work_exposed *exposed)
{
    for (int32_t t = 0; t < dag->n_tasks; t++) {
        const struct dag_task *task = &dag->tasks[t];
        exposed[t] = (struct work_exposed){0};
        if (task->kind != DAG_COMPUTE)
            continue;
        struct cost_pass cost = work_cost_of_task(plan, dag, setting, task);
        const struct plan_layout *layout = &plan->phases[task->phase].pipelines[task->pipeline].layout;
        bool represents_all = dag->ranks[task->dag_rank].n_gpus == layout->tensor;
        exposed[t] = (struct work_exposed){represents_all ? cost.tensor_s : 0, cost.shard_s, cost.expert_s};
    }
}
