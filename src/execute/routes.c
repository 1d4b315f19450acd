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

/* What comes to a link from one side: from the senders by other links before it, or to the receivers behind it. */
struct side {
    double bytes_per_s; /* all those links together; INFINITY: it is itself the first (last) of a route */
    int32_t outer;      /* the newest of them, -1: none */
    int32_t n_gpus;     /* that send (receive) by it, as far as they are GPUs */
    int32_t counted;    /* all GPUs below this one */
};

enum { SENDERS, RECEIVERS, N_SIDES };

enum { NO_STREAM = -1, SEVERAL_STREAMS = -2 };

/* A link that some route uses. */
struct used {
    sg_link_t link;
    double bytes_per_s;
    int32_t stream;
    struct side side[N_SIDES];
};

struct finder {
    const struct cluster *cluster;
    struct routes *routes;
    struct used *used; /* [routes.n_links], room for all */
    size_t n_hops, hop_capacity;
};

static bool sends_bytes(const struct dag_task *task)
{
    return task->kind == DAG_SEND && task->wire_bytes >= 1;
}

static struct way way_of(const struct dag *dag, const struct dag_task *task)
{
    bool of_place = task->stream < dag->n_places * DAG_N_STREAMS;
    return (struct way){.stream = task->stream,
                        .from_rank = task->from_rank,
                        .to_rank = task->to_rank,
                        .n_gpus = of_place ? dag->places[task->place].n_gpus : 1};
}

static int compare(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    if (x->stream != y->stream)
        return COMPARE(x->stream, y->stream);
    return x->from_rank != y->from_rank ? COMPARE(x->from_rank, y->from_rank) : COMPARE(x->to_rank, y->to_rank);
}

/* Each once, sorted. Most streams send the same way again and again. */
static void ways_find(const struct dag *dag, const struct queues *queues, struct routes *routes)
{
    size_t n = 0;
    struct way *ways = check_malloc((size_t)dag->n_tasks * sizeof *ways);
    for (int32_t i = 0; i < dag->n_tasks; i++) {
        const struct dag_task *task = &dag->tasks[queues->stream_task[i]];
        struct way way = way_of(dag, task);
        if (!sends_bytes(task) || (n > 0 && compare(&way, &ways[n - 1]) == 0))
            continue;
        ways[n++] = way;
    }
    qsort(ways, n, sizeof *ways, compare);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || compare(&ways[i], &ways[i - 1]) != 0)
            ways[routes->n_ways++] = ways[i];
    routes->ways = ways;
}

/* The way of every task, in the order of streams for the same reason. */
static void tasks_find(const struct dag *dag, const struct queues *queues, struct routes *routes)
{
    size_t n_ways = (size_t)routes->n_ways;
    int32_t last = 0;
    for (int32_t i = 0; i < dag->n_tasks; i++) {
        int32_t task = queues->stream_task[i];
        struct way key = way_of(dag, &dag->tasks[task]);
        bool sends = sends_bytes(&dag->tasks[task]);
        if (sends && compare(&key, &routes->ways[last]) != 0) {
            const struct way *way = bsearch(&key, routes->ways, n_ways, sizeof *way, compare);
            CHECK(way != NULL);
            last = (int32_t)(way - routes->ways);
        }
        routes->way[task] = sends ? last : -1;
    }
}

/* A link's datum is what is known of it. */
static struct used *used_link(struct finder *finder, sg_link_t link)
{
    struct used *used = sg_link_get_data(link);
    if (used != NULL)
        return used;
    used = &finder->used[finder->routes->n_links++];
    const struct side none = {.outer = -1};
    *used = (struct used){link, sg_link_get_bandwidth(link) / CLUSTER_PARTS_OF_BYTE, NO_STREAM, {none, none}};
    sg_link_set_data(link, used);
    return used;
}

static void way_route(struct finder *finder, struct way *way)
{
    struct routes *routes = finder->routes;
    const struct cluster *cluster = finder->cluster;
    xbt_dynar_t links = xbt_dynar_new(sizeof(sg_link_t), NULL);
    unsigned i;
    sg_link_t link;
    sg_host_get_route(cluster_host(cluster, way->from_rank, way->to_rank),
                      cluster_host(cluster, way->to_rank, way->from_rank), links);
    way->first_link = (int32_t)finder->n_hops;
    way->bytes_per_s = INFINITY;
    xbt_dynar_foreach(links, i, link)
    {
        struct used *used = used_link(finder, link);
        routes->link = check_grow(routes->link, finder->n_hops, &finder->hop_capacity, sizeof *routes->link);
        routes->link[finder->n_hops++] = (int32_t)(used - finder->used);
        way->n_links++;
        way->bytes_per_s = fmin(way->bytes_per_s, used->bytes_per_s);
        if (used->stream != way->stream)
            used->stream = used->stream == NO_STREAM ? way->stream : SEVERAL_STREAMS;
    }
    xbt_dynar_free(&links);
}

/* Ways with the same GPU stay in the order of their routes, which no two share. */
static int compare_ranks(int32_t x_rank, int32_t y_rank, const struct way *x, const struct way *y)
{
    return x_rank != y_rank ? COMPARE(x_rank, y_rank) : COMPARE(x->first_link, y->first_link);
}

