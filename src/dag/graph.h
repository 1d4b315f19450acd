/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The DAG as an igraph graph: the independent reference of the arrays, and the exports. */
#ifndef SLIMSIM_DAG_GRAPH_H
#define SLIMSIM_DAG_GRAPH_H

#include <stdio.h>

#include "dag/dag.h"

/**
 * Build it with igraph and check: counts equal, acyclic, no edge twice, every task reached by a walk from the tasks
 * that wait for nothing; and in the arrays: edges ascend, each task waits for the one before it on its stream (the
 * engines replay streams as queues).
 */
bool graph_check(const struct dag *dag, struct error *err);

/**
 * Graphviz text with passes as vertices, "stage, F or B or W, unit", and edges coloured as in SlimPack's DAG figure:
 * stages red dashed, slices green dotted, schedule blue solid; passes (violet) as well. A transfer is its edge's delay;
 * rings, barriers and copies are left out. @return false when it cannot be written
 */
bool graph_write_dot(const struct dag *dag, FILE *file);

/** GraphML of all tasks and edges with their attributes, by igraph. @return false when it cannot be written */
bool graph_write_graphml(const struct dag *dag, FILE *file);

/** Version of the igraph library that runs, "0.10.2". Static storage. */
const char *graph_igraph_version(void);

#endif
