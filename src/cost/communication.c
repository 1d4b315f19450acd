/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/check.h"
#include "cost/cost.h"

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
