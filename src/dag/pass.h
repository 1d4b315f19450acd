/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A pass while its tasks are added (dag/builder.h): pass.c, and exchange.c for attention that another stage computes.
 */
#ifndef SLIMSIM_DAG_PASS_H
#define SLIMSIM_DAG_PASS_H

#include "dag/builder.h"

/** One step of the lanes that share it. Members stand by tensor index, then lane, then context rank. */
struct pass_work {
    struct builder *builder;
    const int32_t *lanes;
    int32_t n_lanes, n_members, n_tensor;
    enum pass pass;
    int32_t chunk;
    bool ring;   /* context parallel, and something to send */
    int32_t set; /* of exchanges, -1: none */
};

/** A task of a member's pass. */
BUILDER_INLINE struct dag_task pass_task_of(const struct pass_work *work, const struct builder_member *member,
                                            enum dag_stream stream, enum dag_kind kind, enum dag_purpose purpose)
{
    struct dag_task task = builder_task_of(work->builder, member->place, stream, kind, purpose);
    task.pass = (uint8_t)work->pass;
    task.chunk = (uint8_t)work->chunk;
    task.unit = member->unit;
    return task;
}

/** Exchange attention among a set's members of one tensor index, from member `first` on: dag/dag.h. */
void pass_exchange(struct pass_work *work, int32_t first);

#endif
