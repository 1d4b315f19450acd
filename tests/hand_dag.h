/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These functions write DAGs task after task, for tests that need no plan. */
#ifndef SLIMSIM_TESTS_HAND_DAG_H
#define SLIMSIM_TESTS_HAND_DAG_H

#include "bounds/critical_path.h"
#include "dag/dag.h"
#include "scenario/platform.h"

/** Make a DAG of n_ranks places, of which place i is on GPU i. It has room for so many tasks, and for so many edges by
 * hand_after. */
struct dag hand_dag(int32_t n_ranks, int32_t n_tasks, int32_t n_edges);

/** Append a COMPUTE of duration_s. Every task waits for the one before it on its stream. @return its number */
int32_t hand_compute(struct dag *dag, int32_t place, double duration_s);

/** Make a transfer of a latency, followed by bytes at a bandwidth. */
struct cost_transfer hand_transfer(double latency_s, double wire_bytes, double bytes_per_s);

/** Append a SEND on a stream of its place. @return its number */
int32_t hand_send(struct dag *dag, int32_t place, enum dag_stream stream, int32_t to_rank,
                  struct cost_transfer transfer);

/** Append a SYNC. @return its number */
int32_t hand_sync(struct dag *dag, int32_t place);

/** The task appended last waits for `before`. Nothing changes if it does already. */
void hand_after(struct dag *dag, int32_t before);

/** Count the tasks of a kind and purpose, or find the first one at or after `from`, which must exist. */
int32_t hand_count(const struct dag *dag, enum dag_kind kind, enum dag_purpose purpose);
int32_t hand_find(const struct dag *dag, enum dag_kind kind, enum dag_purpose purpose, int32_t from);

/** A platform by its name: "hopper-2x8". */
struct platform hand_platform(const char *name);

/** Its XML, which the caller frees; and the same platform from a scratch file of this XML. */
char *hand_platform_xml(const struct platform *platform);
struct platform hand_platform_file(const char *name, const char *file_name);

/** Find the makespan of the critical path [s]. */
double hand_makespan_s(const struct dag *dag);
double hand_plan_makespan_s(const struct plan *plan, const struct cost_setting *setting, struct dag_options options);

/** Find the longest path by igraph's topological order [s]. This is the reference for critical_path. */
double hand_igraph_makespan_s(const struct dag *dag);

/** Call execute() with igraph's graph of the DAG and no options. */
bool hand_execute(const struct dag *dag, const struct platform *platform, struct timeline *timeline, struct error *err);

/** Check that SimGrid's makespan is the critical path's, to within 1e-9 of it. No transfers may meet. */
void hand_engines_agree(const struct dag *dag, const struct platform *platform);

/** Find the longest path by relaxation in task order. A stream's tasks run one after the other. The caller frees it
 * with timeline_free. */
struct timeline hand_longest_path(const struct dag *dag);

#endif
