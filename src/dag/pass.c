/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/builder.h"

#include "base/check.h"

/* One step of the lanes that share it. Members stand by tensor index, then lane, then context rank. */
struct work {
    struct builder *builder;
    const int32_t *lanes;
    int32_t n_lanes, n_members, n_tensor;
    enum pass pass;
    int32_t chunk, stage; /* stage: virtual */
    bool ring;            /* context parallel, and something to send */
};

static const struct builder_pipe *pipe_of(const struct work *work, const struct builder_member *member)
{
    return &work->builder->pipes[member->pipe];
}

static const struct cost_pass *cost_of(const struct work *work, const struct builder_member *member)
{
    const struct builder_pipe *pipe = pipe_of(work, member);
    return builder_cost_of(pipe, work->pass, member->unit, work->stage);
}

static const struct builder_brief *brief_of(const struct work *work, const struct builder_member *member)
{
    const struct builder_pipe *pipe = pipe_of(work, member);
    return &pipe->brief[work->pass][member->unit * pipe->kinds.n + pipe->kinds.kind[work->stage]];
}

static struct builder_end *end_of(const struct work *work, const struct builder_member *member, enum pass pass,
                                  int32_t unit, int32_t stage)
{
    const struct builder_pipe *pipe = pipe_of(work, member);
    return builder_end_of(pipe, builder_instance(pipe, pass, unit, stage), member->rank);
}

static struct dag_task task_of(const struct work *work, const struct builder_member *member, enum dag_stream stream,
                               enum dag_kind kind, enum dag_purpose purpose)
{
    struct dag_task task = builder_task_of(work->builder, member->place, stream, kind, purpose);
    task.pass = (uint8_t)work->pass;
    task.chunk = (uint8_t)work->chunk;
    task.unit = member->unit;
    return task;
}

static void after_end(struct work *work, const struct builder_end *end, enum dag_edge kind)
{
    builder_edge(work->builder, end->last, kind);
    builder_edge(work->builder, end->ring, kind);
}

static void collect_members(struct work *work)
{
    struct builder *builder = work->builder;
    for (int32_t tensor = 0; tensor < work->n_tensor; tensor++)
        for (int32_t i = 0; i < work->n_lanes; i++) {
            const struct builder_lane *lane = &builder->lanes[work->lanes[i]];
            const struct builder_pipe *pipe = &builder->pipes[lane->pipeline];
            for (int32_t rank = tensor; rank < pipe->n_ranks; rank += work->n_tensor)
                builder->members[work->n_members++] =
                    (struct builder_member){.pipe = lane->pipeline,
                                            .unit = lane->steps[lane->next].unit,
                                            .rank = rank,
                                            .place = pipe->first_place + lane->stage * pipe->n_ranks + rank,
                                            .ready = -1,
                                            .ring = -1};
        }
}

/* The newest task may start when `task` does, -1: at once. */
static void after_start(struct builder *builder, int32_t task)
{
    const struct dag *dag = builder->dag;
    for (int32_t i = 0; task >= 0 && i < dag->in_first[task + 1] - dag->in_first[task]; i++)
        builder_edge(builder, dag->in_task[dag->in_first[task] + i], DAG_SCHEDULE);
}

/* What a backward unit consumes of offloaded units comes back first: from when the pass before it and, on the stage
 * that sends it its gradients, its own unit's pass have started. Earlier it would only take up memory while the stage
 * runs forwards or idles. */
static int32_t add_prefetch(struct work *work, const struct builder_member *member)
{
    struct builder *builder = work->builder;
    const struct builder_pipe *pipe = pipe_of(work, member);
    const struct relations *relations = &pipe->relations;
    int32_t first = relations->share_first[member->unit], end = relations->share_first[member->unit + 1];
    struct cost_setting own = dag_setting(builder->setting, &pipe->plan->layout, work->stage);
    double bytes = 0;
    for (int32_t i = first; i < end; i++)
        bytes += dag_offload_bytes(pipe->plan, &own, relations->shares[i].forward,
                                   relations->shares[i].whole_tokens + relations->shares[i].sliced_tokens,
                                   relations->shares[i].sliced_tokens);
    if (bytes <= 0)
        return -1;
    struct dag_task task = task_of(work, member, DAG_STREAM_FROM_HOST, DAG_SEND, DAG_PREFETCH);
    task.from_rank = -1;
    int32_t send = builder_send(builder, task, cost_of_transfer(builder->setting, COST_PCIE, bytes, 1));
    after_start(builder, builder->pass_begin[member->place]);
    if (work->stage < pipe->n_virtual - 1)
        after_start(builder, end_of(work, member, PASS_BACKWARD, member->unit, work->stage + 1)->first);
    for (int32_t i = first; i < end; i++)
        builder_edge(builder, end_of(work, member, PASS_FORWARD, relations->shares[i].forward, work->stage)->offload,
                     DAG_INTER_PASS);
    return send;
}

