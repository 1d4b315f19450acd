/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simgrid.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "bench.h"
#include "execute/replay.h"

enum op_kind { OP_WAIT, OP_EXECUTE, OP_SEND, OP_POST };

struct op {
    enum op_kind kind;
    double amount; /* s, or parts of bytes */
    double latency_s;
    sg_host_t from, to;
    sg_sem_t semaphore;
    double *finish_s; /* of the task that ends with it, NULL: of none */
};

struct stream {
    struct op *ops;
    int32_t n;
    double begin_s;
};

static void walk(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct stream *stream = sg_actor_self_get_data();
    for (struct op *op = stream->ops; op < stream->ops + stream->n; op++) {
        if (op->kind == OP_WAIT)
            sg_sem_acquire(op->semaphore);
        else if (op->kind == OP_POST)
            sg_sem_release(op->semaphore);
        else if (op->kind == OP_EXECUTE && op->amount > 0)
            sg_actor_sleep_for(op->amount);
        else if (op->kind == OP_SEND) {
            if (op->latency_s > 0)
                sg_actor_sleep_for(op->latency_s);
            sg_host_sendto(op->from, op->to, op->amount);
        }
        if (op->finish_s != NULL)
            *op->finish_s = simgrid_get_clock() - stream->begin_s;
    }
}

static struct op task_op(const struct dag *dag, int32_t t, const struct cluster *cluster, double *finish_s)
{
    const struct dag_task *task = &dag->tasks[t];
    if (task->kind != DAG_SEND || task->wire_bytes < 1)
        return (struct op){.kind = OP_EXECUTE, .amount = dag->duration_s[t], .finish_s = finish_s};
    return (struct op){.kind = OP_SEND,
                       .amount = task->wire_bytes * CLUSTER_PARTS_OF_BYTE,
                       .latency_s = task->latency_s,
                       .from = cluster_host(cluster, task->from_rank, task->to_rank),
                       .to = cluster_host(cluster, task->to_rank, task->from_rank),
                       .finish_s = finish_s};
}

/* Operations of all streams. A semaphore an edge, by the edge's number. */
static struct stream *streams_of(const struct dag *dag, const struct queues *queues, const struct cluster *cluster,
                                 double *finish_s)
{
    struct stream *streams = check_calloc((size_t)queues->n_streams, sizeof *streams);
    int32_t *capacity = check_calloc((size_t)queues->n_streams, sizeof *capacity);
    sg_sem_t *semaphores = check_calloc((size_t)dag->n_edges, sizeof *semaphores);
    int32_t *out_first = check_calloc((size_t)dag->n_tasks + 2, sizeof *out_first);
    int32_t *out_edge = check_calloc((size_t)dag->n_edges, sizeof *out_edge);
    for (int32_t t = 0; t < dag->n_tasks; t++)
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1]; e++)
            if (dag->tasks[dag->in_task[e]].stream != dag->tasks[t].stream) {
                semaphores[e] = sg_sem_init(0);
                out_first[dag->in_task[e] + 2]++;
                capacity[dag->tasks[t].stream]++;
                capacity[dag->tasks[dag->in_task[e]].stream]++;
            }
    for (int32_t t = 0; t < dag->n_tasks; t++) {
        out_first[t + 2] += out_first[t + 1];
        capacity[dag->tasks[t].stream]++;
    }
    for (int32_t t = 0; t < dag->n_tasks; t++)
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1]; e++)
            if (semaphores[e] != NULL)
                out_edge[out_first[dag->in_task[e] + 1]++] = e;
    for (int32_t s = 0; s < queues->n_streams; s++)
        streams[s].ops = check_calloc((size_t)capacity[s], sizeof *streams[s].ops);
    for (int32_t t = 0; t < dag->n_tasks; t++) {
        struct stream *stream = &streams[dag->tasks[t].stream];
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1]; e++)
            if (semaphores[e] != NULL)
                stream->ops[stream->n++] = (struct op){.kind = OP_WAIT, .semaphore = semaphores[e]};
        stream->ops[stream->n++] = task_op(dag, t, cluster, &finish_s[t]);
        for (int32_t i = out_first[t]; i < out_first[t + 1]; i++)
            stream->ops[stream->n++] = (struct op){.kind = OP_POST, .semaphore = semaphores[out_edge[i]]};
    }
    free(capacity);
    free(semaphores);
    free(out_first);
    free(out_edge);
    return streams;
}

static void bare_on(const struct dag *dag, struct stream *streams, int32_t n_streams, const struct cluster *cluster)
{
    for (int32_t s = 0; s < n_streams; s++) {
        if (streams[s].n == 0)
            continue;
        streams[s].begin_s = simgrid_get_clock();
        sg_actor_t actor = sg_actor_init("stream", cluster->gpu[dag->places[s / DAG_N_STREAMS].rank]);
        sg_actor_set_data(actor, &streams[s]);
        sg_actor_start(actor, walk, 0, NULL);
    }
    simgrid_run();
}

static double apart(const double *a, const double *b, int32_t n)
{
    double most = 0, last = 0;
    for (int32_t i = 0; i < n; i++) {
        most = fmax(most, fabs(a[i] - b[i]));
        last = fmax(last, a[i]);
    }
    return most / last;
}

static bool measure(const struct dag *dag, const struct platform *platform, struct bench_rates *rates)
{
    size_t n_tasks = (size_t)dag->n_tasks;
    double *start_s = check_calloc(n_tasks, sizeof *start_s), *finish_s = check_calloc(n_tasks, sizeof *finish_s);
    double *bare_finish_s = check_calloc(n_tasks, sizeof *bare_finish_s);
    double replay_s[RUNS], bare_s[RUNS];
    struct stream *streams = NULL;
    struct cluster cluster;
    double before_s = clock_cpu_s();
    if (!cluster_open(platform, dag, &cluster))
        return false;
    rates->load_s = clock_cpu_s() - before_s;
    for (int i = 0; i < RUNS; i++) {
        struct queues queues;
        memset(start_s, 0, n_tasks * sizeof *start_s);
        before_s = clock_cpu_s();
        queues_build(dag, &queues);
        struct replay replay = {dag, &queues, platform, start_s, finish_s};
        replay_on(&replay, &cluster);
        replay_s[i] = clock_cpu_s() - before_s;
        if (streams == NULL)
            streams = streams_of(dag, &queues, &cluster, bare_finish_s);
        before_s = clock_cpu_s();
        bare_on(dag, streams, queues.n_streams, &cluster);
        bare_s[i] = clock_cpu_s() - before_s;
        queues_free(&queues);
    }
    rates->replay_s = median(replay_s, RUNS);
    rates->bare_s = median(bare_s, RUNS);
    rates->apart = apart(finish_s, bare_finish_s, dag->n_tasks);
    return true; /* the process ends: nothing is freed */
}

bool bench_simgrid_rates(const struct dag *dag, const struct platform *platform, struct bench_rates *rates)
{
    struct bench_rates *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    fflush(NULL);
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0)
        _exit(measure(dag, platform, shared) ? EXIT_SUCCESS : EXIT_FAILURE);
    int status;
    struct rusage usage;
    CHECK(wait4(process, &status, 0, &usage) == process);
    *rates = *shared;
    rates->peak_bytes = 1024.0 * (double)usage.ru_maxrss;
    munmap(shared, sizeof *shared);
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}
