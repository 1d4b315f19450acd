/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Tests of dag/ and bounds/ get hand-made or random plans here, and a small machine. */
#ifndef SLIMSIM_TESTS_HAND_PLAN_H
#define SLIMSIM_TESTS_HAND_PLAN_H

#include "dag/dag.h"
#include "hand_setting.h"

/** The model has 840 layers (divisible by 1..8), h = 64, f = 128, 4 heads and V = 1000. The nodes have 8 GPUs of 1
 * TFLOP/s at efficiency 1, without launches, and 1 TB/s HBM. NVLink has 200 GB/s, the NIC 50 and PCIe 25, without
 * ramps. Their latencies are 1, 2 and 4 us. */
const struct cost_setting *hand_setting(void);

/** The setting is the same on nodes of 4 GPUs. Every two nodes are one NVLink domain. */
const struct cost_setting *hand_rack_setting(void);

/** The setting is the same with heads of another width (hand_heads), or with hand_experts. */
const struct cost_setting *hand_setting_of_heads(uint64_t number);

/** Make one phase of `n_pipelines` empty pipelines of TP 1. The stages are strided as Megatron lays them out. */
void hand_plan(struct plan *plan, int32_t n_pipelines, int32_t stages, int32_t context);

/** Append a micro-batch of one slice to a cut. @return it */
struct plan_micro_batch *hand_micro_batch(struct plan_partition *partition, struct slice slice);

/** Set need[] and the order of 1F1B for all pipelines. */
void hand_order(struct plan *plan);

/** Make a hand_plan whose pipelines have one micro-batch each, a whole sample of so many tokens. It is ordered. */
void hand_whole_samples(struct plan *plan, int32_t n_pipelines, int32_t stages, int32_t tokens);

/** Make one pipeline of m micro-batches of one whole sample each. */
void hand_uniform(struct plan *plan, int32_t stages, int32_t n_micro_batches, int32_t tokens);

/** Make the plan of the paper's figure. It has 2 stages and 2 micro-batches, the first (8 tokens) in 2 slices. Its
 * order keeps the lead of one forward, as the figure does. */
void hand_figure(struct plan *plan);

/** Make the first n pipelines a phase's only group. */
void hand_group(struct plan_phase *phase, int32_t n);

/** Make random pipelines. Samples are cut into forward and backward micro-batches at different tokens. Pipelines 0 and
 * 1 share an outlier. Padding, recomputation and offload differ by micro-batch. The same seed gives the same plan. */
void hand_random(struct plan *plan, uint64_t seed);

/** Append the phases of `second` to those of `plan`. `second` is empty afterwards. */
void hand_append(struct plan *plan, struct plan *second);

/** Build the plan's graph, which the caller frees. A graph that cannot be built fails the test. */
struct dag hand_built(const struct plan *plan, const struct cost_setting *setting, struct dag_options options);

/** Give every pass its seconds and every other task none. */
void hand_times(struct dag *dag, double forward_s, double backward_s);

/** Do the same if backwards are split. */
void hand_split_times(struct dag *dag, double forward_s, double input_s, double weight_s);

/** Give every transfer so many seconds. */
void hand_send_times(struct dag *dag, double seconds);

#endif
