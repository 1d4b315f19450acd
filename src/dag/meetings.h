/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Inside dag/: passes that several cursors run together. Each micro-batch of a group is a meeting on each virtual
 * stage, and each attention of the phase is one. The last cursor to arrive builds the pass for all.
 */
#ifndef SLIMSIM_DAG_MEETINGS_H
#define SLIMSIM_DAG_MEETINGS_H

#include "dag/builder.h"

/** Number the meetings of the phase, whose pipes are open. The attention with number i is meeting i. */
void meetings_open(struct builder *builder);

void meetings_close(struct builder *builder);

/** Return the meeting of a step of a cursor, -1: none. */
static inline int32_t meetings_of(const struct builder_stage_cursor *cursor, const struct plan_step *step)
{
    const struct builder_pipe *pipe = cursor->pipe;
    if (step->pass >= N_PASSES || pipe->meeting[step->pass] == NULL)
        return -1;
    return pipe->meeting[step->pass][step->micro_batch * pipe->n_virtual + step->chunk * pipe->stages + cursor->stage];
}

/** Let a cursor arrive at the meeting of its next step. If it is the last one, fill step_cursors with all of them in
 * ascending order. @return their number; 0: others have not arrived */
int32_t meetings_arrive(struct builder *builder, int32_t number);

/** Return a cursor that has not arrived at a meeting. */
int32_t meetings_absent(const struct builder *builder, int32_t meeting);

#endif
