/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/cluster.h"

#include <ctype.h>
#include <signal.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xbt/config.h>
#include <xbt/log.h>

#include "base/check.h"
#include "execute/replay.h"
#include "scenario/trim.h"

/* SimGrid has said on stderr what is wrong; of what it does not check, as a zoneRoute that stands twice, nothing. */
static void refuse_platform(int signal_number)
{
    static const char text[] = "it crashed while reading it\n";
    ssize_t n_said = signal_number == SIGSEGV ? write(STDERR_FILENO, text, sizeof text - 1) : 0;
    _exit(n_said < 0 ? EXIT_FAILURE : REPLAY_REFUSED);
}

static void platform_parse(const char *path)
{
    signal(SIGABRT, refuse_platform);
    struct sigaction before;
    CHECK(sigaction(SIGSEGV, &(struct sigaction){.sa_handler = refuse_platform}, &before) == 0);
    simgrid_load_platform(path);
    CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
    signal(SIGABRT, SIG_DFL);
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
    sg_cfg_set_double("network/loopback-bw", 1e13 * CLUSTER_PARTS_OF_BYTE);
    sg_cfg_set_double("surf/precision", 1e-12);
    sg_cfg_set_int("contexts/stack-size", 256); /* KiB; the default maps 8 MiB an actor */
    platform_parse(platform_path);
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

/* GPUs and memories. */
static size_t n_hosts(const struct platform *platform)
{
    return (size_t)platform_n_gpus(platform) + (size_t)platform->n_nodes;
}

/* Where the host g<node>_<gpu> or cpu<node> is kept; NULL: it is none of the platform. */
static sg_host_t *host_slot(const struct cluster *cluster, const char *name)
{
    const struct platform *platform = cluster->platform;
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
    return is_gpu ? &cluster->gpu[node * platform->gpus_per_node + gpu] : &cluster->cpu[node];
}

/* Which hosts a graph runs on, GPUs and then memories. */
struct needed {
    const struct cluster *cluster;
    bool *host;
};

static void need(const struct needed *needed, int32_t rank, int32_t other_rank)
{
    const struct platform *platform = needed->cluster->platform;
    int32_t n_gpus = platform_n_gpus(platform);
    needed->host[rank >= 0 ? rank : n_gpus + other_rank / platform->gpus_per_node] = true;
}

/* The caller frees the flags. */
static struct needed needed_of(const struct dag *dag, const struct cluster *cluster)
{
    struct needed needed = {cluster, check_calloc(n_hosts(cluster->platform), sizeof *needed.host)};
    needed.host[0] = true; /* where the replay begins */
    for (int32_t place = 0; place < dag->n_places; place++)
        need(&needed, dag->places[place].rank, 0);
    for (int32_t rank = 0; rank < dag->n_senders; rank++)
        need(&needed, rank, 0);
    for (int32_t i = 0; i < dag->n_tasks; i++)
        if (dag->tasks[i].kind == DAG_SEND) {
            need(&needed, dag->tasks[i].from_rank, dag->tasks[i].to_rank);
            need(&needed, dag->tasks[i].to_rank, dag->tasks[i].from_rank);
        }
    return needed;
}

static bool is_needed(const void *context, const char *name)
{
    const struct needed *needed = context;
    const sg_host_t *slot = host_slot(needed->cluster, name);
    return slot == NULL || needed->host[slot - needed->cluster->gpu];
}

/* Load what is needed, from a file in memory; what cannot be told apart, whole. */
static void platform_load(const struct platform *platform, const struct needed *needed)
{
    char path[64];
    int file = memfd_create("platform.xml", MFD_CLOEXEC);
    FILE *trimmed = file >= 0 ? fdopen(file, "w") : NULL;
    bool ok = trimmed != NULL && trim_platform(platform->path, is_needed, needed, trimmed);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    engine_start(ok && access(path, R_OK) == 0 ? path : platform->path);
    if (trimmed != NULL)
        fclose(trimmed);
}

/* Handles once: SimGrid finds a host by name by walking all zones. */
static void hosts_find(struct cluster *cluster)
{
    size_t n = sg_host_count();
    sg_host_t *list = sg_host_list();
    for (size_t i = 0; i < n; i++) {
        sg_host_t *slot = host_slot(cluster, sg_host_get_name(list[i]));
        if (slot != NULL)
            *slot = list[i];
    }
    free(list);
}

static bool hosts_check(const struct cluster *cluster, const bool *needed)
{
    const struct platform *platform = cluster->platform;
    int32_t n_gpus = platform_n_gpus(platform);
    for (int32_t rank = 0; rank < n_gpus; rank++)
        if (needed[rank] && cluster->gpu[rank] == NULL) {
            fprintf(stderr, "host g%d_%d (GPU %d) is missing\n", rank / platform->gpus_per_node,
                    rank % platform->gpus_per_node, rank);
            return false;
        }
    for (int32_t node = 0; node < platform->n_nodes; node++)
        if (needed[n_gpus + node] && cluster->cpu[node] == NULL) {
            fprintf(stderr, "host cpu%d (memory of node %d) is missing\n", node, node);
            return false;
        }
    return true;
}

/* A link in both directions: nv<node>_<gpu>_u, ..., pt<node>_u, up<leaf>_u, ... */
static void link_slow_down(const struct platform *platform, enum fault_kind kind, int32_t device, double factor)
{
    static const char *const prefix[FAULT_N_KINDS] = {"", "nv", "ib", "pc", "pt", "up"};
    char name[64], of_node[32] = "";
    if (kind < FAULT_N_OF_GPUS)
        snprintf(of_node, sizeof of_node, "_%d", device % platform->gpus_per_node);
    for (int direction = 0; direction < 2; direction++) {
        snprintf(name, sizeof name, "%s%d%s_%c", prefix[kind],
                 kind < FAULT_N_OF_GPUS ? device / platform->gpus_per_node : device, of_node, "ud"[direction]);
        sg_link_t link = sg_link_by_name(name);
        sg_link_set_bandwidth(link, sg_link_get_bandwidth(link) / factor);
    }
}

static void links_scale(void)
{
    size_t n = sg_link_count();
    sg_link_t *list = sg_link_list();
    for (size_t i = 0; i < n; i++)
        sg_link_set_bandwidth(list[i], sg_link_get_bandwidth(list[i]) * CLUSTER_PARTS_OF_BYTE);
    free(list);
}

static void links_slow_down(const struct platform *platform, const struct faults *faults)
{
    for (enum fault_kind kind = FAULT_NVLINK; kind < FAULT_N_KINDS; kind++)
        for (int32_t device = 0; device < faults->n[kind]; device++)
            if (faults->factor[kind][device] > 1)
                link_slow_down(platform, kind, device, faults->factor[kind][device]);
}

bool cluster_open(const struct platform *platform, const struct dag *dag, struct cluster *cluster)
{
    *cluster = (struct cluster){.platform = platform, .gpu = check_calloc(n_hosts(platform), sizeof(sg_host_t))};
    cluster->cpu = cluster->gpu + platform_n_gpus(platform);
    struct needed needed = needed_of(dag, cluster);
    platform_load(platform, &needed);
    hosts_find(cluster);
    links_scale();
    bool ok = hosts_check(cluster, needed.host);
    free(needed.host);
    if (ok && dag->faults != NULL)
        links_slow_down(platform, dag->faults);
    return ok;
}

void cluster_free(struct cluster *cluster)
{
    free(cluster->gpu);
    *cluster = (struct cluster){0};
}
