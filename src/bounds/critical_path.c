/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/critical_path.h"

#include <stdlib.h>

#include "base/check.h"

void timeline_reserve(struct timeline *timeline, int32_t n_tasks)
{
    if (timeline->capacity >= n_tasks)
        return;
    timeline_free(timeline);
    timeline->start_s = check_malloc((size_t)n_tasks * sizeof *timeline->start_s);
    timeline->finish_s = check_malloc((size_t)n_tasks * sizeof *timeline->finish_s);
    timeline->capacity = n_tasks;
}

/* Tasks from `task` on to before `end`, the first of them no earlier than floor_s. */
static inline void walk(const struct dag *dag, int32_t task, int32_t end, double floor_s, struct timeline *timeline)
{
    double *start_s = timeline->start_s, *finish_s = timeline->finish_s, makespan_s = timeline->makespan_s;
    int32_t edge = dag->in_first[task];
    for (; task < end; task++) {
        double start = floor_s;
        for (int32_t last = dag->in_first[task + 1]; edge < last; edge++) {
            double finish = finish_s[dag->in_task[edge]];
            start = finish > start ? finish : start;
        }
        double finish = start + dag->duration_s[task];
        start_s[task] = start;
        finish_s[task] = finish;
        makespan_s = finish > makespan_s ? finish : makespan_s;
        floor_s = 0;
    }
    timeline->makespan_s = makespan_s;
}

/* Copies that stand behind the other tasks are met where they are due. */
void critical_path(const struct dag *dag, struct timeline *timeline)
{
    const struct dag_apart *apart = &dag->apart;
    int32_t task = 0, n_tasks = dag->n_tasks - apart->n;
    double floor_s = 0;
    timeline_reserve(timeline, dag->n_tasks);
    timeline->makespan_s = 0;
    for (int32_t i = 0; i < apart->n; i++) {
        const struct dag_copy *copy = &apart->copies[i];
        int32_t number = n_tasks + i;
        double start_s = 0;
        if (copy->before > task) {
            walk(dag, task, copy->before, floor_s, timeline);
            task = copy->before;
            floor_s = 0;
        }
        for (int k = 0; k < 2; k++)
            if (copy->with[k] >= 0 && timeline->start_s[copy->with[k]] > start_s)
                start_s = timeline->start_s[copy->with[k]];
        walk(dag, number, number + 1, start_s, timeline);
        if (dag->tasks[number].purpose == DAG_PREFETCH)
            floor_s = timeline->finish_s[number];
    }
    walk(dag, task, n_tasks, floor_s, timeline);
}

void critical_path_slack(const struct dag *dag, const struct graph *graph, const struct timeline *timeline,
                         double *slack_s)
{
    double *latest_s = slack_s; /* finish that does not move the makespan */
    for (int32_t i = dag->n_tasks - 1; i >= 0; i--) {
        int32_t task = (int32_t)graph_order(graph)[i];
        struct graph_successors after = graph_successors_of(graph, task);
        latest_s[task] = timeline->makespan_s;
        for (int64_t k = 0; k < after.n; k++) {
            double start_s = latest_s[after.task[k]] - dag->duration_s[after.task[k]];
            latest_s[task] = start_s < latest_s[task] ? start_s : latest_s[task];
        }
    }
    for (int32_t task = 0; task < dag->n_tasks; task++) {
        double slack = latest_s[task] - timeline->finish_s[task];
        slack_s[task] = slack > 0 ? slack : 0;
    }
}

void timeline_free(struct timeline *timeline)
{
    free(timeline->start_s);
    free(timeline->finish_s);
    *timeline = (struct timeline){0};
}
