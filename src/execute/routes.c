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

/* What one stream sends from GPU to GPU, by one route. */
struct way {
    int32_t stream, from_rank, to_rank;
    int32_t n_gpus;     /* that send beside each other, this one for all of them */
    double bytes_per_s; /* of its route; ROUTES_SHARED: another stream uses one of its links */
    xbt_dynar_t links;  /* of its route, asked for once */
};

static bool sends_bytes(const struct dag_task *task)
{
    return task->kind == DAG_SEND && task->wire_bytes >= 1;
}

static struct way way_of(const struct dag *dag, const struct dag_task *task)
{
    bool of_place = task->stream < dag->n_places * DAG_N_STREAMS;
    return (struct way){task->stream, task->from_rank, task->to_rank, of_place ? dag->places[task->place].n_gpus : 1, 0,
                        NULL};
}

static int compare(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    if (x->from_rank != y->from_rank)
        return x->from_rank < y->from_rank ? -1 : 1;
    return (x->to_rank > y->to_rank) - (x->to_rank < y->to_rank);
}

/* Sorted, each once. */
static struct way *ways_find(const struct dag *dag, int32_t *n)
{
    int32_t n_sends = 0, n_ways = 0;
    for (int32_t t = 0; t < dag->n_tasks; t++)
        n_sends += sends_bytes(&dag->tasks[t]);
    struct way *ways = check_malloc((size_t)n_sends * sizeof *ways);
    for (int32_t t = 0; t < dag->n_tasks; t++)
        if (sends_bytes(&dag->tasks[t]))
            ways[n_ways++] = way_of(dag, &dag->tasks[t]);
    qsort(ways, (size_t)n_sends, sizeof *ways, compare);
    n_ways = 0;
    for (int32_t i = 0; i < n_sends; i++)
        if (i == 0 || compare(&ways[i], &ways[i - 1]) != 0)
            ways[n_ways++] = ways[i];
    *n = n_ways;
    return ways;
}

enum step { STEP_CLEAR, STEP_CLAIM, STEP_ASK };

static void links_find(const struct cluster *cluster, struct way *way)
{
    way->links = xbt_dynar_new(sizeof(sg_link_t), NULL);
    sg_host_get_route(cluster_host(cluster, way->from_rank, way->to_rank),
                      cluster_host(cluster, way->to_rank, way->from_rank), way->links);
}

/* A link's datum is the stream that has claimed it. A route has the bandwidth of its narrowest link. */
static void links_visit(struct way *way, enum step step)
{
    static char several;
    void *mine = &way->stream;
    bool alone = true;
    double bytes_per_s = INFINITY;
    unsigned i;
    sg_link_t link;
    xbt_dynar_foreach(way->links, i, link)
    {
        const int32_t *owner = sg_link_get_data(link);
        bool own = owner != (void *)&several && owner != NULL && *owner == way->stream;
        if (step == STEP_CLEAR)
            sg_link_set_data(link, NULL);
        else if (step == STEP_CLAIM && !own)
            sg_link_set_data(link, owner == NULL ? mine : &several);
        alone = alone && own;
        bytes_per_s = fmin(bytes_per_s, sg_link_get_bandwidth(link));
    }
    if (step == STEP_ASK)
        way->bytes_per_s = alone ? bytes_per_s : ROUTES_SHARED;
}

double *routes_alone_s(const struct dag *dag, const struct cluster *cluster)
{
    double *alone_s = check_malloc((size_t)dag->n_tasks * sizeof *alone_s);
    int32_t n_ways;
    struct way *ways = ways_find(dag, &n_ways);
    for (int32_t i = 0; i < n_ways; i++)
        links_find(cluster, &ways[i]);
    for (enum step step = STEP_CLEAR; step <= STEP_ASK; step++)
        for (int32_t i = 0; i < n_ways; i++)
            links_visit(&ways[i], step);
    for (int32_t t = 0; t < dag->n_tasks; t++) {
        const struct dag_task *task = &dag->tasks[t];
        alone_s[t] = dag->duration_s[t];
        if (!sends_bytes(task))
            continue;
        struct way key = way_of(dag, task);
        const struct way *way = bsearch(&key, ways, (size_t)n_ways, sizeof *ways, compare);
        double bytes_per_s = way->bytes_per_s;
        alone_s[t] = bytes_per_s > 0 ? task->latency_s + task->wire_bytes / bytes_per_s : ROUTES_SHARED;
    }
    for (int32_t i = 0; i < n_ways; i++)
        xbt_dynar_free(&ways[i].links);
    free(ways);
    return alone_s;
}

