/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/joins.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "cost/communication.h"

/* Return whether a pass exchanges shards. */
static bool exchanges_shards(const struct builder *builder, enum pass pass)
{
    const struct cost_setting *setting = builder->setting;
    return cost_shards_in_passes(setting) && (pass != PASS_FORWARD || setting->sharding == SCENARIO_ZERO3);
}

int32_t joins_n_pipelines(const struct cost_setting *setting, const struct plan_layout *layout)
{
    int32_t n = cost_expert_ranks(setting) / (layout->tensor * layout->context);
    return n > 1 ? n : 1;
}

/* Return whether ranks of several pipelines share experts. */
static bool joins_experts(const struct builder *builder)
{
    return joins_n_pipelines(builder->setting, &builder->pipes[0].plan->layout) > 1;
}

static bool has_experts(const struct cost_setting *setting)
{
    for (int32_t i = 0; i < setting->n_runs; i++)
        if (setting->runs[i].n > 0 && setting->model->kinds[setting->runs[i].kind].experts > 0)
            return true;
    return false;
}

bool joins_pass(const struct builder *builder, const struct builder_stage_cursor *cursor, enum pass pass, int32_t stage)
{
    if (cursor->join < 0)
        return false;
    if (joins_experts(builder))
        return pass != PASS_WEIGHT && has_experts(builder_stage_setting(cursor->pipe, stage));
    return exchanges_shards(builder, pass);
}

/* Set the next GPUs of the ranks [first, end) of one domain. The next domain has [next, next_end). */
static void set_next(struct builder *builder, const int32_t *ranks, int32_t first, int32_t end, int32_t next,
                     int32_t next_end)
{
    const struct dag_rank *at = builder->dag->ranks;
    int32_t each = builder->shards[PASS_BACKWARD].each;
    for (int32_t i = first; i < end; i++) {
        struct joins_next *to = &builder->at[ranks[i]].next;
        int32_t k = i - first, counterpart = next + k < next_end ? next + k : next_end - 1;
        *to = (struct joins_next){-1, -1, -1};
        if (end - first > 1)
            to->inside = at[ranks[i + 1 < end ? i + 1 : first]].rank;
        if (next == first)
            continue;
        to->replica = at[ranks[counterpart]].rank;
        if (each == 1 && i == end - 1)
            to->rail = at[ranks[next]].rank;
        if (each > 1 && builder_has_rail(builder, builder->setting->tensor, k, each))
            to->rail = to->replica;
    }
}

/* Set the next GPUs of the ranks of one tensor index: those of all pipelines and context ranks. */
static void set_ring(struct builder *builder, int32_t n_pipelines, int32_t tensor, int32_t *ranks)
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_pipelines; i++) {
        const struct builder_pipe *pipe = &builder->pipes[i];
        for (int32_t rank = tensor; rank < pipe->n_ranks; rank += pipe->n_tensor)
            ranks[n++] = pipe->first_rank + rank;
    }
    for (int32_t first = 0, end; first < n; first = end) {
        end = builder_end_of_domain(builder, ranks, n, first);
        int32_t next = end < n ? end : 0;
        set_next(builder, ranks, first, end, next, builder_end_of_domain(builder, ranks, n, next));
    }
}

/* Return the largest factor by which faults slow a kind of link down. */
static double worst_factor(const struct builder *builder, enum fault_kind kind)
{
    return builder->setting->faults != NULL ? faults_worst(builder->setting->faults, kind) : 1;
}

/* Return the number of a cursor's join, -1: it has none. */
static int32_t join_of(const struct builder *builder, const struct builder_stage_cursor *cursor)
{
    bool shards = cost_shards_in_passes(builder->setting) && !cost_shards_on_demand(builder->setting);
    int32_t n = joins_n_pipelines(builder->setting, &cursor->pipe->plan->layout);
    bool alone = builder->equal_pipelines != NULL; /* all pipelines are equal, and only one of them is built */
    if (n > 1)
        return alone ? -1 : cursor->pipeline / n * cursor->pipe->stages + cursor->stage;
    return shards ? 0 : -1;
}

/* Make the joins. Cursors without steps have joined. */
static void open_joins(struct builder *builder)
{
    size_t n = (size_t)builder->n_cursors;
    builder->joins = check_calloc(n, sizeof *builder->joins);
    builder->full = check_malloc(n * sizeof *builder->full);
    builder->n_full = 0;
    for (int32_t i = builder->n_cursors - 1; i >= 0; i--) {
        struct builder_stage_cursor *cursor = &builder->cursors[i];
        cursor->join = join_of(builder, cursor);
        cursor->next_in_join = -1;
        if (cursor->join < 0)
            continue;
        struct builder_join *join = &builder->joins[cursor->join];
        cursor->next_in_join = join->n > 0 ? join->first : -1;
        join->first = i;
        join->n++;
        join->n_joined += cursor->joined = cursor->next == cursor->end;
    }
}

