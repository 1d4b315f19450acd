/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "trace/table.h"

#include "dag/dag.h"
#include "plan/plan.h"

#include <string.h>

#define NAMES(n, ...)                                                                                                  \
    {                                                                                                                  \
        n, (const char *const[n])                                                                                      \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

const struct trace_names trace_kind_names =
    NAMES(DAG_N_KINDS, [DAG_COMPUTE] = "compute", [DAG_ATTENTION] = "attention", [DAG_SEND] = "send",
          [DAG_SYNC] = "sync", [DAG_OPTIMIZER] = "optimizer");
const struct trace_names trace_purpose_names =
    NAMES(DAG_N_PURPOSES, [DAG_PASS] = "pass", [DAG_BOUNDARY] = "boundary", [DAG_RING] = "ring",
          [DAG_TENSOR] = "tensor", [DAG_REDUCE_SCATTER] = "reduce-scatter", [DAG_ALL_GATHER] = "all-gather",
          [DAG_RESHARD] = "reshard", [DAG_OFFLOAD] = "offload", [DAG_PREFETCH] = "prefetch");
const struct trace_names trace_pass_names = NAMES(N_PASSES, [PASS_FORWARD] = "forward", [PASS_BACKWARD] = "backward");
const struct trace_names trace_stream_names =
    NAMES(DAG_N_STREAMS, [DAG_STREAM_COMPUTE] = "compute", [DAG_STREAM_SEND_FORWARD] = "send forward",
          [DAG_STREAM_SEND_BACKWARD] = "send backward", [DAG_STREAM_COLLECTIVE] = "collective",
          [DAG_STREAM_RAIL] = "rail", [DAG_STREAM_TO_HOST] = "to host", [DAG_STREAM_FROM_HOST] = "from host");
static const struct trace_names trace_system_names = {0, NULL};
static const struct trace_names trace_edge_names =
    NAMES(DAG_N_EDGES, [DAG_INTER_STAGE] = "inter-stage", [DAG_INTER_SLICE] = "inter-slice",
          [DAG_INTER_PASS] = "inter-pass", [DAG_SCHEDULE] = "schedule", [DAG_COLLECTIVE] = "collective");
static const struct trace_names trace_formation_names =
    NAMES(3, [PLAN_SLIM] = "slim", [PLAN_MIX] = "mix", [PLAN_PACK] = "pack");
static const struct trace_names trace_recompute_names =
    NAMES(3, [RECOMPUTE_NONE] = "none", [RECOMPUTE_SELECTIVE] = "selective", [RECOMPUTE_FULL] = "full");

#define COLUMN(c_type, hdf5_type, name, unit, meaning)                                                                 \
    {#name, unit, meaning, TRACE_##hdf5_type, offsetof(struct ROW, name), NULL},
#define NAMED(c_type, hdf5_type, name, names, meaning)                                                                 \
    {#name, "1", meaning, TRACE_##hdf5_type, offsetof(struct ROW, name), &trace_##names##_names},

#define ROW trace_summary
static const struct trace_column summary_columns[] = {
#include "trace/summary.def"
};
#undef ROW
#define ROW trace_iteration
static const struct trace_column iteration_columns[] = {
#include "trace/iteration.def"
};
#undef ROW
#define ROW trace_length
static const struct trace_column length_columns[] = {
#include "trace/length.def"
};
#undef ROW
#define ROW trace_unit
static const struct trace_column unit_columns[] = {
#include "trace/unit.def"
};
#undef ROW
#define ROW trace_task
static const struct trace_column task_columns[] = {
#include "trace/task.def"
};
#undef ROW
#define ROW trace_transfer
static const struct trace_column transfer_columns[] = {
#include "trace/transfer.def"
};
#undef ROW
#define ROW trace_memory
static const struct trace_column memory_columns[] = {
#include "trace/memory.def"
};
#undef ROW
#define ROW trace_edge
static const struct trace_column edge_columns[] = {
#include "trace/edge.def"
};
#undef ROW

#define TABLE(name, row)                                                                                               \
    {                                                                                                                  \
        name, sizeof(struct trace_##row), sizeof row##_columns / sizeof row##_columns[0], row##_columns                \
    }

const struct trace_table trace_tables[TRACE_N_TABLES] = {
    [TRACE_SUMMARY] = TABLE("summary", summary), [TRACE_ITERATIONS] = TABLE("iterations", iteration),
    [TRACE_LENGTHS] = TABLE("lengths", length),  [TRACE_UNITS] = TABLE("units", unit),
    [TRACE_TASKS] = TABLE("tasks", task),        [TRACE_TRANSFERS] = TABLE("transfers", transfer),
    [TRACE_MEMORY] = TABLE("memory", memory),    [TRACE_EDGES] = TABLE("edges", edge),
};

int32_t trace_table_find(const char *name)
{
    for (int32_t t = 0; t < TRACE_N_TABLES; t++)
        if (strcmp(trace_tables[t].name, name) == 0)
            return t;
    return -1;
}
