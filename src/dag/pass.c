/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/pass.h"

#include <math.h>

#include "dag/joins.h"
#include "dag/meetings.h"

/* Set the cost of the pass on the participant's rank. */
static void price(const struct pass_work *work, struct builder_participant *participant)
{
    const struct builder *builder = work->builder;
    const struct builder_pipe *pipe = participant->pipe;
    int32_t gpu = builder->dag->ranks[participant->dag_rank].rank;
    participant->cost = builder_cost_of(pipe, work->pass, participant->micro_batch, participant->stage);
    if (!dag_differs_by_gpu(builder->setting) || !builder_has_faults(builder, gpu))
        return;
    struct cost_pass *faulty = &builder->faulty_cost[participant - builder->participants];
    *faulty =
        dag_gpu_pass_cost(pipe->plan, builder->setting, work->pass, participant->micro_batch, participant->stage, gpu);
    participant->cost = faulty;
}

static void after_end(struct pass_work *work, const struct builder_end *end, enum dag_edge kind)
{
    builder_edge(work->builder, end->last, kind);
    builder_edge(work->builder, end->ring, kind);
}

static void set_participant(const struct pass_work *work, const struct builder_stage_cursor *cursor, int32_t rank,
                            struct builder_participant *participant)
{
    const struct builder_pipe *pipe = cursor->pipe;
    enum pass end_pass_of = work->pass == PASS_WEIGHT ? PASS_BACKWARD : work->pass;
    participant->pipe = pipe;
    participant->micro_batch = cursor->steps[cursor->next].micro_batch;
    participant->stage = work->chunk * pipe->stages + cursor->stage;
    participant->rank = rank;
    participant->dag_rank = pipe->first_rank + cursor->stage * pipe->n_ranks + rank;
    participant->end =
        builder_end_of(pipe, builder_instance(pipe, end_pass_of, participant->micro_batch, participant->stage), rank);
    participant->ready = participant->ring = participant->open = -1;
    price(work, participant);
}

static void collect_participants(struct pass_work *work)
{
    struct builder *builder = work->builder;
    for (int32_t tensor = 0; tensor < work->n_tensor; tensor++)
        for (int32_t i = 0; i < work->n_cursors; i++) {
            const struct builder_stage_cursor *cursor = &builder->cursors[work->cursors[i]];
            for (int32_t rank = tensor; rank < cursor->pipe->n_built; rank += work->n_tensor)
                set_participant(work, cursor, rank, &builder->participants[work->n_participants++]);
        }
}

/* Return whether the participants' context parallelism sends something. */
static bool is_ring(const struct pass_work *work)
{
    const struct builder_participant *first = &work->builder->participants[0];
    const struct plan_partition *partition = plan_partition_of(first->pipe->plan, work->pass);
    bool several = work->n_participants > work->n_tensor || first->pipe->fold != NULL;
    return partition->micro_batches[first->micro_batch].context > 1 && several && first->cost->ring_bytes > 0;
}

/* Wait for the neighbouring stage's result: its SEND, or its pass if nothing is sent. */
static void after_neighbour(struct pass_work *work, const struct builder_participant *participant)
{
    int32_t away = participant->pipe->n_micro_batches * participant->pipe->n_built;
    const struct builder_end *end = participant->end + (work->pass == PASS_FORWARD ? -away : away);
    if (end->send >= 0)
        builder_edge(work->builder, end->send, DAG_INTER_STAGE);
    else
        after_end(work, end, DAG_INTER_STAGE);
}

/*
 * Let a backward micro-batch on the last stage wait for the forward micro-batches whose tokens it consumes. If it
 * consumes exactly the tokens of one forward micro-batch, the edge is that micro-batch's return (DAG_INTER_STAGE).
 */
static void after_forwards(struct pass_work *work, const struct builder_participant *participant)
{
    const struct builder_pipe *pipe = participant->pipe;
    const struct relations *relations = &pipe->relations;
    int32_t first = relations->share_first[participant->micro_batch],
            end = relations->share_first[participant->micro_batch + 1];
    for (int32_t i = first; i < end; i++) {
        const struct relations_share *share = &relations->shares[i];
        int64_t tokens = plan_micro_batch_tokens(&pipe->plan->partition[PASS_FORWARD], share->forward) +
                         pipe->plan->partition[PASS_FORWARD].micro_batches[share->forward].padding_tokens;
        bool same_tokens = end - first == 1 && share->whole_tokens + share->sliced_tokens == tokens;
        after_end(work, pass_end_of(participant, PASS_FORWARD, share->forward, participant->stage),
                  same_tokens ? DAG_INTER_STAGE : DAG_INTER_PASS);
    }
}

