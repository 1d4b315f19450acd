/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/cost.h"

double cost_gemm_s(const struct device *device, double m, double n, double k)
{
    const struct device_gemm *gemm = &device->gemm;
    if (m <= 0 || n <= 0 || k <= 0)
        return 0;
    double shape = 1 + gemm->m_half / m + gemm->n_half / n + gemm->k_half / k;
    return 2 * m * n * k / (device->peak_flop_per_s * gemm->efficiency) * shape + device->launch_s;
}

double cost_attention_work_s(const struct device *device, enum device_attention kernel, enum pass pass,
                             const struct cost_attention *work)
{
    const struct device_flash *flash = pass == PASS_FORWARD ? &device->forward[kernel] : &device->backward[kernel];
    if (work->flop <= 0)
        return 0;
    double shape = 1 + flash->q_half / work->queries + flash->k_half / work->keys + flash->d_half / work->head_dim;
    return work->flop / (device->peak_flop_per_s * flash->efficiency) * shape;
}

double cost_attention_s(const struct device *device, enum device_attention kernel, enum pass pass,
                        const struct cost_attention *work)
{
    return work->flop > 0 ? cost_attention_work_s(device, kernel, pass, work) + device->launch_s : 0;
}

double cost_memory_bound_s(const struct device *device, double bytes)
{
    return bytes > 0 ? bytes / (device->hbm_bytes_per_s * device->memory_bound_share) + device->launch_s : 0;
}

double cost_optimizer_s(const struct device *device, enum scenario_gradients gradients, double parameters)
{
    double read = cost_gradient_bytes(gradients) + 4 + 4 + 4; /* gradient, master weight, two moments */
    double written = 4 + 4 + 4 + 2;                           /* the latter and the bf16 weight */
    return cost_memory_bound_s(device, parameters * (read + written));
}
