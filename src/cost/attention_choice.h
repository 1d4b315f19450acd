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

/** Return the kernel with least seconds, the first of equal ones. Curves of another chip do not say which kernel is the
 * fastest, so a device without curves of its own chip takes flash2. */
enum device_attention attention_choice_fastest(const struct device *device, const double seconds[DEVICE_N_CURVES]);

/** Replace `attention: fastest` by a kernel. The samples are those of iteration 0. scenario->attention_s receives their
 * seconds with any kernel, so that the resolved scenario, which names one, runs to the same results. */
void attention_choice_resolve(struct scenario *scenario, const struct lengths *lengths);

#endif