static void after_data(struct pass_work *work, const struct builder_participant *participant)
{
    const struct builder_pipe *pipe = participant->pipe;
    const struct relations *relations = &pipe->relations;
    if (work->pass == PASS_WEIGHT) {
        after_end(work, participant->end, DAG_INTER_PASS);
        return;
    }
    bool first_stage = work->pass == PASS_FORWARD ? participant->stage == 0 : participant->stage == pipe->n_virtual - 1;
    if (!first_stage)
        after_neighbour(work, participant);
    else if (work->pass == PASS_BACKWARD)
        after_forwards(work, participant);
    const int32_t *first = relations->after_first[work->pass] + participant->micro_batch,
                  *after = relations->after[work->pass];
    for (int32_t i = first[0]; i < first[1]; i++)
        after_end(work, participant->end + (after[i] - participant->micro_batch) * pipe->n_built, DAG_INTER_SLICE);
}

/* Return the seconds of a pass on the compute stream with waits for the host, without attention that runs beside a
 * ring. */
static double compute_s(const struct pass_work *work, const struct cost_pass *cost)
{
    double seconds = cost->kernels_s + cost->shard_s + cost->expert_s + cost_wait_s(cost);
    if (!work->builder->options.all_tensor_ranks)
        seconds += cost->tensor_s;
    return work->ring || work->attention != NULL ? seconds : seconds + cost->attention_s;
}

void pass_after_inputs(struct pass_work *work, const struct builder_participant *participant)
{
    const struct builder_rank *at = &work->builder->at[participant->dag_rank];
    builder_edge(work->builder, at->ring, DAG_COLLECTIVE);
    builder_edge(work->builder, at->send, DAG_SCHEDULE);
    after_data(work, participant);
}

static void add_compute(struct pass_work *work, struct builder_participant *participant)
{
    struct builder *builder = work->builder;
    bool offloads = work->pass == PASS_BACKWARD && participant->pipe->token != NULL;
    int32_t prefetch = offloads && !pass_streams(work, participant) ? pass_prefetch(work, participant, -1) : -1;
    struct dag_task task = pass_task_of(work, participant, DAG_STREAM_COMPUTE, DAG_COMPUTE, DAG_PASS);
    struct builder_rank *at = &builder->at[participant->dag_rank];
    participant->ready = at->begin = builder_task(builder, task, compute_s(work, participant->cost));
    builder_edge(builder, at->copy, DAG_INTER_PASS);
    builder_edge(builder, prefetch, DAG_INTER_PASS);
    builder_edge(builder, participant->open, DAG_COLLECTIVE);
    pass_after_copies(work, at);
    if (work->pass == PASS_BACKWARD)
        at->backward = at->begin;
    at->forward = work->pass == PASS_FORWARD;
    pass_after_inputs(work, participant);
    at->copy = offloads && pass_streams(work, participant) ? pass_prefetch(work, participant, participant->ready) : -1;
    joins_send(builder, work->pass, participant);
}

void pass_collective(struct pass_work *work, int32_t first, int32_t stride, struct builder_collective collective,
                     void (*beside)(struct pass_work *work, int32_t first, int32_t open))
{
    struct builder *builder = work->builder;
    int32_t n = collective.fold != NULL ? 1 : collective.n;
    for (int32_t i = 0; i < n; i++) {
        const struct builder_participant *participant = &builder->participants[first + i * stride];
        builder->ranks[i] = participant->dag_rank;
        builder->micro_batches[i] = participant->micro_batch;
        builder->ready[i] = participant->ready;
        collective.exact_s = fmax(collective.exact_s, collective.purpose == DAG_TENSOR ? participant->cost->tensor_s
                                                                                       : participant->cost->context_s);
    }
    collective.ranks = builder->ranks;
    collective.micro_batches = builder->micro_batches;
    collective.ready = builder->ready;
    collective.n_ready = n;
    collective.pass = work->pass;
    collective.chunk = work->chunk;
    int32_t open = builder_open_collective(builder, &collective);
    if (beside != NULL)
        beside(work, first, open);
    int32_t close = builder_close_collective(builder, &collective, open);
    for (int32_t i = 0; i < n; i++)
        builder->participants[first + i * stride].ring = close;
}

