/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/replay.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "execute/events.h"
#include "execute/routes.h"
#include "execute/senders.h"

/* The transfer that goes on by a way. */
enum flight_state { FLIGHT_ALONE, FLIGHT_SHARES, FLIGHT_OVER };

struct flight {
    int32_t task; /* -1: none */
    enum flight_state state;
};

/* Who is on a link: one alone, or any number on SimGrid. */
struct occupancy {
    int32_t n_flights;
    int32_t alone; /* its way, -1: none */
};

struct run {
    const struct replay *replay;
    const struct cluster *cluster;
    double begin_s; /* SimGrid's clock */
    struct routes routes;
    struct flight *flights;        /* [n_ways] */
    struct occupancy *occupancies; /* [n_links] */
    struct events events;
    struct senders senders;
    int32_t *known; /* [n_tasks] a stack: finish is known, successors do not know yet */
};

/* Of a task that meets no other. */
static double alone_finish_s(const struct run *run, int32_t task)
{
    return run->replay->start_s[task] + routes_alone_s(&run->routes, run->replay->dag, task);
}

/* A task whose predecessors' finish is known. */
static void task_ready(struct run *run, int32_t task, int32_t *n_known)
{
    const struct replay *replay = run->replay;
    if (routes_can_meet(&run->routes, task)) {
        double begins_s = replay->start_s[task] + replay->dag->tasks[task].latency_s;
        events_add(&run->events, (struct event){begins_s, task, true});
        return;
    }
    replay->finish_s[task] = alone_finish_s(run, task);
    run->known[(*n_known)++] = task;
}

/* Tell what follows a task, and what follows from that. */
static void tell_successors(struct run *run, int32_t task)
{
    const struct replay *replay = run->replay;
    struct queues *queues = replay->queues;
    int32_t n_known = 0;
    run->known[n_known++] = task;
    while (n_known > 0) {
        int32_t before = run->known[--n_known];
        for (int32_t i = queues->out_first[before]; i < queues->out_first[before + 1]; i++) {
            int32_t next = queues->out_task[i];
            replay->start_s[next] = fmax(replay->start_s[next], replay->finish_s[before]);
            if (--queues->n_waits[next] == 0)
                task_ready(run, next, &n_known);
        }
    }
}

/* What needs no other task to begin. They are listed first: what follows from them has no n_waits left either. */
static void roots_run(struct run *run)
{
    const int32_t *n_waits = run->replay->queues->n_waits;
    int32_t n_tasks = run->replay->dag->n_tasks, n_roots = 0;
    int32_t *roots = check_malloc((size_t)n_tasks * sizeof *roots);
    for (int32_t t = 0; t < n_tasks; t++)
        if (n_waits[t] == 0)
            roots[n_roots++] = t;
    for (int32_t i = 0; i < n_roots; i++) {
        int32_t n_known = 0;
        task_ready(run, roots[i], &n_known);
        if (n_known > 0)
            tell_successors(run, roots[i]);
    }
    free(roots);
}

static struct occupancy *occupancy(struct run *run, int32_t way, int32_t i)
{
    return &run->occupancies[run->routes.link[run->routes.ways[way].first_link + i]];
}

static void links_leave(struct run *run, int32_t way)
{
    for (int32_t i = 0; i < run->routes.ways[way].n_links; i++) {
        struct occupancy *link = occupancy(run, way, i);
        link->n_flights--;
        link->alone = -1;
    }
}

/* Hand to SimGrid, at its clock or later, what is left of a transfer. */
static void flight_share(struct run *run, int32_t way, double time_s, double bytes)
{
    const struct way *of = &run->routes.ways[way];
    double ahead_s = run->begin_s + time_s - simgrid_get_clock();
    if (ahead_s > 0 && run->senders.n_sending == 0)
        sg_actor_sleep_for(ahead_s);
    run->flights[way].state = FLIGHT_SHARES;
    senders_send(&run->senders, cluster_host(run->cluster, of->from_rank, of->to_rank),
                 cluster_host(run->cluster, of->to_rank, of->from_rank), bytes, way);
}

/* A transfer that was alone until now meets another one. With next to nothing left it is over. */
static void flight_meets(struct run *run, int32_t way, double time_s)
{
    struct flight *flight = &run->flights[way];
    double left_bytes = (alone_finish_s(run, flight->task) - time_s) * run->routes.ways[way].bytes_per_s;
    left_bytes = fmin(left_bytes, run->replay->dag->tasks[flight->task].wire_bytes);
    if (left_bytes * CLUSTER_PARTS_OF_BYTE < 1) {
        links_leave(run, way);
        flight->state = FLIGHT_OVER;
        return;
    }
    for (int32_t i = 0; i < run->routes.ways[way].n_links; i++)
        occupancy(run, way, i)->alone = -1;
    flight_share(run, way, time_s, left_bytes);
}

