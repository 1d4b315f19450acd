/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/pass.h"

#include <math.h>

/* What the pass costs on its place. */
static void price(const struct pass_work *work, struct builder_member *member)
{
    const struct builder *builder = work->builder;
    const struct builder_pipe *pipe = member->pipe;
    int32_t gpu = builder->dag->places[member->place].rank;
    member->cost = builder_cost_of(pipe, work->pass, member->unit, member->stage);
    if (builder->setting->faults == NULL || !builder_slow(builder, gpu))
        return;
    struct cost_pass *slow = &builder->slow[member - builder->members];
    *slow = dag_gpu_pass_cost(pipe->plan, builder->setting, work->pass, member->unit, member->stage, gpu);
    member->cost = slow;
}

static void after_end(struct pass_work *work, const struct builder_end *end, enum dag_edge kind)
{
    builder_edge(work->builder, end->last, kind);
    builder_edge(work->builder, end->ring, kind);
}

static void set_member(const struct pass_work *work, const struct builder_lane *lane, int32_t rank,
                       struct builder_member *member)
{
    const struct builder_pipe *pipe = lane->pipe;
    enum pass own = work->pass == PASS_WEIGHT ? PASS_BACKWARD : work->pass;
    member->pipe = pipe;
    member->unit = lane->steps[lane->next].unit;
    member->stage = work->chunk * pipe->stages + lane->stage;
    member->rank = rank;
    member->place = pipe->first_place + lane->stage * pipe->n_ranks + rank;
    member->end = builder_end_of(pipe, builder_instance(pipe, own, member->unit, member->stage), rank);
    member->ready = member->ring = -1;
    price(work, member);
}

static void collect_members(struct pass_work *work)
{
    struct builder *builder = work->builder;
    for (int32_t tensor = 0; tensor < work->n_tensor; tensor++)
        for (int32_t i = 0; i < work->n_lanes; i++) {
            const struct builder_lane *lane = &builder->lanes[work->lanes[i]];
            for (int32_t rank = tensor; rank < lane->pipe->n_built; rank += work->n_tensor)
                set_member(work, lane, rank, &builder->members[work->n_members++]);
        }
}

/* Whether the members' context parallelism sends something. */
static bool is_ring(const struct pass_work *work)
{
    const struct builder_member *first = &work->builder->members[0];
    const struct plan_cut *cut = plan_cut_of(first->pipe->plan, work->pass);
    bool several = work->n_members > work->n_tensor || first->pipe->fold != NULL;
    return cut->units[first->unit].context > 1 && several && first->cost->ring_bytes > 0;
}

/* The neighbouring stage's result: sent, or at hand when it needs no sending. */
static void after_neighbour(struct pass_work *work, const struct builder_member *member)
{
    int32_t away = member->pipe->n_units * member->pipe->n_built;
    const struct builder_end *end = member->end + (work->pass == PASS_FORWARD ? -away : away);
    if (end->send >= 0)
        builder_edge(work->builder, end->send, DAG_INTER_STAGE);
    else
        after_end(work, end, DAG_INTER_STAGE);
}

/* On the last stage a backward unit follows the forward units whose tokens it consumes. If these are just the tokens of
 * one forward unit, the edge is that unit's way back (DAG_INTER_STAGE). */
static void after_forwards(struct pass_work *work, const struct builder_member *member)
{
    const struct builder_pipe *pipe = member->pipe;
    const struct relations *relations = &pipe->relations;
    int32_t first = relations->share_first[member->unit], end = relations->share_first[member->unit + 1];
    for (int32_t i = first; i < end; i++) {
        const struct relations_share *share = &relations->shares[i];
        int64_t tokens = plan_unit_tokens(&pipe->plan->cut[PASS_FORWARD], share->forward) +
                         pipe->plan->cut[PASS_FORWARD].units[share->forward].padding_tokens;
        bool alike = end - first == 1 && share->whole_tokens + share->sliced_tokens == tokens;
        after_end(work, pass_end_of(member, PASS_FORWARD, share->forward, member->stage),
                  alike ? DAG_INTER_STAGE : DAG_INTER_PASS);
    }
}

