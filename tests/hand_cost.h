/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A small model on a device of round numbers lets tests of cost/ count seconds by hand. */
#ifndef SLIMSIM_TESTS_HAND_COST_H
#define SLIMSIM_TESTS_HAND_COST_H

#include "cost/attention.h"
#include "cost/communication.h"
#include "cost/pass.h"
#include "hand_setting.h"

/** The device computes 1 FLOP/s and moves 1 B/s. GEMMs take 2 s a FLOP. Attention takes 4 s a FLOP forward and 2
 * backward. Memory takes 2 s a byte. Messages take 1 s and 0.1 s a byte. */
extern const struct device hand_device;

/** The platform has nodes of 8 GPUs. NVLink has 10 B/s, the NIC 20 and PCIe 40. */
extern const struct platform hand_links;

/** TP 2 with sequence parallelism. */
extern const struct scenario_plan hand_toy_plan;

/** Make a setting of hand_toy on three layers. The first function takes a plan, the second takes hand_toy_plan. */
struct cost_setting hand_toy_setting_of(const struct scenario_plan *plan);
struct cost_setting hand_toy_setting(void);

/** Tokens [0, 4) of one sample and [2, 6) of another. */
extern const struct slice hand_two_slices[2];

/** Make a micro-batch of these two slices and 2 tokens of padding on two context ranks. */
struct cost_micro_batch hand_toy_micro_batch(enum recompute recompute);

/** Return the time of one product without a sum [s]. */
double hand_gemm_s(const struct device *device, double m, double n, double k);

/** Add the seconds of attention in all layers without the copies and sums of a ring [s]. */
double hand_blocks_s(const struct cost_setting *setting, enum pass pass, const struct cost_micro_batch *micro_batch);

#endif
