/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/communication.h"

#include <math.h>

#include "base/check.h"

/** Return bytes plus those that the filling of buffers adds: `ramp` for large messages, twice the bytes for small
 * ones. */
static double ramped(double bytes, double ramp)
{
    return bytes + ramp * bytes / (bytes + ramp);
}

struct cost_transfer cost_of_transfer(const struct cost_setting *setting, enum cost_route route, double bytes,
                                      int32_t steps)
{
    const struct device_link *link[] = {&setting->device->nvlink, &setting->device->nic, &setting->device->pcie};
    const double bandwidth[] = {setting->platform->nvlink_bytes_per_s, setting->platform->nic_bytes_per_s,
                                setting->platform->pcie_bytes_per_s};
    CHECK(bytes >= 0 && steps >= 0);
    struct cost_transfer transfer = {.bytes_per_s = bandwidth[route]};
    if (bytes > 0) {
        transfer.latency_s = steps * link[route]->latency_s;
        transfer.wire_bytes = ramped(bytes, link[route]->ramp_bytes) / link[route]->efficiency;
        transfer.duration_s = transfer.latency_s + transfer.wire_bytes / transfer.bytes_per_s;
    }
    return transfer;
}

/** Return the bytes that one GPU sends over NVLink. */
static double sent_bytes(enum device_collective_kind kind, double bytes, int32_t ranks)
{
    double share = (double)(ranks - 1) / ranks;
    return kind == DEVICE_NVLS ? bytes : kind == DEVICE_ALL_REDUCE ? 2 * share * bytes : share * bytes;
}

/** Return the algorithm that NCCL takes. From 5 GPUs on it takes the switches' all-reduce (rows C195 to C203 of the
 * collectives). */
static enum device_collective_kind algorithm(const struct device *device, enum device_collective_kind kind,
                                             int32_t ranks)
{
    bool nvls = kind == DEVICE_ALL_REDUCE && ranks >= 5 && device->collective[DEVICE_NVLS].efficiency > 0;
    return nvls ? DEVICE_NVLS : kind;
}

static struct cost_transfer transfer_of(double latency_s, double wire_bytes, double bytes_per_s)
{
    return (struct cost_transfer){latency_s, wire_bytes, bytes_per_s, latency_s + wire_bytes / bytes_per_s};
}

/** Return a collective of `ranks` GPUs of an NVLink domain. Each GPU sends `sent`. */
static struct cost_transfer inside_domain(const struct cost_setting *setting, enum device_collective_kind by,
                                          double sent, int32_t ranks)
{
    const struct device_collective *curve = &setting->device->collective[by];
    double wire_bytes = ramped(sent, curve->ramp_bytes) * (1 + curve->pair / ranks) / curve->efficiency;
    return transfer_of(curve->latency_s + curve->step_s * (ranks - 1), wire_bytes,
                       setting->platform->nvlink_bytes_per_s);
}

/** Return a collective of a tensor of `bytes` with all GPUs on one node. */
static struct cost_transfer one_domain(const struct cost_setting *setting, enum device_collective_kind kind,
                                       double bytes, int32_t ranks)
{
    enum device_collective_kind by = algorithm(setting->device, kind, ranks);
    return inside_domain(setting, by, sent_bytes(by, bytes, ranks), ranks);
}

/** Return an all-reduce over `nodes` nodes. Each NIC sends `sent`. */
static struct cost_transfer between_domains(const struct cost_setting *setting, double sent, double nodes)
{
    const struct device_fabric *curve = &setting->device->fabric;
    double doublings = log2(nodes);
    double wire_bytes = ramped(sent, curve->ramp_bytes * (1 + curve->ramp_hop * doublings)) / curve->efficiency;
    return transfer_of(curve->latency_s + curve->hop_s * doublings, wire_bytes, setting->platform->nic_bytes_per_s);
}

/** Return a ring through `ranks` GPUs, with ranks_each on each node. Each NIC sends `sent`. */
static struct cost_transfer ring_between_domains(const struct cost_setting *setting, double sent, int32_t ranks,
                                                 int32_t ranks_each)
{
    double nodes = (double)ranks / ranks_each;
    struct cost_transfer best = {.duration_s = INFINITY};
    for (int i = 0; i < DEVICE_N_PROTOCOLS; i++) {
        const struct device_ring *ring = &setting->device->ring[i];
        double share = (ranks_each == 1 ? ring->share_alone : ring->share) * setting->device->fabric.efficiency;
        double latency_s = ring->start_s + (ranks - nodes) * ring->nvlink_s + (nodes - 1) * ring->nic_s;
        if (share <= 0)
            continue;
        struct cost_transfer one = transfer_of(latency_s, sent / share, setting->platform->nic_bytes_per_s);
        if (one.duration_s < best.duration_s)
            best = one;
    }
    CHECK(best.bytes_per_s > 0);
    return best;
}

/** Return a reduce-scatter and an all-gather in an NVLink domain, one after the other. Each GPU sends `sent` in both
 * together. */
