/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Inside dag/: this module has what collectives inside passes add to a graph: joins of zero2, zero3 and experts, and
 * the traffic of shards. */
#ifndef SLIMSIM_DAG_JOINS_H
#define SLIMSIM_DAG_JOINS_H

#include "dag/builder.h"

/**
 * Return whether a cursor's pass has collectives that the other cursors of its join have, too: each pass of zero3, the
 * backwards of zero2, and each pass of layers with experts.
 *
 * 1. Every layer has such collectives, and layers are equal. So a pass lasts on all ranks of a join as long as on the
 *    slowest one. One SYNC behind the pass says so.
 * 2. All ranks run the same kinds of passes in the same order, as the collectives do. If some rank's next pass is a
 *    forward one, ranks before a backward run an empty pass meanwhile. Ranks that have ended run empty passes, too.
 * 3. With zero2 and zero3 all cursors are one join. Groups of HSDP wait for each other in forwards, too, although only
 *    their backwards reduce among them.
 * 4. Pipelines that share experts are neighbours (plan.ep). A join has the cursors of one of their stages. Pipelines
 *    whose own ranks share experts have none.
 * 5. Stages of zero3 do not join: they gather once.
 * 6. On demand (ODC) no pass joins. All ranks wait for each other once, before the optimizer.
 *
 * @param stage  virtual stage of the pass
 */
bool joins_pass(const struct builder *builder, const struct builder_stage_cursor *cursor, enum pass pass,
                int32_t stage);

/** Return the number of neighbouring pipelines that share experts. It is 1 if the ranks of each share them. */
int32_t joins_n_pipelines(const struct cost_setting *setting, const struct plan_layout *layout);

/** Let a rank without a join wait for its own SENDs of a pass, of shards on demand or of tokens. All other ranks go on.
 */
void joins_wait(struct builder *builder, enum pass pass, int32_t dag_rank);

/** Make the joins, and fill in the traffic of the phase's passes and the GPUs to which its ranks send. */
void joins_open(struct builder *builder);

/**
 * Append the bytes of a pass's collectives, beside its COMPUTE, the newest task. Graphs with fold_equal have none.
 * Steps 1 and 2 are for shards.
 *
 * 1. A rank sends to the next one of its NVLink domain and to its counterpart in the next domain, as rails do.
 * 2. Its bytes are those of all layers. The latency is the rest of the time that the pass would take if its kernels
 *    took no time but those of one layer: no collective runs beside the last layer.
 * 3. Tokens go from a rank to its counterpart in each other NVLink domain of the ranks that share experts, one after
 *    the other. The latency is the rest of the pass's time.
 * 4. Without other traffic these SENDs end before the pass does. With more traffic they may end later, and the pass
 *    then ends with them.
 */
void joins_send(struct builder *builder, enum pass pass, const struct builder_participant *participant);

/** Append the SYNC behind the latest passes of a join's ranks. */
void joins_sync(struct builder *builder, const struct builder_join *join);

/** Free the joins. */
void joins_close(struct builder *builder);

#endif
