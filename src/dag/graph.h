/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The DAG as an igraph graph: the independent reference of the arrays, and the exports. */
#ifndef SLIMSIM_DAG_GRAPH_H
#define SLIMSIM_DAG_GRAPH_H

#include <stdio.h>

#include "dag/dag.h"

/** Build it with igraph and check: acyclic, every task reachable from a source, counts equal, edges ascending. */
bool graph_check(const struct dag *dag, struct error *err);

/** Longest path by igraph's topological order [s]: the reference for critical_path. */
double graph_makespan_s(const struct dag *dag);

/** Graphviz text: passes only as vertices (transfers become labelled edges' delay), edge kinds coloured as in the
 * paper's DAG figure. */
bool graph_write_dot(const struct dag *dag, FILE *file);

/** GraphML with attributes of every task, by igraph. */
bool graph_write_graphml(const struct dag *dag, FILE *file);

#endif
