/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/graph.h"

#include <igraph.h>
#include <stdlib.h>

#include "base/check.h"

static void to_igraph(const struct dag *dag, igraph_t *graph)
{
    igraph_vector_int_t edges;
    igraph_vector_int_init(&edges, 2 * (igraph_integer_t)dag->n_edges);
    for (int32_t task = 0; task < dag->n_tasks; task++)
        for (igraph_integer_t i = dag->in_first[task]; i < dag->in_first[task + 1]; i++) {
            VECTOR(edges)[2 * i] = dag->in_task[i];
            VECTOR(edges)[2 * i + 1] = task;
        }
    igraph_create(graph, &edges, dag->n_tasks, IGRAPH_DIRECTED);
    igraph_vector_int_destroy(&edges);
}

static bool has_edge(const struct dag *dag, int32_t from, int32_t to)
{
    for (int32_t i = dag->in_first[to]; i < dag->in_first[to + 1]; i++)
        if (dag->in_task[i] == from)
            return true;
    return false;
}

/* Edges ascend, none stands twice, a stream's tasks follow each other. */
static bool check_arrays(const struct dag *dag, struct error *err)
{
    bool ok = true;
    int32_t *last = check_malloc((size_t)dag_n_streams(dag) * sizeof *last);
    for (int32_t i = 0; i < dag_n_streams(dag); i++)
        last[i] = -1;
    for (int32_t task = 0; ok && task < dag->n_tasks; task++) {
        for (int32_t i = dag->in_first[task]; ok && i < dag->in_first[task + 1]; i++)
            if (dag->in_task[i] < 0 || dag->in_task[i] >= task)
                ok = error_set(err, "task %d waits for task %d, which is not before it", task, dag->in_task[i]);
        int32_t *before = &last[dag->tasks[task].stream];
        if (ok && *before >= 0 && !has_edge(dag, *before, task))
            ok = error_set(err, "task %d does not wait for task %d before it on its stream", task, *before);
        *before = task;
    }
    free(last);
    return ok;
}

