/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/graph.h"

#include <igraph.h>
#include <stdlib.h>

#include "base/check.h"

struct graph {
    igraph_t igraph;
    igraph_vector_int_t order;
    igraph_adjlist_t successors;
};

_Static_assert(sizeof(igraph_integer_t) == sizeof(int64_t), "graph.h hands out igraph's integers");

/* Give igraph the edges; its edge i is in-edge i of the arrays. */
static void create(const struct dag *dag, igraph_t *igraph)
{
    igraph_vector_int_t edges;
    igraph_vector_int_init(&edges, 2 * (igraph_integer_t)dag->n_edges);
    for (int32_t task = 0; task < dag->n_tasks; task++)
        for (igraph_integer_t i = dag->in_first[task]; i < dag->in_first[task + 1]; i++) {
            VECTOR(edges)[2 * i] = dag->in_task[i];
            VECTOR(edges)[2 * i + 1] = task;
        }
    igraph_create(igraph, &edges, dag->n_tasks, IGRAPH_DIRECTED);
    igraph_vector_int_destroy(&edges);
}

/* Check that each task waits for the one before it on its stream. Engines rely on that edge. */
static bool check_streams(const struct dag *dag, const struct graph *graph, struct error *err)
{
    for (int32_t task = 0; task < dag->n_tasks; task++) {
        int32_t next = dag->stream_next[task];
        if (next >= 0 && !igraph_vector_int_contains(igraph_adjlist_get(&graph->successors, task), next))
            return error_set_status(err, ERROR_FAILED,
                                    "the task graph is not valid: task %d does not wait for task %d before it on its "
                                    "stream",
                                    next, task);
    }
    return true;
}

/* igraph calls this function only if memory is short, because the input was checked. */
static void igraph_failed(const char *reason, const char *file, int line, igraph_error_t error)
{
    (void)file;
    (void)line;
    fprintf(stderr, "slimsim: igraph: %s (%s): out of memory?\n", reason, igraph_strerror(error));
    exit(ERROR_FAILED);
}

struct graph *graph_create(const struct dag *dag, struct error *err)
{
    igraph_t igraph;
    igraph_bool_t acyclic, simple;
    igraph_set_error_handler(igraph_failed);
    /* graph_write_graphml sets attributes of vertices and edges */
    igraph_set_attribute_table(&igraph_cattribute_table);
    create(dag, &igraph);
    igraph_is_simple(&igraph, &simple);
    igraph_is_dag(&igraph, &acyclic);
    if (!simple || !acyclic) {
        igraph_destroy(&igraph);
        error_set_status(err, ERROR_FAILED, "the task graph is not valid: %s",
                         acyclic ? "two edges join the same tasks" : "tasks wait for each other in a circle");
        return NULL;
    }
    struct graph *graph = check_malloc(sizeof *graph);
    graph->igraph = igraph;
    igraph_vector_int_init(&graph->order, 0);
    igraph_topological_sorting(&graph->igraph, &graph->order, IGRAPH_OUT);
    igraph_adjlist_init(&graph->igraph, &graph->successors, IGRAPH_OUT, IGRAPH_LOOPS, IGRAPH_MULTIPLE);
    if (check_streams(dag, graph, err))
        return graph;
    graph_free(graph);
    return NULL;
}

const int64_t *graph_order(const struct graph *graph)
{
    return VECTOR(graph->order);
}

struct graph_successors graph_successors_of(const struct graph *graph, int32_t task)
{
    const igraph_vector_int_t *list = igraph_adjlist_get(&graph->successors, task);
    return (struct graph_successors){VECTOR(*list), igraph_vector_int_size(list)};
}

void graph_free(struct graph *graph)
{
    if (graph == NULL)
        return;
    igraph_adjlist_destroy(&graph->successors);
    igraph_vector_int_destroy(&graph->order);
    igraph_destroy(&graph->igraph);
    free(graph);
}

/* Return the COMPUTE of the pass that a task belongs to, -1 for other tasks. */
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

/* Styles follow the paper's figure: blue for the schedule, red for stages, green for slices. */
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

/*
 * Write the edges into one pass. A send between passes becomes an edge's delay; rings and barriers are left out. The
 * graph keeps one of two relations between the same tasks. If one task also follows the other on its stream, that edge
 * is drawn, too.
 */
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

bool graph_write_dot(const struct dag *dag, const struct graph *graph, FILE *file)
{
    static const char letter[] = "FBW"; /* by pass */
    fprintf(file, "digraph slimsim {\n  rankdir=LR;\n  node [shape=box];\n");
    for (int32_t i = 0; i < dag->n_tasks; i++) {
        int32_t task = (int32_t)graph_order(graph)[i];
        const struct dag_task *at = &dag->tasks[task];
        if (at->kind != DAG_COMPUTE)
            continue;
        const struct dag_rank *dag_rank = &dag->ranks[at->dag_rank];
        fprintf(file, "  t%d [label=\"%d, %c, %d\", phase=%d, pipeline=%d, context=%d, tensor=%d, seconds=%.9g];\n",
                task, at->stage, letter[at->pass], at->micro_batch, at->phase, at->pipeline, dag_rank->context,
                dag_rank->tensor, dag->duration_s[task]);
    }
    for (int32_t i = 0; i < dag->n_tasks; i++)
        if (dag->tasks[graph_order(graph)[i]].kind == DAG_COMPUTE)
            write_in_edges(dag, (int32_t)graph_order(graph)[i], file);
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
    SETVAN(graph, "micro_batch", task, at->micro_batch);
    SETVAN(graph, "dag_rank", task, at->dag_rank);
    SETVAN(graph, "stream", task, at->stream % DAG_N_STREAMS);
    SETVAN(graph, "from_rank", task, at->from_rank);
    SETVAN(graph, "to_rank", task, at->to_rank);
    SETVAN(graph, "wire_bytes", task, at->wire_bytes);
    SETVAN(graph, "duration_s", task, dag->duration_s[task]);
}

bool graph_write_graphml(const struct dag *dag, struct graph *graph, FILE *file)
{
    igraph_t *igraph = &graph->igraph;
    for (int32_t i = 0; i < dag->n_tasks; i++) {
        int32_t task = (int32_t)graph_order(graph)[i];
        SETVAN(igraph, "order", task, i);
        SETVAS(igraph, "kind", task, dag_kind_name[dag->tasks[task].kind]);
        SETVAS(igraph, "purpose", task, dag_purpose_name[dag->tasks[task].purpose]);
        SETVAS(igraph, "pass", task, pass_name[dag->tasks[task].pass]);
        set_numbers(igraph, dag, task);
    }
    for (int32_t edge = 0; edge < dag->n_edges; edge++)
        SETEAS(igraph, "kind", edge, dag_edge_name[dag->in_kind[edge]]);
    /* a full disk is reported by the return value */
    igraph_error_handler_t *handler = igraph_set_error_handler(igraph_error_handler_ignore);
    bool ok = igraph_write_graph_graphml(igraph, file, true) == IGRAPH_SUCCESS;
    igraph_set_error_handler(handler);
    return fflush(file) == 0 && ok && !ferror(file);
}

const char *graph_igraph_version(void)
{
    const char *version;
    igraph_version(&version, NULL, NULL, NULL);
    return version;
}
