/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_fluid.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"

enum { GPUS = 64, GPUS_PER_NODE = 8, N_LINKS = 4 * GPUS };

struct flow {
    int32_t link[2];   /* of its route */
    double begins_s;   /* INFINITY: not known yet */
    double left_bytes; /* 0: no SEND, or over */
    double bytes_per_s;
};

struct fluid {
    const struct dag *dag;
    struct flow *flows; /* [n_tasks] */
    struct timeline timeline;
    bool *started; /* [n_tasks] */
    double now_s;
};

static double capacity(int32_t link)
{
    return link < 2 * GPUS ? 200e9 : 50e9;
}

static struct flow flow_of(const struct dag_task *task)
{
    bool inside = task->from_rank / GPUS_PER_NODE == task->to_rank / GPUS_PER_NODE;
    int32_t first = inside ? 0 : 2 * GPUS;
    return (struct flow){{first + task->from_rank, first + GPUS + task->to_rank},
                         INFINITY,
                         task->kind == DAG_SEND ? task->wire_bytes : 0,
                         0};
}

static bool on_the_way(const struct fluid *fluid, const struct flow *flow)
{
    return flow->left_bytes > 0 && flow->begins_s <= fluid->now_s;
}

/* Start tasks in task order, as predecessors come first. Known finishes may lie ahead, except those of SENDs. */
static void start_all(struct fluid *fluid)
{
    const struct dag *dag = fluid->dag;
    struct timeline *timeline = &fluid->timeline;
    double *stream_s = check_calloc((size_t)dag_n_streams(dag), sizeof *stream_s); /* its last finish */
    for (int32_t t = 0; t < dag->n_tasks; t++) {
        double start_s = stream_s[dag->tasks[t].stream];
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1]; e++)
            start_s = fmax(start_s, timeline->finish_s[dag->in_task[e]]);
        if (!fluid->started[t] && isfinite(start_s)) {
            fluid->started[t] = true;
            timeline->start_s[t] = start_s;
            fluid->flows[t].begins_s = start_s + dag->tasks[t].latency_s;
            if (fluid->flows[t].left_bytes == 0)
                timeline->finish_s[t] = start_s + dag->duration_s[t];
        }
        stream_s[dag->tasks[t].stream] = timeline->finish_s[t];
    }
    free(stream_s);
}

/* Raise all rates together. A transfer that meets a full link keeps its rate. */
static void rates_set(struct fluid *fluid)
{
    double left[N_LINKS];
    for (int32_t l = 0; l < N_LINKS; l++)
        left[l] = capacity(l);
    for (int32_t t = 0; t < fluid->dag->n_tasks; t++)
        fluid->flows[t].bytes_per_s = -1; /* not fixed yet */
    while (true) {
        int32_t users[N_LINKS] = {0}, tightest = -1;
        for (int32_t t = 0; t < fluid->dag->n_tasks; t++)
            for (int32_t i = 0; i < 2; i++)
                users[fluid->flows[t].link[i]] +=
                    on_the_way(fluid, &fluid->flows[t]) && fluid->flows[t].bytes_per_s < 0;
        for (int32_t l = 0; l < N_LINKS; l++)
            if (users[l] > 0 && (tightest < 0 || left[l] / users[l] < left[tightest] / users[tightest]))
                tightest = l;
        if (tightest < 0)
            return;
        double share = left[tightest] / users[tightest];
        for (int32_t t = 0; t < fluid->dag->n_tasks; t++) {
            struct flow *flow = &fluid->flows[t];
            if (!on_the_way(fluid, flow) || flow->bytes_per_s >= 0 ||
                (flow->link[0] != tightest && flow->link[1] != tightest))
                continue;
            flow->bytes_per_s = share;
            for (int32_t i = 0; i < 2; i++)
                left[flow->link[i]] -= share;
        }
    }
}

/* Go on to the next begin or end of a transfer. @return false if there is none */
static bool advance(struct fluid *fluid)
{
    double next_s = INFINITY, before_s = fluid->now_s;
    for (int32_t t = 0; t < fluid->dag->n_tasks; t++) {
        const struct flow *flow = &fluid->flows[t];
        if (on_the_way(fluid, flow))
            next_s = fmin(next_s, before_s + flow->left_bytes / flow->bytes_per_s);
        else if (flow->left_bytes > 0)
            next_s = fmin(next_s, flow->begins_s);
    }
    if (!isfinite(next_s))
        return false;
    for (int32_t t = 0; t < fluid->dag->n_tasks; t++) {
        struct flow *flow = &fluid->flows[t];
        if (!on_the_way(fluid, flow))
            continue;
        flow->left_bytes -= (next_s - before_s) * flow->bytes_per_s;
        if (flow->left_bytes > 1e-4) /* of 1e5 to 1e9 */
            continue;
        flow->left_bytes = 0;
        fluid->timeline.finish_s[t] = next_s;
    }
    fluid->now_s = next_s;
    return true;
}

struct timeline hand_fluid(const struct dag *dag)
{
    struct fluid fluid = {.dag = dag,
                          .flows = check_calloc((size_t)dag->n_tasks, sizeof *fluid.flows),
                          .started = check_calloc((size_t)dag->n_tasks, sizeof *fluid.started)};
    timeline_reserve(&fluid.timeline, dag->n_tasks);
    for (int32_t t = 0; t < dag->n_tasks; t++) {
        fluid.flows[t] = flow_of(&dag->tasks[t]);
        fluid.timeline.finish_s[t] = INFINITY;
    }
    do {
        start_all(&fluid);
        rates_set(&fluid);
    } while (advance(&fluid));
    for (int32_t t = 0; t < dag->n_tasks; t++)
        fluid.timeline.makespan_s = fmax(fluid.timeline.makespan_s, fluid.timeline.finish_s[t]);
    free(fluid.flows);
    free(fluid.started);
    return fluid.timeline;
}
