/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file appends collectives: rings inside NVLink domains, and rails between them. */
#include "dag/builder.h"

#include <math.h>

/* Messages of one participant to another one. */
struct hop {
    enum dag_stream stream;
    int32_t from, to;  /* participants */
    int32_t each;      /* number of rails, 0: there are none */
    bool without_rail; /* there are rails, but none of this participant */
};

/* Return the participants in each NVLink domain if all domains have equally many; otherwise 0. */
static int32_t participants_in_each_domain(const struct builder *builder, const struct builder_collective *collective)
{
    int32_t k = 1;
    while (k < collective->n && builder->at[collective->ranks[k]].domain == builder->at[collective->ranks[0]].domain)
        k++;
    for (int32_t i = 1; i < collective->n; i++) {
        bool same = builder->at[collective->ranks[i]].domain == builder->at[collective->ranks[i - 1]].domain;
        if (same == (i % k == 0))
            return 0;
    }
    return collective->n % k == 0 ? k : 0;
}

int32_t builder_end_of_domain(const struct builder *builder, const int32_t *ranks, int32_t n, int32_t first)
{
    int32_t end = first + 1;
    while (end < n && builder->at[ranks[end]].domain == builder->at[ranks[first]].domain)
        end++;
    return end;
}

/* Participants in the NVLink domain with fewest of them, and in the one with most. */
struct domain_counts {
    int32_t fewest, most;
};

static struct domain_counts domain_counts_of(const struct builder *builder, const struct builder_collective *collective)
{
    struct domain_counts counts = {collective->n, 0};
    for (int32_t first = 0, end; first < collective->n; first = end) {
        end = builder_end_of_domain(builder, collective->ranks, collective->n, first);
        counts.fewest = end - first < counts.fewest ? end - first : counts.fewest;
        counts.most = end - first > counts.most ? end - first : counts.most;
    }
    return counts;
}

/*
 * Return the fewest participants in a domain, since so many rings enter and leave each domain by NICs of their own.
 * With 1, neighbours send to each other. Context parallelism always does, because its ring is point-to-point and no
 * collective of NCCL.
 */
static int32_t rails(const struct builder *builder, const struct builder_collective *collective)
{
    int32_t k = domain_counts_of(builder, collective).fewest;
    return collective->purpose == DAG_RING || k == collective->n ? 1 : k;
}

static struct dag_task task_of(const struct builder *builder, const struct builder_collective *collective,
                               int32_t participant, enum dag_stream stream, enum dag_kind kind)
{
    struct dag_task task = builder_task_of(builder, collective->ranks[participant], stream, kind, collective->purpose);
    task.pass = (uint8_t)collective->pass;
    task.chunk = (uint8_t)collective->chunk;
    task.micro_batch = collective->micro_batches != NULL ? collective->micro_batches[participant] : -1;
    return task;
}

static enum device_collective_kind collective_of(const struct builder_collective *collective)
{
    if (collective->purpose == DAG_ALL_REDUCE)
        return DEVICE_ALL_REDUCE;
    return collective->purpose == DAG_REDUCE_SCATTER ? DEVICE_REDUCE_SCATTER : DEVICE_ALL_GATHER;
}

/* Return the largest factor by which faults slow any hop of the collective down on this route. */
static double worst_factor(const struct builder *builder, const struct builder_collective *collective,
                           enum cost_route route)
{
    double worst = 1;
    for (int32_t i = 0; builder->setting->faults != NULL && i < collective->n; i++) {
        int32_t from = builder->dag->ranks[collective->ranks[i]].rank;
        int32_t to = builder->dag->ranks[collective->ranks[(i + 1) % collective->n]].rank;
        if (builder_route(builder, from, to) == route)
            worst = fmax(worst, builder_link_factor(builder, from, to));
    }
    return worst;
}

/* Return the setting with the distance of the participants as its TP degree, which costs take for it. */
static struct cost_setting apart(const struct builder *builder, const struct builder_collective *collective)
{
    struct cost_setting setting = *builder->setting;
    setting.tensor = collective->distance > 0 ? collective->distance : setting.tensor;
    return setting;
}