static void after_data(struct pass_work *work, const struct builder_member *member)
{
    const struct builder_pipe *pipe = member->pipe;
    const struct relations *relations = &pipe->relations;
    if (work->pass == PASS_WEIGHT) {
        after_end(work, member->end, DAG_INTER_PASS);
        return;
    }
    bool first_stage = work->pass == PASS_FORWARD ? member->stage == 0 : member->stage == pipe->n_virtual - 1;
    if (!first_stage)
        after_neighbour(work, member);
    else if (work->pass == PASS_BACKWARD)
        after_forwards(work, member);
    const int32_t *first = relations->after_first[work->pass] + member->unit, *after = relations->after[work->pass];
    for (int32_t i = first[0]; i < first[1]; i++)
        after_end(work, member->end + (after[i] - member->unit) * pipe->n_built, DAG_INTER_SLICE);
}

/* Seconds of a pass on the compute stream; without its attention if that runs beside a ring. */
static double compute_s(const struct pass_work *work, const struct cost_pass *cost)
{
    double seconds = cost->other_s + cost->shard_s;
    if (!work->builder->options.all_tensor_ranks)
        seconds += cost->tensor_s;
    return work->ring || work->set >= 0 ? seconds : seconds + cost->attention_s;
}

static void add_compute(struct pass_work *work, struct builder_member *member)
{
    struct builder *builder = work->builder;
    bool offloads = work->pass == PASS_BACKWARD && member->pipe->token != NULL;
    int32_t prefetch = offloads && !pass_streams(work, member) ? pass_prefetch(work, member, -1) : -1;
    struct dag_task task = pass_task_of(work, member, DAG_STREAM_COMPUTE, DAG_COMPUTE, DAG_PASS);
    struct builder_place *at = &builder->at[member->place];
    member->ready = at->begin = builder_task(builder, task, compute_s(work, member->cost));
    builder_edge(builder, at->ring, DAG_COLLECTIVE);
    builder_edge(builder, at->send, DAG_SCHEDULE);
    builder_edge(builder, at->copy, DAG_INTER_PASS);
    builder_edge(builder, prefetch, DAG_INTER_PASS);
    after_data(work, member);
    at->copy = offloads && pass_streams(work, member) ? pass_prefetch(work, member, member->ready) : -1;
}

/* A ring among the members first, first + stride, ...; none waits for less than all. */
static void add_ring(struct pass_work *work, int32_t first, int32_t stride, struct builder_ring ring)
{
    struct builder *builder = work->builder;
    int32_t n = ring.fold != NULL ? 1 : ring.n;
    for (int32_t i = 0; i < n; i++) {
        const struct builder_member *member = &builder->members[first + i * stride];
        builder->places[i] = member->place;
        builder->units[i] = member->unit;
        builder->ready[i] = member->ready;
        ring.exact_s =
            fmax(ring.exact_s, ring.purpose == DAG_TENSOR ? member->cost->tensor_s : member->cost->context_s);
    }
    ring.places = builder->places;
    ring.units = builder->units;
    ring.ready = builder->ready;
    ring.n_ready = n;
    ring.pass = work->pass;
    ring.chunk = work->chunk;
    int32_t close = builder_ring(builder, &ring);
    for (int32_t i = 0; i < n; i++)
        builder->members[first + i * stride].ring = close;
}

static void add_tensor_rings(struct pass_work *work)
{
    int32_t n_each = work->n_members / work->n_tensor;
    struct builder_member *members = work->builder->members;
    for (int32_t i = 0; i < n_each; i++) {
        if (members[i].cost->tensor_s > 0)
            add_ring(work, i, n_each, (struct builder_ring){.n = work->n_tensor, .purpose = DAG_TENSOR});
    }
    for (int32_t i = 0; i < work->n_members; i++)
        if (members[i].ring >= 0)
            members[i].ready = members[i].ring;
}

static void add_attention(struct pass_work *work)
{
    struct builder *builder = work->builder;
    for (int32_t i = 0; i < work->n_members; i++) {
        const struct builder_member *member = &builder->members[i];
        struct dag_task task = pass_task_of(work, member, DAG_STREAM_COMPUTE, DAG_ATTENTION, DAG_PASS);
        builder_task(builder, task, member->cost->attention_s);
        builder_edge(builder, member->ring, DAG_COLLECTIVE);
    }
}

