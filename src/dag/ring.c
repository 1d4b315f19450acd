/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/builder.h"

#include <math.h>

/* One member's messages to another one. */
struct hop {
    enum dag_stream stream;
    int32_t from, to; /* members */
    int32_t each;     /* rails, 0: there are none */
    bool alone;       /* there are, but none of this member */
};

/* Members on each node when these are equal; else 0. */
static int32_t on_each_node(const struct builder *builder, const struct builder_ring *ring)
{
    int32_t k = 1;
    while (k < ring->n && builder->at[ring->places[k]].node == builder->at[ring->places[0]].node)
        k++;
    for (int32_t i = 1; i < ring->n; i++) {
        bool same = builder->at[ring->places[i]].node == builder->at[ring->places[i - 1]].node;
        if (same == (i % k == 0))
            return 0;
    }
    return ring->n % k == 0 ? k : 0;
}

/* One past the last member of a node's run of neighbours, of which `first` is the first. */
static int32_t end_of_run(const struct builder *builder, const struct builder_ring *ring, int32_t first)
{
    int32_t end = first + 1;
    while (end < ring->n && builder->at[ring->places[end]].node == builder->at[ring->places[first]].node)
        end++;
    return end;
}

/* Members on the node that has fewest of them, and on that which has most. */
struct crowd {
    int32_t fewest, most;
};

static struct crowd crowd_of(const struct builder *builder, const struct builder_ring *ring)
{
    struct crowd crowd = {ring->n, 0};
    for (int32_t first = 0, end; first < ring->n; first = end) {
        end = end_of_run(builder, ring, first);
        crowd.fewest = end - first < crowd.fewest ? end - first : crowd.fewest;
        crowd.most = end - first > crowd.most ? end - first : crowd.most;
    }
    return crowd;
}

/* As many as the node has that has fewest: where more than one has any, so many rings enter and leave each node by NICs
 * of their own. 1: neighbours send to each other. So does context parallelism always: its ring is point-to-point, not a
 * collective of NCCL's. */
static int32_t rails(const struct builder *builder, const struct builder_ring *ring)
{
    int32_t k = crowd_of(builder, ring).fewest;
    return ring->purpose == DAG_RING || k == ring->n ? 1 : k;
}

static struct dag_task task_of(const struct builder *builder, const struct builder_ring *ring, int32_t member,
                               enum dag_stream stream, enum dag_kind kind)
{
    struct dag_task task = builder_task_of(builder, ring->places[member], stream, kind, ring->purpose);
    task.pass = (uint8_t)ring->pass;
    task.chunk = (uint8_t)ring->chunk;
    task.unit = ring->units != NULL ? ring->units[member] : -1;
    return task;
}

static enum device_collective_kind collective_of(const struct builder_ring *ring)
{
    if (ring->purpose == DAG_ALL_REDUCE)
        return DEVICE_ALL_REDUCE;
    return ring->purpose == DAG_REDUCE_SCATTER ? DEVICE_REDUCE_SCATTER : DEVICE_ALL_GATHER;
}

/* The most that faults slow any hop of the ring down by on this route. */
static double worst_factor(const struct builder *builder, const struct builder_ring *ring, enum cost_route route)
{
    double worst = 1;
    for (int32_t i = 0; builder->setting->faults != NULL && i < ring->n; i++) {
        int32_t from = builder->dag->places[ring->places[i]].rank;
        int32_t to = builder->dag->places[ring->places[(i + 1) % ring->n]].rank;
        if (builder_route(builder, from, to) == route)
            worst = fmax(worst, builder_link_factor(builder, from, to));
    }
    return worst;
}

