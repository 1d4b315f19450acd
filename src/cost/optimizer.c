/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file computes the optimizer step (cost/cost.h). */
#include "base/check.h"
#include "cost/cost.h"

double cost_gradient_bytes(const struct cost_setting *setting)
{
    return setting->plan->gradients == SCENARIO_BF16 ? 2 : 4;
}

/** Return the bytes to and from HBM for a parameter of a rank's share. */
static double share_bytes(const struct cost_setting *setting)
{
    bool zero1 = !cost_shards_in_passes(setting);
    bool before = cost_shards_in_passes(setting) && setting->plan->fsdp == 2;
    double converted = setting->plan->gradients == SCENARIO_BF16 && !before ? 2 + 4 : 0;
    double norm = 4, clipped = zero1 ? 0 : 4 + 4, weight = setting->plan->sharding == SCENARIO_ZERO3 ? 0 : 4 + 2;
    double fused = 4 + 4 + 4 + 4 + 4 + 4 + 4; /* gradient, weight, two moments read; weight and moments written */
    double eager = (4 + 4) + (8 + 12) + (8 + 12) + (8 + 8 + 8) + 16.0; /* decay, moments, denominator, weight */
    return converted + norm + clipped + weight + (setting->plan->optimizer == SCENARIO_FUSED ? fused : eager);
}

double cost_optimizer_s(const struct cost_setting *setting, double parameters, int32_t shards)
{
    CHECK(shards >= 1);
    double whole_bytes = !cost_shards_in_passes(setting) ? 3 * cost_gradient_bytes(setting) : 0;
    double bytes = parameters * whole_bytes + parameters / shards * share_bytes(setting);
    return cost_memory_bound_s(setting->device, DEVICE_COPY, bytes);
}
