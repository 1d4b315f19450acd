/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/kernel.h"

#include <math.h>

#include "base/check.h"

void kernel_add(struct cost_kernels *kernels, struct cost_kernel kernel)
{
    CHECK(kernels->n < COST_MAX_KERNELS);
    kernels->kernel[kernels->n++] = kernel;
}

double kernel_sustained_s(const struct device *device, double seconds)
{
    return seconds * (1 + device->training.products);
}

void kernel_add_gemms(struct cost_kernels *kernels, const struct device *device, const char *name,
                      struct cost_gemm gemm)
{
    double m = gemm.m, n = gemm.n, k = gemm.k, operand_bytes = precision_bytes(gemm.precision);
    double output_bytes = gemm.sum_bytes > 0 ? gemm.sum_bytes : precision_bytes(PRECISION_BF16);
    double seconds = kernel_sustained_gemm_s(device, &gemm);
    kernel_add(kernels,
               (struct cost_kernel){.name = name,
                                    .family = COST_GEMM,
                                    .launches = 1,
                                    .flop = 2 * gemm.batch * m * n * k,
                                    .bytes = gemm.batch * (output_bytes * m * n + operand_bytes * (m * k + n * k)),
                                    .seconds = seconds,
                                    .extrapolated_s = cost_gemm_extrapolates(device, &gemm) ? seconds : 0});
}

void kernel_repeat(struct cost_kernels *kernels, int32_t first, double n)
{
    for (int32_t i = first; n != 1 && i < kernels->n; i++) {
        struct cost_kernel *kernel = &kernels->kernel[i];
        kernel->flop *= n;
        kernel->bytes *= n;
        kernel->seconds *= n;
        kernel->extrapolated_s *= n;
        kernel->launches *= n;
    }
}

void kernel_add_memory_bound(struct cost_kernels *kernels, const struct device *device, enum device_memory_kind kind,
                             const char *name, double bytes)
{
    struct device_range range = device->memory_range;
    struct cost_kernel kernel = {.name = name,
                                 .family = COST_MEMORY_BOUND,
                                 .launches = 1,
                                 .bytes = bytes,
                                 .seconds = cost_memory_bound_s(device, kind, bytes)};
    kernel.extrapolated_s = range.max > 0 && (bytes < range.min || bytes > range.max) ? kernel.seconds : 0;
    if (bytes > 0)
        kernel_add(kernels, kernel);
}

/** Return the waves of a grid of tiles. The last wave counts as far as other work does not fill it. */
static double waves(const struct device *device, const struct device_gemm *curve, double tiles)
{
    double even = tiles / (double)device->multiprocessors;
    return even + curve->wave * (kernel_whole_above(even) - even);
}

/** Return the output positions that the multiprocessors compute. Idle positions count as far as they are lost. */
static double positions(const struct device *device, const struct device_gemm *curve, double batch, double m, double n)
{
    const double large = 128.0 * 256, small = 128.0 * 128;
    if (device->multiprocessors == 0)
        return batch * m * n;
    double rows = batch * kernel_whole_above(m / 128), columns = kernel_whole_above(n / 128);
    double wide = large * waves(device, curve, rows * kernel_whole_above(n / 256)),
           tall = large * waves(device, curve, batch * kernel_whole_above(m / 256) * columns);
    double square = small * (1 + curve->small_tile) * waves(device, curve, rows * columns);
    double long_tile = wide < tall ? wide : tall;
    return (square < long_tile ? square : long_tile) * (double)device->multiprocessors;
}

/** Return the curve of a GEMM, and the share of the memory's bandwidth of its operands. */
static struct device_gemm gemm_curve(const struct device *device, const struct cost_gemm *gemm, double *memory)
{
    const struct device_expert_curve *experts = &device->experts.gemm[gemm->experts];
    struct device_gemm curve = device->gemm[gemm->precision];
    curve.efficiency *= experts->efficiency > 0 ? experts->efficiency : 1;
    curve.launch_s = experts->launch_s > 0 ? experts->launch_s : curve.launch_s;
    curve.epilogue = experts->epilogue > 0 ? experts->epilogue : curve.epilogue;
    *memory = experts->memory > 0 ? experts->memory : device->memory_share[DEVICE_COPY];
    return curve;
}