static struct cost_transfer both_inside_domain(const struct cost_setting *setting, double sent, int32_t ranks)
{
    struct cost_transfer first = inside_domain(setting, DEVICE_REDUCE_SCATTER, sent / 2, ranks);
    struct cost_transfer second = inside_domain(setting, DEVICE_ALL_GATHER, sent / 2, ranks);
    return transfer_of(first.latency_s + second.latency_s, first.wire_bytes + second.wire_bytes, first.bytes_per_s);
}

struct cost_transfer cost_of_rails(const struct cost_setting *setting, enum device_collective_kind kind,
                                   enum cost_route route, double bytes, int32_t ranks, int32_t ranks_each)
{
    CHECK(kind != DEVICE_NVLS && kind != DEVICE_ALL_TO_ALL && route != COST_PCIE);
    CHECK(bytes >= 0 && 1 <= ranks_each && ranks_each <= ranks);
    double sent = sent_bytes(kind, bytes, ranks), rail = ranks_each < ranks ? sent / ranks_each : 0;
    if (sent == 0 || (route == COST_NIC && rail == 0) || (route == COST_NVLINK && rail == sent))
        return (struct cost_transfer){.bytes_per_s = 1};
    if (ranks_each == ranks)
        return one_domain(setting, kind, bytes, ranks);
    if (route == COST_NVLINK && kind == DEVICE_ALL_REDUCE)
        return both_inside_domain(setting, sent - rail, ranks_each);
    if (route == COST_NVLINK)
        return inside_domain(setting, kind, sent - rail, ranks_each);
    if (kind == DEVICE_ALL_REDUCE)
        return between_domains(setting, rail, (double)ranks / ranks_each);
    return ring_between_domains(setting, rail, ranks, ranks_each);
}

int32_t cost_ranks_each(const struct cost_setting *setting, int32_t ranks)
{
    int32_t fit = platform_nvlink_domain(setting->platform) / setting->tensor, rest = ranks, each = fit > 1 ? fit : 1;
    if (ranks <= each && platform_n_gpus(setting->platform) <= platform_nvlink_domain(setting->platform))
        return ranks;
    while (rest != 0) { /* Euclid's greatest common divisor */
        int32_t left = each % rest;
        each = rest;
        rest = left;
    }
    return each;
}

double cost_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes, int32_t ranks,
                    int32_t ranks_each)
{
    double inside_s = cost_of_rails(setting, kind, COST_NVLINK, bytes, ranks, ranks_each).duration_s;
    return fmax(inside_s, cost_of_rails(setting, kind, COST_NIC, bytes, ranks, ranks_each).duration_s);
}

struct cost_transfer cost_without_rail(const struct cost_setting *setting, enum device_collective_kind kind,
                                       double bytes, int32_t ranks, int32_t ranks_each)
{
    CHECK(1 < ranks_each && ranks_each < ranks);
    struct cost_transfer all = cost_of_rails(setting, kind, COST_NVLINK, bytes, ranks, ranks_each);
    all.wire_bytes *= ranks_each / (ranks_each - 1.0);
    all.duration_s = all.latency_s + all.wire_bytes / all.bytes_per_s;
    return all;
}

double cost_uneven_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                           int32_t ranks, int32_t fewest, int32_t most)
{
    double rails_s = cost_rails_s(setting, kind, bytes, ranks, fewest);
    if (most == fewest || fewest == 1)
        return rails_s;
    return fmax(rails_s, cost_without_rail(setting, kind, bytes, ranks, fewest).duration_s);
}

/** Return the bytes that one NIC sends in an all-reduce. */
static double fabric_bytes(const struct cost_setting *setting, double bytes, int32_t ranks)
{
    return sent_bytes(DEVICE_ALL_REDUCE, bytes, ranks) / platform_nvlink_domain(setting->platform);
}

double cost_collective_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                         int32_t ranks)
{
    CHECK(bytes >= 0 && ranks >= 1);
    if (bytes == 0 || ranks == 1)
        return 0;
    int32_t each = platform_nvlink_domain(setting->platform);
    if (ranks <= each)
        return one_domain(setting, kind, bytes, ranks).duration_s;
    if (kind == DEVICE_ALL_TO_ALL)
        return cost_of_transfer(setting, COST_NIC, sent_bytes(kind, bytes, ranks), 1).duration_s;
    if (kind == DEVICE_ALL_REDUCE)
        return between_domains(setting, fabric_bytes(setting, bytes, ranks), (double)ranks / each).duration_s;
    return cost_rails_s(setting, kind, bytes, ranks, ranks % each == 0 ? each : 1);
}

bool cost_collective_extrapolates(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                                  int32_t ranks)
{
    bool node = ranks <= platform_nvlink_domain(setting->platform);
    enum device_collective_kind by = algorithm(setting->device, kind, ranks);
    struct device_range range = node ? setting->device->collective[by].bytes : setting->device->fabric.bytes;
    double sent = node ? sent_bytes(by, bytes, ranks) : fabric_bytes(setting, bytes, ranks);
    return range.max > 0 && bytes > 0 && ranks > 1 && (sent < range.min || sent > range.max);
}