void joins_close(struct builder *builder)
{
    free(builder->joins);
    free(builder->full);
}

void joins_open(struct builder *builder)
{
    const struct builder_pipe *first = &builder->pipes[0];
    int32_t n_pipelines = builder->plan->phases[builder->phase].n_pipelines;
    open_joins(builder);
    if (builder->options.fold_equal || !cost_shards_in_passes(builder->setting))
        return;
    struct platform room;
    struct cost_setting on_slowest = *builder_stage_setting(first, 0);
    (void)builder_faulty_setting(&on_slowest, worst_factor(builder, FAULT_NVLINK), worst_factor(builder, FAULT_NIC),
                                 &room);
    on_slowest.shards_platform = &room;
    for (enum pass pass = PASS_FORWARD; pass < plan_n_passes(first->plan); pass++)
        builder->shards[pass] = shards_traffic_of(&on_slowest, pass);
    int32_t *ranks = check_malloc((size_t)builder->dag->n_ranks * sizeof *ranks);
    for (int32_t tensor = 0; tensor < first->n_tensor; tensor++)
        set_ring(builder, n_pipelines, tensor, ranks);
    free(ranks);
}

/* Bytes of a SEND, and the seconds that they take without other traffic. */
struct bytes {
    double wire_bytes, seconds;
};

static void add_bytes(double wire_bytes, double bytes_per_s, struct bytes *sum)
{
    sum->wire_bytes += wire_bytes;
    sum->seconds += wire_bytes / bytes_per_s;
}

/* Append one SEND beside a pass, which lasts `chain_s` without other traffic. `factor`: of the slowest link */
static void add_send(struct builder *builder, struct dag_task task, int32_t to_rank, struct bytes bytes, double factor,
                     double chain_s)
{
    if (to_rank < 0 || bytes.wire_bytes <= 0)
        return;
    double latency_s = fmax(0, chain_s - factor * bytes.seconds), bytes_per_s = bytes.wire_bytes / bytes.seconds;
    int32_t compute = builder->at[task.dag_rank].begin;
    task.to_rank = to_rank;
    builder_send(builder, task,
                 (struct cost_transfer){latency_s, bytes.wire_bytes, bytes_per_s, latency_s + bytes.seconds});
    for (int32_t i = builder->dag->in_first[compute]; i < builder->dag->in_first[compute + 1]; i++)
        builder_edge(builder, builder->dag->in_task[i], DAG_COLLECTIVE);
}

/* Neighbouring ranks of the graph that share experts, at one virtual stage. */
struct expert_group {
    const struct builder_pipe *pipe; /* the first of their pipelines */
    int32_t first;                   /* of its ranks */
    int32_t n_each, n, own;          /* ranks in each pipeline, in all, and the number of a participant among them */
    int32_t n_domain;                /* neighbours in one NVLink domain */
};

static int32_t expert_rank(const struct expert_group *group, int32_t stage, int32_t i)
{
    const struct builder_pipe *pipe = group->pipe + i / group->n_each;
    return pipe->first_rank + builder_stage_of(pipe, stage) * pipe->n_ranks + group->first + i % group->n_each;
}

static struct expert_group expert_group_of(const struct builder *builder, const struct builder_participant *participant)
{
    const struct builder_pipe *pipe = participant->pipe;
    int32_t n = joins_n_pipelines(builder->setting, &pipe->plan->layout), number = (int32_t)(pipe - builder->pipes);
    int32_t inside = cost_expert_ranks(builder->setting) * pipe->n_tensor / builder->setting->tensor;
    struct expert_group group = {.pipe = pipe - number % n, .n_each = n > 1 ? pipe->n_ranks : inside > 1 ? inside : 1};
    group.first = participant->rank - participant->rank % group.n_each;
    group.n = n * group.n_each;
    group.own = number % n * group.n_each + participant->rank % group.n_each;
    int32_t domain = builder->at[expert_rank(&group, participant->stage, 0)].domain;
    while (group.n_domain < group.n &&
           builder->at[expert_rank(&group, participant->stage, group.n_domain)].domain == domain)
        group.n_domain++;
    return group;
}

/* Append the bytes that a pass's tokens and their gradients take to other NVLink domains and back. */
static void send_to_experts(struct builder *builder, enum pass pass, const struct builder_participant *participant)
{
    const struct cost_setting *setting = builder->setting;
    const struct cost_pass *cost = participant->cost;
    if (cost->expert_nic_bytes <= 0)
        return;
    const struct expert_group group = expert_group_of(builder, participant);
    int32_t n = group.n / group.n_domain - 1;
    struct bytes all = {0};
    add_bytes(cost->expert_nic_bytes, cost_nic_bytes_per_s(setting, cost_expert_tensor(setting) * group.n_domain),
              &all);
    struct dag_task task =
        builder_task_of(builder, participant->dag_rank, DAG_STREAM_SHARD_RAIL, DAG_SEND, DAG_EXPERTS);
    task.pass = (uint8_t)pass;
    task.micro_batch = participant->micro_batch;
    for (int32_t away = 1; away <= n; away++) {
        int32_t to = expert_rank(&group, participant->stage, (group.own + away * group.n_domain) % group.n);
        add_send(builder, task, builder->dag->ranks[to].rank, (struct bytes){all.wire_bytes / n, all.seconds / n},
                 worst_factor(builder, FAULT_NIC), cost_pass_s(cost) / n);
    }
}

