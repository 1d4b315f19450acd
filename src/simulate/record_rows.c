/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/record_rows.h"
#include "search/score.h"

#include <string.h>

_Static_assert(EXCEEDED_N_LIMITS == 3, "names of misfits in trace/table.c");

/* Columns of trace/rank.def, as designated initialisers. */
#define PLACE_COLUMNS(of)                                                                                              \
    .phase = (of)->phase, .pipeline = (of)->pipeline, .stage = (of)->stage, .context = (of)->context,                  \
    .tensor = (of)->tensor, .rank = (of)->rank, .gpus = (of)->n_gpus

struct trace_task record_task(const struct point_view *view, int32_t t)
{
    const struct dag_task *task = &view->dag->tasks[t];
    const struct dag_rank *dag_rank = &view->dag->ranks[task->dag_rank];
    struct trace_task row = {
        .system = view->system_index,
        .iteration = view->iteration->row.iteration,
        .task = t,
        .kind = task->kind,
        .purpose = task->purpose,
        .direction = task->pass,
        .stream = task->stream % DAG_N_STREAMS,
        PLACE_COLUMNS(dag_rank),
        .unit = task->unit,
        .bytes = task->kind == DAG_SEND ? task->wire_bytes : 0,
        .duration_s = view->dag->duration_s[t],
        .tensor_s = view->exposed[t].tensor_s,
        .shard_s = view->exposed[t].shard_s,
        .start_s = view->timeline->start_s[t],
        .finish_s = view->timeline->finish_s[t],
        .slack_s = view->slack_s[t],
    };
    if (task->purpose == DAG_RESHARD && task->kind == DAG_SEND) { /* its rank may represent several GPUs */
        row.rank = task->from_rank;
        row.gpus = 1;
    }
    return row;
}

struct trace_memory record_memory(const struct point_view *view, const struct memory_event *event)
{
    struct trace_memory row = {
        .system = view->system_index,
        .iteration = view->iteration->row.iteration,
        .time_s = event->time_s,
        PLACE_COLUMNS(&view->dag->ranks[event->dag_rank]),
    };
    memcpy(row.class_bytes, event->bytes, sizeof row.class_bytes);
    return row;
}

struct trace_plan record_plan(int32_t system, int32_t rank, const struct search_plan *plan)
{
    const struct search_score *score = &plan->score;
    return (struct trace_plan){
        .system = system,
        .rank = rank,
        .tp = (int32_t)plan->layout.tp,
        .pp = (int32_t)plan->layout.pp,
        .cp = (int32_t)plan->layout.cp,
        .dp = (int32_t)plan->layout.dp,
        .vpp = (int32_t)plan->layout.vpp,
        .sharding = plan->layout.sharding,
        .recompute = plan->layout.recompute,
        .offload = plan->layout.offload,
        .host_bytes = score->worst.host_bytes,
        .verdict = (int32_t)plan->verdict,
        .iterations = score->n_iterations,
        .time_s = score->time_s,
        .slower = score->slower,
        .slower_error = score_is_whole(score) ? score->slower_error : 0,
        .contention = score->contention,
        .peak_bytes = score->worst.peak_bytes,
        .peak_stage = score->worst.stage,
        .compute_fraction = score->compute,
        .bubble_fraction = score->bubble,
        .communication_fraction = score->communication,
        .bound_time_s = plan->bound.time_s,
        .bound_peak_bytes = plan->bound.peak_bytes,
    };
}
