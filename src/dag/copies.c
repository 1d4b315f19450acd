/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file adds copies to and from the host. */
#include "dag/pass.h"

/* Let the newest task, a copy, start when `task` does; -1: at once. */
static void after_start(struct builder *builder, int32_t task)
{
    const struct dag *dag = builder->dag;
    for (int32_t i = 0; task >= 0 && i < dag->in_first[task + 1] - dag->in_first[task]; i++)
        builder_edge(builder, dag->in_task[dag->in_first[task] + i], DAG_SCHEDULE);
}

static int32_t add_copy(struct builder *builder, struct dag_task task, double bytes)
{
    return builder_send(builder, task, cost_of_transfer(builder->setting, COST_PCIE, bytes, 1));
}

static const struct dag_token *token_of(const struct builder_pipe *pipe, int32_t micro_batch, int32_t stage)
{
    return &pipe->token[micro_batch * pipe->kinds.n + pipe->kinds.kind[stage]];
}

int32_t pass_prefetch(struct pass_work *work, const struct builder_participant *participant, int32_t own_pass)
{
    struct builder *builder = work->builder;
    const struct builder_pipe *pipe = participant->pipe;
    const struct relations *relations = &pipe->relations;
    int32_t first = relations->share_first[participant->micro_batch],
            end = relations->share_first[participant->micro_batch + 1];
    double bytes = 0;
    for (int32_t i = first; i < end; i++) {
        const struct relations_share *part = &relations->shares[i];
        double share = plan_offload(pipe->plan, part->forward, participant->stage);
        if (share > 0)
            bytes += share * dag_offloadable_of_tokens(token_of(pipe, part->forward, participant->stage),
                                                       part->whole_tokens + part->sliced_tokens, part->sliced_tokens);
    }
    if (bytes <= 0)
        return -1;
    struct dag_task task = pass_task_of(work, participant, DAG_STREAM_FROM_HOST, DAG_SEND, DAG_PREFETCH);
    task.from_rank = -1;
    int32_t send = add_copy(builder, task, bytes);
    const struct builder_rank *at = &builder->at[participant->dag_rank];
    int32_t before = at->backward >= 0 ? at->backward : at->begin;
    after_start(builder, own_pass >= 0 ? own_pass : before);
    for (int32_t i = first; i < end; i++)
        builder_edge(builder,
                     pass_end_of(participant, PASS_FORWARD, relations->shares[i].forward, participant->stage)->offload,
                     DAG_INTER_PASS);
    return send;
}

void pass_offload(struct pass_work *work, const struct builder_participant *participant, struct builder_end *end)
{
    struct builder *builder = work->builder;
    const struct builder_pipe *pipe = participant->pipe;
    double share = plan_offload(pipe->plan, participant->micro_batch, participant->stage);
    if (share <= 0)
        return;
    double bytes = share * dag_offloadable_of_tokens(token_of(pipe, participant->micro_batch, participant->stage),
                                                     pipe->tokens[participant->micro_batch],
                                                     pipe->relations.sliced_tokens[participant->micro_batch]);
    if (bytes <= 0)
        return;
    struct dag_task task = pass_task_of(work, participant, DAG_STREAM_TO_HOST, DAG_SEND, DAG_OFFLOAD);
    task.to_rank = -1;
    end->offload = add_copy(builder, task, bytes);
    if (pass_streams(work, participant)) {
        after_start(builder, end->first);
    } else {
        builder_edge(builder, end->last, DAG_INTER_PASS);
        builder_edge(builder, end->ring, DAG_INTER_PASS);
        builder->at[participant->dag_rank].out = end->offload;
    }
}

void pass_after_copies(struct pass_work *work, struct builder_rank *at)
{
    if (!plan_waits_for_copies(work->pass, at->forward))
        return;
    builder_edge(work->builder, at->due, DAG_INTER_PASS);
    at->due = at->out;
    at->out = -1;
}

void pass_open_tokens(struct builder_pipe *pipe)
{
    const struct plan_partition *partition = &pipe->plan->partition[PASS_FORWARD];
    int32_t n_kinds = pipe->kinds.n, n = partition->n_micro_batches * n_kinds;
    pipe->tokens = check_malloc((size_t)partition->n_micro_batches * sizeof *pipe->tokens);
    pipe->token = check_malloc((size_t)n * sizeof *pipe->token);
    for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++)
        pipe->tokens[micro_batch] =
            plan_micro_batch_tokens(partition, micro_batch) + partition->micro_batches[micro_batch].padding_tokens;
    for (int32_t i = 0; i < n; i++) {
        const struct cost_setting *stage_setting = &pipe->stage_setting[i % n_kinds];
        bool same = i >= n_kinds && dag_has_same_token(pipe->plan, stage_setting, i / n_kinds);
        pipe->token[i] = same ? pipe->token[i - n_kinds] : dag_token_of(pipe->plan, stage_setting, i / n_kinds);
    }
}
