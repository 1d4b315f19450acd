/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Inside dag/: a pass while its tasks are added (dag/builder.h). pass.c builds it. attention.c adds attention that
 * needs messages. copies.c adds copies to and from the host.
 */
#ifndef SLIMSIM_DAG_PASS_H
#define SLIMSIM_DAG_PASS_H

#include "dag/builder.h"

/** One step of the cursors that share it. Participants are ordered by tensor index, then cursor, then context rank. */
struct pass_work {
    struct builder *builder;
    const int32_t *cursors;
    int32_t n_cursors, n_participants, n_tensor;
    enum pass pass;
    int32_t chunk;
    bool ring;                              /* the pass is context parallel and sends something */
    const struct plan_attention *attention; /* by blocks; NULL: none */
};

/** Return the number of the step's participants of one tensor index. */
static inline int32_t pass_n_each(const struct pass_work *work)
{
    return work->n_participants / work->n_tensor;
}

/** Return a task of a participant's pass. */
static inline struct dag_task pass_task_of(const struct pass_work *work, const struct builder_participant *participant,
                                           enum dag_stream stream, enum dag_kind kind, enum dag_purpose purpose)
{
    struct dag_task task = builder_task_of(work->builder, participant->dag_rank, stream, kind, purpose);
    task.pass = (uint8_t)work->pass;
    task.chunk = (uint8_t)work->chunk;
    task.micro_batch = participant->micro_batch;
    return task;
}

static inline struct builder_end *pass_end_of(const struct builder_participant *participant, enum pass pass,
                                              int32_t micro_batch, int32_t stage)
{
    const struct builder_pipe *pipe = participant->pipe;
    return builder_end_of(pipe, builder_instance(pipe, pass, micro_batch, stage), participant->rank);
}

/** Return whether offloaded activations of a micro-batch of the step's pass stream. Either all of them do, or none. */
static inline bool pass_streams(const struct pass_work *work, const struct builder_participant *participant)
{
    return participant->pipe->plan->partition[work->pass].micro_batches[participant->micro_batch].streams;
}

/**
 * Fill pipe->token and pipe->tokens for all micro-batches on all kinds of stages. Every stage that offloads needs them
 * for its copies out and back.
 */
void pass_open_tokens(struct builder_pipe *pipe);

/**
 * Append the copy back of offloaded activations that a backward micro-batch consumes. It waits until the backward
 * before it on the rank has started, so it has this one and the forwards behind it. Before the first backward it waits
 * until the pass before has started. If a micro-batch streams, the copy runs beside the pass, from the start of the
 * pass.
 * @param own_pass  task of that pass, if the activations that it consumes stream; otherwise -1
 * @return          the copy, -1: there is none
 */
int32_t pass_prefetch(struct pass_work *work, const struct builder_participant *participant, int32_t own_pass);

/** Let the newest task, a pass of the rank, wait for copies to the host, if plan_waits_for_copies. */
void pass_after_copies(struct pass_work *work, struct builder_rank *at);

/** Append a forward micro-batch's copy to the host, if there is one, and note it in `end`. */
void pass_offload(struct pass_work *work, const struct builder_participant *participant, struct builder_end *end);

/**
 * Append a collective among the participants first, first + stride, ...; each of them waits for all. Its seconds are
 * those of the slowest of them.
 * @param beside  appends what runs beside it, behind the SYNC `open`; NULL: nothing does
 */
void pass_collective(struct pass_work *work, int32_t first, int32_t stride, struct builder_collective collective,
                     void (*beside)(struct pass_work *work, int32_t first, int32_t open));

/** Append the SYNC before passes whose linear part hides messages of blocks (builder_participant.open). Its
 * participants, of one tensor index, begin with `first`. */
void pass_open_blocks(struct pass_work *work, int32_t first);

/**
 * Append the attention of participants of one tensor index, which begin with `first`, and its messages: a ring or
 * gather of context parallelism, or the blocks of the plan (docs/model/simulation.md, "The task graph").
 */
void pass_attend(struct pass_work *work, int32_t first);

/** Let the newest task wait for what a participant's pass consumes, except copies. */
void pass_after_inputs(struct pass_work *work, const struct builder_participant *participant);

#endif
