/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/builder.h"

#include "base/check.h"

static size_t doubled(int32_t capacity, size_t least)
{
    CHECK(capacity < INT32_MAX / 2);
    return capacity > 0 ? 2 * (size_t)capacity : least;
}

static void grow_tasks(struct dag *dag)
{
    size_t n = doubled(dag->room.tasks, 4096);
    dag->room.tasks = (int32_t)n;
    dag->tasks = check_realloc(dag->tasks, n * sizeof *dag->tasks);
    dag->duration_s = check_realloc(dag->duration_s, n * sizeof *dag->duration_s);
    dag->in_first = check_realloc(dag->in_first, (n + 1) * sizeof *dag->in_first);
    dag->stream_next = check_realloc(dag->stream_next, n * sizeof *dag->stream_next);
    dag->room.mark = check_realloc(dag->room.mark, n * sizeof *dag->room.mark);
}

static void grow_edges(struct dag *dag)
{
    size_t n = doubled(dag->room.edges, 16384);
    dag->room.edges = (int32_t)n;
    dag->in_task = check_realloc(dag->in_task, n * sizeof *dag->in_task);
    dag->in_kind = check_realloc(dag->in_kind, n * sizeof *dag->in_kind);
}

void builder_edge(struct builder *builder, int32_t from, enum dag_edge kind)
{
    struct dag *dag = builder->dag;
    int32_t task = dag->n_tasks - 1;
    if (from < 0)
        return;
    int32_t known = dag->room.mark[from];
    if (known >= dag->in_first[task]) {
        if (kind < dag->in_kind[known])
            dag->in_kind[known] = (uint8_t)kind;
        return;
    }
    CHECK(from < task);
    if (dag->n_edges == dag->room.edges)
        grow_edges(dag);
    dag->room.mark[from] = dag->n_edges;
    dag->in_task[dag->n_edges] = from;
    dag->in_kind[dag->n_edges++] = (uint8_t)kind;
    dag->in_first[task + 1] = dag->n_edges;
}

struct dag_task builder_task_of(const struct builder *builder, int32_t place, enum dag_stream stream,
                                enum dag_kind kind, enum dag_purpose purpose)
{
    const struct dag_place *at = &builder->dag->places[place];
    return (struct dag_task){.kind = (uint8_t)kind,
                             .purpose = (uint8_t)purpose,
                             .phase = at->phase,
                             .stage = at->stage,
                             .pipeline = at->pipeline,
                             .unit = -1,
                             .place = place,
                             .stream = place * DAG_N_STREAMS + (int32_t)stream,
                             .from_rank = at->rank,
                             .to_rank = at->rank};
}

int32_t builder_task(struct builder *builder, struct dag_task task, double duration_s)
{
    struct dag *dag = builder->dag;
    if (dag->n_tasks == dag->room.tasks)
        grow_tasks(dag);
    int32_t number = dag->n_tasks++, previous = builder->stream_last[task.stream];
    dag->tasks[number] = task;
    dag->duration_s[number] = duration_s;
    dag->in_first[number] = dag->in_first[number + 1] = dag->n_edges;
    dag->room.mark[number] = dag->stream_next[number] = -1;
    builder->stream_last[task.stream] = number;
    *(previous >= 0 ? &dag->stream_next[previous] : &dag->stream_first[task.stream]) = number;
    if (previous >= 0)
        builder_edge(builder, previous, DAG_SCHEDULE);
    else
        builder_edge(builder, builder->gate, DAG_COLLECTIVE);
    return number;
}

int32_t builder_send(struct builder *builder, struct dag_task task, struct cost_transfer transfer)
{
    task.latency_s = transfer.latency_s;
    task.wire_bytes = transfer.wire_bytes;
    double factor = builder->setting->faults != NULL ? builder_link_factor(builder, task.from_rank, task.to_rank) : 1;
    if (factor > 1)
        transfer.duration_s = transfer.latency_s + factor * (transfer.wire_bytes / transfer.bytes_per_s);
    return builder_task(builder, task, transfer.duration_s);
}

enum cost_route builder_route(const struct builder *builder, int32_t from_rank, int32_t to_rank)
{
    return platform_same_node(builder->setting->platform, from_rank, to_rank) ? COST_NVLINK : COST_NIC;
}

int32_t builder_sync(struct builder *builder, int32_t place, enum dag_purpose purpose)
{
    struct dag_task task = builder_task_of(builder, place, DAG_STREAM_COLLECTIVE, DAG_SYNC, purpose);
    return builder_task(builder, task, 0.0);
}
