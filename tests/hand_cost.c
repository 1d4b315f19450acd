/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_cost.h"

#include <string.h>

#include "hand_model.h"

const struct device hand_device = {.peak_flop_per_s = {1},
                                   .hbm_bytes_per_s = 1,
                                   .memory_share = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5},
                                   .gemm = {{.efficiency = 0.5}},
                                   .forward = {{.efficiency = 0.25}},
                                   .backward = {{.efficiency = 0.5}},
                                   .collective = {{.latency_s = 1, .efficiency = 1}, {.latency_s = 1, .efficiency = 1}},
                                   .ring = {{.start_s = 2.5, .share = 1, .share_alone = 1}},
                                   .fabric = {.efficiency = 1},
                                   .nvlink = {.latency_s = 1, .efficiency = 1},
                                   .nic = {.latency_s = 2, .efficiency = 0.5, .ramp_bytes = 50},
                                   .pcie = {.efficiency = 1}};
const struct platform hand_links = {.n_nodes = 64,
                                    .gpus_per_node = 8,
                                    .nvlink_domain = 8,
                                    .nvlink_bytes_per_s = 10,
                                    .nic_bytes_per_s = 20,
                                    .pcie_bytes_per_s = 40};

const struct slice hand_two_slices[2] = {{.sample = 0, .begin = 0, .end = 4}, {.sample = 1, .begin = 2, .end = 6}};

const struct scenario_plan hand_toy_plan = {.tp = 2, .pp = 1, .cp = 1, .dp = 1, .vpp = 1, .sequence_parallel = true};

struct cost_setting hand_toy_setting_of(const struct scenario_plan *plan)
{
    return hand_with((struct cost_setting){.model = &hand_toy,
                                           .device = &hand_device,
                                           .platform = &hand_links,
                                           .tp_overlap = SCENARIO_EXPOSED,
                                           .attention = DEVICE_FLASH2,
                                           .tensor = 2,
                                           HAND_LAYERS(3)},
                     plan);
}

struct cost_setting hand_toy_setting(void)
{
    return hand_toy_setting_of(&hand_toy_plan);
}

struct cost_micro_batch hand_toy_micro_batch(enum recompute recompute)
{
    return (struct cost_micro_batch){
        .slices = hand_two_slices, .n_slices = 2, .padding_tokens = 2, .context = 2, .recompute = recompute};
}

double hand_gemm_s(const struct device *device, double m, double n, double k)
{
    return cost_kernel_gemm_s(device, &(struct cost_gemm){1, m, n, k, 0, PRECISION_BF16, DEVICE_SEQUENTIAL});
}

double hand_blocks_s(const struct cost_setting *setting, enum pass pass, const struct cost_micro_batch *micro_batch)
{
    struct cost_kernels kernels;
    double seconds = 0;
    cost_layer_kernels(setting, 0, pass, micro_batch, &kernels);
    for (int32_t i = 0; i < kernels.n; i++)
        if (strcmp(kernels.kernel[i].name, "attention") == 0)
            seconds += cost_n_layers(setting) * kernels.kernel[i].seconds;
    return seconds;
}
