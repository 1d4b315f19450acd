/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/queues.h"

#include <stdlib.h>

#include "base/check.h"

/* first[i + 1] holds the count of i; make it the start of i + 1, and first[i] that of i. */
static void counts_to_starts(int32_t *first, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        first[i + 1] += first[i];
}

/* Filling by first[i]++ has moved every start to the next one's: move them back. */
static void starts_restore(int32_t *first, int32_t n)
{
    for (int32_t i = n; i > 0; i--)
        first[i] = first[i - 1];
    first[0] = 0;
}

static void streams_build(const struct dag *dag, struct queues *queues)
{
    for (int32_t t = 0; t < dag->n_tasks; t++)
        queues->stream_first[dag->tasks[t].stream + 1]++;
    counts_to_starts(queues->stream_first, queues->n_streams);
    for (int32_t t = 0; t < dag->n_tasks; t++)
        queues->stream_task[queues->stream_first[dag->tasks[t].stream]++] = t;
    starts_restore(queues->stream_first, queues->n_streams);
}

static void successor_add(struct queues *queues, int32_t from, int32_t to)
{
    queues->out_task[queues->out_first[from]++] = to;
    queues->n_waits[to]++;
}

static void successors_build(const struct dag *dag, struct queues *queues)
{
    const struct dag_task *tasks = dag->tasks;
    for (int32_t s = 0; s < queues->n_streams; s++)
        for (int32_t i = queues->stream_first[s]; i + 1 < queues->stream_first[s + 1]; i++)
            queues->out_first[queues->stream_task[i] + 1]++;
    for (int32_t t = 0; t < dag->n_tasks; t++)
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1]; e++)
            queues->out_first[dag->in_task[e] + 1] += tasks[dag->in_task[e]].stream != tasks[t].stream;
    counts_to_starts(queues->out_first, dag->n_tasks);
    for (int32_t s = 0; s < queues->n_streams; s++)
        for (int32_t i = queues->stream_first[s]; i + 1 < queues->stream_first[s + 1]; i++)
            successor_add(queues, queues->stream_task[i], queues->stream_task[i + 1]);
    for (int32_t t = 0; t < dag->n_tasks; t++)
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1]; e++)
            if (tasks[dag->in_task[e]].stream != tasks[t].stream)
                successor_add(queues, dag->in_task[e], t);
    starts_restore(queues->out_first, dag->n_tasks);
}

void queues_build(const struct dag *dag, struct queues *queues)
{
    int32_t n_streams = dag_n_streams(dag);
    *queues = (struct queues){
        .n_streams = n_streams,
        .stream_first = check_calloc((size_t)n_streams + 1, sizeof(int32_t)),
        .stream_task = check_calloc((size_t)dag->n_tasks, sizeof(int32_t)),
        .out_first = check_calloc((size_t)dag->n_tasks + 1, sizeof(int32_t)),
        .out_task = check_calloc((size_t)dag->n_edges + (size_t)dag->n_tasks, sizeof(int32_t)),
        .n_waits = check_calloc((size_t)dag->n_tasks, sizeof(int32_t)),
    };
    streams_build(dag, queues);
    successors_build(dag, queues);
}

void queues_free(struct queues *queues)
{
    free(queues->stream_first);
    free(queues->stream_task);
    free(queues->out_first);
    free(queues->out_task);
    free(queues->n_waits);
    *queues = (struct queues){0};
}