static void add_context_rings(struct pass_work *work)
{
    int32_t n_each = work->n_members / work->n_tensor;
    for (int32_t first = 0; first < work->n_members; first += n_each) {
        const struct builder_member *member = &work->builder->members[first];
        const struct cost_pass *cost = member->cost;
        const struct builder_pipe *pipe = member->pipe;
        const struct builder_fold *fold =
            pipe->fold != NULL ? &pipe->fold[builder_stage_of(pipe, member->stage)] : NULL;
        add_ring(work, first, 1,
                 (struct builder_ring){.n = fold != NULL ? pipe->n_ranks : n_each,
                                       .fold = fold,
                                       .purpose = DAG_RING,
                                       .bytes = cost->ring_bytes,
                                       .steps = cost->ring_steps,
                                       .wire_bytes = cost->context_wire_bytes,
                                       .to_all = work->builder->setting->context_type == SCENARIO_ULYSSES});
    }
}

static void add_context(struct pass_work *work)
{
    bool ring = work->builder->setting->context_type == SCENARIO_RING;
    if (ring && work->builder->setting->communication.cp_overlap) {
        add_attention(work); /* its own keys are at hand: it waits for no ring, the next pass does */
        add_context_rings(work);
        return;
    }
    add_context_rings(work);
    add_attention(work);
    for (int32_t i = 0; i < work->n_members; i++)
        work->builder->members[i].ring = -1; /* over before the attention */
}

static void add_boundary(struct pass_work *work, const struct builder_member *member, struct builder_end *end)
{
    struct builder *builder = work->builder;
    const struct builder_pipe *pipe = member->pipe;
    bool forward = work->pass == PASS_FORWARD;
    int32_t to = member->stage + (forward ? 1 : -1);
    if (to < 0 || to == pipe->n_virtual)
        return;
    int32_t place = pipe->first_place + builder_stage_of(pipe, to) * pipe->n_ranks + member->rank;
    double bytes = member->cost->boundary_bytes;
    int32_t rank = builder->dag->places[place].rank;
    if (bytes <= 0 || rank == builder->dag->places[member->place].rank)
        return;
    enum dag_stream stream = forward ? DAG_STREAM_SEND_FORWARD : DAG_STREAM_SEND_BACKWARD;
    struct dag_task task = pass_task_of(work, member, stream, DAG_SEND, DAG_BOUNDARY);
    task.to_rank = rank;
    enum cost_route route = builder->at[member->place].node == builder->at[place].node ? COST_NVLINK : COST_NIC;
    end->send = builder_send(builder, task, cost_of_transfer(builder->setting, route, bytes, 1));
    after_end(work, end, DAG_INTER_STAGE);
}

static void end_pass(struct pass_work *work, const struct builder_member *member)
{
    struct builder *builder = work->builder;
    struct builder_place *at = &builder->at[member->place];
    struct builder_end *end = member->end;
    at->ring = member->ring;
    at->send = -1;
    if (work->pass == PASS_WEIGHT)
        return;
    int32_t last = builder->stream_last[member->place * DAG_N_STREAMS + DAG_STREAM_COMPUTE];
    *end = (struct builder_end){.first = at->begin, .last = last, .ring = member->ring, .send = -1, .offload = -1};
    add_boundary(work, member, end);
    if (!builder->setting->communication.pp_overlap)
        at->send = end->send;
    if (work->pass == PASS_FORWARD && member->pipe->token != NULL)
        pass_offload(work, member, end);
}

void builder_pass(struct builder *builder, const int32_t *lanes, int32_t n_lanes)
{
    const struct builder_lane *lane = &builder->lanes[lanes[0]];
    const struct builder_pipe *pipe = lane->pipe;
    const struct plan_step *step = &lane->steps[lane->next];
    struct pass_work work = {.builder = builder,
                             .lanes = lanes,
                             .n_lanes = n_lanes,
                             .n_tensor = pipe->n_tensor,
                             .pass = step->pass,
                             .chunk = step->chunk,
                             .set = builder_set_of(pipe, step, lane->stage)};
    collect_members(&work);
    work.ring = is_ring(&work);
    for (int32_t i = 0; i < work.n_members; i++)
        add_compute(&work, &builder->members[i]);
    if (work.n_tensor > 1)
        add_tensor_rings(&work);
    if (work.ring)
        add_context(&work);
    for (int32_t i = 0; work.set >= 0 && i < work.n_tensor; i++)
        pass_exchange(&work, i * n_lanes);
    for (int32_t i = 0; i < work.n_members; i++)
        end_pass(&work, &builder->members[i]);
}
