/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file appends attention that another stage computes. */
#include "dag/pass.h"

#include <math.h>

#include "cost/context.h"

/* Return the participant that runs a stage of an exchange group; `first` is the first one of its tensor index. */
static struct builder_participant *participant_on(const struct pass_work *work, int32_t first, int32_t stage)
{
    struct builder_participant *participant = &work->builder->participants[first];
    while (participant->stage != stage)
        participant++;
    return participant;
}

/*
 * Return the seconds of a participant's attention without the share it gives away, and with the
 * attention it takes on.
 */
static double exchanged_s(const struct pass_work *work, const struct builder_participant *participant)
{
    const struct builder_pipe *pipe = participant->pipe;
    double rest = 1, taken_s = 0;
    for (int32_t i = pipe->exchange_first[work->exchange_group]; i < pipe->exchange_first[work->exchange_group + 1];
         i++) {
        const struct plan_exchange *exchange = &pipe->plan->exchanges[i];
        if (exchange->from_stage == participant->stage)
            rest -= exchange->share;
        if (exchange->to_stage == participant->stage)
            taken_s += exchange->share *
                       builder_cost_of(pipe, work->pass, exchange->from_micro_batch, exchange->from_stage)->attention_s;
    }
    int32_t gpu = work->builder->dag->ranks[participant->dag_rank].rank;
    /* the participant's own cost includes this factor already */
    double factor = faults_pass_factor(work->builder->setting->faults, work->pass != PASS_FORWARD, gpu);
    return fmax(0, rest) * participant->cost->attention_s + factor * taken_s;
}

/* Append a SEND of n_messages messages from one participant to another, after the task `after`. */
static void add_message(struct pass_work *work, const struct builder_participant *from,
                        const struct builder_participant *to, double bytes, int32_t n_messages, int32_t after)
{
    struct builder *builder = work->builder;
    struct dag_task task = pass_task_of(work, from, DAG_STREAM_COLLECTIVE, DAG_SEND, DAG_EXCHANGE);
    task.to_rank = builder->dag->ranks[to->dag_rank].rank;
    enum cost_route route = builder_route(builder, task.from_rank, task.to_rank);
    builder_send(builder, task, cost_of_transfer(builder->setting, route, bytes, n_messages));
    builder_edge(builder, after, DAG_COLLECTIVE);
}

static int32_t add_exchange_sync(struct pass_work *work, int32_t first, int32_t begin, const int32_t *tasks, int32_t n)
{
    struct builder *builder = work->builder;
    struct dag_task task =
        pass_task_of(work, &builder->participants[first], DAG_STREAM_COLLECTIVE, DAG_SYNC, DAG_EXCHANGE);
    int32_t sync = builder_task(builder, task, 0.0);
    for (int32_t i = 0; i < n; i++)
        builder_edge(builder, tasks[i], DAG_COLLECTIVE);
    for (int32_t i = begin; i < sync; i++)
        builder_edge(builder, i, DAG_COLLECTIVE);
    return sync;
}

/* Append the messages of an exchange group in one direction, all after `open`. back: messages carry the results. */
static void add_messages(struct pass_work *work, int32_t first, int32_t open, bool back)
{
    const struct builder_pipe *pipe = work->builder->participants[first].pipe;
    for (int32_t i = pipe->exchange_first[work->exchange_group]; i < pipe->exchange_first[work->exchange_group + 1];
         i++) {
        const struct plan_exchange *exchange = &pipe->plan->exchanges[i];
        const struct builder_participant *from = participant_on(work, first, exchange->from_stage);
        const struct builder_participant *to = participant_on(work, first, exchange->to_stage);
        const struct cost_setting *stage_setting = builder_stage_setting(pipe, from->stage);
        struct cost_micro_batch micro_batch = dag_micro_batch(pipe->plan, work->pass, from->micro_batch);
        struct cost_exchange cost = cost_of_exchange(stage_setting, work->pass, &micro_batch, exchange->share);
        if (back)
            add_message(work, to, from, cost.back_bytes, cost.n_messages, open);
        else
            add_message(work, from, to, cost.out_bytes, cost.n_messages, open);
    }
}

void pass_exchange(struct pass_work *work, int32_t first)
{
    struct builder *builder = work->builder;
    int32_t n = work->n_participants / work->n_tensor;
    bool beside = builder->setting->cp_overlap;
    for (int32_t i = 0; i < n; i++)
        builder->ready[i] = builder->participants[first + i].ready;
    int32_t open = add_exchange_sync(work, first, builder->dag->n_tasks, builder->ready, n),
            begin = builder->dag->n_tasks;
    add_messages(work, first, open, false);
    if (beside)
        add_messages(work, first, open, true);
    int32_t sent = beside ? open : add_exchange_sync(work, first, begin, NULL, 0);
    int32_t attention = builder->dag->n_tasks;
    for (int32_t i = 0; i < n; i++) {
        const struct builder_participant *participant = &builder->participants[first + i];
        struct dag_task task = pass_task_of(work, participant, DAG_STREAM_COMPUTE, DAG_ATTENTION, DAG_PASS);
        builder_task(builder, task, exchanged_s(work, participant));
        builder_edge(builder, sent, DAG_COLLECTIVE);
    }
    if (!beside) {
        int32_t done = add_exchange_sync(work, first, attention, NULL, 0);
        begin = builder->dag->n_tasks;
        add_messages(work, first, done, true);
    }
    int32_t close = add_exchange_sync(work, first, begin, NULL, 0);
    for (int32_t i = 0; i < n; i++)
        builder->participants[first + i].ring = close;
}
