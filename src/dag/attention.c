/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * This file appends attention that needs messages. A plan's blocks say who computes what for whom. A ring or gather of
 * context parallelism is the same with blocks that follow from the ranks, which plans do not list.
 */
#include "dag/pass.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"

/* Return the stream of messages by a route. Beside linear layers they do not wait for collectives of these. */
static enum dag_stream stream_of(const struct pass_work *work, enum cost_route route)
{
    if (work->attention->beside != BESIDE_LINEAR)
        return DAG_STREAM_COLLECTIVE;
    return route == COST_NIC ? DAG_STREAM_SHARD_RAIL : DAG_STREAM_SHARDS;
}

/* Append a SYNC of the participants from `first` on, after all tasks from `begin` on. @return its number */
static int32_t add_sync(struct pass_work *work, int32_t first, int32_t begin)
{
    struct dag_task task =
        pass_task_of(work, &work->builder->participants[first], stream_of(work, COST_NVLINK), DAG_SYNC, DAG_EXCHANGE);
    int32_t sync = builder_task(work->builder, task, 0.0);
    for (int32_t i = begin; i < sync; i++)
        builder_edge(work->builder, i, DAG_COLLECTIVE);
    return sync;
}

/* Return the graph's rank of a place with the tensor index of the participants from `first` on. */
static int32_t rank_at(const struct pass_work *work, int32_t first, struct plan_place place)
{
    const struct builder_pipe *pipe = &work->builder->pipes[place.pipeline];
    return pipe->first_rank + place.stage * pipe->n_ranks + first / pass_n_each(work);
}

/* Return a task on the rank of a place. */
static struct dag_task task_at(const struct pass_work *work, int32_t first, struct plan_place place,
                               enum dag_stream stream, enum dag_kind kind, enum dag_purpose purpose)
{
    struct dag_task task = builder_task_of(work->builder, rank_at(work, first, place), stream, kind, purpose);
    task.pass = (uint8_t)work->pass;
    task.micro_batch = place.micro_batch;
    return task;
}

/* Append the messages of all blocks in one direction after `after`. back: they carry the results. */
static void add_messages(struct pass_work *work, int32_t first, int32_t after, bool back)
{
    struct builder *builder = work->builder;
    const struct plan_phase *phase = &builder->plan->phases[builder->phase];
    const struct plan_attention *attention = work->attention;
    for (int32_t i = attention->first_block; i < attention->first_block + attention->n_blocks; i++) {
        const struct plan_block *block = &phase->blocks[i];
        if (plan_same_place(block->from, block->to))
            continue;
        struct cost_block cost = dag_block_cost(phase, work->pass, block, builder->setting);
        double bytes = back ? cost.back_bytes : cost.out_bytes;
        if (bytes <= 0)
            continue;
        const struct plan_place *sender = back ? &block->to : &block->from,
                                *receiver = back ? &block->from : &block->to;
        int32_t from = builder->dag->ranks[rank_at(work, first, *sender)].rank;
        int32_t to = builder->dag->ranks[rank_at(work, first, *receiver)].rank;
        enum cost_route route = builder_route(builder, from, to);
        struct dag_task task = task_at(work, first, *sender, stream_of(work, route), DAG_SEND, DAG_EXCHANGE);
        task.to_rank = to;
        builder_send(builder, task, cost_of_transfer(builder->setting, route, bytes, cost.n_messages));
        builder_edge(builder, after, DAG_COLLECTIVE);
    }
}

void pass_open_blocks(struct pass_work *work, int32_t first)
{
    struct builder *builder = work->builder;
    struct builder_participant *participants = &builder->participants[first];
    if (work->attention->beside != BESIDE_LINEAR)
        return;
    int32_t open = add_sync(work, first, builder->dag->n_tasks);
    for (int32_t i = 0; i < pass_n_each(work); i++) {
        builder_edge(builder, builder->stream_last[participants[i].dag_rank * DAG_N_STREAMS + DAG_STREAM_COMPUTE],
                     DAG_SCHEDULE);
        pass_after_inputs(work, &participants[i]);
    }
    for (int32_t i = 0; i < pass_n_each(work); i++)
        participants[i].open = open;
}

/* Return how many times as long a participant's kernels take as on a sound GPU. */
static double stretch_of(const struct pass_work *work, const struct builder_participant *participant)
{
    double sound_s =
        builder_cost_of(participant->pipe, work->pass, participant->micro_batch, participant->stage)->attention_s;
    return sound_s > 0 ? participant->cost->attention_s / sound_s : 1;
}

