/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/builder.h"

#include "base/check.h"

static void grow_tasks(struct builder *builder)
{
    struct dag *dag = builder->dag;
    CHECK(builder->task_capacity < INT32_MAX / 2);
    size_t n = builder->task_capacity > 0 ? 2 * (size_t)builder->task_capacity : 4096;
    builder->task_capacity = (int32_t)n;
    dag->tasks = check_realloc(dag->tasks, n * sizeof *dag->tasks);
    dag->duration_s = check_realloc(dag->duration_s, n * sizeof *dag->duration_s);
    dag->in_first = check_realloc(dag->in_first, (n + 1) * sizeof *dag->in_first);
    builder->mark = check_realloc(builder->mark, n * sizeof *builder->mark);
}

static void grow_edges(struct builder *builder)
{
    struct dag *dag = builder->dag;
    CHECK(builder->edge_capacity < INT32_MAX / 2);
    size_t n = builder->edge_capacity > 0 ? 2 * (size_t)builder->edge_capacity : 16384;
    builder->edge_capacity = (int32_t)n;
    dag->in_task = check_realloc(dag->in_task, n * sizeof *dag->in_task);
    dag->in_kind = check_realloc(dag->in_kind, n * sizeof *dag->in_kind);
}

int32_t builder_task(struct builder *builder, struct dag_task task, double duration_s)
{
    struct dag *dag = builder->dag;
    if (dag->n_tasks == builder->task_capacity)
        grow_tasks(builder);
    int32_t number = dag->n_tasks++;
    dag->tasks[number] = task;
    dag->duration_s[number] = duration_s;
    dag->in_first[number] = dag->in_first[number + 1] = dag->n_edges;
    builder->mark[number] = -1;
    int32_t previous = builder->stream_last[task.stream];
    builder->stream_last[task.stream] = number;
    if (previous >= 0)
        builder_edge(builder, previous, DAG_SCHEDULE);
    else
        builder_edge(builder, builder->gate, DAG_COLLECTIVE);
    return number;
}

void builder_edge(struct builder *builder, int32_t from, enum dag_edge kind)
{
    struct dag *dag = builder->dag;
    int32_t task = dag->n_tasks - 1;
    if (from < 0)
        return;
    CHECK(from < task);
    int32_t known = builder->mark[from];
    if (known >= dag->in_first[task]) {
        if (kind < dag->in_kind[known])
            dag->in_kind[known] = (uint8_t)kind;
        return;
    }
    if (dag->n_edges == builder->edge_capacity)
        grow_edges(builder);
    builder->mark[from] = dag->n_edges;
    dag->in_task[dag->n_edges] = from;
    dag->in_kind[dag->n_edges] = (uint8_t)kind;
    dag->in_first[task + 1] = ++dag->n_edges;
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

int32_t builder_send(struct builder *builder, struct dag_task task, struct cost_transfer transfer)
{
    bool host = task.from_rank < 0 || task.to_rank < 0;
    enum cost_route route = host ? COST_PCIE : builder_route(builder, task.from_rank, task.to_rank);
    double factor = builder_link_factor(builder, route, task.from_rank, task.to_rank);
    task.latency_s = transfer.latency_s;
    task.wire_bytes = transfer.wire_bytes;
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
