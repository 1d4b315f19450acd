/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_dag.h"

#include <igraph.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "execute/execute.h"
#include "hand_plan.h"
#include "harness.h"
#include "scenario/platform_keys.h"
#include "scenario/platform_xml.h"

struct dag hand_dag(int32_t n_ranks, int32_t n_tasks, int32_t n_edges)
{
    int32_t n_streams = n_ranks * DAG_N_STREAMS;
    struct dag dag = {
        .n_ranks = n_ranks,
        .tasks = check_calloc((size_t)n_tasks, sizeof(struct dag_task)),
        .duration_s = check_calloc((size_t)n_tasks, sizeof(double)),
        .in_first = check_calloc((size_t)n_tasks + 1, sizeof(int32_t)),
        .in_task = check_calloc((size_t)(n_edges + n_tasks), sizeof(int32_t)),
        .in_kind = check_calloc((size_t)(n_edges + n_tasks), sizeof(uint8_t)),
        .ranks = check_calloc((size_t)n_ranks, sizeof(struct dag_rank)),
        .stream_first = check_malloc((size_t)n_streams * sizeof(int32_t)),
        .stream_next = check_malloc((size_t)n_tasks * sizeof(int32_t)),
    };
    for (int32_t s = 0; s < n_streams; s++)
        dag.stream_first[s] = -1;
    for (int32_t p = 0; p < n_ranks; p++)
        dag.ranks[p] =
            (struct dag_rank){.stage = (int16_t)p, .rank = p, .n_gpus = 1, .representative = p, .n_represented = 1};
    return dag;
}

static int32_t append(struct dag *dag, struct dag_task task, double duration_s)
{
    task.stage = dag->ranks[task.dag_rank].stage;
    dag->tasks[dag->n_tasks] = task;
    dag->duration_s[dag->n_tasks] = duration_s;
    dag->in_first[dag->n_tasks + 1] = dag->n_edges;
    int32_t *link = &dag->stream_first[task.stream], before = -1;
    for (; *link >= 0; link = &dag->stream_next[*link])
        before = *link;
    *link = dag->n_tasks;
    dag->stream_next[dag->n_tasks++] = -1;
    if (before >= 0)
        hand_after(dag, before);
    return dag->n_tasks - 1;
}

int32_t hand_compute(struct dag *dag, int32_t place, double duration_s)
{
    struct dag_task task = {
        .kind = DAG_COMPUTE, .dag_rank = place, .stream = place * DAG_N_STREAMS + DAG_STREAM_COMPUTE};
    return append(dag, task, duration_s);
}

struct cost_transfer hand_transfer(double latency_s, double wire_bytes, double bytes_per_s)
{
    return (struct cost_transfer){latency_s, wire_bytes, bytes_per_s, latency_s + wire_bytes / bytes_per_s};
}

int32_t hand_send(struct dag *dag, int32_t place, enum dag_stream stream, int32_t to_rank,
                  struct cost_transfer transfer)
{
    struct dag_task task = {.kind = DAG_SEND,
                            .purpose = DAG_BOUNDARY,
                            .dag_rank = place,
                            .stream = place * DAG_N_STREAMS + (int32_t)stream,
                            .from_rank = dag->ranks[place].rank,
                            .to_rank = to_rank,
                            .latency_s = transfer.latency_s,
                            .wire_bytes = transfer.wire_bytes};
    return append(dag, task, transfer.duration_s);
}

int32_t hand_sync(struct dag *dag, int32_t place)
{
    struct dag_task task = {.kind = DAG_SYNC,
                            .purpose = DAG_RING,
                            .dag_rank = place,
                            .micro_batch = -1,
                            .stream = place * DAG_N_STREAMS + DAG_STREAM_COLLECTIVE};
    return append(dag, task, 0);
}

void hand_after(struct dag *dag, int32_t before)
{
    for (int32_t e = dag->in_first[dag->n_tasks - 1]; e < dag->n_edges; e++)
        if (dag->in_task[e] == before)
            return;
    dag->in_task[dag->n_edges] = before;
    dag->in_kind[dag->n_edges] = DAG_SCHEDULE;
    dag->in_first[dag->n_tasks] = ++dag->n_edges;
}

int32_t hand_count(const struct dag *dag, enum dag_kind kind, enum dag_purpose purpose)
{
    int32_t n = 0;
    for (int32_t i = 0; i < dag->n_tasks; i++)
        n += dag->tasks[i].kind == kind && dag->tasks[i].purpose == purpose;
    return n;
}

int32_t hand_find(const struct dag *dag, enum dag_kind kind, enum dag_purpose purpose, int32_t from)
{
    while (from < dag->n_tasks && (dag->tasks[from].kind != kind || dag->tasks[from].purpose != purpose))
        from++;
    CHECK(from < dag->n_tasks);
    return from;
}

