/* SPDX-License-Identifier: GPL-3.0-or-later */
/** DAGs written by hand, task after task, for what has no plan. */
#ifndef SLIMSIM_TESTS_HAND_DAG_H
#define SLIMSIM_TESTS_HAND_DAG_H

#include "bounds/critical_path.h"
#include "dag/dag.h"
#include "scenario/platform.h"

/** n_places places, place i on GPU i; room for as many tasks, and edges by hand_after, as are asked for. */
struct dag hand_dag(int32_t n_places, int32_t n_tasks, int32_t n_edges);

/** Append a COMPUTE of duration_s. Every task waits for the one before it on its stream. @return its number */
int32_t hand_compute(struct dag *dag, int32_t place, double duration_s);

/** Latency, then bytes at a bandwidth. */
struct cost_transfer hand_transfer(double latency_s, double wire_bytes, double bytes_per_s);

/** Append a SEND on a stream of its place. @return its number */
int32_t hand_send(struct dag *dag, int32_t place, enum dag_stream stream, int32_t to_rank,
                  struct cost_transfer transfer);

/** Append a SYNC. @return its number */
int32_t hand_sync(struct dag *dag, int32_t place);

/** The task appended last waits for `before`; nothing changes if it does already. */
void hand_after(struct dag *dag, int32_t before);

/** A platform by its name: "hopper-2x8". */
struct platform hand_platform(const char *name);

/** Its XML, which the caller frees; and the same platform from a scratch file of this XML. */
char *hand_platform_xml(const struct platform *platform);
struct platform hand_platform_file(const char *name, const char *file_name);

/** Makespan of the critical path. */
double hand_makespan_s(const struct dag *dag);
double hand_plan_makespan_s(const struct plan *plan, const struct cost_setting *setting, struct dag_options options);

/** Longest path by igraph's topological order [s]: the reference for critical_path. */
double hand_igraph_makespan_s(const struct dag *dag);

/** execute() with igraph's graph of the DAG and no options. */
bool hand_execute(const struct dag *dag, const struct platform *platform, struct timeline *timeline, struct error *err);

/** SimGrid's makespan is the critical path's, to within 1e-9 of it: where no transfers meet. */
void hand_engines_agree(const struct dag *dag, const struct platform *platform);

/** Longest path by relaxation, in task order, a stream's tasks one after the other; timeline is the caller's to free
 * with timeline_free. */
struct timeline hand_longest_path(const struct dag *dag);

#endif
