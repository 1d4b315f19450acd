/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/builder.h"

#include <stdlib.h>

static int32_t first_place(const struct dag *dag, int32_t phase)
{
    int32_t place = 0;
    while (dag->places[place].phase < phase)
        place++;
    return place;
}

/* For each GPU its place in the phase, which may stand for a whole TP group; for GPUs without one the phase's first. */
static int32_t *places_of_ranks(const struct builder *builder, int32_t phase)
{
    const struct dag *dag = builder->dag;
    int32_t first = first_place(dag, phase), *places = check_malloc((size_t)dag->n_senders * sizeof *places);
    for (int32_t rank = 0; rank < dag->n_senders; rank++)
        places[rank] = first;
    for (int32_t place = first; place < dag->n_places && dag->places[place].phase == phase; place++) {
        const struct dag_place *at = &dag->places[place];
        for (int32_t rank = at->rank; rank < at->rank + at->n_gpus && rank < dag->n_senders; rank++)
            places[rank] = place;
    }
    return places;
}

static void add_reshard(struct builder *builder, int32_t place, const struct plan_reshard *reshard)
{
    if (reshard->bytes <= 0 || reshard->from_rank == reshard->to_rank)
        return;
    enum cost_route route = builder_route(builder, reshard->from_rank, reshard->to_rank);
    struct dag_task task = builder_task_of(builder, place, DAG_STREAM_COLLECTIVE, DAG_SEND, DAG_RESHARD);
    task.stream = (builder->dag->n_places + reshard->from_rank) * DAG_N_STREAMS;
    task.stream += (int32_t)(route == COST_NVLINK ? DAG_STREAM_COLLECTIVE : DAG_STREAM_RAIL);
    task.from_rank = reshard->from_rank;
    task.to_rank = reshard->to_rank;
    builder_send(builder, task, cost_of_transfer(builder->setting, route, reshard->bytes, 1));
    builder_edge(builder, builder->phase_barrier, DAG_COLLECTIVE);
}

/* A SEND a pair of ranks, in the plan's order; then a SYNC. */
static void add_reshards(struct builder *builder, int32_t phase, int32_t place)
{
    const struct plan_phase *next = &builder->plan->phases[phase];
    int32_t first = builder->dag->n_tasks, *places = places_of_ranks(builder, phase);
    for (int32_t i = 0; i < next->n_reshards; i++)
        add_reshard(builder, places[next->reshards[i].from_rank], &next->reshards[i]);
    free(places);
    int32_t last = builder->dag->n_tasks;
    builder->phase_barrier = builder_sync(builder, place, DAG_RESHARD);
    for (int32_t send = first; send < last; send++)
        builder_edge(builder, send, DAG_COLLECTIVE);
}

void builder_phase_barrier(struct builder *builder, int32_t phase)
{
    int32_t place = first_place(builder->dag, phase), end = place * DAG_N_STREAMS;
    if (phase > 0) {
        builder->phase_barrier = -1;
        builder->phase_barrier = builder_sync(builder, place, DAG_RESHARD);
        for (int32_t stream = 0; stream < end; stream++)
            if (builder->dag->places[stream / DAG_N_STREAMS].phase == phase - 1)
                builder_edge(builder, builder->stream_last[stream], DAG_COLLECTIVE);
    }
    if (builder->plan->phases[phase].n_reshards > 0)
        add_reshards(builder, phase, place);
}