static void add_tensor_rings(struct pass_work *work)
{
    int32_t n_each = pass_n_each(work);
    struct builder_participant *participants = work->builder->participants;
    for (int32_t i = 0; i < n_each; i++) {
        if (participants[i].cost->tensor_s > 0)
            pass_collective(work, i, n_each, (struct builder_collective){.n = work->n_tensor, .purpose = DAG_TENSOR},
                            NULL);
    }
    for (int32_t i = 0; i < work->n_participants; i++)
        if (participants[i].ring >= 0)
            participants[i].ready = participants[i].ring;
}

static void add_boundary(struct pass_work *work, const struct builder_participant *participant, struct builder_end *end)
{
    struct builder *builder = work->builder;
    const struct builder_pipe *pipe = participant->pipe;
    bool forward = work->pass == PASS_FORWARD;
    int32_t to = participant->stage + (forward ? 1 : -1);
    if (to < 0 || to == pipe->n_virtual)
        return;
    int32_t dag_rank = pipe->first_rank + builder_stage_of(pipe, to) * pipe->n_ranks + participant->rank;
    double bytes = participant->cost->boundary_bytes;
    int32_t rank = builder->dag->ranks[dag_rank].rank;
    if (bytes <= 0 || rank == builder->dag->ranks[participant->dag_rank].rank)
        return;
    enum dag_stream stream = forward ? DAG_STREAM_SEND_FORWARD : DAG_STREAM_SEND_BACKWARD;
    struct dag_task task = pass_task_of(work, participant, stream, DAG_SEND, DAG_BOUNDARY);
    task.to_rank = rank;
    enum cost_route route =
        builder->at[participant->dag_rank].domain == builder->at[dag_rank].domain ? COST_NVLINK : COST_NIC;
    end->send = builder_send(builder, task, cost_of_transfer(builder->setting, route, bytes, 1));
    after_end(work, end, DAG_INTER_STAGE);
}

/** Return whether the sender's next pass waits until its neighbour has the activations or gradients. */
static bool waits_for_send(const struct cost_setting *setting, const struct builder_pipe *pipe)
{
    int32_t overlap = setting->pp_overlap;
    return overlap == SCENARIO_STAGES_WAIT ||
           (overlap == SCENARIO_STAGES_INTERLEAVED && pipe->n_virtual == pipe->stages);
}

static void end_pass(struct pass_work *work, const struct builder_participant *participant)
{
    struct builder *builder = work->builder;
    struct builder_rank *at = &builder->at[participant->dag_rank];
    struct builder_end *end = participant->end;
    at->ring = participant->ring;
    at->send = -1;
    joins_wait(builder, work->pass, participant->dag_rank);
    if (work->pass == PASS_WEIGHT)
        return;
    int32_t last = builder->stream_last[participant->dag_rank * DAG_N_STREAMS + DAG_STREAM_COMPUTE];
    *end = (struct builder_end){.first = at->begin, .last = last, .ring = participant->ring, .send = -1, .offload = -1};
    add_boundary(work, participant, end);
    if (waits_for_send(builder->setting, participant->pipe))
        at->send = end->send;
    if (work->pass == PASS_FORWARD && participant->pipe->token != NULL)
        pass_offload(work, participant, end);
}

void builder_pass(struct builder *builder, const int32_t *cursors, int32_t n_cursors)
{
    const struct builder_stage_cursor *cursor = &builder->cursors[cursors[0]];
    const struct builder_pipe *pipe = cursor->pipe;
    const struct plan_step *step = &cursor->steps[cursor->next];
    int32_t meeting = meetings_of(cursor, step), number = meeting >= 0 ? builder->meetings[meeting].attention : -1;
    struct pass_work work = {.builder = builder,
                             .cursors = cursors,
                             .n_cursors = n_cursors,
                             .n_tensor = pipe->n_tensor,
                             .pass = step->pass,
                             .chunk = step->chunk,
                             .attention =
                                 number >= 0 ? &builder->plan->phases[builder->phase].attentions[number] : NULL};
    collect_participants(&work);
    work.ring = work.attention == NULL && is_ring(&work);
    for (int32_t i = 0; work.attention != NULL && i < work.n_tensor; i++)
        pass_open_blocks(&work, i * pass_n_each(&work));
    for (int32_t i = 0; i < work.n_participants; i++)
        add_compute(&work, &builder->participants[i]);
    if (work.n_tensor > 1)
        add_tensor_rings(&work);
    for (int32_t i = 0; (work.ring || work.attention != NULL) && i < work.n_tensor; i++)
        pass_attend(&work, i * pass_n_each(&work));
    for (int32_t i = 0; i < work.n_participants; i++)
        end_pass(&work, &builder->participants[i]);
}
