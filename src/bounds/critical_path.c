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

void critical_path(const struct dag *dag, struct timeline *timeline)
{
    timeline_reserve(timeline, dag->n_tasks);
    double *start_s = timeline->start_s, *finish_s = timeline->finish_s, makespan_s = 0;
    int32_t edge = 0;
    for (int32_t task = 0; task < dag->n_tasks; task++) {
        double start = 0;
        for (int32_t end = dag->in_first[task + 1]; edge < end; edge++) {
            double finish = finish_s[dag->in_task[edge]];
            start = finish > start ? finish : start;
        }
        double finish = start + dag->duration_s[task];
        start_s[task] = start;
        finish_s[task] = finish;
        makespan_s = finish > makespan_s ? finish : makespan_s;
    }
    timeline->makespan_s = makespan_s;
}

void critical_path_slack(const struct dag *dag, const struct graph *graph, const struct timeline *timeline,
                         double *slack_s)
{
    double *latest_s = slack_s; /* latest finish that does not move the makespan */
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
