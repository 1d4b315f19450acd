/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/cluster.h"

#include <errno.h>
#include <signal.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xbt/config.h>

#include "base/check.h"
#include "scenario/platform_xml.h"

/* The signal handler reads this global variable, since it takes no other argument. */
static const char *refusal = "";

void cluster_refusal(const char *reason)
{
    refusal = reason;
}

void cluster_accept(void)
{
    signal(SIGABRT, SIG_DFL);
}

static void say_refusal(const char *format, va_list arguments)
{
    fputs("\n[slimsim/REFUSED] ", stderr);
    vfprintf(stderr, format, arguments);
    fflush(stderr);
}

void cluster_refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_refusal(format, arguments);
    va_end(arguments);
    _exit(CLUSTER_REFUSED);
}

void cluster_refuse_folded(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_refusal(format, arguments);
    va_end(arguments);
    _exit(CLUSTER_FOLDED);
}

/* Refuse the input. SimGrid has given the reason on stderr, unless it crashed on a file that it does not check. */
static void refuse_on_signal(int signal_number)
{
    static const char mark[] = "\n[slimsim/REFUSED] ", crashed[] = "it crashed while reading it";
    const char *reason = *refusal == '\0' && signal_number == SIGSEGV ? crashed : refusal;
    ssize_t n_said = 0;
    if (*reason != '\0')
        n_said = write(STDERR_FILENO, mark, sizeof mark - 1) + write(STDERR_FILENO, reason, strlen(reason));
    _exit(n_said < 0 ? EXIT_FAILURE : CLUSTER_REFUSED);
}

/* With these options one transfer takes bytes over bandwidth. Actors pay the latency, so links are shared equally. */
static char *const engine_arguments[] = {
    "slimsim",
    "--cfg=network/model:CM02",
    "--cfg=network/crosstraffic:no",
    "--cfg=network/TCP-gamma:1e30",
    "--cfg=surf/precision:1e-12",
    "--cfg=contexts/stack-size:256", /* KiB; the default maps 8 MiB for each actor */
};
enum { N_ENGINE_ARGUMENTS = sizeof engine_arguments / sizeof *engine_arguments };

/* The XML of a platform without a file goes to SimGrid by an unnamed file in memory, which ends with the process. */
static void platform_load(const struct platform *platform, const bool *used)
{
    if (*platform->path != '\0') {
        simgrid_load_platform(platform->path);
        return;
    }
    char path[64];
    int number = memfd_create("platform.xml", MFD_CLOEXEC);
    FILE *file = number >= 0 ? fdopen(number, "w") : NULL;
    if (file == NULL)
        cluster_refuse("its XML cannot be kept in memory: %s", strerror(errno));
    platform_xml_write(file, platform, used);
    if (fflush(file) != 0)
        cluster_refuse("its XML cannot be kept in memory: %s", strerror(errno));
    snprintf(path, sizeof path, "/proc/self/fd/%d", number);
    simgrid_load_platform(path);
    fclose(file);
}

static void engine_start(const struct execute_options *options)
{
    char *argv[N_ENGINE_ARGUMENTS + 4];
    int argc = N_ENGINE_ARGUMENTS;
    bool has_cfg = *options->cfg != '\0';
    char *cfg = check_asprintf("--cfg=%s", options->cfg);
    memcpy(argv, engine_arguments, sizeof engine_arguments);
    if (has_cfg) { /* plug-ins report by SimGrid's log */
        argv[argc++] = "--log=xbt_cfg.thres:error";
        argv[argc++] = cfg;
    } else {
        argv[argc++] = "--log=root.thres:error";
    }
    argv[argc] = NULL;
    simgrid_init(&argc, argv);
    free(cfg);
    signal(SIGINT, SIG_IGN); /* SimGrid has set a handler; the parent decides, and the child dies with it */
    if (sg_cfg_get_int("contexts/nthreads") != 1)
        cluster_refuse("contexts/nthreads must be 1: actors share counters without locks");
    if (options->trace == NULL)
        return;
    sg_cfg_set_boolean("tracing", "yes");
    sg_cfg_set_boolean("tracing/platform", "yes");
    sg_cfg_set_boolean("tracing/platform/topology", "no"); /* SimGrid 3.32 throws on nested zones */
    sg_cfg_set_int("tracing/precision", 12);
    sg_cfg_set_string("tracing/filename", options->trace);
}

