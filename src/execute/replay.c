/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/replay.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "execute/routes.h"

struct run {
    const struct replay *replay;
    const struct cluster *cluster;
    double begin_s;         /* SimGrid's clock */
    double *alone_s;        /* [n_tasks] of execute/routes.h */
    int32_t *known;         /* [n_tasks] a stack: finish is known, successors do not know yet */
    struct walker *walkers; /* [n_streams] */
};

/* Walks those of a stream's tasks that share links. */
struct walker {
    struct run *run;
    const int32_t *tasks;
    int32_t n_tasks;   /* of the stream; 0: no actor, no semaphore */
    int32_t waits_for; /* task at whose start the actor sleeps, -1: none */
    sg_sem_t wake;
    struct walker *next; /* to be woken after it */
};

/* A task whose predecessors' finish is known. */
static void task_ready(struct run *run, int32_t task, int32_t *n_known, struct walker **woken)
{
    const struct replay *replay = run->replay;
    if (run->alone_s[task] == ROUTES_SHARED) {
        struct walker *walker = &run->walkers[replay->dag->tasks[task].stream];
        if (walker->waits_for == task) {
            walker->next = *woken;
            *woken = walker;
        }
        return;
    }
    replay->finish_s[task] = replay->start_s[task] + run->alone_s[task];
    run->known[(*n_known)++] = task;
}

/* Tell what follows a task, and what follows from that. All actors run in one thread, one at a time between simulation
 * calls, so nothing needs a lock, and actors are woken when all is told. */
static void tell_successors(struct run *run, int32_t task)
{
    const struct replay *replay = run->replay;
    struct queues *queues = replay->queues;
    struct walker *woken = NULL;
    int32_t n_known = 0;
    run->known[n_known++] = task;
    while (n_known > 0) {
        int32_t before = run->known[--n_known];
        for (int32_t i = queues->out_first[before]; i < queues->out_first[before + 1]; i++) {
            int32_t next = queues->out_task[i];
            replay->start_s[next] = fmax(replay->start_s[next], replay->finish_s[before]);
            if (--queues->n_waits[next] == 0)
                task_ready(run, next, &n_known, &woken);
        }
    }
    while (woken != NULL) {
        struct walker *walker = woken;
        woken = walker->next;
        sg_sem_release(walker->wake);
    }
}

/* From its start on, at SimGrid's clock or later. */
static void transfer(const struct run *run, int32_t task)
{
    const struct dag_task *send = &run->replay->dag->tasks[task];
    /* SimGrid sends whole bytes; the rest of one takes the time it takes on free links. */
    double whole_bytes = floor(send->wire_bytes), delay_s = send->latency_s;
    double alone_s = fmax(0, run->replay->dag->duration_s[task] - send->latency_s);
    delay_s += alone_s * (send->wire_bytes - whole_bytes) / send->wire_bytes;
    double now_s = simgrid_get_clock(), wakes_s = run->begin_s + run->replay->start_s[task] + delay_s;
    if (wakes_s > now_s)
        sg_actor_sleep_for(wakes_s - now_s);
    sg_host_sendto(cluster_host(run->cluster, send->from_rank, send->to_rank),
                   cluster_host(run->cluster, send->to_rank, send->from_rank), whole_bytes);
}

static void walk(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct walker *walker = sg_actor_self_get_data();
    struct run *run = walker->run;
    for (int32_t i = 0; i < walker->n_tasks; i++) {
        int32_t task = walker->tasks[i];
        if (run->alone_s[task] != ROUTES_SHARED)
            continue;
        if (run->replay->queues->n_waits[task] > 0) {
            walker->waits_for = task;
            sg_sem_acquire(walker->wake);
            walker->waits_for = -1;
        }
        transfer(run, task);
        run->replay->finish_s[task] = simgrid_get_clock() - run->begin_s;
        tell_successors(run, task);
    }
}

static bool any_shared(const struct run *run, const int32_t *tasks, int32_t n_tasks)
{
    int32_t i = 0;
    while (i < n_tasks && run->alone_s[tasks[i]] != ROUTES_SHARED)
        i++;
    return i < n_tasks;
}

static void walkers_start(struct run *run)
{
    const struct queues *queues = run->replay->queues;
    const struct dag *dag = run->replay->dag;
    for (int32_t s = 0; s < queues->n_streams; s++) {
        int32_t first = queues->stream_first[s], n_tasks = queues->stream_first[s + 1] - first;
        if (!any_shared(run, queues->stream_task + first, n_tasks))
            continue;
        run->walkers[s] = (struct walker){run, queues->stream_task + first, n_tasks, -1, sg_sem_init(0), NULL};
        int32_t place = s / DAG_N_STREAMS;
        int32_t gpu = place < dag->n_places ? dag->places[place].rank : place - dag->n_places;
        sg_actor_t actor = sg_actor_init("stream", run->cluster->gpu[gpu]);
        sg_actor_set_data(actor, &run->walkers[s]);
        sg_actor_start(actor, walk, 0, NULL);
    }
}

/* What needs no transfer to begin. The roots are listed first: what follows from them has no n_waits left either. */
static void roots_run(struct run *run)
{
    const int32_t *n_waits = run->replay->queues->n_waits;
    int32_t n_tasks = run->replay->dag->n_tasks, n_roots = 0;
    int32_t *roots = check_malloc((size_t)n_tasks * sizeof *roots);
    for (int32_t t = 0; t < n_tasks; t++)
        if (n_waits[t] == 0 && run->alone_s[t] != ROUTES_SHARED)
            roots[n_roots++] = t;
    for (int32_t i = 0; i < n_roots; i++) {
        run->replay->finish_s[roots[i]] = run->alone_s[roots[i]];
        tell_successors(run, roots[i]);
    }
    free(roots);
}

/* The first actor: SimGrid knows routes only while it runs. */
static void begin(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct run *run = sg_actor_self_get_data();
    if (!routes_fold_check(run->replay->dag, run->cluster)) {
        fflush(stderr);
        _exit(REPLAY_REFUSED);
    }
    run->alone_s = routes_alone_s(run->replay->dag, run->cluster);
    roots_run(run);
    walkers_start(run);
}

void replay_on(const struct replay *replay, const struct cluster *cluster)
{
    size_t n_streams = (size_t)replay->queues->n_streams;
    struct run run = {.replay = replay,
                      .cluster = cluster,
                      .begin_s = simgrid_get_clock(),
                      .known = check_malloc((size_t)replay->dag->n_tasks * sizeof(int32_t)),
                      .walkers = check_calloc(n_streams, sizeof *run.walkers)};
    for (size_t s = 0; s < n_streams; s++)
        run.walkers[s].waits_for = -1;
    sg_actor_t actor = sg_actor_init("begin", cluster->gpu[0]);
    sg_actor_set_data(actor, &run);
    sg_actor_start(actor, begin, 0, NULL);
    simgrid_run();
    for (size_t s = 0; s < n_streams; s++)
        if (run.walkers[s].n_tasks > 0)
            sg_sem_destroy(run.walkers[s].wake);
    free(run.walkers);
    free(run.known);
    free(run.alone_s);
}

int replay_run(const struct replay *replay)
{
    struct cluster cluster;
    bool complete = cluster_open(replay->platform, replay->dag, &cluster);
    if (complete)
        replay_on(replay, &cluster);
    cluster_free(&cluster);
    return complete ? EXIT_SUCCESS : REPLAY_REFUSED;
}
