/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/streams.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/instr.h>
#include <simgrid/semaphore.h>
#include <stdlib.h>

#include "base/check.h"
#include "execute/routes.h"

/* Names of actors, and of states in Paje files, in which names have no blanks. */
static const char *const stream_name[DAG_N_STREAMS] = {"compute", "send-forward", "send-backward", "collective", "rail",
                                                       "shards",  "shard-rail",   "to-host",       "from-host"};

struct run {
    const struct dag *dag;
    const struct graph *graph;
    const struct cluster *cluster;
    double *start_s, *finish_s;
    int32_t *n_waits;       /* of each task: predecessors on other streams that have not ended */
    struct stream *streams; /* [dag_n_streams] */
};

struct stream {
    struct run *run;
    int32_t first_task;
    int32_t waits_for; /* task that its actor waits to run, -1: none */
    sg_sem_t wake;
};

/*
 * Wait for predecessors. All actors run in one thread, one at a time between calls of SimGrid, so counters need no
 * lock.
 */
static void predecessors_wait(struct stream *stream, int32_t task)
{
    if (stream->run->n_waits[task] == 0)
        return;
    stream->waits_for = task;
    sg_sem_acquire(stream->wake);
    stream->waits_for = -1;
}

static void successors_signal(const struct run *run, int32_t task)
{
    struct graph_successors after = graph_successors_of(run->graph, task);
    for (int64_t i = 0; i < after.n; i++) {
        int32_t next = (int32_t)after.task[i];
        struct stream *stream = &run->streams[run->dag->tasks[next].stream];
        if (run->dag->tasks[next].stream != run->dag->tasks[task].stream && --run->n_waits[next] == 0 &&
            stream->waits_for == next)
            sg_sem_release(stream->wake);
    }
}

static void sleep_for(double seconds)
{
    if (seconds > 0)
        sg_actor_sleep_for(seconds);
}

static void transfer(const struct run *run, int32_t task)
{
    const struct dag_task *send = &run->dag->tasks[task];
    double whole_bytes = floor(send->wire_bytes), flow_s = run->dag->duration_s[task] - send->latency_s;
    sleep_for(send->latency_s + flow_s * (send->wire_bytes - whole_bytes) / send->wire_bytes);
    sg_host_sendto(cluster_host(run->cluster, send->from_rank, send->to_rank),
                   cluster_host(run->cluster, send->to_rank, send->from_rank), whole_bytes);
}

static void task_run(const struct run *run, int32_t task)
{
    double duration_s = run->dag->duration_s[task];
    switch (run->dag->tasks[task].kind) {
    case DAG_SEND:
        if (routes_sends(&run->dag->tasks[task]))
            transfer(run, task);
        else
            sleep_for(duration_s);
        break;
    case DAG_SYNC:
        sleep_for(duration_s);
        break;
    default:
        if (duration_s > 0)
            /* speed in the platform's file */
            sg_actor_execute(duration_s * sg_host_get_pstate_speed(sg_host_self(), 0));
    }
}

/* Return the value of a host's state for a task. A host has a state for each stream, whose values name work. */
static const char *state_value(const struct dag_task *task)
{
    return task->kind == DAG_COMPUTE ? pass_name[task->pass] : dag_kind_name[task->kind];
}

static void states_declare(void)
{
    static const char *const pass_colour[N_STEP_PASSES] = {"0.5 0.7 1", "0 0.3 0.8", "0.3 0.5 0.9"};
    static const char *const kind_colour[DAG_N_KINDS] = {"", "0.9 0.6 0.2", "0.3 0.7 0.3", "0.6 0.6 0.6",
                                                         "0.6 0.3 0.7"};
    for (int stream = 0; stream < DAG_N_STREAMS; stream++) {
        TRACE_host_state_declare(stream_name[stream]);
        for (int pass = 0; pass < N_STEP_PASSES; pass++)
            TRACE_host_state_declare_value(stream_name[stream], pass_name[pass], pass_colour[pass]);
        for (int kind = DAG_ATTENTION; kind < DAG_N_KINDS; kind++)
            TRACE_host_state_declare_value(stream_name[stream], dag_kind_name[kind], kind_colour[kind]);
    }
}

static void task_trace(const struct run *run, int32_t task)
{
    const struct dag_task *of = &run->dag->tasks[task];
    const char *host = sg_host_get_name(sg_host_self()), *state = stream_name[of->stream % DAG_N_STREAMS];
    bool shown = run->dag->duration_s[task] > 0;
    if (shown)
        TRACE_host_push_state(host, state, state_value(of));
    task_run(run, task);
    if (shown)
        TRACE_host_pop_state(host, state);
}

static void stream_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct stream *stream = sg_actor_self_get_data();
    const struct run *run = stream->run;
    for (int32_t task = stream->first_task; task >= 0; task = run->dag->stream_next[task]) {
        predecessors_wait(stream, task);
        run->start_s[task] = simgrid_get_clock();
        if (run->cluster->traces) /* these calls crash without a trace */
            task_trace(run, task);
        else
            task_run(run, task);
        run->finish_s[task] = simgrid_get_clock();
        successors_signal(run, task);
    }
}

static void routes_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct run *run = sg_actor_self_get_data();
    routes_check(run->dag, run->cluster);
}

static void actor_start(const char *name, sg_host_t host, void *data, void (*code)(int, char **))
{
    sg_actor_t actor = sg_actor_init(name, host);
    sg_actor_set_data(actor, data);
    sg_actor_start(actor, code, 0, NULL);
}

static void waits_count(const struct run *run)
{
    for (int32_t task = 0; task < run->dag->n_tasks; task++) {
        struct graph_successors after = graph_successors_of(run->graph, task);
        for (int64_t i = 0; i < after.n; i++)
            run->n_waits[after.task[i]] += run->dag->tasks[after.task[i]].stream != run->dag->tasks[task].stream;
    }
}

void streams_run(const struct dag *dag, const struct graph *graph, const struct cluster *cluster, double *start_s,
                 double *finish_s)
{
    int32_t n_streams = dag_n_streams(dag);
    struct run run = {.dag = dag,
                      .graph = graph,
                      .cluster = cluster,
                      .start_s = start_s,
                      .finish_s = finish_s,
                      .n_waits = check_calloc((size_t)dag->n_tasks, sizeof *run.n_waits),
                      .streams = check_calloc((size_t)n_streams, sizeof *run.streams)};
    waits_count(&run);
    if (cluster->traces)
        states_declare();
    /* it starts first, so it ends before the others begin */
    actor_start("routes", cluster->gpu[dag->ranks[0].rank], &run, routes_actor);
    for (int32_t s = 0; s < n_streams; s++)
        if (dag->stream_first[s] >= 0) {
            run.streams[s] = (struct stream){&run, dag->stream_first[s], -1, sg_sem_init(0)};
            actor_start(stream_name[s % DAG_N_STREAMS], cluster->gpu[streams_rank(dag, s)], &run.streams[s],
                        stream_actor);
        }
    simgrid_run();
    for (int32_t s = 0; s < n_streams; s++)
        if (run.streams[s].wake != NULL)
            sg_sem_destroy(run.streams[s].wake);
    free(run.n_waits);
    free(run.streams);
}
