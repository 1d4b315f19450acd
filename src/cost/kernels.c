/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/kernels.h"

#include "base/check.h"

void kernels_add(struct cost_kernels *kernels, struct cost_kernel kernel)
{
    CHECK(kernels->n < COST_MAX_KERNELS);
    kernels->kernel[kernels->n++] = kernel;
}

double kernels_sustained_s(const struct device *device, double seconds)
{
    return seconds * (1 + device->training.products);
}

void kernels_add_gemms(struct cost_kernels *kernels, const struct device *device, const char *name,
                       struct cost_gemm gemm)
{
    double m = gemm.m, n = gemm.n, k = gemm.k, output_bytes = gemm.sum_bytes > 0 ? gemm.sum_bytes : 2;
    double seconds = kernels_sustained_s(device, cost_kernel_gemm_s(device, &gemm));
    kernels_add(kernels, (struct cost_kernel){.name = name,
                                              .family = COST_GEMM,
                                              .flop = 2 * gemm.batch * m * n * k,
                                              .bytes = gemm.batch * (output_bytes * m * n + 2 * (m * k + n * k)),
                                              .seconds = seconds,
                                              .outside_s = cost_gemm_outside(device, m, n, k) ? seconds : 0});
}

void kernels_add_gemm(struct cost_kernels *kernels, const struct device *device, const char *name, double m, double n,
                      double k)
{
    kernels_add_gemms(kernels, device, name, (struct cost_gemm){1, m, n, k, 0});
}

void kernels_add_memory_bound(struct cost_kernels *kernels, const struct device *device, enum device_memory_kind kind,
                              const char *name, double bytes)
{
    struct device_range range = device->memory_range;
    struct cost_kernel kernel = {
        .name = name, .family = COST_MEMORY_BOUND, .bytes = bytes, .seconds = cost_memory_bound_s(device, kind, bytes)};
    kernel.outside_s = range.max > 0 && (bytes < range.min || bytes > range.max) ? kernel.seconds : 0;
    if (bytes > 0)
        kernels_add(kernels, kernel);
}