/* Return the index of the host g<node>_<gpu> among GPUs, or of cpu<node> among memories behind them; otherwise -1. */
static int32_t host_index(const struct platform *platform, const char *name)
{
    bool is_gpu = name[0] == 'g';
    if (!is_gpu && strncmp(name, "cpu", 3) != 0)
        return -1;
    char *end;
    long node = strtol(name + (is_gpu ? 1 : 3), &end, 10), gpu = 0;
    if (is_gpu) {
        if (*end != '_')
            return -1;
        gpu = strtol(end + 1, &end, 10);
    }
    if (*end != '\0' || node < 0 || node >= platform->n_nodes || gpu < 0 || gpu >= platform->gpus_per_node)
        return -1;
    return (int32_t)(is_gpu ? node * platform->gpus_per_node + gpu : platform_n_gpus(platform) + node);
}

/* Store the handle of each host. SimGrid would walk all zones to find a host by name. */
static void hosts_find(struct cluster *cluster, const bool *used)
{
    const struct platform *platform = cluster->platform;
    size_t n = sg_host_count();
    sg_host_t *list = sg_host_list();
    for (size_t i = 0; i < n; i++) {
        int32_t index = host_index(platform, sg_host_get_name(list[i]));
        if (index >= 0)
            cluster->gpu[index] = list[i];
    }
    free(list);
    for (int32_t rank = 0; rank < platform_n_gpus(platform); rank++)
        if (cluster->gpu[rank] == NULL && used == NULL)
            cluster_refuse("host g%d_%d (GPU %d) is missing", platform_node_of(platform, rank),
                           platform_gpu_in_node(platform, rank), rank);
    for (int32_t node = 0; node < platform->n_nodes; node++)
        if (cluster->cpu[node] == NULL && used == NULL)
            cluster_refuse("host cpu%d (memory of node %d) is missing", node, node);
}

/* Divide the bandwidth of a link in both directions: nv<node>_<gpu>_u, ..., pt<node>_u, up<leaf>_u, ... */
static void link_slow_down(const struct platform *platform, enum fault_kind kind, int32_t device, double factor)
{
    static const char *const prefix[FAULT_N_ENTRIES] = {"", "nv", "ib", "pc", "pt", "up"};
    char name[64], of_node[32] = "";
    int32_t shared = kind == FAULT_NIC ? platform_gpus_per_nic(platform) : 1;
    if (device % shared != 0) /* its NIC is slow once */
        return;
    if (kind < FAULT_N_OF_GPUS)
        snprintf(of_node, sizeof of_node, "_%d", platform_gpu_in_node(platform, device) / shared);
    for (int direction = 0; direction < 2; direction++) {
        snprintf(name, sizeof name, "%s%d%s_%c", prefix[kind],
                 kind < FAULT_N_OF_GPUS ? platform_node_of(platform, device) : device, of_node, "ud"[direction]);
        sg_link_t link = sg_link_by_name(name);
        sg_link_set_bandwidth(link, sg_link_get_bandwidth(link) / factor);
    }
}

static void links_slow_down(const struct platform *platform, const struct faults *faults)
{
    for (enum fault_kind kind = FAULT_NVLINK; kind < FAULT_N_ENTRIES; kind++)
        for (int32_t device = 0; device < faults->n[kind]; device++)
            if (faults->factor[kind][device] > 1)
                link_slow_down(platform, kind, device, faults->factor[kind][device]);
}

void cluster_open(const struct platform *platform, const struct faults *faults, const struct execute_options *options,
                  const bool *used, struct cluster *cluster)
{
    int32_t n_gpus = platform_n_gpus(platform);
    *cluster = (struct cluster){.platform = platform,
                                .gpu = check_calloc((size_t)n_gpus + (size_t)platform->n_nodes, sizeof(sg_host_t)),
                                .traces = options->trace != NULL};
    cluster->cpu = cluster->gpu + n_gpus;
    struct sigaction before;
    signal(SIGABRT, refuse_on_signal);
    engine_start(options);
    CHECK(sigaction(SIGSEGV, &(struct sigaction){.sa_handler = refuse_on_signal}, &before) == 0);
    platform_load(platform, used);
    CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
    hosts_find(cluster, used);
    if (faults != NULL)
        links_slow_down(platform, faults);
}

void cluster_free(struct cluster *cluster)
{
    free(cluster->gpu);
    *cluster = (struct cluster){0};
}
