/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A pass while its tasks are added (dag/builder.h): pass.c; exchange.c for attention that another stage computes;
 * copies.c for the host.
 */
#ifndef SLIMSIM_DAG_PASS_H
#define SLIMSIM_DAG_PASS_H

#include "dag/builder.h"

/** One step of the cursors that share it. Participants stand by tensor index, then cursor, then context rank. */
struct pass_work {
    struct builder *builder;
    const int32_t *cursors;
    int32_t n_cursors, n_participants, n_tensor;
    enum pass pass;
    int32_t chunk;
    bool ring;              /* context parallel, and something to send */
    int32_t exchange_group; /* -1: none */
};

/** A task of a participant's pass. */
static inline struct dag_task pass_task_of(const struct pass_work *work, const struct builder_participant *participant,
                                           enum dag_stream stream, enum dag_kind kind, enum dag_purpose purpose)
{
    struct dag_task task = builder_task_of(work->builder, participant->dag_rank, stream, kind, purpose);
    task.pass = (uint8_t)work->pass;
    task.chunk = (uint8_t)work->chunk;
    task.unit = participant->unit;
    return task;
}

static inline struct builder_end *pass_end_of(const struct builder_participant *participant, enum pass pass,
                                              int32_t unit, int32_t stage)
{
    const struct builder_pipe *pipe = participant->pipe;
    return builder_end_of(pipe, builder_instance(pipe, pass, unit, stage), participant->rank);
}

/** Whether what a unit of the step's pass has offloaded streams: all of it does, or none. */
static inline bool pass_streams(const struct pass_work *work, const struct builder_participant *participant)
{
    return participant->pipe->plan->cut[work->pass].units[participant->unit].streams;
}

/** Fill pipe->token and pipe->tokens, of all units on all kinds of stages: every stage that offloads needs them for its
 * copies, out and back. */
void pass_open_tokens(struct builder_pipe *pipe);

/** Copy back what a backward unit consumes of offloaded units. The copy starts once the pass before it on the dag_rank
 * has started and, on the stage that sends it its gradients, the unit's own pass has started: earlier it would only
 * take up memory while the stage runs forwards or idles. What streams comes back while the pass runs, from its start.
 * @param own_pass  the task of that pass, if what it consumes streams; else -1
 * @return          the copy, -1: there is none */
int32_t pass_prefetch(struct pass_work *work, const struct builder_participant *participant, int32_t own_pass);

/** A forward unit's copy to the host, into `end`, if there is one. */
void pass_offload(struct pass_work *work, const struct builder_participant *participant, struct builder_end *end);

/** Exchange attention among an exchange group's participants of one tensor index, from participant `first` on:
 * dag/dag.h. */
void pass_exchange(struct pass_work *work, int32_t first);

#endif