static void add_offload(struct work *work, const struct builder_member *member, struct builder_end *end)
{
    struct builder *builder = work->builder;
    const struct plan_pipeline *pipeline = pipe_of(work, member)->plan;
    const struct plan_cut *cut = &pipeline->cut[PASS_FORWARD];
    if (cut->units[member->unit].offload <= 0)
        return;
    int64_t tokens = plan_unit_tokens(cut, member->unit) + cut->units[member->unit].padding_tokens;
    struct cost_setting own = dag_setting(builder->setting, &pipeline->layout, work->stage);
    int64_t sliced = pipe_of(work, member)->relations.sliced_tokens[member->unit];
    double bytes = dag_offload_bytes(pipeline, &own, member->unit, tokens, sliced);
    if (bytes <= 0)
        return;
    struct dag_task task = task_of(work, member, DAG_STREAM_TO_HOST, DAG_SEND, DAG_OFFLOAD);
    task.to_rank = -1;
    end->offload = builder_send(builder, task, cost_of_transfer(builder->setting, COST_PCIE, bytes, 1));
    after_end(work, end, DAG_INTER_PASS);
}

/* The neighbouring stage's result: sent, or at hand when it needs no sending. */
static void after_neighbour(struct work *work, const struct builder_member *member)
{
    int32_t stage = work->stage + (work->pass == PASS_FORWARD ? -1 : 1);
    const struct builder_end *end = end_of(work, member, work->pass, member->unit, stage);
    if (end->send >= 0)
        builder_edge(work->builder, end->send, DAG_INTER_STAGE);
    else
        after_end(work, end, DAG_INTER_STAGE);
}

/* On the last stage a backward unit follows the forward units whose tokens it consumes; where it is made of just one
 * of them it is that data unit's way back. */
static void after_forwards(struct work *work, const struct builder_member *member)
{
    const struct builder_pipe *pipe = pipe_of(work, member);
    const struct relations *relations = &pipe->relations;
    int32_t first = relations->share_first[member->unit], end = relations->share_first[member->unit + 1];
    for (int32_t i = first; i < end; i++) {
        const struct relations_share *share = &relations->shares[i];
        int64_t tokens = plan_unit_tokens(&pipe->plan->cut[PASS_FORWARD], share->forward) +
                         pipe->plan->cut[PASS_FORWARD].units[share->forward].padding_tokens;
        bool alike = end - first == 1 && share->whole_tokens + share->sliced_tokens == tokens;
        after_end(work, end_of(work, member, PASS_FORWARD, share->forward, work->stage),
                  alike ? DAG_INTER_STAGE : DAG_INTER_PASS);
    }
}

static void after_data(struct work *work, const struct builder_member *member)
{
    const struct builder_pipe *pipe = pipe_of(work, member);
    const struct relations *relations = &pipe->relations;
    bool first_stage = work->pass == PASS_FORWARD ? work->stage == 0 : work->stage == pipe->n_virtual - 1;
    if (!first_stage)
        after_neighbour(work, member);
    else if (work->pass == PASS_BACKWARD)
        after_forwards(work, member);
    const struct builder_end *first = end_of(work, member, work->pass, 0, work->stage); /* of unit 0 */
    const int32_t *after = relations->after[work->pass];
    int32_t end = relations->after_first[work->pass][member->unit + 1];
    for (int32_t i = relations->after_first[work->pass][member->unit]; i < end; i++)
        after_end(work, first + after[i] * pipe->n_ranks, DAG_INTER_SLICE);
}

static void add_compute(struct work *work, struct builder_member *member)
{
    struct builder *builder = work->builder;
    bool offloads = work->pass == PASS_BACKWARD && pipe_of(work, member)->offloads;
    int32_t prefetch = offloads ? add_prefetch(work, member) : -1;
    const struct builder_brief *brief = brief_of(work, member);
    double duration_s = work->ring ? brief->no_attention_s : brief->all_s;
    member->ready = builder_task(builder, task_of(work, member, DAG_STREAM_COMPUTE, DAG_COMPUTE, DAG_PASS), duration_s);
    builder->pass_begin[member->place] = member->ready;
    builder_edge(builder, builder->open_ring[member->place], DAG_COLLECTIVE);
    builder_edge(builder, builder->open_send[member->place], DAG_SCHEDULE);
    builder_edge(builder, prefetch, DAG_INTER_PASS);
    after_data(work, member);
}

/* A ring among the members first, first + stride, ...; none waits for less than all. */
static void add_ring(struct work *work, int32_t first, int32_t stride, struct builder_ring ring)
{
    struct builder *builder = work->builder;
    for (int32_t i = 0; i < ring.n; i++) {
        builder->places[i] = builder->members[first + i * stride].place;
        builder->ready[i] = builder->members[first + i * stride].ready;
    }
    ring.places = builder->places;
    ring.ready = builder->ready;
    ring.n_ready = ring.n;
    ring.pass = work->pass;
    ring.chunk = work->chunk;
    ring.unit = builder->members[first].unit;
    int32_t close = builder_ring(builder, &ring);
    for (int32_t i = 0; i < ring.n; i++)
        builder->members[first + i * stride].ring = close;
}