/* Append the attention of all ranks that compute some, after `after`. Stages that run no pass do, too. */
static void add_blocks(struct pass_work *work, int32_t first, int32_t after)
{
    struct builder *builder = work->builder;
    const struct plan_phase *phase = &builder->plan->phases[builder->phase];
    const struct plan_attention *attention = work->attention;
    for (int32_t i = 0; i < pass_n_each(work); i++) {
        const struct builder_participant *participant = &builder->participants[first + i];
        struct plan_place place = {(int32_t)(participant->pipe - builder->pipes), participant->stage,
                                   participant->micro_batch};
        struct dag_task task = pass_task_of(work, participant, DAG_STREAM_COMPUTE, DAG_ATTENTION, DAG_PASS);
        double seconds = dag_blocks_s(phase, attention, place, builder->setting);
        builder_task(builder, task, stretch_of(work, participant) * seconds);
        builder_edge(builder, after, DAG_COLLECTIVE);
    }
    for (int32_t i = attention->first_block; i < attention->first_block + attention->n_blocks; i++) {
        const struct plan_block *block = &phase->blocks[i];
        if (block->to.micro_batch >= 0 || (i > attention->first_block && plan_same_place(block->to, block[-1].to)))
            continue;
        struct dag_task task = task_at(work, first, block->to, DAG_STREAM_COMPUTE, DAG_ATTENTION, DAG_PASS);
        double factor = faults_pass_factor(builder->setting->faults, work->pass != PASS_FORWARD, task.from_rank);
        builder_task(builder, task, factor * dag_blocks_s(phase, attention, block->to, builder->setting));
        builder_edge(builder, after, DAG_COLLECTIVE);
    }
}

static void attend_blocks(struct pass_work *work, int32_t first)
{
    struct builder *builder = work->builder;
    struct builder_participant *participants = &builder->participants[first];
    enum plan_beside beside = work->attention->beside;
    int32_t hidden = builder->dag->n_tasks;
    if (beside == BESIDE_LINEAR) {
        add_messages(work, first, participants[0].open, false);
        add_messages(work, first, participants[0].open, true);
    }
    int32_t after = add_sync(work, first, hidden), begin = after + 1;
    for (int32_t i = 0; i < pass_n_each(work); i++)
        builder_edge(builder, participants[i].ready, DAG_COLLECTIVE);
    if (beside != BESIDE_LINEAR)
        add_messages(work, first, after, false);
    if (beside == BESIDE_ATTENTION)
        add_messages(work, first, after, true);
    if (beside == BESIDE_NOTHING)
        after = add_sync(work, first, begin);
    int32_t attention = builder->dag->n_tasks;
    add_blocks(work, first, after);
    if (beside == BESIDE_NOTHING) {
        after = add_sync(work, first, attention);
        begin = after + 1;
        add_messages(work, first, after, true);
    }
    int32_t close = add_sync(work, first, begin);
    for (int32_t i = 0; i < pass_n_each(work); i++)
        participants[i].ring = close;
}

/* Return the share of a rank's attention that is its own block of a ring. 0: all ranks come at the same time, so it
 * need not be told apart. */
static double own_share(const struct pass_work *work, int32_t first)
{
    const struct builder *builder = work->builder;
    int32_t n = pass_n_each(work);
    bool unequal = work->n_cursors > 1;
    for (int32_t i = 0; dag_differs_by_gpu(builder->setting) && i < n; i++)
        unequal = unequal || builder->participants[first + i].cost == &builder->faulty_cost[first + i];
    if (!unequal)
        return 0;
    return 1.0 / (builder->setting->cp_type == SCENARIO_RING_CONTIGUOUS ? 2 * n - 1 : n);
}

/* Append the attention of all ranks after `after`. A share `own` of it, a rank's own block, waits for nobody. */
static void add_attention(struct pass_work *work, int32_t first, int32_t after, double own)
{
    for (int32_t i = 0; i < pass_n_each(work); i++) {
        const struct builder_participant *participant = &work->builder->participants[first + i];
        struct dag_task task = pass_task_of(work, participant, DAG_STREAM_COMPUTE, DAG_ATTENTION, DAG_PASS);
        if (own > 0) {
            builder_task(work->builder, task, own * participant->cost->attention_s);
            builder_edge(work->builder, participant->ready, DAG_COLLECTIVE);
        }
        builder_task(work->builder, task, (1 - own) * participant->cost->attention_s);
        builder_edge(work->builder, after, DAG_COLLECTIVE);
    }
}

/* Append the attention beside a ring. A rank has its own keys. Its other blocks wait until all ranks have opened it. */
static void attend_beside(struct pass_work *work, int32_t first, int32_t open)
{
    add_attention(work, first, open, own_share(work, first));
}

static void attend_ring(struct pass_work *work, int32_t first)
{
    const struct cost_setting *setting = work->builder->setting;
    struct builder_participant *participants = &work->builder->participants[first];
    const struct builder_pipe *pipe = participants->pipe;
    const struct cost_pass *cost = participants->cost;
    const struct builder_fold *fold =
        pipe->fold != NULL ? &pipe->fold[builder_stage_of(pipe, participants->stage)] : NULL;
    bool beside = scenario_is_ring(setting->cp_type) && setting->cp_overlap;
    pass_collective(work, first, 1,
                    (struct builder_collective){.n = fold != NULL ? pipe->n_ranks : pass_n_each(work),
                                                .fold = fold,
                                                .purpose = DAG_RING,
                                                .bytes = cost->ring_bytes,
                                                .steps = cost->ring_steps,
                                                .wire_bytes = cost->context_wire_bytes,
                                                .to_all = setting->cp_type == SCENARIO_ULYSSES},
                    beside ? attend_beside : NULL);
    if (beside)
        return; /* the next pass waits for the ring */
    add_attention(work, first, participants->ring, 0);
    for (int32_t i = 0; i < pass_n_each(work); i++)
        participants[i].ring = -1; /* The ring is over before the attention. */
}

