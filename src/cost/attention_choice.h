/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file compares the attention kernels and chooses that of a scenario with `attention: fastest`. */
#ifndef SLIMSIM_COST_ATTENTION_CHOICE_H
#define SLIMSIM_COST_ATTENTION_CHOICE_H

#include "lengths/lengths.h"
#include "scenario/scenario.h"

/**
 * Compute the seconds of core attention of whole samples, forward and backward, for each kernel that has curves [s].
 * They are the samples' work in all layers on one GPU with all heads (cost_attention_least_s).
 */
void attention_choice_seconds(const struct model *model, const struct device *device, int32_t n_samples,
                              const int32_t *tokens, double seconds[DEVICE_N_CURVES]);

/*
 * Least compute capability of chips whose best kernels issue asynchronous products, as flash-attention 3 does. Source:
 * README of Dao-AILab/flash-attention, flash-attention 3 requires an H100 or H800, which have 9.0. Successors have
 * kernels of their own (flash-attention 4, cuDNN).
 */
#define ATTENTION_CHOICE_CAPABILITY 9.0

/**
 * Return the kernel with least seconds, the first of equal ones.
 *
 * 1. All kernels count if their curves were measured on the device's chip.
 * 2. All count with curves of another chip, too, from ATTENTION_CHOICE_CAPABILITY on. A curve is a share of the peak,
 *    so it scales with the chip's peak.
 * 3. Kernels that device_has_attention leaves out do not count.
 * 4. An older chip has flash2 only.
 */
enum device_attention attention_choice_fastest(const struct device *device, const double seconds[DEVICE_N_CURVES]);

/** Return whether the kernel's curves were measured on the device's chip. */
bool attention_choice_is_own(const struct scenario *scenario);

/** Return whether the kernel is that which `fastest` chooses by curves of another chip, and it is not flash2. Its rate
 * may then be anything down to that of flash2. The choice has been resolved. */
bool attention_choice_is_scaled(const struct scenario *scenario);

/** Replace `attention: fastest` by a kernel. The samples are those of iteration 0. scenario->attention_s receives their
 * seconds with any kernel, so that the resolved scenario, which names one, runs to the same results. */
void attention_choice_resolve(struct scenario *scenario, const struct lengths *lengths);

#endif
