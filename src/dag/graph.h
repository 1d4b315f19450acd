/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The graph is executed, analysed and exported; igraph constructs it from the edges that the builder emits. */
#ifndef SLIMSIM_DAG_GRAPH_H
#define SLIMSIM_DAG_GRAPH_H

#include <stdio.h>

#include "dag/dag.h"

/** The dependencies of a DAG in igraph. SimGrid's actors wait and signal by them, and exports write them. */
struct graph;

/**
 * Give the DAG's edges to igraph_create; edge i of the graph is in-edge i of the DAG.
 *
 *  1. igraph finds whether an edge is doubled and whether tasks wait for each other in a circle.
 *  2. igraph sorts the tasks.
 *  3. Each task must wait for the one before it on its stream, because engines run a stream as a queue.
 *
 * @return freed by graph_free; NULL with an error if the graph is not valid
 */
struct graph *graph_create(const struct dag *dag, struct error *err);

/** Return all tasks in igraph's topological order. */
const int64_t *graph_order(const struct graph *graph);

/** Tasks that wait for one task, in ascending order. */
struct graph_successors {
    const int64_t *task;
    int64_t n;
};
struct graph_successors graph_successors_of(const struct graph *graph, int32_t task);

void graph_free(struct graph *graph);

/**
 * Write Graphviz text. Passes are vertices, "stage, F or B or W, micro-batch". Edges are coloured as in SlimPack's DAG
 * figure: stages red dashed, slices green dotted, schedule blue solid, passes violet solid. A transfer is its edge's
 * delay. Rings, barriers and copies are left out. @return false if it cannot be written
 */
bool graph_write_dot(const struct dag *dag, const struct graph *graph, FILE *file);

/**
 * Write GraphML of all tasks and edges with their attributes. They are set in the graph, and igraph writes them;
 * `order` is the position in its topological order. @return false if it cannot be written
 */
bool graph_write_graphml(const struct dag *dag, struct graph *graph, FILE *file);

/** Return the version of the igraph library that runs, for example "0.10.2", in static storage. */
const char *graph_igraph_version(void);

#endif
