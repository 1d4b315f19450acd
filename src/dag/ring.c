/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/builder.h"

/* One member's messages to another one. */
struct hop {
    enum dag_stream stream;
    int32_t from, to; /* members */
    double bytes;
};

static int32_t node_of(const struct builder *builder, int32_t place)
{
    return builder->dag->places[place].rank / builder->setting->platform->gpus_per_node;
}

/* Members on each node when these are equal and more than one node has any; else 1: neighbours send to each other. */
static int32_t rails(const struct builder *builder, const struct builder_ring *ring)
{
    int32_t k = 1;
    while (k < ring->n && node_of(builder, ring->places[k]) == node_of(builder, ring->places[0]))
        k++;
    if (k == ring->n || ring->n % k != 0)
        return 1;
    for (int32_t i = 1; i < ring->n; i++) {
        bool same = node_of(builder, ring->places[i]) == node_of(builder, ring->places[i - 1]);
        if (same == (i % k == 0))
            return 1;
    }
    return k;
}

static struct dag_task task_of(const struct builder *builder, const struct builder_ring *ring, int32_t member,
                               enum dag_stream stream, enum dag_kind kind)
{
    struct dag_task task = builder_task_of(builder, ring->places[member], stream, kind, ring->purpose);
    task.pass = (uint8_t)ring->pass;
    task.chunk = (uint8_t)ring->chunk;
    task.unit = ring->unit;
    return task;
}

static struct cost_transfer hop_cost(const struct builder *builder, const struct builder_ring *ring,
                                     enum cost_route route, double bytes)
{
    const struct platform *platform = builder->setting->platform;
    if (ring->purpose != DAG_TENSOR)
        return cost_of_transfer(builder->setting, route, bytes, ring->steps);
    double bytes_per_s = route == COST_NVLINK ? platform->nvlink_bytes_per_s : platform->nic_bytes_per_s;
    double wire_bytes = ring->exact_s * bytes_per_s;
    return (struct cost_transfer){0, wire_bytes, bytes_per_s, wire_bytes / bytes_per_s};
}

static void add_hop(struct builder *builder, const struct builder_ring *ring, int32_t open, struct hop hop)
{
    if (hop.to == hop.from || (hop.bytes <= 0 && ring->exact_s <= 0))
        return;
    struct dag_task task = task_of(builder, ring, hop.from, hop.stream, DAG_SEND);
    task.to_rank = builder->dag->places[ring->places[hop.to]].rank;
    enum cost_route route = builder_route(builder, task.from_rank, task.to_rank);
    builder_send(builder, task, hop_cost(builder, ring, route, hop.bytes));
    builder_edge(builder, open, DAG_COLLECTIVE);
}

static void add_hops(struct builder *builder, const struct builder_ring *ring, int32_t open)
{
    int32_t n = ring->n, k = rails(builder, ring);
    for (int32_t i = 0; i < n; i++) {
        if (k == 1) {
            add_hop(builder, ring, open, (struct hop){DAG_STREAM_COLLECTIVE, i, (i + 1) % n, ring->bytes});
            continue;
        }
        int32_t neighbour = i - i % k + (i + 1) % k;
        double rail_bytes = ring->bytes / k;
        add_hop(builder, ring, open, (struct hop){DAG_STREAM_COLLECTIVE, i, neighbour, ring->bytes - rail_bytes});
        add_hop(builder, ring, open, (struct hop){DAG_STREAM_RAIL, i, (i + k) % n, rail_bytes});
    }
}

int32_t builder_ring(struct builder *builder, const struct builder_ring *ring)
{
    int32_t open = builder_task(builder, task_of(builder, ring, 0, DAG_STREAM_COLLECTIVE, DAG_SYNC), 0.0);
    for (int32_t i = 0; i < ring->n_ready; i++)
        builder_edge(builder, ring->ready[i], DAG_COLLECTIVE);
    add_hops(builder, ring, open);
    int32_t close = builder_task(builder, task_of(builder, ring, 0, DAG_STREAM_COLLECTIVE, DAG_SYNC), 0.0);
    for (int32_t send = open + 1; send < close; send++)
        builder_edge(builder, send, DAG_COLLECTIVE);
    return close;
}

double builder_ring_s(const struct builder *builder, const struct builder_ring *ring)
{
    int32_t k = rails(builder, ring);
    bool one_node = true;
    for (int32_t i = 1; i < ring->n; i++)
        one_node = one_node && node_of(builder, ring->places[i]) == node_of(builder, ring->places[0]);
    return cost_ring_s(builder->setting, ring->bytes, ring->n, one_node ? ring->n : k);
}
