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

/** Return how many of n GPUs divide a link that `most` share. Without contention each gets all of it. */
static int32_t at_once(const struct platform *platform, int32_t n, int32_t most)
{
    return !platform->contention || most <= 1 ? 1 : n < most ? n : most;
}

double cost_nic_bytes_per_s(const struct cost_setting *setting, int32_t n)
{
    const struct platform *platform = setting->platform;
    double share = platform->nic_bytes_per_s / at_once(platform, n, platform->gpus_per_nic);
    return platform_has_nvlink(platform) ? share : fmin(share, platform->pcie_bytes_per_s);
}

/** Return the messages that leave a PCIe switch or socket with `part` GPUs at once. In a ring each group sends one. In
 * an all-to-all each of its ranks sends a share. */
static double leaving(const struct platform *platform, bool to_all, struct cost_group group, int32_t part)
{
    int32_t span = group.ranks * group.distance, inside = part > group.distance ? part / group.distance : 1;
    if (span <= part)
        return 0;
    if (!to_all || !platform->contention)
        return at_once(platform, group.distance, part);
    return part * (double)(group.ranks - inside) / (group.ranks - 1);
}

double cost_inside_bytes_per_s(const struct platform *platform, bool to_all, struct cost_group group)
{
    if (platform_has_nvlink(platform))
        return platform->nvlink_bytes_per_s;
    double by_switch = leaving(platform, to_all, group, platform->gpus_per_pcie_switch),
           by_socket = leaving(platform, to_all, group, platform->gpus_per_socket);
    double rate = platform->pcie_bytes_per_s / fmax(1, by_switch);
    return by_socket > 0 ? fmin(rate, platform->numa_bytes_per_s / by_socket) : rate;
}

int32_t cost_n_rails(const struct platform *platform, struct cost_group each)
{
    int32_t shared = platform_gpus_per_nic(platform), nics = each.ranks * each.distance / shared;
    return shared == 1 || nics >= each.ranks ? each.ranks : nics > 1 ? nics : 1;
}