/* What a member sends by one route, where there are `each` rails; `alone`: none of this member. */
static struct cost_transfer hop_cost(const struct builder *builder, const struct builder_ring *ring,
                                     enum cost_route route, int32_t each, bool alone)
{
    const struct platform *platform = builder->setting->platform;
    if (ring->exact_s > 0) {
        double bytes_per_s = route == COST_NVLINK ? platform->nvlink_bytes_per_s : platform->nic_bytes_per_s;
        double seconds = ring->exact_s / worst_factor(builder, ring, route); /* on sound links */
        return (struct cost_transfer){0, seconds * bytes_per_s, bytes_per_s, seconds};
    }
    if (ring->purpose == DAG_RING || ring->purpose == DAG_TENSOR)
        return cost_of_transfer(builder->setting, route, ring->bytes, ring->steps);
    enum device_collective_kind kind = collective_of(ring);
    struct cost_transfer hop = alone ? cost_without_rail(builder->setting, kind, ring->bytes, ring->n, each)
                                     : cost_of_rails(builder->setting, kind, route, ring->bytes, ring->n, each);
    hop.latency_s *= ring->share;
    hop.wire_bytes *= ring->share;
    hop.duration_s = hop.latency_s + hop.wire_bytes / hop.bytes_per_s;
    return hop;
}

static void add_hop(struct builder *builder, const struct builder_ring *ring, int32_t open, struct hop hop)
{
    struct dag_task task = task_of(builder, ring, hop.from, hop.stream, DAG_SEND);
    task.to_rank = builder->dag->places[ring->places[hop.to]].rank;
    enum cost_route route = builder_route(builder, task.from_rank, task.to_rank);
    struct cost_transfer cost = hop_cost(builder, ring, route,
                                         hop.each > 0        ? hop.each
                                         : route == COST_NIC ? 1
                                                             : ring->n,
                                         hop.alone);
    if (hop.to == hop.from || cost.duration_s <= 0)
        return;
    builder_send(builder, task, cost);
    builder_edge(builder, open, DAG_COLLECTIVE);
}

/* The most that faults slow any member's NIC down by. */
static double worst_nic(const struct builder *builder, const struct builder_ring *ring)
{
    double worst = 1;
    for (int32_t i = 0; builder->setting->faults != NULL && i < ring->n; i++)
        worst =
            fmax(worst, faults_factor(builder->setting->faults, FAULT_NIC, builder->dag->places[ring->places[i]].rank));
    return worst;
}

/* SENDs from each member to its counterparts on other nodes; k members on each node. */
static void add_flows(struct builder *builder, const struct builder_ring *ring, int32_t open, int32_t k)
{
    double bytes_per_s = builder->setting->platform->nic_bytes_per_s;
    double latency_s = fmax(0, ring->exact_s - worst_nic(builder, ring) * (ring->wire_bytes / bytes_per_s));
    int32_t n_flows = ring->to_all ? ring->n / k - 1 : 1;
    struct cost_transfer flow = {latency_s / n_flows, ring->wire_bytes / n_flows, bytes_per_s, 0};
    flow.duration_s = flow.latency_s + flow.wire_bytes / bytes_per_s;
    for (int32_t i = 0; i < (ring->fold != NULL ? 1 : ring->n); i++)
        for (int32_t away = 1; away <= n_flows; away++) {
            struct dag_task task = task_of(builder, ring, i, DAG_STREAM_RAIL, DAG_SEND);
            task.to_rank = builder->dag->places[ring->places[ring->fold != NULL ? 0 : (i + away * k) % ring->n]].rank;
            builder_send(builder, task, flow);
            if (away == 1)
                builder_edge(builder, open, DAG_COLLECTIVE);
        }
}

/* One SEND for all members, of the first one: the longest of their messages. */
static void add_longest_hop(struct builder *builder, const struct builder_ring *ring, int32_t open)
{
    struct cost_transfer longest = {0};
    for (enum cost_route route = COST_NVLINK; route <= COST_NIC; route++) {
        if (!(route == COST_NIC ? ring->fold->nic : ring->fold->nvlink))
            continue;
        struct cost_transfer cost = hop_cost(builder, ring, route, route == COST_NIC ? 1 : ring->n, false);
        if (cost.duration_s > longest.duration_s)
            longest = cost;
    }
    if (longest.duration_s <= 0)
        return;
    builder_send(builder, task_of(builder, ring, 0, DAG_STREAM_COLLECTIVE, DAG_SEND), longest);
    builder_edge(builder, open, DAG_COLLECTIVE);
}

