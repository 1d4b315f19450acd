/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check igraph's graph of a plan and the files made of it. */
#include "dag/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "hand_plan.h"
#include "harness.h"

static struct dag built(const struct plan *plan)
{
    struct dag dag;
    struct error err = {0};
    bool ok = dag_build(plan, hand_setting(), (struct dag_options){.gradient_sync = true}, &dag, &err);
    CHECK_TRUE(ok);
    return dag;
}

static char *read_back(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = check_calloc(1 << 20, 1);
    CHECK_TRUE(file != NULL && fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static int32_t occurrences(const char *text, const char *part)
{
    int32_t n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
        n++;
    return n;
}

/* Both forms have the same edges. Each edge of the arrays is one of igraph's, and there are as many, none twice.
 * Igraph's order holds every task once, each before those that wait for it. */
static void check_equal(const struct dag *dag, const struct graph *graph)
{
    int64_t n_edges = 0;
    int32_t *place = check_malloc((size_t)dag->n_tasks * sizeof *place);
    for (int32_t i = 0; i < dag->n_tasks; i++)
        place[i] = -1;
    for (int32_t i = 0; i < dag->n_tasks; i++) {
        CHECK_EQUAL(place[graph_order(graph)[i]], -1);
        place[graph_order(graph)[i]] = i;
    }
    for (int32_t task = 0; task < dag->n_tasks; task++) {
        struct graph_successors after = graph_successors_of(graph, task);
        n_edges += after.n;
        for (int64_t i = 1; i < after.n; i++)
            CHECK_TRUE(after.task[i - 1] < after.task[i]);
        for (int32_t e = dag->in_first[task]; e < dag->in_first[task + 1]; e++) {
            bool found = false;
            struct graph_successors next = graph_successors_of(graph, dag->in_task[e]);
            for (int64_t i = 0; i < next.n; i++)
                found = found || next.task[i] == task;
            CHECK_TRUE(found);
            CHECK_TRUE(place[dag->in_task[e]] < place[task]);
        }
    }
    CHECK_EQUAL(n_edges, dag->n_edges);
    free(place);
}

TEST(graph_create__has_the_edges_of_the_arrays)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct plan plan;
        struct error err = {0};
        hand_random(&plan, seed);
        struct dag dag = built(&plan);
        struct graph *graph = graph_create(&dag, &err);
        if (CHECK_TRUE(graph != NULL))
            check_equal(&dag, graph);
        else
            printf("seed %llu: %s\n", (unsigned long long)seed, err.text);
        graph_free(graph);
        dag_free(&dag);
        plan_free(&plan);
    }
}

static void check_refused(const struct dag *dag, const char *reason)
{
    struct error err = {0};
    CHECK_TRUE(graph_create(dag, &err) == NULL);
    CHECK_CONTAINS(err.text, reason);
}

/* Each way to break a graph of 2 stages and 3 micro-batches has its sentence. */
TEST(graph_create__names_broken_graphs)
{
    struct plan plan;
    hand_uniform(&plan, 2, 3, 16);
    struct dag dag = built(&plan);
    int32_t *last = &dag.in_task[dag.n_edges - 1], from = *last;

    *last = dag.n_tasks - 1; /* it waits for itself */
    check_refused(&dag, "the task graph is not valid: ");
    *last = from;

    int32_t second = 0; /* the first task that waits for another one waits for the last task, which waits for it */
    while (dag.in_first[second + 1] == 0)
        second++;
    int32_t before = dag.in_task[0];
    dag.in_task[0] = dag.n_tasks - 1;
    check_refused(&dag, "in a circle");
    dag.in_task[0] = before;

    int32_t barrier = dag.n_tasks - 1; /* it waits for both stages */
    while (dag.tasks[barrier].kind != DAG_SYNC)
        barrier--;
    before = dag.in_task[dag.in_first[barrier]];
    dag.in_task[dag.in_first[barrier]] = dag.in_task[dag.in_first[barrier] + 1];
    check_refused(&dag, "two edges join the same tasks");
    dag.in_task[dag.in_first[barrier]] = before;

    int32_t first = dag.stream_first[DAG_STREAM_COMPUTE]; /* the first forward of stage 0 is at the end of its queue */
    int32_t end = first;
    while (dag.stream_next[end] >= 0)
        end = dag.stream_next[end];
    dag.stream_next[end] = first;
    check_refused(&dag, "before it on its stream");
    dag.stream_next[end] = -1;
    dag_free(&dag);
    plan_free(&plan);
}

/* Write the graph as DOT. The caller frees the text. */
static char *dot_of(const struct dag *dag, const char *name)
{
    struct error err = {0};
    struct graph *graph = graph_create(dag, &err);
    FILE *file = fopen(harness_path(name), "w");
    CHECK_TRUE(graph_write_dot(dag, graph, file));
    fclose(file);
    graph_free(graph);
    return read_back(harness_path(name));
}

