/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file has the time of single kernels, and lists of kernels from which a pass is summed. */
#ifndef SLIMSIM_COST_KERNEL_H
#define SLIMSIM_COST_KERNEL_H

#include "cost/slice.h"
#include "scenario/device.h"

/** Kinds of work. Each is measured, and so extrapolated, separately. */
enum cost_family { COST_GEMM, COST_ATTENTION, COST_MEMORY_BOUND, COST_COLLECTIVE, COST_N_FAMILIES };

/** `batch` matrix products of M x N x K in one kernel. sum_bytes: bytes read and written an element of the sum that
 * takes the output; 0: the output is written as an operand. */
struct cost_gemm {
    double batch, m, n, k, sum_bytes;
    enum precision precision;
    enum device_expert_gemms experts; /* DEVICE_SEQUENTIAL: it is no GEMM of experts, or one of them by itself */
};

enum { COST_ATTENTION_TILE = 128 }; /* queries of a tile, backward keys */

/**
 * FLOPs and shape of one sequence of a packed attention kernel, on this rank.
 * tile_flop: FLOPs of its longest tile. tiles: number of tiles of all the rank's heads. span: keys in whole tokens, as
 * device_flash.keys counts them.
 */
struct cost_attention {
    double flop, queries, keys, head_dim, tile_flop, tiles, span;
};

/** Sequences of one packed attention kernel: their work, the longest of all tiles, the number of tiles, and the
 * extrapolated seconds of the work. */
struct cost_attention_load {
    double work_s, tile_s, tiles, extrapolated_s;
};

/** A kernel's speed on heads of one width. */
struct cost_attention_curve {
    struct device_flash flash;
    double flop_s;                /* seconds of a FLOP if only the head's width costs efficiency */
    double tile_flop, other_half; /* FLOPs of a tile and one token of the other side; number of tokens of the other side
                                     that cost half of the efficiency */
    double multiprocessors;
};

/** One kernel on one rank, which may be a packed one of all slices. bytes: to and from HBM; 0 for attention, whose
 * curve needs none. */
struct cost_kernel {
    const char *name;
    enum cost_family family;
    double flop, bytes, seconds;
    double extrapolated_s;    /* seconds within `seconds` that are extrapolated */
    double launches;          /* kernels that the host launches for it */
    bool of_experts;          /* it is GEMMs of experts */
    bool casts;               /* it casts to fp8 */
    enum precision precision; /* of GEMMs */
};

enum { COST_MAX_KERNELS = 64 };

/** A list of kernels. With n = 0 it is empty, and the rest need not be set. */
struct cost_kernels {
    int32_t n;
    struct cost_kernel kernel[COST_MAX_KERNELS];
};

/**
 * Return the time of one kernel [s]. scenario/device.h has the source of each form.
 *
 * 1. No work takes no time.
 * 2. A GEMM takes at least the time to read and write its three matrices. A `batch` of one shape shares the kernel's
 *    waves.
 * 3. flash1 takes 1 + training.flash1 times the work of flash2.
 * 4. Speeds are those of benchmarks. training.products is not included.
 */
double cost_kernel_gemm_s(const struct device *device, const struct cost_gemm *gemm);
double cost_attention_s(const struct device *device, enum device_attention kernel, enum pass pass,
                        const struct cost_attention *work);
double cost_memory_bound_s(const struct device *device, enum device_memory_kind kind, double bytes);

struct cost_attention_curve cost_attention_curve(const struct device *device, enum device_attention kernel,
                                                 enum pass pass, double head_dim);

/** Return the seconds that one sequence adds to a packed kernel [s]. */
double cost_attention_work_s(const struct device *device, enum device_attention kernel, enum pass pass,
                             const struct cost_attention *work);

/** Return the time of a packed kernel. It is at least that of its work and that of its longest tile [s]. */
double cost_attention_kernel_s(const struct device *device, enum device_attention kernel, enum pass pass,
                               const struct cost_attention_load *load);

/** Return whether a shape lies outside the measured range. */
bool cost_gemm_extrapolates(const struct device *device, const struct cost_gemm *gemm);

/** Return the smallest whole number at or above a positive one. It is ceil without a function call. */
static inline double kernel_whole_above(double value)
{
    double below = (double)(int64_t)value;
    return below < value ? below + 1 : below;
}

/** Return whether a value lies in the measured range. */
static inline bool kernel_within(struct device_range range, double value)
{
    return range.max <= 0 || (range.min <= value && value <= range.max);
}

/** Return the seconds that one sequence adds to a packed kernel [s]. */
static inline double kernel_attention_work_s(const struct cost_attention_curve *curve,
                                             const struct cost_attention *work)
{
    if (work->flop <= 0)
        return 0;
    double shape = (1 + curve->flash.q_half / work->queries) * (1 + curve->flash.k_half / work->keys);
    return work->flop * curve->flop_s * shape;
}

/** Return the seconds of a sequence's longest tile on an otherwise idle multiprocessor [s]. */
static inline double kernel_attention_tile_s(const struct cost_attention_curve *curve,
                                             const struct cost_attention *work)
{
    if (work->tile_flop <= 0)
        return 0;
    double length = work->tile_flop / curve->tile_flop;
    return work->tile_flop * (1 + curve->other_half / length) * curve->flop_s * curve->multiprocessors;
}

/** Add one sequence to a packed kernel. It is inline because a solver adds millions. */
static inline void kernel_attention_add(struct cost_attention_load *load, const struct cost_attention_curve *curve,
                                        const struct cost_attention *work)
{
    double seconds = kernel_attention_work_s(curve, work), longest_s = kernel_attention_tile_s(curve, work);
    load->work_s += seconds;
    load->tile_s = longest_s > load->tile_s ? longest_s : load->tile_s;
    load->tiles += work->tiles;
    if (!kernel_within(curve->flash.keys, work->span) || !kernel_within(curve->flash.head_dim, work->head_dim))
        load->extrapolated_s += seconds;
}

/** Append a kernel without changes. */
void kernel_add(struct cost_kernels *kernels, struct cost_kernel kernel);

/** Append GEMMs in one kernel, at the speed that training reaches (device_training.products). */
void kernel_add_gemms(struct cost_kernels *kernels, const struct device *device, const char *name,
                      struct cost_gemm gemm);

/** Let the kernels from `first` on run n times, one after the other. */
void kernel_repeat(struct cost_kernels *kernels, int32_t first, double n);

/** Append a kernel that takes the time of its bytes. Without bytes, append nothing. */
void kernel_add_memory_bound(struct cost_kernels *kernels, const struct device *device, enum device_memory_kind kind,
                             const char *name, double bytes);

/** Return the seconds that a benchmarked GEMM takes in training. One of fewer bytes loses as many seconds as it does in
 * bf16: gaps between kernels and cold caches do not shrink with its FLOPs. */
double kernel_sustained_gemm_s(const struct device *device, const struct cost_gemm *gemm);

/** Return the seconds that benchmarked tensor-core work takes in training. */
double kernel_sustained_s(const struct device *device, double seconds);

#endif