struct cost_transfer cost_of_transfer(const struct cost_setting *setting, enum cost_route route, double bytes,
                                      int32_t steps)
{
    const struct platform *platform = setting->platform;
    const struct device *device = setting->device;
    const struct device_link *inside = platform_has_nvlink(platform) ? &device->nvlink : &device->pcie,
                             *link = route == COST_NVLINK ? inside
                                     : route == COST_NIC  ? &device->nic
                                                          : &device->pcie;
    CHECK(bytes >= 0 && steps >= 0);
    struct cost_transfer transfer = {0};
    if (route == COST_NVLINK)
        transfer.bytes_per_s = cost_inside_bytes_per_s(platform, false, (struct cost_group){1, 1});
    else if (route == COST_NIC)
        transfer.bytes_per_s = cost_nic_bytes_per_s(setting, setting->tensor);
    else
        transfer.bytes_per_s =
            platform->pcie_bytes_per_s / at_once(platform, setting->tensor, platform->gpus_per_pcie_switch);
    if (bytes > 0) {
        transfer.latency_s = steps * link->latency_s;
        transfer.wire_bytes = ramped(bytes, link->ramp_bytes) / link->efficiency;
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

/** Return the algorithm that NCCL takes on NVLink. From 5 GPUs on it takes the switches' all-reduce (rows C195 to C203
 * of the collectives). */
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

/** Return a collective over PCIe. Each message of its ring, or to another GPU, is a transfer. */
static struct cost_transfer over_pcie(const struct cost_setting *setting, enum device_collective_kind by, double sent,
                                      struct cost_group group)
{
    const struct device_link *pcie = &setting->device->pcie;
    int32_t steps = (by == DEVICE_ALL_REDUCE ? 2 : 1) * (group.ranks - 1);
    return transfer_of(steps * pcie->latency_s, ramped(sent, pcie->ramp_bytes) / pcie->efficiency,
                       cost_inside_bytes_per_s(setting->platform, by == DEVICE_ALL_TO_ALL, group));
}

/** Return a collective of GPUs of an NVLink domain. Each GPU sends `sent`. */
static struct cost_transfer inside_domain(const struct cost_setting *setting, enum device_collective_kind by,
                                          double sent, struct cost_group group)
{
    if (!platform_has_nvlink(setting->platform))
        return over_pcie(setting, by, sent, group);
    const struct device_collective *curve = &setting->device->collective[by];
    double wire_bytes = ramped(sent, curve->ramp_bytes) * (1 + curve->pair / group.ranks) / curve->efficiency;
    return transfer_of(curve->latency_s + curve->step_s * (group.ranks - 1), wire_bytes,
                       setting->platform->nvlink_bytes_per_s);
}

/** Return a collective of a tensor of `bytes` with all GPUs in one domain. */
static struct cost_transfer one_domain(const struct cost_setting *setting, enum device_collective_kind kind,
                                       double bytes, struct cost_group group)
{
    enum device_collective_kind by =
        platform_has_nvlink(setting->platform) ? algorithm(setting->device, kind, group.ranks) : kind;
    return inside_domain(setting, by, sent_bytes(by, bytes, group.ranks), group);
}

/** Return an all-reduce over `nodes` domains. Each rail sends `sent`, beside those of `distance` groups. */
static struct cost_transfer between_domains(const struct cost_setting *setting, double sent, double nodes,
                                            int32_t distance)
{
    const struct device_fabric *curve = &setting->device->fabric;
    double doublings = log2(nodes);
    double wire_bytes = ramped(sent, curve->ramp_bytes * (1 + curve->ramp_hop * doublings)) / curve->efficiency;
    return transfer_of(curve->latency_s + curve->hop_s * doublings, wire_bytes,
                       cost_nic_bytes_per_s(setting, distance));
}

/** Return a ring through `ranks` GPUs, with ranks_each on each node. Each NIC sends `sent`. */
static struct cost_transfer ring_between_domains(const struct cost_setting *setting, double sent, int32_t ranks,
                                                 int32_t ranks_each)
{
    bool nvlink = platform_has_nvlink(setting->platform);
    double nodes = (double)ranks / ranks_each;
    struct cost_transfer best = {.duration_s = INFINITY};
    for (int i = 0; i < DEVICE_N_PROTOCOLS; i++) {
        const struct device_ring *ring = &setting->device->ring[i];
        double share = (ranks_each == 1 ? ring->share_alone : ring->share) * setting->device->fabric.efficiency;
        double inside_s = nvlink ? ring->nvlink_s : setting->device->pcie.latency_s;
        double latency_s = ring->start_s + (ranks - nodes) * inside_s + (nodes - 1) * ring->nic_s;
        if (share <= 0)
            continue;
        struct cost_transfer one = transfer_of(latency_s, sent / share, cost_nic_bytes_per_s(setting, setting->tensor));
        if (one.duration_s < best.duration_s)
            best = one;
    }
    CHECK(best.bytes_per_s > 0);
    return best;
}

/** Return the part of a collective over domains that stays in one. Each GPU sends `sent` there, in an all-reduce by a
 * reduce-scatter and an all-gather, one after the other. */
static struct cost_transfer part_inside_domain(const struct cost_setting *setting, enum device_collective_kind kind,
                                               double sent, struct cost_group group)
{
    if (kind != DEVICE_ALL_REDUCE)
        return inside_domain(setting, kind, sent, group);
    struct cost_transfer first = inside_domain(setting, DEVICE_REDUCE_SCATTER, sent / 2, group);
    struct cost_transfer second = inside_domain(setting, DEVICE_ALL_GATHER, sent / 2, group);
    return transfer_of(first.latency_s + second.latency_s, first.wire_bytes + second.wire_bytes, first.bytes_per_s);
}

struct cost_transfer cost_of_rails(const struct cost_setting *setting, enum device_collective_kind kind,
                                   enum cost_route route, double bytes, int32_t ranks, int32_t ranks_each)
{
    CHECK(kind != DEVICE_NVLS && kind != DEVICE_ALL_TO_ALL && route != COST_PCIE);
    CHECK(bytes >= 0 && 1 <= ranks_each && ranks_each <= ranks);
    const struct cost_group each = {ranks_each, setting->tensor};
    double sent = sent_bytes(kind, bytes, ranks),
           rail = ranks_each < ranks ? sent / cost_n_rails(setting->platform, each) : 0;
    if (sent == 0 || (route == COST_NIC && rail == 0) || (route == COST_NVLINK && rail == sent))
        return (struct cost_transfer){.bytes_per_s = 1};
    if (ranks_each == ranks)
        return one_domain(setting, kind, bytes, each);
    if (route == COST_NVLINK)
        return part_inside_domain(setting, kind, sent - rail, each);
    if (kind == DEVICE_ALL_REDUCE)
        return between_domains(setting, rail, (double)ranks / ranks_each, setting->tensor);
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
    const struct cost_group each = {ranks_each, setting->tensor};
    int32_t rails = cost_n_rails(setting->platform, each);
    if (rails == 1)
        return part_inside_domain(setting, kind, sent_bytes(kind, bytes, ranks), each);
    struct cost_transfer all = cost_of_rails(setting, kind, COST_NVLINK, bytes, ranks, ranks_each);
    all.wire_bytes *= rails / (rails - 1.0);
    all.duration_s = all.latency_s + all.wire_bytes / all.bytes_per_s;
    return all;
}

double cost_uneven_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                           int32_t ranks, int32_t fewest, int32_t most)
{
    double rails_s = cost_rails_s(setting, kind, bytes, ranks, fewest);
    bool shared =
        fewest < ranks && cost_n_rails(setting->platform, (struct cost_group){fewest, setting->tensor}) < fewest;
    if ((most == fewest && !shared) || fewest == 1)
        return rails_s;
    return fmax(rails_s, cost_without_rail(setting, kind, bytes, ranks, fewest).duration_s);
}

/** Return the bytes that one NIC sends in an all-reduce. */
static double fabric_bytes(const struct cost_setting *setting, double bytes, int32_t ranks)
{
    const struct cost_group domain = {platform_nvlink_domain(setting->platform), 1};
    return sent_bytes(DEVICE_ALL_REDUCE, bytes, ranks) / cost_n_rails(setting->platform, domain);
}

double cost_collective_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                         int32_t ranks)
{
    CHECK(bytes >= 0 && ranks >= 1);
    if (bytes == 0 || ranks == 1)
        return 0;
    int32_t each = platform_nvlink_domain(setting->platform),
            distance = kind == DEVICE_ALL_TO_ALL ? setting->tensor : 1;
    if (ranks <= each)
        return one_domain(setting, kind, bytes, (struct cost_group){ranks, distance}).duration_s;
    if (kind == DEVICE_ALL_TO_ALL)
        return cost_of_transfer(setting, COST_NIC, sent_bytes(kind, bytes, ranks), 1).duration_s;
    if (kind == DEVICE_ALL_REDUCE)
        return between_domains(setting, fabric_bytes(setting, bytes, ranks), (double)ranks / each, 1).duration_s;
    return cost_rails_s(setting, kind, bytes, ranks, ranks % each == 0 ? each : 1);
}