double cost_kernel_gemm_s(const struct device *device, const struct cost_gemm *gemm)
{
    double memory;
    const struct device_gemm curve = gemm_curve(device, gemm, &memory);
    double batch = gemm->batch, m = gemm->m, n = gemm->n, k = gemm->k, bytes = precision_bytes(gemm->precision);
    if (batch <= 0 || m <= 0 || n <= 0 || k <= 0)
        return 0;
    double peak_flop_per_s = device->peak_flop_per_s[gemm->precision];
    double work_s = 2 * k * positions(device, &curve, batch, m, n) / (peak_flop_per_s * curve.efficiency);
    double copy_bytes_per_s = device->hbm_bytes_per_s * memory;
    double input_s = bytes * batch * (m * k + n * k) / copy_bytes_per_s, outputs = batch * m * n;
    double output_s = gemm->sum_bytes > 0 && curve.sum > 0
                          ? gemm->sum_bytes * outputs / (device->hbm_bytes_per_s * curve.sum)
                          : precision_bytes(PRECISION_BF16) * outputs / copy_bytes_per_s;
    return curve.launch_s + fmax(work_s + curve.epilogue * output_s, input_s + output_s);
}

double kernel_sustained_gemm_s(const struct device *device, const struct cost_gemm *gemm)
{
    double seconds = cost_kernel_gemm_s(device, gemm);
    struct cost_gemm wide = *gemm;
    wide.precision = PRECISION_BF16;
    return gemm->precision == PRECISION_BF16 ? kernel_sustained_s(device, seconds)
                                             : seconds + kernel_sustained_s(device, cost_kernel_gemm_s(device, &wide)) -
                                                   cost_kernel_gemm_s(device, &wide);
}

bool cost_gemm_extrapolates(const struct device *device, const struct cost_gemm *gemm)
{
    const struct device_gemm *curve = &device->gemm[gemm->precision];
    return !kernel_within(curve->m, gemm->m) || !kernel_within(curve->n, gemm->n) || !kernel_within(curve->k, gemm->k);
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
    curve.flop_s = (1 + flash->d_half / head_dim) / (1 + flash->d_half / 128) /
                   (device->peak_flop_per_s[PRECISION_BF16] * flash->efficiency);
    curve.other_half = (forward ? flash->k_half : flash->q_half) / 2; /* a mean tile of a causal sample has half of L */
    curve.tile_flop = (forward ? 4 : 10) * COST_ATTENTION_TILE * head_dim;
    curve.multiprocessors = (double)device->multiprocessors;
    return curve;
}

double cost_attention_work_s(const struct device *device, enum device_attention kernel, enum pass pass,
                             const struct cost_attention *work)
{
    struct cost_attention_curve curve = cost_attention_curve(device, kernel, pass, work->head_dim);
    return kernel_attention_work_s(&curve, work);
}

double cost_attention_kernel_s(const struct device *device, enum device_attention kernel, enum pass pass,
                               const struct cost_attention_load *load)
{
    const struct device_flash flash = flash_of(device, kernel, pass);
    double lost_s = 0, longest_s = load->tile_s;
    if (load->work_s <= 0)
        return 0;
    if (longest_s > 0 && load->tiles > 0) {
        double even = load->tiles / (double)device->multiprocessors, idle = kernel_whole_above(even) - even;
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
    kernel_attention_add(&load, &curve, work);
    return cost_attention_kernel_s(device, kernel, pass, &load);
}

double cost_memory_bound_s(const struct device *device, enum device_memory_kind kind, double bytes)
{
    double share = device->memory_share[kind] > 0 ? device->memory_share[kind] : device->memory_share[DEVICE_COPY];
    return bytes > 0 ? bytes / (device->hbm_bytes_per_s * share) + device->launch_s : 0;
}
