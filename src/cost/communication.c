/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/cost.h"

#include <math.h>

#include "base/check.h"

/** Bytes and what the filling of buffers adds: `ramp` for large messages, twice the bytes for small ones. */
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

/** What one GPU sends over NVLink. */
static double sent_bytes(enum device_collective_kind kind, double bytes, int32_t ranks)
{
    double share = (double)(ranks - 1) / ranks;
    return kind == DEVICE_NVLS ? bytes : kind == DEVICE_ALL_REDUCE ? 2 * share * bytes : share * bytes;
}

/** NCCL takes the switches' all-reduce from 5 GPUs on (rows C195 to C203 of the collectives). */
static enum device_collective_kind algorithm(const struct device *device, enum device_collective_kind kind,
                                             int32_t ranks)
{
    bool nvls = kind == DEVICE_ALL_REDUCE && ranks >= 5 && device->collective[DEVICE_NVLS].efficiency > 0;
    return nvls ? DEVICE_NVLS : kind;
}

static double node_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes, int32_t ranks)
{
    enum device_collective_kind by = algorithm(setting->device, kind, ranks);
    const struct device_collective *curve = &setting->device->collective[by];
    double wire_bytes = ramped(sent_bytes(by, bytes, ranks), curve->ramp_bytes) * (1 + curve->pair / ranks);
    return curve->latency_s + curve->step_s * (ranks - 1) +
           wire_bytes / (curve->efficiency * setting->platform->nvlink_bytes_per_s);
}

/** What one NIC sends in an all-reduce. */
static double fabric_bytes(const struct cost_setting *setting, double bytes, int32_t ranks)
{
    return sent_bytes(DEVICE_ALL_REDUCE, bytes, ranks) / setting->platform->gpus_per_node;
}

static double fabric_s(const struct cost_setting *setting, double bytes, int32_t ranks)
{
    const struct device_fabric *curve = &setting->device->fabric;
    double doublings = log2((double)ranks / setting->platform->gpus_per_node);
    double wire_bytes =
        ramped(fabric_bytes(setting, bytes, ranks), curve->ramp_bytes * (1 + curve->ramp_hop * doublings));
    return curve->latency_s + curve->hop_s * doublings +
           wire_bytes / (curve->efficiency * setting->platform->nic_bytes_per_s);
}

double cost_collective_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                         int32_t ranks)
{
    CHECK(bytes >= 0 && ranks >= 1);
    if (bytes == 0 || ranks == 1)
        return 0;
    if (ranks <= setting->platform->gpus_per_node)
        return node_s(setting, kind, bytes, ranks);
    if (kind == DEVICE_ALL_TO_ALL)
        return cost_of_transfer(setting, COST_NIC, sent_bytes(kind, bytes, ranks), 1).duration_s;
    return fabric_s(setting, bytes, ranks) / (kind == DEVICE_ALL_REDUCE ? 1 : 2);
}

bool cost_collective_outside(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                             int32_t ranks)
{
    bool node = ranks <= setting->platform->gpus_per_node;
    enum device_collective_kind by = algorithm(setting->device, kind, ranks);
    struct device_range range = node ? setting->device->collective[by].bytes : setting->device->fabric.bytes;
    double sent = node ? sent_bytes(by, bytes, ranks) : fabric_bytes(setting, bytes, ranks);
    return range.max > 0 && bytes > 0 && ranks > 1 && (sent < range.min || sent > range.max);
}

double cost_ring_s(const struct cost_setting *setting, double bytes, int32_t n, int32_t n_each)
{
    CHECK(1 <= n_each && n_each <= n);
    if (n == n_each)
        return cost_of_transfer(setting, COST_NVLINK, bytes, n - 1).duration_s;
    double rail_bytes = bytes / n_each;
    double between_s = cost_of_transfer(setting, COST_NIC, rail_bytes, n - 1).duration_s;
    double inside_s = n_each > 1 ? cost_of_transfer(setting, COST_NVLINK, bytes - rail_bytes, n - 1).duration_s : 0;
    return fmax(between_s, inside_s);
}