static int compare_senders(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    return compare_ranks(x->from_rank, y->from_rank, x, y);
}

static int compare_receivers(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    return compare_ranks(x->to_rank, y->to_rank, x, y);
}

/* Ways come by ascending GPU of that side: each GPU counts once, and so does its link. */
static void way_count(struct finder *finder, const struct way *way, int end)
{
    const int32_t *link = finder->routes->link + way->first_link;
    int32_t outer = link[end == SENDERS ? 0 : way->n_links - 1];
    int32_t first = end == SENDERS ? way->from_rank : way->to_rank, last = first + way->n_gpus;
    double outer_bytes_per_s = sg_link_is_shared(finder->used[outer].link) ? finder->used[outer].bytes_per_s : INFINITY;
    for (int32_t i = 0; i < way->n_links; i++) {
        struct side *side = &finder->used[link[i]].side[end];
        if (link[i] == outer)
            side->bytes_per_s = INFINITY;
        else if (side->outer != outer)
            side->bytes_per_s += outer_bytes_per_s;
        side->outer = outer;
        if (way->from_rank < 0 || way->to_rank < 0 || side->counted >= last)
            continue;
        side->n_gpus += last - (first > side->counted ? first : side->counted);
        side->counted = last;
    }
}

static void sides_count(struct finder *finder)
{
    size_t n_ways = (size_t)finder->routes->n_ways;
    struct way *ways = check_malloc(n_ways * sizeof *ways);
    for (int end = SENDERS; end < N_SIDES; end++) {
        memcpy(ways, finder->routes->ways, n_ways * sizeof *ways);
        qsort(ways, n_ways, sizeof *ways, end == SENDERS ? compare_senders : compare_receivers);
        for (size_t i = 0; i < n_ways; i++)
            if (ways[i].n_links > 0)
                way_count(finder, &ways[i], end);
    }
    free(ways);
}

static bool above_is_wide(const struct used *used, double nic_bytes_per_s)
{
    const char *name = sg_link_get_name(used->link);
    bool of_gpu = strncmp(name, "nv", 2) == 0 || strncmp(name, "ib", 2) == 0 || strncmp(name, "pc", 2) == 0;
    int32_t n_gpus = used->side[used->side[RECEIVERS].n_gpus < used->side[SENDERS].n_gpus].n_gpus;
    if (of_gpu || !sg_link_is_shared(used->link) || n_gpus * nic_bytes_per_s <= used->bytes_per_s * (1 + 1e-9))
        return true;
    fprintf(stderr,
            "link %s above the NICs has %g GB/s for %d GPUs of %g GB/s each, so one rank cannot stand for its "
            "tensor-parallel group; allowed: all_tensor_ranks: true, or engine: critical-path (without contention)\n",
            name, used->bytes_per_s / 1e9, n_gpus, nic_bytes_per_s / 1e9);
    return false;
}

static bool fold_check(const struct dag *dag, const struct finder *finder)
{
    bool folded = false, wide = true;
    for (int32_t p = 0; p < dag->n_places; p++)
        folded = folded || dag->places[p].n_gpus > 1;
    for (int32_t i = 0; folded && wide && i < finder->routes->n_links; i++)
        wide = above_is_wide(&finder->used[i], finder->cluster->platform->nic_bytes_per_s);
    return wide;
}

static bool can_meet_on(const struct used *used)
{
    double enters_bytes_per_s = fmin(used->side[SENDERS].bytes_per_s, used->side[RECEIVERS].bytes_per_s);
    return used->stream == SEVERAL_STREAMS && enters_bytes_per_s > used->bytes_per_s * (1 + 1e-12);
}

static void links_keep(struct finder *finder)
{
    struct routes *routes = finder->routes;
    for (int32_t w = 0; w < routes->n_ways; w++) {
        struct way *way = &routes->ways[w];
        int32_t *link = routes->link + way->first_link, n_links = 0;
        for (int32_t i = 0; i < way->n_links; i++)
            if (can_meet_on(&finder->used[link[i]]))
                link[n_links++] = link[i];
        way->n_links = n_links;
    }
}

bool routes_find(const struct dag *dag, const struct queues *queues, const struct cluster *cluster,
                 struct routes *routes)
{
    *routes = (struct routes){.way = check_malloc((size_t)dag->n_tasks * sizeof *routes->way)};
    size_t most_links = sg_link_count() + 1; /* one more from a GPU to itself */
    struct finder finder = {
        .cluster = cluster, .routes = routes, .used = check_malloc(most_links * sizeof *finder.used)};
    ways_find(dag, queues, routes);
    tasks_find(dag, queues, routes);
    for (int32_t i = 0; i < routes->n_ways; i++)
        way_route(&finder, &routes->ways[i]);
    sides_count(&finder);
    bool wide = fold_check(dag, &finder);
    links_keep(&finder);
    for (int32_t i = 0; i < routes->n_links; i++)
        sg_link_set_data(finder.used[i].link, NULL);
    free(finder.used);
    return wide;
}

void routes_free(struct routes *routes)
{
    free(routes->ways);
    free(routes->link);
    free(routes->way);
    *routes = (struct routes){0};
}
