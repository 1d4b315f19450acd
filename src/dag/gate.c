/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/builder.h"

static int32_t first_place(const struct dag *dag, int32_t phase)
{
    int32_t place = 0;
    while (dag->places[place].phase < phase)
        place++;
    return place;
}

/* The place of the phase that a rank belongs to; one place may stand for all its TP ranks. Else the phase's first. */
static int32_t place_of_rank(const struct builder *builder, int32_t phase, int32_t rank)
{
    const struct dag *dag = builder->dag;
    int32_t first = first_place(dag, phase);
    for (int32_t place = first; place < dag->n_places && dag->places[place].phase == phase; place++) {
        const struct dag_place *at = &dag->places[place];
        if (at->rank <= rank && rank < at->rank + at->n_gpus)
            return place;
    }
    return first;
}

/* The stream of a rank's messages: where one place stands for all TP ranks, each of these has its own (a node of eight
 * has one too few: the last shares the first's). */
static enum dag_stream stream_of(const struct builder *builder, int32_t place, int32_t rank)
{
    int32_t tensor = rank - builder->dag->places[place].rank;
    return (enum dag_stream)((DAG_STREAM_COLLECTIVE + (tensor > 0 ? tensor : 0)) % DAG_N_STREAMS);
}

/* A SEND a pair of ranks, all at once but for those from one rank; then a SYNC. */
static void add_reshards(struct builder *builder, int32_t phase, int32_t place)
{
    const struct plan_phase *next = &builder->plan->phases[phase];
    int32_t first = builder->dag->n_tasks;
    for (int32_t i = 0; i < next->n_reshards; i++) {
        const struct plan_reshard *reshard = &next->reshards[i];
        if (reshard->bytes <= 0 || reshard->from_rank == reshard->to_rank)
            continue;
        int32_t at = place_of_rank(builder, phase, reshard->from_rank);
        struct dag_task task =
            builder_task_of(builder, at, stream_of(builder, at, reshard->from_rank), DAG_SEND, DAG_RESHARD);
        task.from_rank = reshard->from_rank;
        task.to_rank = reshard->to_rank;
        enum cost_route route = builder_route(builder, task.from_rank, task.to_rank);
        builder_send(builder, task, cost_of_transfer(builder->setting, route, reshard->bytes, 1));
    }
    int32_t last = builder->dag->n_tasks;
    builder->gate = builder_sync(builder, place, DAG_RESHARD);
    for (int32_t send = first; send < last; send++)
        builder_edge(builder, send, DAG_COLLECTIVE);
}

void builder_gate(struct builder *builder, int32_t phase)
{
    int32_t place = first_place(builder->dag, phase), end = place * DAG_N_STREAMS;
    if (phase > 0) {
        builder->gate = -1;
        builder->gate = builder_sync(builder, place, DAG_RESHARD);
        for (int32_t stream = 0; stream < end; stream++)
            if (builder->dag->places[stream / DAG_N_STREAMS].phase == phase - 1)
                builder_edge(builder, builder->stream_last[stream], DAG_COLLECTIVE);
    }
    if (builder->plan->phases[phase].n_reshards > 0)
        add_reshards(builder, phase, place);
}