/* Return the transfer of a participant by one route, with `each` rails. `without_rail`: it has no rail. */
static struct cost_transfer hop_cost(const struct builder *builder, const struct builder_collective *collective,
                                     enum cost_route route, int32_t each, bool without_rail)
{
    const struct cost_setting distant = apart(builder, collective), *setting = &distant;
    const struct cost_group group = {collective->n, collective->purpose == DAG_TENSOR ? 1 : setting->tensor};
    double bytes_per_s = route == COST_NVLINK ? cost_inside_bytes_per_s(setting->platform, false, group)
                                              : cost_nic_bytes_per_s(setting, group.distance);
    if (collective->exact_s > 0) {
        double worst = worst_factor(builder, collective, route), seconds = collective->exact_s / worst;
        bool known = route == COST_NVLINK && collective->bytes > 0 && collective->bytes < seconds * bytes_per_s;
        double wire_s = known ? collective->bytes / bytes_per_s : seconds, latency_s = 0; /* on sound links */
        if (known)
            latency_s = collective->exact_s - worst * wire_s;
        return (struct cost_transfer){latency_s, wire_s * bytes_per_s, bytes_per_s, latency_s + wire_s};
    }
    if (collective->purpose == DAG_RING || collective->purpose == DAG_TENSOR) {
        struct cost_transfer hop = cost_of_transfer(setting, route, collective->bytes, collective->steps);
        hop.bytes_per_s = bytes_per_s;
        hop.duration_s = hop.duration_s > 0 ? hop.latency_s + hop.wire_bytes / bytes_per_s : 0;
        return hop;
    }
    enum device_collective_kind kind = collective_of(collective);
    struct cost_transfer hop = without_rail
                                   ? cost_without_rail(setting, kind, collective->bytes, collective->n, each)
                                   : cost_of_rails(setting, kind, route, collective->bytes, collective->n, each);
    hop.latency_s *= collective->share;
    hop.wire_bytes *= collective->share;
    hop.duration_s = hop.latency_s + hop.wire_bytes / hop.bytes_per_s;
    return hop;
}

static void add_hop(struct builder *builder, const struct builder_collective *collective, int32_t open, struct hop hop)
{
    struct dag_task task = task_of(builder, collective, hop.from, hop.stream, DAG_SEND);
    task.to_rank = builder->dag->ranks[collective->ranks[hop.to]].rank;
    enum cost_route route = builder_route(builder, task.from_rank, task.to_rank);
    struct cost_transfer cost = hop_cost(builder, collective, route,
                                         hop.each > 0        ? hop.each
                                         : route == COST_NIC ? 1
                                                             : collective->n,
                                         hop.without_rail);
    if (hop.to == hop.from || cost.duration_s <= 0)
        return;
    builder_send(builder, task, cost);
    builder_edge(builder, open, DAG_COLLECTIVE);
}

/* Return the largest factor by which faults slow any participant's NIC down. */
static double worst_nic(const struct builder *builder, const struct builder_collective *collective)
{
    double worst = 1;
    for (int32_t i = 0; builder->setting->faults != NULL && i < collective->n; i++)
        worst = fmax(
            worst, faults_factor(builder->setting->faults, FAULT_NIC, builder->dag->ranks[collective->ranks[i]].rank));
    return worst;
}

bool builder_has_rail(const struct builder *builder, int32_t distance, int32_t i, int32_t k)
{
    int32_t n = cost_n_rails(builder->setting->platform, (struct cost_group){k, distance});
    return i < k && i * n % k < n;
}

static bool has_rail(const struct builder *builder, const struct builder_collective *collective, int32_t i, int32_t k)
{
    int32_t distance = collective->distance > 0 ? collective->distance : builder->setting->tensor;
    return builder_has_rail(builder, distance, i, k);
}

/* Append SENDs from each participant to its counterparts in other domains; each domain has k participants. In a gather
 * only those with a rail send. */
static void add_flows(struct builder *builder, const struct builder_collective *collective, int32_t open, int32_t k)
{
    double bytes_per_s =
        cost_nic_bytes_per_s(builder->setting, builder->setting->tensor * (collective->to_all ? k : 1));
    double latency_s =
        fmax(0, collective->exact_s - worst_nic(builder, collective) * (collective->wire_bytes / bytes_per_s));
    int32_t n_flows = collective->to_all ? collective->n / k - 1 : 1;
    struct cost_transfer flow = {latency_s / n_flows, collective->wire_bytes / n_flows, bytes_per_s, 0};
    flow.duration_s = flow.latency_s + flow.wire_bytes / bytes_per_s;
    for (int32_t i = 0; i < (collective->fold != NULL ? 1 : collective->n); i++)
        for (int32_t away = 1; away <= n_flows && (collective->to_all || has_rail(builder, collective, i % k, k));
             away++) {
            struct dag_task task = task_of(builder, collective, i, DAG_STREAM_RAIL, DAG_SEND);
            task.to_rank =
                builder->dag->ranks[collective->ranks[collective->fold != NULL ? 0 : (i + away * k) % collective->n]]
                    .rank;
            builder_send(builder, task, flow);
            if (away == 1)
                builder_edge(builder, open, DAG_COLLECTIVE);
        }
}

