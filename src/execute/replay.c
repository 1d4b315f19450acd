/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/replay.h"

#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xbt/config.h>
#include <xbt/log.h>

#include "base/check.h"

struct hosts {
    sg_host_t *gpu; /* [n_nodes x gpus_per_node] */
    sg_host_t *cpu; /* [n_nodes] */
};

struct run {
    const struct replay *replay;
    struct hosts hosts;
    struct walker *walkers; /* [n_streams] */
};

/* Walks a stream. */
struct walker {
    struct run *run;
    const int32_t *tasks; /* none: no actor, no semaphore */
    int32_t n_tasks;
    int32_t waits_for; /* task at whose start the actor sleeps, -1: none */
    sg_sem_t wake;
};

/* All actors run in one thread, one at a time between simulation calls, so counters need no lock. */
static void wait_for_others(struct walker *walker, int32_t task)
{
    if (walker->run->replay->queues->n_waits[task] == 0)
        return;
    walker->waits_for = task;
    sg_sem_acquire(walker->wake);
    walker->waits_for = -1;
}

static void tell_successors(struct run *run, int32_t task)
{
    struct queues *queues = run->replay->queues;
    for (int32_t i = queues->out_first[task]; i < queues->out_first[task + 1]; i++) {
        int32_t next = queues->out_task[i];
        struct walker *walker = &run->walkers[run->replay->dag->tasks[next].stream];
        if (--queues->n_waits[next] == 0 && walker->waits_for == next)
            sg_sem_release(walker->wake);
    }
}

static sg_host_t host_of(const struct run *run, int32_t rank, int32_t other_rank)
{
    int32_t gpus_per_node = run->replay->platform->gpus_per_node;
    return rank >= 0 ? run->hosts.gpu[rank] : run->hosts.cpu[other_rank / gpus_per_node];
}

static void transfer(const struct run *run, int32_t task)
{
    const struct dag_task *send = &run->replay->dag->tasks[task];
    double whole_bytes = floor(send->wire_bytes);
    double delay_s = send->latency_s;
    if (whole_bytes < send->wire_bytes) {
        /* SimGrid sends whole bytes; the rest of one takes the time it takes on free links. */
        double alone_s = run->replay->dag->duration_s[task] - send->latency_s;
        delay_s += fmax(0, alone_s) * (send->wire_bytes - whole_bytes) / send->wire_bytes;
    }
    if (delay_s > 0)
        sg_actor_sleep_for(delay_s);
    if (whole_bytes > 0)
        sg_host_sendto(host_of(run, send->from_rank, send->to_rank), host_of(run, send->to_rank, send->from_rank),
                       whole_bytes);
}

static void walk(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct walker *walker = sg_actor_self_get_data();
    const struct replay *replay = walker->run->replay;
    for (int32_t i = 0; i < walker->n_tasks; i++) {
        int32_t task = walker->tasks[i];
        wait_for_others(walker, task);
        replay->start_s[task] = simgrid_get_clock();
        /* Work sleeps and does not execute on the host: as exact, a quarter cheaper, and no other place that is
           folded onto the same GPU slows it down. A stream does one task at a time in any case. */
        if (replay->dag->tasks[task].kind == DAG_SEND)
            transfer(walker->run, task);
        else if (replay->dag->duration_s[task] > 0)
            sg_actor_sleep_for(replay->dag->duration_s[task]);
        replay->finish_s[task] = simgrid_get_clock();
        tell_successors(walker->run, task);
    }
}

/* SimGrid has said on stderr what is wrong. */
static void refuse_platform(int signal_number)
{
    (void)signal_number;
    _exit(REPLAY_REFUSED);
}

static void engine_start(const char *platform_path)
{
    char *argv[] = {"slimsim", "--log=root.thres:error", NULL};
    int argc = 2;
    simgrid_init(&argc, argv);
    signal(SIGINT, SIG_IGN); /* SimGrid has taken it; the parent decides, and the child dies with it */
    /* Alone a transfer takes bytes over bandwidth exactly, shared links are shared equally. */
    sg_cfg_set_string("network/model", "CM02");
    sg_cfg_set_boolean("network/crosstraffic", "no");
    sg_cfg_set_double("network/TCP-gamma", 1e30);
    sg_cfg_set_double("network/loopback-bw", 1e13);
    sg_cfg_set_double("surf/precision", 1e-12);
    sg_cfg_set_int("contexts/stack-size", 256); /* KiB; the default maps 8 MiB an actor */
    signal(SIGABRT, refuse_platform);
    simgrid_load_platform(platform_path);
    signal(SIGABRT, SIG_DFL);
}

/* The number that text begins with, text moved behind it; -1: none. */
static long number_take(const char **text)
{
    if (!isdigit((unsigned char)**text))
        return -1;
    char *end;
    long number = strtol(*text, &end, 10);
    *text = end;
    return number;
}