/* The picture of the paper's figure has 12 passes. It has 9 red arrows (6 of them with the delay of a send) and 4 green
 * ones. On each of two stages of 6 passes there are 5 blue arrows. 4 of all blue arrows are between passes that a green
 * one joins, too. */
TEST(graph_write_dot__has_the_vertices_and_colours_of_the_figure)
{
    struct plan plan;
    hand_figure(&plan);
    struct dag dag = built(&plan);
    char *text = dot_of(&dag, "figure.dot");
    CHECK_EQUAL(occurrences(text, "label=\"0, F, "), 3);
    CHECK_EQUAL(occurrences(text, "label=\"1, F, "), 3);
    CHECK_EQUAL(occurrences(text, "label=\"0, B, "), 3);
    CHECK_EQUAL(occurrences(text, "label=\"1, B, "), 3);
    CHECK_EQUAL(occurrences(text, " -> "), 23);
    CHECK_EQUAL(occurrences(text, "#d0021b\", style=dashed"), 9);
    CHECK_EQUAL(occurrences(text, "style=dashed, label"), 6);
    CHECK_EQUAL(occurrences(text, "#7ed321\", style=dotted"), 4);
    CHECK_EQUAL(occurrences(text, "#4a90e2\", style=solid"), 10);
    CHECK_CONTAINS(text, "digraph slimsim {");
    free(text);
    dag_free(&dag);
    plan_free(&plan);
}

/* One micro-batch runs on two stages of two context ranks. On each of the four ranks one pass follows the other (blue).
 * From stage to stage and back a send joins each rank's passes (red), though attention is between them. */
TEST(graph_write_dot__joins_passes_of_context_ranks)
{
    struct plan plan;
    hand_plan(&plan, 1, 2, 2);
    for (int pass = 0; pass < N_PASSES; pass++)
        hand_micro_batch(&plan.phases[0].pipelines[0].partition[pass], (struct slice){0, 0, 16})->context = 2;
    hand_order(&plan);
    struct dag dag = built(&plan);
    char *text = dot_of(&dag, "context.dot");
    CHECK_EQUAL(occurrences(text, " [label="), 8);
    CHECK_EQUAL(occurrences(text, "style=dashed, label"), 4);
    CHECK_EQUAL(occurrences(text, "#4a90e2\", style=solid"), 4);
    free(text);
    dag_free(&dag);
    plan_free(&plan);
}

/* Check that the i-th edge of the text is in-edge i of the arrays: from, to and kind. */
static void check_edges(const char *text, const struct dag *dag)
{
    const char *at = text;
    for (int32_t task = 0; task < dag->n_tasks; task++)
        for (int32_t e = dag->in_first[task]; e < dag->in_first[task + 1]; e++) {
            char edge[128], kind[64];
            snprintf(edge, sizeof edge, "<edge source=\"n%d\" target=\"n%d\">", dag->in_task[e], task);
            snprintf(kind, sizeof kind, "<data key=\"e_kind\">%s</data>", dag_edge_name[dag->in_kind[e]]);
            at = strstr(at + 1, "<edge ");
            if (!CHECK_TRUE(at != NULL && strncmp(at, edge, strlen(edge)) == 0))
                return;
            const char *end = strstr(at, "</edge>"), *found = strstr(at, kind);
            CHECK_TRUE(found != NULL && end != NULL && found < end);
        }
}

TEST(graph_write_graphml__holds_all_tasks_and_edges)
{
    struct plan plan;
    hand_figure(&plan);
    struct dag dag = built(&plan);
    struct error err = {0};
    struct graph *graph = graph_create(&dag, &err);
    FILE *file = fopen(harness_path("figure.graphml"), "w");
    CHECK_TRUE(graph_write_graphml(&dag, graph, file));
    fclose(file);
    graph_free(graph);
    char *text = read_back(harness_path("figure.graphml"));
    CHECK_EQUAL(occurrences(text, "<node "), dag.n_tasks);
    CHECK_EQUAL(occurrences(text, "<edge "), dag.n_edges);
    check_edges(text, &dag);
    CHECK_EQUAL(occurrences(text, "inter-slice"),
                4); /* the names are those of edges.kind and tasks.purpose in a trace */
    CHECK_CONTAINS(text, "<data key=\"v_purpose\">reduce-scatter</data>");
    CHECK_CONTAINS(text, "attr.name=\"duration_s\"");
    free(text);
    dag_free(&dag);
    plan_free(&plan);
}

TEST(graph_write__reports_a_full_disk)
{
    struct plan plan;
    hand_uniform(&plan, 4, 16, 16);
    struct dag dag = built(&plan);
    struct error err = {0};
    struct graph *graph = graph_create(&dag, &err);
    FILE *file = fopen("/dev/full", "w");
    if (file != NULL) {
        CHECK_TRUE(!graph_write_dot(&dag, graph, file));
        CHECK_TRUE(!graph_write_graphml(&dag, graph, file));
        fclose(file);
    }
    graph_free(graph);
    dag_free(&dag);
    plan_free(&plan);
}