/* Append one SEND of the first participant for all, as long as their longest message. */
static void add_longest_hop(struct builder *builder, const struct builder_collective *collective, int32_t open)
{
    struct cost_transfer longest = {0};
    for (enum cost_route route = COST_NVLINK; route <= COST_NIC; route++) {
        if (!(route == COST_NIC ? collective->fold->nic : collective->fold->nvlink))
            continue;
        struct cost_transfer cost = hop_cost(builder, collective, route, route == COST_NIC ? 1 : collective->n, false);
        if (cost.duration_s > longest.duration_s)
            longest = cost;
    }
    if (longest.duration_s <= 0)
        return;
    builder_send(builder, task_of(builder, collective, 0, DAG_STREAM_COLLECTIVE, DAG_SEND), longest);
    builder_edge(builder, open, DAG_COLLECTIVE);
}

/* Append the SENDs of context ranks of which only the first is built. */
static void add_folded_hops(struct builder *builder, const struct builder_collective *collective, int32_t open)
{
    if (collective->wire_bytes > 0 && collective->fold->each > 0 && collective->fold->each < collective->n)
        add_flows(builder, collective, open, collective->fold->each);
    else
        add_longest_hop(builder, collective, open);
}

struct builder_fold builder_fold_of(const struct builder *builder, const struct builder_collective *collective)
{
    struct builder_fold fold = {.each = participants_in_each_domain(builder, collective)};
    for (int32_t i = 0; i < collective->n; i++) {
        int32_t next = (i + 1) % collective->n;
        bool inside = builder->at[collective->ranks[i]].domain == builder->at[collective->ranks[next]].domain;
        fold.nvlink = fold.nvlink || inside;
        fold.nic = fold.nic || !inside;
    }
    return fold;
}

static void add_hops(struct builder *builder, const struct builder_collective *collective, int32_t open)
{
    int32_t each = collective->wire_bytes > 0 ? participants_in_each_domain(builder, collective) : 0;
    if (each > 0 && each < collective->n) {
        add_flows(builder, collective, open, each);
        return;
    }
    int32_t n = collective->n, k = rails(builder, collective);
    for (int32_t first = 0, end; first < n; first = end) {
        end = builder_end_of_domain(builder, collective->ranks, collective->n, first);
        for (int32_t i = first; i < end; i++) {
            if (k == 1) {
                add_hop(builder, collective, open, (struct hop){DAG_STREAM_COLLECTIVE, i, (i + 1) % n, 0, false});
                continue;
            }
            bool without_rail = !has_rail(builder, collective, i - first, k);
            add_hop(builder, collective, open,
                    (struct hop){DAG_STREAM_COLLECTIVE, i, i + 1 < end ? i + 1 : first, k, without_rail});
            if (!without_rail)
                add_hop(builder, collective, open, (struct hop){DAG_STREAM_RAIL, i, (end + i - first) % n, k, false});
        }
    }
}

int32_t builder_open_collective(struct builder *builder, const struct builder_collective *collective)
{
    int32_t open = builder_task(builder, task_of(builder, collective, 0, DAG_STREAM_COLLECTIVE, DAG_SYNC), 0.0);
    for (int32_t i = 0; i < collective->n_ready; i++)
        builder_edge(builder, collective->ready[i], DAG_COLLECTIVE);
    if (collective->fold != NULL)
        add_folded_hops(builder, collective, open);
    else
        add_hops(builder, collective, open);
    return open;
}

int32_t builder_close_collective(struct builder *builder, const struct builder_collective *collective, int32_t open)
{
    int32_t close = builder_task(builder, task_of(builder, collective, 0, DAG_STREAM_COLLECTIVE, DAG_SYNC), 0.0);
    for (int32_t task = open + 1; task < close; task++)
        if (builder->dag->tasks[task].kind == DAG_SEND)
            builder_edge(builder, task, DAG_COLLECTIVE);
    return close;
}

int32_t builder_collective(struct builder *builder, const struct builder_collective *collective)
{
    return builder_close_collective(builder, collective, builder_open_collective(builder, collective));
}

double builder_collective_s(const struct builder *builder, const struct builder_collective *collective)
{
    struct domain_counts counts = domain_counts_of(builder, collective);
    double nvlink = 1, nic = 1;
    for (int32_t i = 0; i < collective->n; i++) {
        int32_t gpu = builder->dag->ranks[collective->ranks[i]].rank;
        nvlink = fmax(nvlink, faults_factor(builder->setting->faults, FAULT_NVLINK, gpu));
        nic = fmax(nic, faults_factor(builder->setting->faults, FAULT_NIC, gpu));
    }
    struct platform room;
    struct cost_setting distant = apart(builder, collective);
    struct cost_setting faulty = builder_faulty_setting(&distant, nvlink, nic, &room);
    return cost_uneven_rails_s(&faulty, collective_of(collective), collective->bytes, collective->n, counts.fewest,
                               counts.most);
}