/* Of a link above the NICs: how many GPUs send, how many receive by it. */
struct above {
    int32_t n_gpus[2];
    int32_t counted; /* all GPUs below this one */
};

enum { SENDERS, RECEIVERS };

static int compare_senders(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    return (x->from_rank > y->from_rank) - (x->from_rank < y->from_rank);
}

static int compare_receivers(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    return (x->to_rank > y->to_rank) - (x->to_rank < y->to_rank);
}

/* Every link above the NICs gets a count as its datum, the others none. The caller frees. */
static struct above *above_links(sg_link_t *links, size_t n_links)
{
    struct above *above = check_calloc(n_links, sizeof *above);
    for (size_t i = 0; i < n_links; i++) {
        const char *name = sg_link_get_name(links[i]);
        bool of_gpu = strncmp(name, "nv", 2) == 0 || strncmp(name, "ib", 2) == 0 || strncmp(name, "pc", 2) == 0;
        sg_link_set_data(links[i], of_gpu || !sg_link_is_shared(links[i]) ? NULL : &above[i]);
    }
    return above;
}

/* Add a way's GPUs at one end to the links of its route. Ways come by ascending GPU, each GPU counts once. */
static void above_count(const struct cluster *cluster, const struct way *way, int end)
{
    int32_t first = end == SENDERS ? way->from_rank : way->to_rank, last = first + way->n_gpus;
    xbt_dynar_t route = xbt_dynar_new(sizeof(sg_link_t), NULL);
    unsigned i;
    sg_link_t link;
    sg_host_get_route(cluster->gpu[way->from_rank], cluster->gpu[way->to_rank], route);
    xbt_dynar_foreach(route, i, link)
    {
        struct above *above = sg_link_get_data(link);
        if (above == NULL || above->counted >= last)
            continue;
        above->n_gpus[end] += last - (first > above->counted ? first : above->counted);
        above->counted = last;
    }
    xbt_dynar_free(&route);
}

static bool above_is_wide(sg_link_t link, const struct above *above, double nic_bytes_per_s)
{
    int32_t n_gpus = above->n_gpus[above->n_gpus[RECEIVERS] < above->n_gpus[SENDERS]];
    if (n_gpus * nic_bytes_per_s <= sg_link_get_bandwidth(link) * (1 + 1e-9))
        return true;
    fprintf(stderr,
            "link %s above the NICs has %g GB/s for %d GPUs of %g GB/s each, so one rank cannot stand for its "
            "tensor-parallel group; allowed: all_tensor_ranks: true, or engine: critical-path (without contention)\n",
            sg_link_get_name(link), sg_link_get_bandwidth(link) / 1e9, n_gpus, nic_bytes_per_s / 1e9);
    return false;
}

bool routes_fold_check(const struct dag *dag, const struct cluster *cluster)
{
    int32_t n_ways;
    bool folded = false, wide = true;
    for (int32_t p = 0; p < dag->n_places; p++)
        folded = folded || dag->places[p].n_gpus > 1;
    if (!folded)
        return true;
    struct way *ways = ways_find(dag, &n_ways);
    size_t n_links = sg_link_count();
    sg_link_t *links = sg_link_list();
    struct above *above = above_links(links, n_links);
    for (int end = SENDERS; end <= RECEIVERS; end++) {
        qsort(ways, (size_t)n_ways, sizeof *ways, end == SENDERS ? compare_senders : compare_receivers);
        for (size_t i = 0; i < n_links; i++)
            above[i].counted = 0;
        for (int32_t i = 0; i < n_ways; i++)
            if (ways[i].from_rank >= 0 && ways[i].to_rank >= 0)
                above_count(cluster, &ways[i], end);
    }
    for (size_t i = 0; i < n_links; i++) {
        wide = wide && above_is_wide(links[i], &above[i], cluster->platform->nic_bytes_per_s);
        sg_link_set_data(links[i], NULL);
    }
    free(above);
    free(links);
    free(ways);
    return wide;
}
