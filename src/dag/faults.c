/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file computes the costs of passes and links with faults (docs/model/simulation.md, "The task graph"), and of
 * replayed passes. */
#include "dag/builder.h"

#include <math.h>

struct cost_setting builder_faulty_setting(const struct cost_setting *setting, double nvlink, double nic,
                                           struct platform *room)
{
    struct cost_setting faulty = *setting;
    *room = *setting->platform;
    room->nvlink_bytes_per_s /= nvlink;
    room->nic_bytes_per_s /= nic;
    faulty.platform = room;
    faulty.cache = NULL; /* the cache identifies a platform by its pointer */
    return faulty;
}

/* Factors by which kernels and links of some GPUs are slower than sound ones. */
struct fault_factors {
    double gpu, nvlink, nic;
};

/* Return the largest factors of `n` GPUs in a pass, beginning with `gpu`. */
static struct fault_factors fault_factors_of(const struct faults *faults, enum pass pass, int32_t gpu, int32_t n)
{
    struct fault_factors factors = {1, 1, 1};
    for (int32_t i = gpu; i < gpu + n; i++) {
        factors.gpu = fmax(factors.gpu, faults_pass_factor(faults, pass != PASS_FORWARD, i));
        factors.nvlink = fmax(factors.nvlink, faults_factor(faults, FAULT_NVLINK, i));
        factors.nic = fmax(factors.nic, faults_factor(faults, FAULT_NIC, i));
    }
    return factors;
}

/* Return a device whose kernels take `factor` times as long, to rounding: each is work over a rate, and a launch. */
static struct device faulty_device(const struct device *device, double factor)
{
    struct device faulty = *device;
    for (int i = 0; i < PRECISION_N_GEMM; i++) {
        faulty.peak_flop_per_s[i] /= factor;
        faulty.gemm[i].launch_s *= factor;
    }
    faulty.hbm_bytes_per_s /= factor;
    faulty.launch_s *= factor;
    for (int i = 0; i < DEVICE_N_CURVES; i++) {
        faulty.forward[i].launch_s *= factor;
        faulty.backward[i].launch_s *= factor;
    }
    return faulty;
}

static struct cost_pass faulty_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                                         enum pass pass, int32_t micro_batch, int32_t stage,
                                         struct fault_factors factors)
{
    struct platform room, shards_room;
    const struct faults *faults = setting->faults;
    struct device device = faulty_device(setting->device, factors.gpu);
    struct cost_setting faulty = builder_faulty_setting(setting, factors.nvlink, factors.nic, &room);
    (void)builder_faulty_setting(setting, faults_worst(faults, FAULT_NVLINK), faults_worst(faults, FAULT_NIC),
                                 &shards_room);
    faulty.device = &device;
    faulty.shards_platform = &shards_room;
    return dag_pass_cost(pipeline, &faulty, pass, micro_batch, stage);
}

/* Return a pass with the seconds of the replay. They cover all that a pass does, on the slowest GPU of its TP group. */
static struct cost_pass replayed_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                                      enum pass pass, int32_t micro_batch, int32_t stage, double factor)
{
    const struct replay_step *replay = setting->replay;
    const struct plan_layout *layout = &pipeline->layout;
    struct cost_pass cost = dag_pass_cost(pipeline, setting, pass, micro_batch, stage);
    int32_t rank = layout->first_rank / (layout->context * layout->tensor);
    return (struct cost_pass){.flop = cost.flop,
                              .kernels_s = factor * replay_s(replay, pass != PASS_FORWARD, rank, stage, micro_batch),
                              .boundary_bytes = replay->modelled ? cost.boundary_bytes : 0};
}

/* Let the kernels of a pass take `factor` times as long. */
static void stretch(struct cost_pass *cost, double factor)
{
    cost->kernels_s *= factor;
    cost->product_s *= factor;
    cost->attention_s *= factor;
}

struct cost_pass dag_gpu_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                                   enum pass pass, int32_t micro_batch, int32_t stage, int32_t gpu)
{
    int32_t tensor = pipeline->layout.tensor;
    struct fault_factors gpu_factors = fault_factors_of(setting->faults, pass, gpu, 1),
                         group = fault_factors_of(setting->faults, pass, gpu / tensor * tensor, tensor);
    if (setting->replay != NULL)
        return replayed_cost(pipeline, setting, pass, micro_batch, stage, group.gpu);
    struct cost_pass cost = setting->faults != NULL
                                ? faulty_pass_cost(pipeline, setting, pass, micro_batch, stage, gpu_factors)
                                : dag_pass_cost(pipeline, setting, pass, micro_batch, stage);
    if (gpu_factors.gpu < group.gpu || gpu_factors.nvlink < group.nvlink || gpu_factors.nic < group.nic)
        cost.tensor_s = faulty_pass_cost(pipeline, setting, pass, micro_batch, stage, group).tensor_s;
    if (setting->jitter != NULL)
        stretch(&cost, jitter_factor(setting->jitter, pass != PASS_FORWARD, gpu / tensor * tensor, stage, micro_batch));
    return cost;
}

bool builder_has_faults(const struct builder *builder, int32_t gpu)
{
    const struct faults *faults = builder->setting->faults;
    if (builder->setting->replay != NULL || builder->setting->jitter != NULL)
        return true;
    if (!faults_any(faults))
        return false;
    if ((cost_shards_in_passes(builder->setting) || builder->setting->staged) &&
        (faults_worst(faults, FAULT_NVLINK) > 1 || faults_worst(faults, FAULT_NIC) > 1))
        return true;
    return faults_pass_factor(faults, false, gpu) > 1 || faults_pass_factor(faults, true, gpu) > 1 ||
           faults_factor(faults, FAULT_NVLINK, gpu) > 1 || faults_factor(faults, FAULT_NIC, gpu) > 1;
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
