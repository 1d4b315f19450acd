/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/path_time.h"

#include <math.h>

#include "bounds/work.h"

const char *const path_class_name[PATH_N_CLASSES] = {"GEMMs",
                                                     "attention",
                                                     "other kernels",
                                                     "waiting for launches",
                                                     "tensor collectives",
                                                     "zero2/3 collectives",
                                                     "tokens to experts",
                                                     "context parallelism",
                                                     "stage transfers",
                                                     "host copies",
                                                     "gradients",
                                                     "optimizer",
                                                     "parameters",
                                                     "re-sharding"};

static enum path_class class_of_transfer(enum dag_purpose purpose)
{
    static const enum path_class classes[DAG_N_PURPOSES] = {
        [DAG_PASS] = PATH_OTHER_KERNELS,    [DAG_BOUNDARY] = PATH_BOUNDARY,    [DAG_RING] = PATH_CONTEXT,
        [DAG_TENSOR] = PATH_TENSOR,         [DAG_EXCHANGE] = PATH_CONTEXT,     [DAG_REDUCE_SCATTER] = PATH_GRADIENTS,
        [DAG_ALL_GATHER] = PATH_PARAMETERS, [DAG_ALL_REDUCE] = PATH_GRADIENTS, [DAG_RESHARD] = PATH_RESHARD,
        [DAG_SHARDS] = PATH_SHARDS,         [DAG_OFFLOAD] = PATH_HOST,         [DAG_PREFETCH] = PATH_HOST,
        [DAG_EXPERTS] = PATH_EXPERTS,
    };
    return classes[purpose];
}

/** Split a COMPUTE into its kernels, waits for the host and exposed collectives. Without a ring it includes the
 * attention. */
static void add_compute(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting,
                        int32_t number, struct path_time *time)
{
    const struct dag_task *task = &dag->tasks[number];
    struct cost_pass cost = work_cost_of_task(plan, dag, setting, task);
    struct work_exposed exposed = {.shard_s = cost.shard_s, .expert_s = cost.expert_s};
    if (dag->ranks[task->dag_rank].n_gpus == plan->phases[task->phase].pipelines[task->pipeline].layout.tensor)
        exposed.tensor_s = cost.tensor_s;
    double kernels_s =
        dag->duration_s[number] - exposed.tensor_s - exposed.shard_s - exposed.expert_s - cost_wait_s(&cost);
    double attention_s = fmax(0, kernels_s - cost.kernels_s);
    time->seconds[PATH_PRODUCTS] += cost.product_s;
    time->seconds[PATH_ATTENTION] += attention_s;
    time->seconds[PATH_OTHER_KERNELS] += kernels_s - attention_s - cost.product_s;
    time->seconds[PATH_LAUNCHES] += cost_wait_s(&cost);
    time->seconds[PATH_TENSOR] += exposed.tensor_s;
    time->seconds[PATH_SHARDS] += exposed.shard_s;
    time->seconds[PATH_EXPERTS] += exposed.expert_s;
}

static int32_t last_task(const struct dag *dag, const struct timeline *timeline)
{
    int32_t task = 0;
    while (task < dag->n_tasks && timeline->finish_s[task] < timeline->makespan_s)
        task++;
    return task;
}

/** Return the task that a task of the path waits for; -1: none. */
static int32_t task_before(const struct dag *dag, const struct timeline *timeline, int32_t task)
{
    for (int32_t i = dag->in_first[task]; i < dag->in_first[task + 1]; i++)
        if (timeline->finish_s[dag->in_task[i]] >= timeline->start_s[task])
            return dag->in_task[i];
    return -1;
}

struct path_time path_time_of(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting,
                              const struct timeline *timeline)
{
    struct path_time time = {{0}};
    int32_t task = dag->n_tasks > 0 ? last_task(dag, timeline) : -1;
    for (; task >= 0; task = task_before(dag, timeline, task)) {
        enum dag_kind kind = (enum dag_kind)dag->tasks[task].kind;
        if (kind == DAG_COMPUTE)
            add_compute(plan, dag, setting, task, &time);
        else if (kind == DAG_ATTENTION)
            time.seconds[PATH_ATTENTION] += dag->duration_s[task];
        else if (kind == DAG_OPTIMIZER ||
                 (kind == DAG_SYNC && dag->tasks[task].purpose == DAG_OFFLOAD)) /* on the host */
            time.seconds[PATH_OPTIMIZER] += dag->duration_s[task];
        else
            time.seconds[class_of_transfer((enum dag_purpose)dag->tasks[task].purpose)] += dag->duration_s[task];
    }
    return time;
}
