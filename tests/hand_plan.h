/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Plans made by hand or at random, and a small machine to run them on: for tests of dag/ and bounds/. */
#ifndef SLIMSIM_TESTS_HAND_PLAN_H
#define SLIMSIM_TESTS_HAND_PLAN_H

#include "dag/dag.h"

/**
 * A model of 840 layers (divisible by 1..8), h = 64, f = 128, 4 heads, V = 1000 on nodes of 8 GPUs. 1 TFLOP/s at
 * efficiency 1 without launches, 1 TB/s HBM; NVLink 200 GB/s, NIC 50 GB/s, PCIe 25 GB/s, without ramps; latencies 1, 2
 * and 4 us.
 */
const struct cost_setting *hand_setting(void);

/** The same with heads of another width (hand_heads). */
const struct cost_setting *hand_setting_of_heads(uint64_t number);

/** One phase of `n_pipelines` empty pipelines: TP 1, stages strided as Megatron lays them out. */
void hand_plan(struct plan *plan, int32_t n_pipelines, int32_t stages, int32_t context);

/** Append a unit of one slice to a cut. @return it */
struct plan_unit *hand_unit(struct plan_cut *cut, struct slice slice);

/** need[] and the order of 1F1B for all pipelines. */
void hand_order(struct plan *plan);

/** A hand_plan whose pipelines have one unit each, a whole sample of so many tokens, ordered. */
void hand_whole_samples(struct plan *plan, int32_t n_pipelines, int32_t stages, int32_t tokens);

/** One pipeline of m units of one whole sample each. */
void hand_uniform(struct plan *plan, int32_t stages, int32_t n_units, int32_t tokens);

/** The paper's figure: 2 stages, 2 micro-batches, the first (8 tokens) in 2 slices; its order keeps the lead
 * of one forward, as the figure does. */
void hand_figure(struct plan *plan);

/** Make the first n pipelines a phase's only group. */
void hand_group(struct plan_phase *phase, int32_t n);

/** Random pipelines: samples cut into forward and backward units at different tokens, an outlier that pipelines 0 and
 * 1 share, padding, recomputation and offload by unit. Same seed, same plan. */
void hand_random(struct plan *plan, uint64_t seed);

/** Append the phases of `second` to those of `plan`; `second` is empty then. */
void hand_append(struct plan *plan, struct plan *second);

/** Its graph, which the caller frees; one that cannot be built fails the test. */
struct dag hand_built(const struct plan *plan, const struct cost_setting *setting, struct dag_options options);

/** Give every pass its seconds and every other task none. */
void hand_times(struct dag *dag, double forward_s, double backward_s);

/** The same where backwards are split. */
void hand_split_times(struct dag *dag, double forward_s, double input_s, double weight_s);

/** Give every transfer so many seconds. */
void hand_send_times(struct dag *dag, double seconds);

#endif
