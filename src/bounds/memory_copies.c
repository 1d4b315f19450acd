/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/memory_copies.h"

#include <math.h>

#include "base/check.h"

static struct memory_copy copy_of(const struct dag *dag, const struct timeline *timeline,
                                  const struct memory_pipe *pipe, int32_t number)
{
    const struct dag_task *task = &dag->tasks[number];
    const struct plan_pipeline *plan = pipe->plan;
    const struct plan_partition *partition = &plan->partition[task->pass];
    int32_t stage = task->chunk * plan->layout.stages + task->stage;
    double bytes = pipe->offloaded[task->pass][stage * partition->n_micro_batches + task->micro_batch];
    return (struct memory_copy){
        .start_s = timeline->start_s[number], .finish_s = timeline->finish_s[number], .bytes = bytes};
}

void memory_copies_of(const struct dag *dag, const struct timeline *timeline, const struct memory_pipe *pipe,
                      int32_t dag_rank, enum dag_stream stream, struct memory_copies *copies)
{
    size_t n = 0;
    int32_t task = memory_first_of(dag, dag_rank, stream);
    for (bool more = true; more; n++) {
        more = task >= 0 && dag->tasks[task].micro_batch >= 0; /* behind them are copies of an optimizer */
        copies->all = check_grow(copies->all, n, &copies->capacity, sizeof *copies->all);
        copies->all[n] =
            more ? copy_of(dag, timeline, pipe, task) : (struct memory_copy){.start_s = INFINITY, .finish_s = INFINITY};
        task = more ? dag->stream_next[task] : -1;
    }
}

double memory_copies_host_peak(const struct memory_copies *out, const struct memory_copies *in)
{
    const struct memory_copy *back = in->all;
    double held = 0, peak = 0;
    for (const struct memory_copy *copy = out->all; copy->start_s < INFINITY; copy++) {
        for (; back->finish_s <= copy->start_s; back++)
            held -= back->bytes;
        held += copy->bytes;
        peak = fmax(peak, held);
    }
    return peak;
}
