/* SPDX-License-Identifier: GPL-3.0-or-later */
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

TEST(random_graphs_pass_the_checks)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct plan plan;
        struct error err = {0};
        hand_random(&plan, seed);
        struct dag dag = built(&plan);
        if (!graph_check(&dag, &err))
            printf("seed %llu: %s\n", (unsigned long long)seed, err.text);
        CHECK_TRUE(graph_check(&dag, &err));
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* Each way to break a graph of 2 stages and 3 micro-batches has its sentence. */
TEST(broken_graphs_are_named)
{
    struct plan plan;
    struct error err = {0};
    hand_uniform(&plan, 2, 3, 16);
    struct dag dag = built(&plan);
    int32_t *last = &dag.in_task[dag.n_edges - 1], from = *last;

    *last = dag.n_tasks - 1;
    CHECK_TRUE(!graph_check(&dag, &err));
    CHECK_CONTAINS(err.text, "which is not before it");
    *last = from;

    int32_t stream = dag.tasks[0].stream; /* the first forward of stage 0 moves to the end of stage 1's queue */
    dag.tasks[0].stream = DAG_N_STREAMS;
    CHECK_TRUE(!graph_check(&dag, &err));
    CHECK_CONTAINS(err.text, "on its stream");
    dag.tasks[0].stream = stream;

    int32_t barrier = dag.n_tasks - 1; /* waits for both stages */
    while (dag.tasks[barrier].kind != DAG_SYNC)
        barrier--;
    dag.in_task[dag.in_first[barrier]] = dag.in_task[dag.in_first[barrier] + 1];
    CHECK_TRUE(!graph_check(&dag, &err));
    CHECK_CONTAINS(err.text, "twice");
    dag_free(&dag);
    plan_free(&plan);
}

/* Caller frees. */
static char *dot_of(const struct dag *dag, const char *name)
{
    FILE *file = fopen(harness_path(name), "w");
    CHECK_TRUE(graph_write_dot(dag, file));
    fclose(file);
    return read_back(harness_path(name));
}

/* The picture of the paper's figure: 12 passes; 9 red (6 of them with the delay of a send), 4 green and, on each of two
 * stages of 6 passes, 5 blue arrows, 4 of them between passes that a green one joins too. */
TEST(the_figure_as_dot_has_its_vertices_and_colours)
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

/* One unit on two stages of two context ranks: on each of the four ranks one pass follows the other (blue), and from
 * stage to stage and back each rank's passes are joined by a send (red), though attention stands between. */
TEST(passes_of_context_ranks_are_joined_through_their_attention)
{
    struct plan plan;
    hand_plan(&plan, 1, 2, 2);
    for (int pass = 0; pass < N_PASSES; pass++)
        hand_unit(&plan.phases[0].pipelines[0].cut[pass], (struct slice){0, 0, 16})->context = 2;
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

TEST(graphml_holds_all_tasks_and_edges)
{
    struct plan plan;
    hand_figure(&plan);
    struct dag dag = built(&plan);
    FILE *file = fopen(harness_path("figure.graphml"), "w");
    CHECK_TRUE(graph_write_graphml(&dag, file));
    fclose(file);
    char *text = read_back(harness_path("figure.graphml"));
    CHECK_EQUAL(occurrences(text, "<node "), dag.n_tasks);
    CHECK_EQUAL(occurrences(text, "<edge "), dag.n_edges);
    CHECK_EQUAL(occurrences(text, "inter-slice"), 4); /* as the trace's edges.kind and tasks.purpose say it */
    CHECK_CONTAINS(text, "<data key=\"v_purpose\">reduce-scatter</data>");
    CHECK_CONTAINS(text, "attr.name=\"duration_s\"");
    free(text);
    dag_free(&dag);
    plan_free(&plan);
}

TEST(a_full_disk_is_reported)
{
    struct plan plan;
    hand_uniform(&plan, 4, 16, 16);
    struct dag dag = built(&plan);
    FILE *file = fopen("/dev/full", "w");
    if (file != NULL) {
        CHECK_TRUE(!graph_write_dot(&dag, file));
        CHECK_TRUE(!graph_write_graphml(&dag, file));
        fclose(file);
    }
    dag_free(&dag);
    plan_free(&plan);
}
