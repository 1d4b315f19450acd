/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/routes.h"

#include <math.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <stdlib.h>
#include <xbt/dynar.h>

#include "base/check.h"

/* What one stream sends from GPU to GPU, by one route. */
struct way {
    int32_t stream, from_rank, to_rank;
    double bytes_per_s; /* of its route; ROUTES_SHARED: another stream uses one of its links */
    xbt_dynar_t links;  /* of its route, asked for once */
};

static bool sends_bytes(const struct dag_task *task)
{
    return task->kind == DAG_SEND && task->wire_bytes >= 1;
}

static struct way way_of(const struct dag_task *task)
{
    return (struct way){task->stream, task->from_rank, task->to_rank, 0, NULL};
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
            ways[n_ways++] = way_of(&dag->tasks[t]);
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
        struct way key = way_of(task);
        const struct way *way = bsearch(&key, ways, (size_t)n_ways, sizeof *ways, compare);
        double bytes_per_s = way->bytes_per_s;
        alone_s[t] = bytes_per_s > 0 ? task->latency_s + task->wire_bytes / bytes_per_s : ROUTES_SHARED;
    }
    for (int32_t i = 0; i < n_ways; i++)
        xbt_dynar_free(&ways[i].links);
    free(ways);
    return alone_s;
}