bool cost_collective_extrapolates(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                                  int32_t ranks)
{
    bool node = ranks <= platform_nvlink_domain(setting->platform);
    if (!platform_has_nvlink(setting->platform) && bytes > 0 && ranks > 1)
        return true;
    enum device_collective_kind by = algorithm(setting->device, kind, ranks);
    struct device_range range = node ? setting->device->collective[by].bytes : setting->device->fabric.bytes;
    double sent = node ? sent_bytes(by, bytes, ranks) : fabric_bytes(setting, bytes, ranks);
    return range.max > 0 && bytes > 0 && ranks > 1 && (sent < range.min || sent > range.max);
}

double cost_all_to_all_s(const struct cost_setting *setting, double sent, int32_t ranks, double *wire_bytes)
{
    int32_t each = cost_ranks_each(setting, ranks);
    double away = sent * (ranks - each) / (ranks - 1);
    struct cost_setting node = *setting, crowd = *setting;
    struct platform platform = *setting->platform;
    platform.nvlink_domain = each;
    node.platform = &platform;
    crowd.tensor *= each; /* all ranks of a domain send at once */
    double tensor_bytes = each > 1 ? (sent - away) * each / (each - 1) : 0;
    struct cost_transfer nic = cost_of_transfer(&crowd, COST_NIC, away, 1);
    *wire_bytes += nic.wire_bytes;
    return fmax(nic.duration_s, cost_collective_s(&node, DEVICE_ALL_TO_ALL, tensor_bytes, each));
}
