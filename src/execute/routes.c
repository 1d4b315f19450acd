/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/routes.h"

#include <math.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xbt/dynar.h>

#include "base/check.h"
#include "base/compare.h"

enum end { SENDS, RECEIVES };

/* A GPU that sends or receives by a link above the NICs. */
struct crossing {
    sg_link_t link;
    enum end end;
    int32_t gpu;
};

struct checker {
    const struct dag *dag;
    const struct cluster *cluster;
    xbt_dynar_t route;
    double bytes_per_s; /* bandwidth of its narrowest link */
    bool shares;        /* GPUs of a node share NICs or PCIe */
    bool folded;        /* a rank represents its tensor-parallel group */
    bool rails;         /* links above the NICs are of one GPU of each node */
    struct crossing *crossings;
    size_t n_crossings, capacity;
};

static void crossings_add(struct checker *checker, sg_link_t link, enum end end, int32_t first_gpu, int32_t n_gpus)
{
    for (int32_t gpu = first_gpu; gpu < first_gpu + n_gpus; gpu++) {
        checker->crossings =
            check_grow(checker->crossings, checker->n_crossings, &checker->capacity, sizeof *checker->crossings);
        checker->crossings[checker->n_crossings++] = (struct crossing){link, end, gpu};
    }
}

static bool link_is_above(sg_link_t link)
{
    const char *name = sg_link_get_name(link);
    bool of_gpu = strncmp(name, "nv", 2) == 0 || strncmp(name, "ib", 2) == 0 || strncmp(name, "pc", 2) == 0;
    return !of_gpu && sg_link_is_shared(link);
}

/* Find the route of a transfer, and note which GPUs cross which links by it. */
static void route_find(struct checker *checker, const struct dag_task *send)
{
    static char refusal[128];
    sg_host_t from = cluster_host(checker->cluster, send->from_rank, send->to_rank);
    sg_host_t to = cluster_host(checker->cluster, send->to_rank, send->from_rank);
    bool of_rank = send->stream < checker->dag->n_ranks * DAG_N_STREAMS;
    int32_t n_gpus = of_rank && !checker->rails ? checker->dag->ranks[send->dag_rank].n_gpus : 1;
    unsigned i;
    sg_link_t link;
    snprintf(refusal, sizeof refusal, "there is no route from %s to %s", sg_host_get_name(from), sg_host_get_name(to));
    cluster_refusal(refusal); /* some kinds of zones abort, others return no links */
    xbt_dynar_reset(checker->route);
    sg_host_get_route(from, to, checker->route);
    if (xbt_dynar_is_empty(checker->route))
        cluster_refuse("%s", refusal);
    checker->bytes_per_s = INFINITY;
    xbt_dynar_foreach(checker->route, i, link)
    {
        checker->bytes_per_s = fmin(checker->bytes_per_s, sg_link_get_bandwidth(link));
        if (!checker->folded || send->from_rank < 0 || send->to_rank < 0 || !link_is_above(link))
            continue;
        crossings_add(checker, link, SENDS, send->from_rank, n_gpus);
        crossings_add(checker, link, RECEIVES, send->to_rank, n_gpus);
    }
}

static void send_check(const struct checker *checker, int32_t task)
{
    const struct dag_task *send = &checker->dag->tasks[task];
    double flow_s = checker->dag->duration_s[task] - send->latency_s;
    if (checker->shares) /* the critical path has the share of a GPU, or the slowest hop of a ring */
        return;
    if (send->wire_bytes >= flow_s * checker->bytes_per_s * (1 - 1e-9))
        return;
    cluster_refuse("the route from %s to %s lacks a link: its narrowest link carries %g GB/s, a GPU of the platform %g "
                   "GB/s",
                   sg_host_get_name(cluster_host(checker->cluster, send->from_rank, send->to_rank)),
                   sg_host_get_name(cluster_host(checker->cluster, send->to_rank, send->from_rank)),
                   checker->bytes_per_s / 1e9, send->wire_bytes / flow_s / 1e9);
}

/* Compare by link, end and GPU. */
static int compare(const void *a, const void *b)
{
    const struct crossing *x = a, *y = b;
    if (x->link != y->link)
        return strcmp(sg_link_get_name(x->link), sg_link_get_name(y->link));
    return x->end != y->end ? COMPARE(x->end, y->end) : COMPARE(x->gpu, y->gpu);
}

static void link_check(sg_link_t link, const int32_t n_gpus[], double nic_bytes_per_s)
{
    double bytes_per_s = sg_link_get_bandwidth(link);
    int32_t n = n_gpus[SENDS] < n_gpus[RECEIVES] ? n_gpus[SENDS] : n_gpus[RECEIVES];
    if (n * nic_bytes_per_s > bytes_per_s * (1 + 1e-9))
        cluster_refuse_folded("link %s above the NICs has %g GB/s for %d GPUs of %g GB/s each, so one rank cannot "
                              "represent its tensor-parallel group; allowed: all_tensor_ranks: true",
                              sg_link_get_name(link), bytes_per_s / 1e9, n, nic_bytes_per_s / 1e9);
}

static void crossings_check(struct checker *checker)
{
    const struct crossing *crossing = checker->crossings;
    if (checker->n_crossings > 0)
        qsort(checker->crossings, checker->n_crossings, sizeof *crossing, compare);
    for (size_t i = 0; i < checker->n_crossings;) {
        size_t first = i;
        int32_t n_gpus[] = {0, 0};
        for (; i < checker->n_crossings && crossing[i].link == crossing[first].link; i++)
            n_gpus[crossing[i].end] += i == first || compare(&crossing[i - 1], &crossing[i]) != 0;
        link_check(crossing[first].link, n_gpus, checker->cluster->platform->nic_bytes_per_s);
    }
}

void routes_check(const struct dag *dag, const struct cluster *cluster)
{
    struct checker checker = {.dag = dag,
                              .cluster = cluster,
                              .route = xbt_dynar_new(sizeof(sg_link_t), NULL),
                              .shares = platform_gpus_per_nic(cluster->platform) > 1 ||
                                        !platform_has_nvlink(cluster->platform),
                              .rails = cluster->platform->keys.topology == PLATFORM_RAIL};
    for (int32_t dag_rank = 0; dag_rank < dag->n_ranks; dag_rank++)
        checker.folded = checker.folded || dag->ranks[dag_rank].n_gpus > 1;
    if (checker.shares && checker.folded && cluster->platform->contention)
        cluster_refuse_folded("GPUs of a node share NICs or PCIe, so one rank cannot represent its tensor-parallel "
                              "group; allowed: all_tensor_ranks: true");
    for (int32_t stream = 0; stream < dag_n_streams(dag); stream++) {
        const struct dag_task *last = NULL;
        for (int32_t t = dag->stream_first[stream]; t >= 0; t = dag->stream_next[t]) {
            const struct dag_task *send = &dag->tasks[t];
            if (!routes_sends(send))
                continue;
            if (last == NULL || last->from_rank != send->from_rank || last->to_rank != send->to_rank)
                route_find(&checker, send);
            last = send;
            send_check(&checker, t);
        }
    }
    crossings_check(&checker);
    cluster_accept();
    xbt_dynar_free(&checker.route);
    free(checker.crossings);
}