struct platform hand_platform(const char *name)
{
    static const struct device device = {.name = "hopper", .peak_flop_per_s = {989.4e12}};
    struct platform_keys keys;
    struct platform platform;
    struct error err = {0};
    CHECK(platform_keys_of_name(SLIMSIM_SOURCE_DIR, name, &keys, &err) &&
          platform_from_keys(&keys, &device, &platform, &err));
    return platform;
}

char *hand_platform_xml(const struct platform *platform)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    platform_xml_write(file, platform, NULL);
    CHECK(fclose(file) == 0);
    return text;
}

struct platform hand_platform_file(const char *name, const char *file_name)
{
    struct platform platform = hand_platform(name);
    snprintf(platform.path, sizeof platform.path, "%s", harness_path(file_name));
    FILE *file = fopen(platform.path, "w");
    CHECK(file != NULL);
    platform_xml_write(file, &platform, NULL);
    CHECK(fclose(file) == 0);
    return platform;
}

double hand_makespan_s(const struct dag *dag)
{
    struct timeline timeline = {0};
    critical_path(dag, &timeline);
    double seconds = timeline.makespan_s;
    timeline_free(&timeline);
    return seconds;
}

double hand_plan_makespan_s(const struct plan *plan, const struct cost_setting *setting, struct dag_options options)
{
    struct dag dag = hand_built(plan, setting, options);
    double seconds = hand_makespan_s(&dag);
    dag_free(&dag);
    return seconds;
}

double hand_igraph_makespan_s(const struct dag *dag)
{
    igraph_t graph;
    igraph_vector_int_t edges, order, next;
    igraph_vector_int_init(&edges, 2 * (igraph_integer_t)dag->n_edges);
    for (int32_t task = 0; task < dag->n_tasks; task++)
        for (igraph_integer_t i = dag->in_first[task]; i < dag->in_first[task + 1]; i++) {
            VECTOR(edges)[2 * i] = dag->in_task[i];
            VECTOR(edges)[2 * i + 1] = task;
        }
    igraph_create(&graph, &edges, dag->n_tasks, IGRAPH_DIRECTED);
    igraph_vector_int_init(&order, 0);
    igraph_vector_int_init(&next, 0);
    igraph_topological_sorting(&graph, &order, IGRAPH_OUT);
    double *start_s = check_calloc((size_t)dag->n_tasks, sizeof *start_s), makespan_s = 0;
    for (igraph_integer_t i = 0; i < igraph_vector_int_size(&order); i++) {
        igraph_integer_t task = VECTOR(order)[i];
        double finish_s = start_s[task] + dag->duration_s[task];
        makespan_s = finish_s > makespan_s ? finish_s : makespan_s;
        igraph_neighbors(&graph, &next, task, IGRAPH_OUT);
        for (igraph_integer_t k = 0; k < igraph_vector_int_size(&next); k++)
            if (finish_s > start_s[VECTOR(next)[k]])
                start_s[VECTOR(next)[k]] = finish_s;
    }
    free(start_s);
    igraph_vector_int_destroy(&edges);
    igraph_vector_int_destroy(&order);
    igraph_vector_int_destroy(&next);
    igraph_destroy(&graph);
    return makespan_s;
}

bool hand_execute(const struct dag *dag, const struct platform *platform, struct timeline *timeline, struct error *err)
{
    struct graph *graph = graph_create(dag, err);
    bool ok = graph != NULL && execute(dag, graph, platform, &(struct execute_options){.cfg = ""}, timeline, err);
    graph_free(graph);
    return ok;
}

void hand_engines_agree(const struct dag *dag, const struct platform *platform)
{
    struct timeline run = {0};
    struct error err = {0};
    if (!CHECK_TRUE(hand_execute(dag, platform, &run, &err)))
        printf("%s\n", err.text);
    CHECK_CLOSE(run.makespan_s, hand_makespan_s(dag), 1e-9);
    timeline_free(&run);
}

struct timeline hand_longest_path(const struct dag *dag)
{
    struct timeline timeline = {0};
    timeline_reserve(&timeline, dag->n_tasks);
    double *stream_s = check_calloc((size_t)dag_n_streams(dag), sizeof(double)); /* its last finish */
    for (int32_t t = 0; t < dag->n_tasks; t++) {
        double *free_s = &stream_s[dag->tasks[t].stream];
        timeline.start_s[t] = *free_s;
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1]; e++)
            timeline.start_s[t] = fmax(timeline.start_s[t], timeline.finish_s[dag->in_task[e]]);
        *free_s = timeline.finish_s[t] = timeline.start_s[t] + dag->duration_s[t];
        timeline.makespan_s = fmax(timeline.makespan_s, timeline.finish_s[t]);
    }
    free(stream_s);
    return timeline;
}