void pass_attend(struct pass_work *work, int32_t first)
{
    if (work->attention == NULL)
        attend_ring(work, first);
    else
        attend_blocks(work, first);
}

/* Return the attention of a block as cost/ takes it; it borrows the slices. */
static struct cost_micro_batch micro_batch_of(const struct plan_phase *phase, enum pass pass,
                                              const struct plan_block *block)
{
    struct cost_micro_batch micro_batch =
        dag_micro_batch(&phase->pipelines[block->from.pipeline], pass, block->from.micro_batch);
    if (block->share > 0)
        return micro_batch;
    micro_batch.slices = phase->block_slices + block->first_slice;
    micro_batch.n_slices = block->n_slices;
    micro_batch.context = 1;
    micro_batch.sharding = SLICE_PER_DOCUMENT;
    return micro_batch;
}

struct cost_block dag_block_cost(const struct plan_phase *phase, enum pass pass, const struct plan_block *block,
                                 const struct cost_setting *setting)
{
    struct cost_setting stage_setting =
        dag_setting(setting, &phase->pipelines[block->from.pipeline].layout, block->from.stage);
    struct cost_micro_batch micro_batch = micro_batch_of(phase, pass, block);
    struct cost_block cost = cost_of_block(&stage_setting, pass, &micro_batch, block->share, (double)block->keys);
    cost.n_messages *= cost_parts(&micro_batch);
    return cost;
}

/* Return the seconds of all blocks of a place that come from stages with the layers of `stage`, in one packed kernel a
 * layer. alike: the first stage with the layers of each stage. */
static double packed_s(const struct plan_phase *phase, const struct plan_attention *attention, struct plan_place place,
                       const struct cost_setting *stage_setting, int32_t stage, const int32_t *alike)
{
    struct slice *slices = NULL;
    size_t room = 0;
    struct cost_micro_batch packed = {.context = 1};
    for (int32_t i = attention->first_block; i < attention->first_block + attention->n_blocks; i++) {
        const struct plan_block *block = &phase->blocks[i];
        if (!plan_same_place(block->to, place) || alike[block->from.stage] != stage)
            continue;
        for (int32_t k = 0; k < block->n_slices; k++) {
            slices = check_grow(slices, (size_t)packed.n_slices, &room, sizeof *slices);
            slices[packed.n_slices++] = phase->block_slices[block->first_slice + k];
        }
        packed.recompute = micro_batch_of(phase, attention->pass, block).recompute;
    }
    packed.slices = slices;
    double seconds = packed.n_slices > 0 ? cost_blocks_s(stage_setting, attention->pass, &packed) : 0;
    free(slices);
    return seconds;
}

/* Return the seconds of all attention of a micro-batch on a rank of its own. */
static double whole_s(const struct plan_phase *phase, enum pass pass, struct plan_place place,
                      const struct cost_setting *setting)
{
    const struct plan_pipeline *pipeline = &phase->pipelines[place.pipeline];
    struct cost_setting stage_setting = dag_setting(setting, &pipeline->layout, place.stage);
    struct cost_micro_batch micro_batch = dag_micro_batch(pipeline, pass, place.micro_batch);
    return cost_blocks_s(&stage_setting, pass, &micro_batch);
}

double dag_blocks_s(const struct plan_phase *phase, const struct plan_attention *attention, struct plan_place place,
                    const struct cost_setting *setting)
{
    double rest = 1, sum_s = 0;
    bool whole = false;
    for (int32_t i = attention->first_block; i < attention->first_block + attention->n_blocks; i++) {
        const struct plan_block *block = &phase->blocks[i];
        whole = whole || block->share > 0;
        rest -= plan_same_place(block->from, place) ? block->share : 0;
        if (block->share > 0 && plan_same_place(block->to, place))
            sum_s += block->share * whole_s(phase, attention->pass, block->from, setting);
    }
    if (whole)
        return sum_s + fmax(0, rest) * whole_s(phase, attention->pass, place, setting);
    const struct plan_layout *layout = &phase->pipelines[place.pipeline].layout;
    struct cost_setting *of_stage = check_malloc((size_t)layout->stages * sizeof *of_stage);
    int32_t *alike = check_malloc((size_t)layout->stages * sizeof *alike);
    for (int32_t stage = 0; stage < layout->stages; stage++) {
        of_stage[stage] = dag_setting(setting, layout, stage);
        alike[stage] = cost_first_same_layers(of_stage, stage);
    }
    for (int32_t stage = 0; stage < layout->stages; stage++)
        sum_s += alike[stage] == stage ? packed_s(phase, attention, place, &of_stage[stage], stage, alike) : 0;
    free(alike);
    free(of_stage);
    return sum_s;
}