static void flight_begin(struct run *run, int32_t task, double time_s)
{
    int32_t way = run->routes.way[task], n_links = run->routes.ways[way].n_links;
    bool meets = false;
    for (int32_t i = 0; i < n_links; i++)
        if (occupancy(run, way, i)->alone >= 0)
            flight_meets(run, occupancy(run, way, i)->alone, time_s);
    for (int32_t i = 0; i < n_links; i++)
        meets = meets || occupancy(run, way, i)->n_flights > 0;
    for (int32_t i = 0; i < n_links; i++) {
        struct occupancy *link = occupancy(run, way, i);
        link->n_flights++;
        link->alone = meets ? -1 : way;
    }
    run->flights[way] = (struct flight){.task = task, .state = FLIGHT_ALONE};
    if (meets)
        flight_share(run, way, time_s, run->replay->dag->tasks[task].wire_bytes);
    else
        events_add(&run->events, (struct event){alone_finish_s(run, task), task, false});
}

/* Of a transfer that stayed alone; one that did not ends when SimGrid says so. */
static void flight_end(struct run *run, int32_t task, double time_s)
{
    int32_t way = run->routes.way[task];
    struct flight *flight = &run->flights[way];
    if (flight->task != task || flight->state == FLIGHT_SHARES)
        return;
    if (flight->state == FLIGHT_ALONE)
        links_leave(run, way);
    flight->task = -1;
    run->replay->finish_s[task] = time_s;
    tell_successors(run, task);
}

static void shared_flight_end(struct run *run, int32_t way)
{
    struct flight *flight = &run->flights[way];
    int32_t task = flight->task;
    links_leave(run, way);
    flight->task = -1;
    run->replay->finish_s[task] = simgrid_get_clock() - run->begin_s;
    tell_successors(run, task);
}

/* Wait for SimGrid until an event is due; while no transfers share links, time runs ahead of SimGrid's clock.
 * @return false: a transfer has ended there before */
static bool event_due(struct run *run)
{
    double next_s = run->events.n > 0 ? run->events.heap[0].time_s : INFINITY;
    double ahead_s = next_s - (simgrid_get_clock() - run->begin_s);
    return run->senders.n_sending == 0 || ahead_s <= 0 || !senders_wait(&run->senders, ahead_s);
}

static void events_run(struct run *run)
{
    while (run->events.n > 0 || run->senders.n_sending > 0) {
        int32_t way;
        if (event_due(run)) {
            struct event event = events_take(&run->events);
            if (event.begins)
                flight_begin(run, event.task, event.time_s);
            else
                flight_end(run, event.task, event.time_s);
        }
        while (senders_take(&run->senders, &way))
            shared_flight_end(run, way);
    }
}

/* The one actor beside those of senders. SimGrid knows routes only while it runs. */
static void walk(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct run *run = sg_actor_self_get_data();
    if (!routes_find(run->replay->dag, run->replay->queues, run->cluster, &run->routes)) {
        fflush(stderr);
        _exit(REPLAY_REFUSED);
    }
    run->flights = check_malloc((size_t)run->routes.n_ways * sizeof *run->flights);
    for (int32_t w = 0; w < run->routes.n_ways; w++)
        run->flights[w] = (struct flight){.task = -1};
    run->occupancies = check_malloc((size_t)run->routes.n_links * sizeof *run->occupancies);
    for (int32_t l = 0; l < run->routes.n_links; l++)
        run->occupancies[l] = (struct occupancy){0, -1};
    senders_open(&run->senders);
    roots_run(run);
    events_run(run);
    senders_close(&run->senders);
}

void replay_on(const struct replay *replay, const struct cluster *cluster)
{
    struct run run = {.replay = replay,
                      .cluster = cluster,
                      .begin_s = simgrid_get_clock(),
                      .known = check_malloc((size_t)replay->dag->n_tasks * sizeof(int32_t))};
    sg_actor_t actor = sg_actor_init("replay", cluster->gpu[0]);
    sg_actor_set_data(actor, &run);
    sg_actor_start(actor, walk, 0, NULL);
    simgrid_run();
    events_free(&run.events);
    routes_free(&run.routes);
    free(run.flights);
    free(run.occupancies);
    free(run.known);
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