void joins_send(struct builder *builder, enum pass pass, const struct builder_participant *participant)
{
    const struct cost_setting *setting = builder->setting;
    bool replayed = setting->replay != NULL; /* its passes have all that they wait for */
    if (builder->options.fold_equal || replayed)
        return;
    send_to_experts(builder, pass, participant);
    if (!exchanges_shards(builder, pass))
        return;
    const struct shards_traffic *shards = &builder->shards[pass];
    const struct joins_next *to = &builder->at[participant->dag_rank].next;
    const struct cost_group group = {shards->each, setting->tensor};
    double pass_s = cost_pass_s(participant->cost), chain_s = pass_s;
    double layer_s = (pass_s - participant->cost->shard_s) /
                     fmax(1, cost_n_layers(builder_stage_setting(participant->pipe, participant->stage)));
    struct bytes inside = {0}, rail = {0};
    if (shards->hides)
        chain_s = fmin(pass_s, shards->all_s + layer_s);
    add_bytes(shards->inside_bytes, cost_inside_bytes_per_s(setting->platform, false, group), &inside);
    if (to->rail >= 0)
        add_bytes(shards->rail_bytes, cost_nic_bytes_per_s(setting, setting->tensor), &rail);
    add_bytes(shards->replica_bytes, cost_nic_bytes_per_s(setting, setting->tensor * cost_shards(setting)), &rail);
    struct dag_task task = builder_task_of(builder, participant->dag_rank, DAG_STREAM_SHARDS, DAG_SEND, DAG_SHARDS);
    task.pass = (uint8_t)pass;
    task.micro_batch = participant->micro_batch;
    add_send(builder, task, to->inside, inside, worst_factor(builder, FAULT_NVLINK), chain_s);
    task.stream += DAG_STREAM_SHARD_RAIL - DAG_STREAM_SHARDS;
    add_send(builder, task, to->rail >= 0 ? to->rail : to->replica, rail, worst_factor(builder, FAULT_NIC), chain_s);
}

/* Let a SYNC wait for the latest pass of a rank, whose next pass waits for it. `first` is the SYNC's rank. */
static void wait_for(struct builder *builder, int32_t rank, int32_t first, int32_t sync)
{
    const int32_t *last = &builder->stream_last[rank * DAG_N_STREAMS];
    builder_edge(builder, last[DAG_STREAM_COMPUTE], DAG_COLLECTIVE);
    builder_edge(builder, builder->at[rank].ring, DAG_COLLECTIVE);
    if (rank != first)
        builder_edge(builder, last[DAG_STREAM_SHARDS], DAG_COLLECTIVE);
    builder_edge(builder, last[DAG_STREAM_SHARD_RAIL], DAG_COLLECTIVE);
    builder->at[rank].ring = sync;
}

static int32_t add_sync(struct builder *builder, int32_t rank)
{
    struct dag_task task = builder_task_of(builder, rank, DAG_STREAM_SHARDS, DAG_SYNC, DAG_SHARDS);
    return builder_task(builder, task, 0.0);
}

/* Return the first rank of a cursor's stage. */
static int32_t first_rank(const struct builder_stage_cursor *cursor)
{
    return cursor->pipe->first_rank + cursor->stage * cursor->pipe->n_ranks;
}

void joins_sync(struct builder *builder, const struct builder_join *join)
{
    int32_t first = first_rank(&builder->cursors[join->first]), sync = add_sync(builder, first);
    for (int32_t i = join->first; i >= 0; i = builder->cursors[i].next_in_join) {
        const struct builder_stage_cursor *cursor = &builder->cursors[i];
        for (int32_t rank = 0; rank < cursor->pipe->n_ranks; rank++)
            wait_for(builder, first_rank(cursor) + rank, first, sync);
    }
}

void joins_wait(struct builder *builder, enum pass pass, int32_t dag_rank)
{
    bool shards = cost_shards_on_demand(builder->setting) && exchanges_shards(builder, pass);
    bool experts = !joins_experts(builder) &&
                   builder->stream_last[dag_rank * DAG_N_STREAMS + DAG_STREAM_SHARD_RAIL] > builder->at[dag_rank].begin;
    if (!builder->options.fold_equal && (shards || (experts && !exchanges_shards(builder, pass))))
        wait_for(builder, dag_rank, dag_rank, add_sync(builder, dag_rank));
}
