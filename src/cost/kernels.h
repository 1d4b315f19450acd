/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These functions build the lists of kernels from which a pass is summed. */
#ifndef SLIMSIM_COST_KERNELS_H
#define SLIMSIM_COST_KERNELS_H

#include "cost/cost.h"

/** Return the smallest whole number at or above a positive one. It is ceil without a function call. */
static inline double kernels_whole_above(double value)
{
    double below = (double)(int64_t)value;
    return below < value ? below + 1 : below;
}

/** Return whether a value lies in the measured range. */
static inline bool kernels_within(struct device_range range, double value)
{
    return range.max <= 0 || (range.min <= value && value <= range.max);
}

/** Return the seconds that one sequence adds to a packed kernel [s]. */
static inline double kernels_attention_work_s(const struct cost_attention_curve *curve,
                                              const struct cost_attention *work)
{
    if (work->flop <= 0)
        return 0;
    double shape = (1 + curve->flash.q_half / work->queries) * (1 + curve->flash.k_half / work->keys);
    return work->flop * curve->flop_s * shape;
}

/** Return the seconds of a sequence's longest tile on an otherwise idle multiprocessor [s]. */
static inline double kernels_attention_tile_s(const struct cost_attention_curve *curve,
                                              const struct cost_attention *work)
{
    if (work->tile_flop <= 0)
        return 0;
    double length = work->tile_flop / curve->tile_flop;
    return work->tile_flop * (1 + curve->other_half / length) * curve->flop_s * curve->multiprocessors;
}

/** Add one sequence to a packed kernel. It is inline because a solver adds millions. */
static inline void kernels_attention_add(struct cost_attention_load *load, const struct cost_attention_curve *curve,
                                         const struct cost_attention *work)
{
    double seconds = kernels_attention_work_s(curve, work), longest_s = kernels_attention_tile_s(curve, work);
    load->work_s += seconds;
    load->tile_s = longest_s > load->tile_s ? longest_s : load->tile_s;
    load->tiles += work->tiles;
    if (!kernels_within(curve->flash.keys, work->span) || !kernels_within(curve->flash.head_dim, work->head_dim))
        load->outside_s += seconds;
}

/** Append a kernel without changes. */
void kernels_add(struct cost_kernels *kernels, struct cost_kernel kernel);

/** Append GEMMs in one kernel, at the speed that training reaches (device_training.products). kernels_add_gemm
 * appends one GEMM without a sum. */
void kernels_add_gemms(struct cost_kernels *kernels, const struct device *device, const char *name,
                       struct cost_gemm gemm);
void kernels_add_gemm(struct cost_kernels *kernels, const struct device *device, const char *name, double m, double n,
                      double k);

/** Append a kernel that takes the time of its bytes. Without bytes, append nothing. */
void kernels_add_memory_bound(struct cost_kernels *kernels, const struct device *device, enum device_memory_kind kind,
                              const char *name, double bytes);

/** Return the seconds that benchmarked tensor-core work takes in training. */
double kernels_sustained_s(const struct device *device, double seconds);

#endif
