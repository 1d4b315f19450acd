/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/builder.h"

#include <math.h>

#include "base/check.h"

static size_t doubled(int32_t capacity, size_t least)
{
    CHECK(capacity < INT32_MAX / 2);
    return capacity > 0 ? 2 * (size_t)capacity : least;
}

void builder_grow_tasks(struct dag *dag)
{
    size_t n = doubled(dag->room.tasks, 4096);
    dag->room.tasks = (int32_t)n;
    dag->tasks = check_realloc(dag->tasks, n * sizeof *dag->tasks);
    dag->duration_s = check_realloc(dag->duration_s, n * sizeof *dag->duration_s);
    dag->in_first = check_realloc(dag->in_first, (n + 1) * sizeof *dag->in_first);
    dag->stream_next = check_realloc(dag->stream_next, n * sizeof *dag->stream_next);
    dag->room.mark = check_realloc(dag->room.mark, n * sizeof *dag->room.mark);
}

void builder_grow_edges(struct dag *dag)
{
    size_t n = doubled(dag->room.edges, 16384);
    dag->room.edges = (int32_t)n;
    dag->in_task = check_realloc(dag->in_task, n * sizeof *dag->in_task);
    dag->in_kind = check_realloc(dag->in_kind, n * sizeof *dag->in_kind);
}

int32_t builder_send(struct builder *builder, struct dag_task task, struct cost_transfer transfer)
{
    const struct platform *platform = builder->setting->platform;
    task.latency_s = transfer.latency_s;
    task.wire_bytes = transfer.wire_bytes;
    if (platform_crosses_sockets(platform, task.from_rank, task.to_rank) && transfer.duration_s > 0) {
        transfer.bytes_per_s = fmin(transfer.bytes_per_s, platform->numa_bytes_per_s);
        transfer.duration_s = transfer.latency_s + transfer.wire_bytes / transfer.bytes_per_s;
    }
    double factor = builder->setting->faults != NULL ? builder_link_factor(builder, task.from_rank, task.to_rank) : 1;
    if (factor > 1)
        transfer.duration_s = transfer.latency_s + factor * (transfer.wire_bytes / transfer.bytes_per_s);
    return builder_task(builder, task, transfer.duration_s);
}

enum cost_route builder_route(const struct builder *builder, int32_t from_rank, int32_t to_rank)
{
    return platform_same_domain(builder->setting->platform, from_rank, to_rank) ? COST_NVLINK : COST_NIC;
}

int32_t builder_sync(struct builder *builder, int32_t dag_rank, enum dag_purpose purpose)
{
    struct dag_task task = builder_task_of(builder, dag_rank, DAG_STREAM_COLLECTIVE, DAG_SYNC, purpose);
    return builder_task(builder, task, 0.0);
}