/* Of context ranks of which only the first is built. */
static void add_folded_hops(struct builder *builder, const struct builder_ring *ring, int32_t open)
{
    if (ring->wire_bytes > 0 && ring->fold->each > 0 && ring->fold->each < ring->n)
        add_flows(builder, ring, open, ring->fold->each);
    else
        add_longest_hop(builder, ring, open);
}

struct builder_fold builder_fold_of(const struct builder *builder, const struct builder_ring *ring)
{
    struct builder_fold fold = {.each = on_each_node(builder, ring)};
    for (int32_t i = 0; i < ring->n; i++) {
        int32_t next = (i + 1) % ring->n;
        bool inside = builder->at[ring->places[i]].node == builder->at[ring->places[next]].node;
        fold.nvlink = fold.nvlink || inside;
        fold.nic = fold.nic || !inside;
    }
    return fold;
}

static void add_hops(struct builder *builder, const struct builder_ring *ring, int32_t open)
{
    int32_t each = ring->wire_bytes > 0 ? on_each_node(builder, ring) : 0;
    if (each > 0 && each < ring->n) {
        add_flows(builder, ring, open, each);
        return;
    }
    int32_t n = ring->n, k = rails(builder, ring);
    for (int32_t first = 0, end; first < n; first = end) {
        end = end_of_run(builder, ring, first);
        for (int32_t i = first; i < end; i++) {
            if (k == 1) {
                add_hop(builder, ring, open, (struct hop){DAG_STREAM_COLLECTIVE, i, (i + 1) % n, 0, false});
                continue;
            }
            bool alone = i - first >= k;
            add_hop(builder, ring, open, (struct hop){DAG_STREAM_COLLECTIVE, i, i + 1 < end ? i + 1 : first, k, alone});
            if (!alone)
                add_hop(builder, ring, open, (struct hop){DAG_STREAM_RAIL, i, (end + i - first) % n, k, false});
        }
    }
}

int32_t builder_ring(struct builder *builder, const struct builder_ring *ring)
{
    int32_t open = builder_task(builder, task_of(builder, ring, 0, DAG_STREAM_COLLECTIVE, DAG_SYNC), 0.0);
    for (int32_t i = 0; i < ring->n_ready; i++)
        builder_edge(builder, ring->ready[i], DAG_COLLECTIVE);
    if (ring->fold != NULL)
        add_folded_hops(builder, ring, open);
    else
        add_hops(builder, ring, open);
    int32_t close = builder_task(builder, task_of(builder, ring, 0, DAG_STREAM_COLLECTIVE, DAG_SYNC), 0.0);
    for (int32_t send = open + 1; send < close; send++)
        builder_edge(builder, send, DAG_COLLECTIVE);
    return close;
}

double builder_ring_s(const struct builder *builder, const struct builder_ring *ring)
{
    struct crowd crowd = crowd_of(builder, ring);
    double nvlink = 1, nic = 1;
    for (int32_t i = 0; i < ring->n; i++) {
        int32_t gpu = builder->dag->places[ring->places[i]].rank;
        nvlink = fmax(nvlink, faults_factor(builder->setting->faults, FAULT_NVLINK, gpu));
        nic = fmax(nic, faults_factor(builder->setting->faults, FAULT_NIC, gpu));
    }
    struct platform room;
    struct cost_setting slow = builder_slow_setting(builder->setting, nvlink, nic, &room);
    return cost_uneven_rails_s(&slow, collective_of(ring), ring->bytes, ring->n, crowd.fewest, crowd.most);
}
