/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file appends the barrier between phases, and the re-sharding. */
#include "dag/builder.h"

#include <stdlib.h>

static int32_t first_rank(const struct dag *dag, int32_t phase)
{
    int32_t dag_rank = 0;
    while (dag->ranks[dag_rank].phase < phase)
        dag_rank++;
    return dag_rank;
}

/*
 * Return for each GPU its rank in the phase, which may represent a whole TP group. A GPU without one gets the phase's
 * first.
 */
static int32_t *dag_ranks_of_gpus(const struct builder *builder, int32_t phase)
{
    const struct dag *dag = builder->dag;
    int32_t first = first_rank(dag, phase), *ranks = check_malloc((size_t)dag->n_senders * sizeof *ranks);
    for (int32_t rank = 0; rank < dag->n_senders; rank++)
        ranks[rank] = first;
    for (int32_t dag_rank = first; dag_rank < dag->n_ranks && dag->ranks[dag_rank].phase == phase; dag_rank++) {
        const struct dag_rank *at = &dag->ranks[dag_rank];
        for (int32_t rank = at->rank; rank < at->rank + at->n_gpus && rank < dag->n_senders; rank++)
            ranks[rank] = dag_rank;
    }
    return ranks;
}

static void add_reshard(struct builder *builder, int32_t dag_rank, const struct plan_reshard *reshard)
{
    if (reshard->bytes <= 0 || reshard->from_rank == reshard->to_rank)
        return;
    enum cost_route route = builder_route(builder, reshard->from_rank, reshard->to_rank);
    struct dag_task task = builder_task_of(builder, dag_rank, DAG_STREAM_COLLECTIVE, DAG_SEND, DAG_RESHARD);
    task.stream = (builder->dag->n_ranks + reshard->from_rank) * DAG_N_STREAMS;
    task.stream += (int32_t)(route == COST_NVLINK ? DAG_STREAM_COLLECTIVE : DAG_STREAM_RAIL);
    task.from_rank = reshard->from_rank;
    task.to_rank = reshard->to_rank;
    struct cost_setting alone = *builder->setting;
    alone.tensor = 1; /* no other GPU of its tensor-parallel group must send */
    builder_send(builder, task, cost_of_transfer(&alone, route, reshard->bytes, 1));
    builder_edge(builder, builder->phase_barrier, DAG_COLLECTIVE);
}

/* Append a SEND for each pair of GPUs, in the plan's order; then a SYNC. */
static void add_reshards(struct builder *builder, int32_t phase, int32_t dag_rank)
{
    const struct plan_phase *next = &builder->plan->phases[phase];
    int32_t first = builder->dag->n_tasks, *ranks = dag_ranks_of_gpus(builder, phase);
    for (int32_t i = 0; i < next->n_reshards; i++)
        add_reshard(builder, ranks[next->reshards[i].from_rank], &next->reshards[i]);
    free(ranks);
    int32_t last = builder->dag->n_tasks;
    builder->phase_barrier = builder_sync(builder, dag_rank, DAG_RESHARD);
    for (int32_t send = first; send < last; send++)
        builder_edge(builder, send, DAG_COLLECTIVE);
}

void builder_phase_barrier(struct builder *builder, int32_t phase)
{
    int32_t dag_rank = first_rank(builder->dag, phase), end = dag_rank * DAG_N_STREAMS;
    if (phase > 0) {
        builder->phase_barrier = -1;
        builder->phase_barrier = builder_sync(builder, dag_rank, DAG_RESHARD);
        for (int32_t stream = 0; stream < end; stream++)
            if (builder->dag->ranks[stream / DAG_N_STREAMS].phase == phase - 1)
                builder_edge(builder, builder->stream_last[stream], DAG_COLLECTIVE);
    }
    if (builder->plan->phases[phase].n_reshards > 0)
        add_reshards(builder, phase, dag_rank);
}