/* Tasks that a walk from all sources reaches; a source must be the first of its stream. */
static bool check_reach(const struct dag *dag, const igraph_t *graph, struct error *err)
{
    igraph_vector_int_t degree, sources, order;
    igraph_vector_int_init(&degree, 0);
    igraph_vector_int_init(&sources, 0);
    igraph_vector_int_init(&order, 0);
    igraph_degree(graph, &degree, igraph_vss_all(), IGRAPH_IN, IGRAPH_LOOPS);
    for (int32_t task = 0; task < dag->n_tasks; task++)
        if (VECTOR(degree)[task] == 0)
            igraph_vector_int_push_back(&sources, task);
    igraph_bfs(graph, 0, &sources, IGRAPH_OUT, false, NULL, &order, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    int32_t n = 0;
    for (igraph_integer_t i = 0; i < igraph_vector_int_size(&order); i++)
        n += VECTOR(order)[i] >= 0;
    igraph_vector_int_destroy(&degree);
    igraph_vector_int_destroy(&sources);
    igraph_vector_int_destroy(&order);
    return n == dag->n_tasks || error_set(err, "%d of %d tasks are reached from the sources", n, dag->n_tasks);
}

bool graph_check(const struct dag *dag, struct error *err)
{
    if (!check_arrays(dag, err))
        return false;
    igraph_t graph;
    igraph_bool_t acyclic, simple;
    to_igraph(dag, &graph);
    igraph_is_dag(&graph, &acyclic);
    igraph_is_simple(&graph, &simple);
    bool ok = true;
    if (igraph_vcount(&graph) != dag->n_tasks || igraph_ecount(&graph) != dag->n_edges)
        ok = error_set(err, "%d tasks and %d edges became %d and %d", dag->n_tasks, dag->n_edges,
                       (int)igraph_vcount(&graph), (int)igraph_ecount(&graph));
    else if (!acyclic)
        ok = error_set(err, "the tasks wait for each other in a circle");
    else if (!simple)
        ok = error_set(err, "an edge stands twice");
    else
        ok = check_reach(dag, &graph, err);
    igraph_destroy(&graph);
    return ok;
}

/* The COMPUTE that a task of a pass belongs to, -1 for other tasks. */
static int32_t pass_of(const struct dag *dag, int32_t task)
{
    if (dag->tasks[task].kind == DAG_COMPUTE)
        return task;
    if (dag->tasks[task].kind != DAG_ATTENTION)
        return -1;
    for (int32_t i = dag->in_first[task]; i < dag->in_first[task + 1]; i++)
        if (dag->tasks[dag->in_task[i]].kind == DAG_COMPUTE)
            return dag->in_task[i];
    return -1;
}

/* Passes of the paper's figure: blue for the schedule, red for stages, green for slices. */
static const char *const edge_style[DAG_N_EDGES] = {
    "color=\"#d0021b\", style=dashed", "color=\"#7ed321\", style=dotted", "color=\"#9013fe\", style=solid",
    "color=\"#4a90e2\", style=solid",  "color=\"#9b9b9b\", style=solid",
};

static void write_edge(int32_t from, int32_t to, int kind, double delay_s, FILE *file)
{
    fprintf(file, "  t%d -> t%d [%s", from, to, edge_style[kind]);
    if (delay_s > 0)
        fprintf(file, ", label=\"%.4g s\"", delay_s);
    fprintf(file, "];\n");
}

/* Edges into one pass. A send on the way is an edge's delay; rings and barriers are left out. Of two relations between
 * the same tasks the graph keeps one; if one task also follows the other on its stream, that is drawn beside it. */
static void write_in_edges(const struct dag *dag, int32_t task, FILE *file)
{
    for (int32_t i = dag->in_first[task]; i < dag->in_first[task + 1]; i++) {
        int32_t from = dag->in_task[i];
        if (pass_of(dag, from) >= 0) {
            write_edge(pass_of(dag, from), task, dag->in_kind[i], 0, file);
            if (dag->in_kind[i] != DAG_SCHEDULE && dag->stream_next[from] == task)
                write_edge(pass_of(dag, from), task, DAG_SCHEDULE, 0, file);
        }
        if (dag->tasks[from].purpose != DAG_BOUNDARY)
            continue;
        for (int32_t k = dag->in_first[from]; k < dag->in_first[from + 1]; k++)
            if (dag->in_kind[k] == DAG_INTER_STAGE && pass_of(dag, dag->in_task[k]) >= 0)
                write_edge(pass_of(dag, dag->in_task[k]), task, DAG_INTER_STAGE, dag->duration_s[from], file);
    }
}

bool graph_write_dot(const struct dag *dag, FILE *file)
{
    static const char letter[] = "FBW"; /* by pass */
    fprintf(file, "digraph slimsim {\n  rankdir=LR;\n  node [shape=box];\n");
    for (int32_t task = 0; task < dag->n_tasks; task++) {
        const struct dag_task *at = &dag->tasks[task];
        if (at->kind != DAG_COMPUTE)
            continue;
        const struct dag_place *place = &dag->places[at->place];
        fprintf(file, "  t%d [label=\"%d, %c, %d\", phase=%d, pipeline=%d, context=%d, tensor=%d, seconds=%.9g];\n",
                task, at->stage, letter[at->pass], at->unit, at->phase, at->pipeline, place->context, place->tensor,
                dag->duration_s[task]);
    }
    for (int32_t task = 0; task < dag->n_tasks; task++)
        if (dag->tasks[task].kind == DAG_COMPUTE)
            write_in_edges(dag, task, file);
    fprintf(file, "}\n");
    return fflush(file) == 0 && !ferror(file);
}

static void set_numbers(igraph_t *graph, const struct dag *dag, igraph_integer_t task)
{
    const struct dag_task *at = &dag->tasks[task];
    SETVAN(graph, "phase", task, at->phase);
    SETVAN(graph, "pipeline", task, at->pipeline);
    SETVAN(graph, "stage", task, at->stage);
    SETVAN(graph, "chunk", task, at->chunk);
    SETVAN(graph, "unit", task, at->unit);
    SETVAN(graph, "place", task, at->place);
    SETVAN(graph, "stream", task, at->stream % DAG_N_STREAMS);
    SETVAN(graph, "from_rank", task, at->from_rank);
    SETVAN(graph, "to_rank", task, at->to_rank);
    SETVAN(graph, "wire_bytes", task, at->wire_bytes);
    SETVAN(graph, "duration_s", task, dag->duration_s[task]);
}

bool graph_write_graphml(const struct dag *dag, FILE *file)
{
    igraph_t graph;
    igraph_attribute_table_t *previous = igraph_set_attribute_table(&igraph_cattribute_table);
    to_igraph(dag, &graph);
    for (int32_t task = 0; task < dag->n_tasks; task++) {
        SETVAS(&graph, "kind", task, dag_kind_name[dag->tasks[task].kind]);
        SETVAS(&graph, "purpose", task, dag_purpose_name[dag->tasks[task].purpose]);
        SETVAS(&graph, "pass", task, pass_name[dag->tasks[task].pass]);
        set_numbers(&graph, dag, task);
    }
    for (int32_t edge = 0; edge < dag->n_edges; edge++)
        SETEAS(&graph, "kind", edge, dag_edge_name[dag->in_kind[edge]]);
    igraph_error_handler_t *handler = igraph_set_error_handler(igraph_error_handler_ignore); /* a full disk */
    bool ok = igraph_write_graph_graphml(&graph, file, true) == IGRAPH_SUCCESS;
    igraph_set_error_handler(handler);
    igraph_destroy(&graph);
    igraph_set_attribute_table(previous);
    return fflush(file) == 0 && ok && !ferror(file);
}

const char *graph_igraph_version(void)
{
    const char *version;
    igraph_version(&version, NULL, NULL, NULL);
    return version;
}
