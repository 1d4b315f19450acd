/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file computes the times of single kernels (cost/cost.h). */
#include <math.h>

#include "base/check.h"
#include "cost/kernels.h"

/** Return the waves of a grid of tiles. The last wave counts as far as other work does not fill it. */
static double waves(const struct device *device, double tiles)
{
    double even = tiles / (double)device->multiprocessors;
    return even + device->gemm.wave * (kernels_whole_above(even) - even);
}

/** Return the output positions that the multiprocessors compute. Idle positions count as far as they are lost. */
static double positions(const struct device *device, double batch, double m, double n)
{
    const double large = 128.0 * 256, small = 128.0 * 128;
    if (device->multiprocessors == 0)
        return batch * m * n;
    double rows = batch * kernels_whole_above(m / 128), columns = kernels_whole_above(n / 128);
    double wide = large * waves(device, rows * kernels_whole_above(n / 256)),
           tall = large * waves(device, batch * kernels_whole_above(m / 256) * columns);
    double square = small * (1 + device->gemm.small_tile) * waves(device, rows * columns);
    double long_tile = wide < tall ? wide : tall;
    return (square < long_tile ? square : long_tile) * (double)device->multiprocessors;
}

double cost_kernel_gemm_s(const struct device *device, const struct cost_gemm *gemm)
{
    double batch = gemm->batch, m = gemm->m, n = gemm->n, k = gemm->k;
    if (batch <= 0 || m <= 0 || n <= 0 || k <= 0)
        return 0;
    double work_s = 2 * k * positions(device, batch, m, n) / (device->peak_flop_per_s * device->gemm.efficiency);
    double copy_bytes_per_s = device->hbm_bytes_per_s * device->memory_share[DEVICE_COPY];
    double input_s = 2 * batch * (m * k + n * k) / copy_bytes_per_s, outputs = batch * m * n;
    double output_s = gemm->sum_bytes > 0 && device->gemm.sum > 0
                          ? gemm->sum_bytes * outputs / (device->hbm_bytes_per_s * device->gemm.sum)
                          : 2 * outputs / copy_bytes_per_s;
    return device->gemm.launch_s + fmax(work_s + device->gemm.epilogue * output_s, input_s + output_s);
}

double cost_gemm_s(const struct device *device, double m, double n, double k)
{
    return cost_kernel_gemm_s(device, &(struct cost_gemm){1, m, n, k, 0});
}

bool cost_gemm_outside(const struct device *device, double m, double n, double k)
{
    const struct device_gemm *gemm = &device->gemm;
    return !kernels_within(gemm->m, m) || !kernels_within(gemm->n, n) || !kernels_within(gemm->k, k);
}

static struct device_flash flash_of(const struct device *device, enum device_attention kernel, enum pass pass)
{
    enum device_attention curve = kernel == DEVICE_FLASH1 ? DEVICE_FLASH2 : kernel;
    CHECK(curve < DEVICE_N_CURVES);
    struct device_flash flash = pass == PASS_FORWARD ? device->forward[curve] : device->backward[curve];
    if (kernel == DEVICE_FLASH1)
        flash.efficiency /= 1 + device->training.flash1;
    return flash;
}

struct cost_attention_curve cost_attention_curve(const struct device *device, enum device_attention kernel,
                                                 enum pass pass, double head_dim)
{
    bool forward = pass == PASS_FORWARD;
    struct cost_attention_curve curve = {.flash = flash_of(device, kernel, pass)};
    const struct device_flash *flash = &curve.flash;
    curve.flop_s =
        (1 + flash->d_half / head_dim) / (1 + flash->d_half / 128) / (device->peak_flop_per_s * flash->efficiency);
    curve.other_half = (forward ? flash->k_half : flash->q_half) / 2; /* a mean tile of a causal sample has half of L */
    curve.tile_flop = (forward ? 4 : 10) * COST_ATTENTION_TILE * head_dim;
    curve.multiprocessors = (double)device->multiprocessors;
    return curve;
}

double cost_attention_work_s(const struct device *device, enum device_attention kernel, enum pass pass,
                             const struct cost_attention *work)
{
    struct cost_attention_curve curve = cost_attention_curve(device, kernel, pass, work->head_dim);
    return kernels_attention_work_s(&curve, work);
}

double cost_attention_kernel_s(const struct device *device, enum device_attention kernel, enum pass pass,
                               const struct cost_attention_load *load)
{
    const struct device_flash flash = flash_of(device, kernel, pass);
    double lost_s = 0, longest_s = load->tile_s;
    if (load->work_s <= 0)
        return 0;
    if (longest_s > 0 && load->tiles > 0) {
        double even = load->tiles / (double)device->multiprocessors, idle = kernels_whole_above(even) - even;
        double equal_share = fmin(1, fmax(0, 2 * load->work_s / (even * longest_s) - 1));
        lost_s = longest_s * (equal_share * idle + (1 - equal_share) * flash.tail);
        longest_s /= flash.alone > 0 ? flash.alone : 1;
    }
    return fmax(load->work_s + lost_s, longest_s) + flash.launch_s;
}

double cost_attention_s(const struct device *device, enum device_attention kernel, enum pass pass,
                        const struct cost_attention *work)
{
    struct cost_attention_curve curve = cost_attention_curve(device, kernel, pass, work->head_dim);
    struct cost_attention_load load = {0};
    kernels_attention_add(&load, &curve, work);
    return cost_attention_kernel_s(device, kernel, pass, &load);
}

double cost_memory_bound_s(const struct device *device, enum device_memory_kind kind, double bytes)
{
    return bytes > 0 ? bytes / (device->hbm_bytes_per_s * device->memory_share[kind]) + device->launch_s : 0;
}