static void add_tensor_rings(struct work *work)
{
    int32_t n_each = work->n_members / work->n_tensor;
    struct builder_member *members = work->builder->members;
    for (int32_t i = 0; i < n_each; i++) {
        double tensor_s = cost_of(work, &members[i])->tensor_s;
        if (tensor_s <= 0)
            continue;
        add_ring(work, i, n_each,
                 (struct builder_ring){.n = work->n_tensor, .purpose = DAG_TENSOR, .exact_s = tensor_s});
    }
    for (int32_t i = 0; i < work->n_members; i++)
        if (members[i].ring >= 0)
            members[i].ready = members[i].ring;
}

static void add_attention(struct work *work)
{
    struct builder *builder = work->builder;
    for (int32_t i = 0; i < work->n_members; i++) {
        const struct builder_member *member = &builder->members[i];
        struct dag_task task = task_of(work, member, DAG_STREAM_COMPUTE, DAG_ATTENTION, DAG_PASS);
        builder_task(builder, task, cost_of(work, member)->attention_s);
        builder_edge(builder, member->ring, DAG_COLLECTIVE);
    }
}

static void add_context_rings(struct work *work)
{
    int32_t n_each = work->n_members / work->n_tensor;
    for (int32_t first = 0; first < work->n_members; first += n_each) {
        const struct cost_pass *cost = cost_of(work, &work->builder->members[first]);
        add_ring(work, first, 1,
                 (struct builder_ring){.n = n_each,
                                       .purpose = DAG_RING,
                                       .bytes = cost->ring_bytes,
                                       .steps = cost->ring_steps,
                                       .exact_s = cost->context_s});
    }
}

static void add_context(struct work *work)
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

static struct cost_transfer boundary_transfer(const struct work *work, const struct builder_member *member,
                                              enum cost_route route, double bytes)
{
    struct builder_boundary *latest = &pipe_of(work, member)->boundary[work->pass][member->unit];
    if (latest->bytes != bytes || latest->route != route)
        *latest = (struct builder_boundary){bytes, route, cost_of_transfer(work->builder->setting, route, bytes, 1)};
    return latest->transfer;
}

static void add_boundary(struct work *work, const struct builder_member *member, struct builder_end *end)
{
    struct builder *builder = work->builder;
    const struct builder_pipe *pipe = pipe_of(work, member);
    bool forward = work->pass == PASS_FORWARD;
    int32_t to = work->stage + (forward ? 1 : -1);
    if (to < 0 || to == pipe->n_virtual)
        return;
    int32_t place = pipe->first_place + builder_stage_of(pipe, to) * pipe->n_ranks + member->rank;
    double bytes = brief_of(work, member)->boundary_bytes;
    int32_t rank = builder->dag->places[place].rank;
    if (bytes <= 0 || rank == builder->dag->places[member->place].rank)
        return;
    enum dag_stream stream = forward ? DAG_STREAM_SEND_FORWARD : DAG_STREAM_SEND_BACKWARD;
    struct dag_task task = task_of(work, member, stream, DAG_SEND, DAG_BOUNDARY);
    task.to_rank = rank;
    enum cost_route route = builder->node[member->place] == builder->node[place] ? COST_NVLINK : COST_NIC;
    end->send = builder_send(builder, task, boundary_transfer(work, member, route, bytes));
    after_end(work, end, DAG_INTER_STAGE);
}

static void end_pass(struct work *work, const struct builder_member *member)
{
    struct builder *builder = work->builder;
    struct builder_end *end = end_of(work, member, work->pass, member->unit, work->stage);
    int32_t last = builder->stream_last[member->place * DAG_N_STREAMS + DAG_STREAM_COMPUTE];
    *end = (struct builder_end){
        .first = builder->pass_begin[member->place], .last = last, .ring = member->ring, .send = -1, .offload = -1};
    builder->open_ring[member->place] = member->ring;
    add_boundary(work, member, end);
    builder->open_send[member->place] = builder->setting->communication.pp_overlap ? -1 : end->send;
    if (work->pass == PASS_FORWARD)
        add_offload(work, member, end);
}

void builder_pass(struct builder *builder, const int32_t *lanes, int32_t n_lanes)
{
    const struct builder_lane *lane = &builder->lanes[lanes[0]];
    const struct builder_pipe *pipe = &builder->pipes[lane->pipeline];
    const struct plan_step *step = &lane->steps[lane->next];
    struct work work = {.builder = builder,
                        .lanes = lanes,
                        .n_lanes = n_lanes,
                        .n_tensor = pipe->n_tensor,
                        .pass = step->pass,
                        .chunk = step->chunk,
                        .stage = step->chunk * pipe->plan->layout.stages + lane->stage};
    collect_members(&work);
    work.ring = pipe->plan->cut[step->pass].units[step->unit].context > 1 && work.n_members > work.n_tensor &&
                cost_of(&work, &builder->members[0])->ring_bytes > 0;
    for (int32_t i = 0; i < work.n_members; i++)
        add_compute(&work, &builder->members[i]);
    if (work.n_tensor > 1)
        add_tensor_rings(&work);
    if (work.ring)
        add_context(&work);
    for (int32_t i = 0; i < work.n_members; i++)
        end_pass(&work, &builder->members[i]);
}
