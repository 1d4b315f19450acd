/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file says what faults do to costs (docs/model.md, "The task graph"). */
#include "dag/builder.h"

#include <math.h>

struct cost_setting builder_faulty_setting(const struct cost_setting *setting, double nvlink, double nic,
                                           struct platform *room)
{
    struct cost_setting slow = *setting;
    *room = *setting->platform;
    room->nvlink_bytes_per_s /= nvlink;
    room->nic_bytes_per_s /= nic;
    slow.platform = room;
    slow.cache = NULL; /* the cache identifies a platform by its pointer */
    return slow;
}

/* Factors by which kernels and links of some GPUs are slower than sound ones. */
struct slowness {
    double gpu, nvlink, nic;
};

/* Return the largest factors of `n` GPUs, beginning with `gpu`. */
static struct slowness slowness_of(const struct faults *faults, int32_t gpu, int32_t n)
{
    struct slowness slow = {1, 1, 1};
    for (int32_t i = gpu; i < gpu + n; i++) {
        slow.gpu = fmax(slow.gpu, faults_factor(faults, FAULT_GPU, i));
        slow.nvlink = fmax(slow.nvlink, faults_factor(faults, FAULT_NVLINK, i));
        slow.nic = fmax(slow.nic, faults_factor(faults, FAULT_NIC, i));
    }
    return slow;
}

/* Return a device whose kernels take `factor` times as long, to rounding: each is work over a rate, and a launch. */
static struct device slow_device(const struct device *device, double factor)
{
    struct device slow = *device;
    slow.peak_flop_per_s /= factor;
    slow.hbm_bytes_per_s /= factor;
    slow.launch_s *= factor;
    slow.gemm.launch_s *= factor;
    for (int i = 0; i < DEVICE_N_CURVES; i++) {
        slow.forward[i].launch_s *= factor;
        slow.backward[i].launch_s *= factor;
    }
    return slow;
}

static struct cost_pass slow_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                                       enum pass pass, int32_t unit, int32_t stage, struct slowness slow)
{
    struct platform room, shards_room;
    const struct faults *faults = setting->faults;
    struct device device = slow_device(setting->device, slow.gpu);
    struct cost_setting own = builder_faulty_setting(setting, slow.nvlink, slow.nic, &room);
    (void)builder_faulty_setting(setting, faults_worst(faults, FAULT_NVLINK), faults_worst(faults, FAULT_NIC),
                                 &shards_room);
    own.device = &device;
    own.shards_platform = &shards_room;
    return dag_pass_cost(pipeline, &own, pass, unit, stage);
}

struct cost_pass dag_gpu_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                                   enum pass pass, int32_t unit, int32_t stage, int32_t gpu)
{
    int32_t tensor = pipeline->layout.tensor;
    struct slowness own = slowness_of(setting->faults, gpu, 1),
                    group = slowness_of(setting->faults, gpu / tensor * tensor, tensor);
    struct cost_pass cost = slow_pass_cost(pipeline, setting, pass, unit, stage, own);
    if (own.gpu < group.gpu || own.nvlink < group.nvlink || own.nic < group.nic)
        cost.tensor_s = slow_pass_cost(pipeline, setting, pass, unit, stage, group).tensor_s;
    return cost;
}

bool builder_has_faults(const struct builder *builder, int32_t gpu)
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
