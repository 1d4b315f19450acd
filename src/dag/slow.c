/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What faults do to costs: dag/dag.h. */
#include "dag/builder.h"

#include <math.h>

struct cost_setting builder_slow_setting(const struct cost_setting *setting, double nvlink, double nic,
                                         struct platform *room)
{
    struct cost_setting slow = *setting;
    *room = *setting->platform;
    room->nvlink_bytes_per_s /= nvlink;
    room->nic_bytes_per_s /= nic;
    slow.platform = room;
    slow.cache = NULL; /* it knows a platform by its pointer */
    return slow;
}

struct cost_pass dag_gpu_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                                   enum pass pass, int32_t unit, int32_t stage, int32_t gpu)
{
    const struct faults *faults = setting->faults;
    struct platform room;
    double nvlink = faults_factor(faults, FAULT_NVLINK, gpu), nic = faults_factor(faults, FAULT_NIC, gpu);
    struct cost_setting slow = builder_slow_setting(setting, nvlink, nic, &room);
    struct cost_pass cost = dag_pass_cost(pipeline, &slow, pass, unit, stage);
    if (faults != NULL && cost_shards_in_passes(setting)) {
        slow =
            builder_slow_setting(setting, faults_worst(faults, FAULT_NVLINK), faults_worst(faults, FAULT_NIC), &room);
        cost.shard_s = dag_pass_cost(pipeline, &slow, pass, unit, stage).shard_s;
    }
    double factor = faults_factor(faults, FAULT_GPU, gpu);
    cost.product_s *= factor;
    cost.other_s *= factor;
    cost.attention_s *= factor;
    return cost;
}

bool builder_slow(const struct builder *builder, int32_t gpu)
{
    const struct faults *faults = builder->setting->faults;
    if (!faults_any(faults))
        return false;
    if (cost_shards_in_passes(builder->setting) &&
        (faults_worst(faults, FAULT_NVLINK) > 1 || faults_worst(faults, FAULT_NIC) > 1))
        return true;
    return faults_factor(faults, FAULT_GPU, gpu) > 1 || faults_factor(faults, FAULT_NVLINK, gpu) > 1 ||
           faults_factor(faults, FAULT_NIC, gpu) > 1;
}

double builder_link_factor(const struct builder *builder, int32_t from_rank, int32_t to_rank)
{
    bool host = from_rank < 0 || to_rank < 0;
    enum cost_route route = host ? COST_PCIE : builder_route(builder, from_rank, to_rank);
    static const enum fault_kind kind[] = {
        [COST_NVLINK] = FAULT_NVLINK, [COST_NIC] = FAULT_NIC, [COST_PCIE] = FAULT_PCIE};
    const struct faults *faults = builder->setting->faults;
    double from = from_rank >= 0 ? faults_factor(faults, kind[route], from_rank) : 1;
    double to = to_rank >= 0 ? faults_factor(faults, kind[route], to_rank) : 1;
    return fmax(from, to);
}
