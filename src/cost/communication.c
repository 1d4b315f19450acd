/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/cost.h"

#include <math.h>

#include "base/check.h"

struct cost_transfer cost_of_transfer(const struct cost_setting *setting, enum cost_route route, double bytes,
                                      int32_t steps)
{
    const struct device_link *link[] = {&setting->device->nvlink, &setting->device->nic, &setting->device->pcie};
    const double bandwidth[] = {setting->platform->nvlink_bytes_per_s, setting->platform->nic_bytes_per_s,
                                setting->platform->pcie_bytes_per_s};
    CHECK(bytes >= 0 && steps >= 0);
    struct cost_transfer transfer = {.bytes_per_s = bandwidth[route]};
    if (bytes > 0) {
        double ramp = link[route]->ramp_bytes;
        transfer.latency_s = steps * link[route]->latency_s;
        transfer.wire_bytes = (bytes + ramp * bytes / (bytes + ramp)) / link[route]->efficiency;
        transfer.duration_s = transfer.latency_s + transfer.wire_bytes / transfer.bytes_per_s;
    }
    return transfer;
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