/* Where the host g<node>_<gpu> or cpu<node> is kept; NULL: it is none of the platform. */
static sg_host_t *host_slot(const struct hosts *hosts, const struct platform *platform, const char *name)
{
    bool is_gpu = name[0] == 'g';
    if (!is_gpu && strncmp(name, "cpu", 3) != 0)
        return NULL;
    const char *text = name + (is_gpu ? 1 : 3);
    long node = number_take(&text), gpu = 0;
    if (is_gpu) {
        if (*text++ != '_')
            return NULL;
        gpu = number_take(&text);
    }
    if (*text != '\0' || node < 0 || node >= platform->n_nodes || gpu < 0 || gpu >= platform->gpus_per_node)
        return NULL;
    return is_gpu ? &hosts->gpu[node * platform->gpus_per_node + gpu] : &hosts->cpu[node];
}

/* Handles once: SimGrid finds a host by name by walking all zones. */
static struct hosts hosts_find(const struct platform *platform)
{
    size_t n_hosts = sg_host_count();
    sg_host_t *list = sg_host_list();
    struct hosts hosts = {
        .gpu = check_calloc((size_t)platform_n_gpus(platform), sizeof(sg_host_t)),
        .cpu = check_calloc((size_t)platform->n_nodes, sizeof(sg_host_t)),
    };
    for (size_t i = 0; i < n_hosts; i++) {
        sg_host_t *slot = host_slot(&hosts, platform, sg_host_get_name(list[i]));
        if (slot != NULL)
            *slot = list[i];
    }
    free(list);
    return hosts;
}

static bool hosts_check(const struct hosts *hosts, const struct platform *platform)
{
    for (int32_t rank = 0; rank < platform_n_gpus(platform); rank++)
        if (hosts->gpu[rank] == NULL) {
            fprintf(stderr, "host g%d_%d (GPU %d) is missing\n", rank / platform->gpus_per_node,
                    rank % platform->gpus_per_node, rank);
            return false;
        }
    for (int32_t node = 0; node < platform->n_nodes; node++)
        if (hosts->cpu[node] == NULL) {
            fprintf(stderr, "host cpu%d (memory of node %d) is missing\n", node, node);
            return false;
        }
    return true;
}

/* The links of slow GPUs, both directions: nv<node>_<gpu>_u, ... */
static void links_slow_down(const struct platform *platform, const struct faults *faults)
{
    static const char *const prefix[FAULT_N_KINDS] = {
        [FAULT_NVLINK] = "nv", [FAULT_NIC] = "ib", [FAULT_PCIE] = "pc"};
    char name[64];
    for (int32_t i = faults->n_gpus; i < FAULT_N_KINDS * faults->n_gpus; i++) {
        int32_t gpu = i % faults->n_gpus;
        for (int direction = 0; direction < 2 && faults->factor[i] > 1; direction++) {
            snprintf(name, sizeof name, "%s%d_%d_%c", prefix[i / faults->n_gpus], gpu / platform->gpus_per_node,
                     gpu % platform->gpus_per_node, "ud"[direction]);
            sg_link_t link = sg_link_by_name(name);
            sg_link_set_bandwidth(link, sg_link_get_bandwidth(link) / faults->factor[i]);
        }
    }
}

static void walkers_start(struct run *run)
{
    const struct queues *queues = run->replay->queues;
    const struct dag *dag = run->replay->dag;
    for (int32_t s = 0; s < queues->n_streams; s++) {
        int32_t first = queues->stream_first[s], n_tasks = queues->stream_first[s + 1] - first;
        if (n_tasks == 0)
            continue;
        run->walkers[s] = (struct walker){run, queues->stream_task + first, n_tasks, -1, sg_sem_init(0)};
        sg_actor_t actor = sg_actor_init("stream", run->hosts.gpu[dag->places[s / DAG_N_STREAMS].rank]);
        sg_actor_set_data(actor, &run->walkers[s]);
        sg_actor_start(actor, walk, 0, NULL);
    }
}

static void walkers_run(struct run *run)
{
    const struct queues *queues = run->replay->queues;
    run->walkers = check_calloc((size_t)queues->n_streams, sizeof *run->walkers);
    walkers_start(run);
    simgrid_run();
    for (int32_t s = 0; s < queues->n_streams; s++)
        if (run->walkers[s].n_tasks > 0)
            sg_sem_destroy(run->walkers[s].wake);
    free(run->walkers);
}

int replay_run(const struct replay *replay)
{
    engine_start(replay->platform->path);
    struct run run = {.replay = replay, .hosts = hosts_find(replay->platform)};
    bool complete = hosts_check(&run.hosts, replay->platform);
    if (complete && replay->dag->faults != NULL)
        links_slow_down(replay->platform, replay->dag->faults);
    if (complete)
        walkers_run(&run);
    free(run.hosts.gpu);
    free(run.hosts.cpu);
    return complete ? EXIT_SUCCESS : REPLAY_REFUSED;
}
