/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What no plan of a layout can beat, known before the system plans. */
#ifndef SLIMSIM_SEARCH_BOUND_H
#define SLIMSIM_SEARCH_BOUND_H

#include "system/system.h"

struct bound {
    double time_s;     /* no plan's critical path is shorter */
    double peak_bytes; /* no plan's largest memory of a rank is smaller */
};

/**
 * What follows the last pass of all at least [s]: the stage that runs it reduces its gradients, after the norm of all
 * an optimizer's step, and the gathering of its parameters; each for the stage of least parameters, all its chunks, the
 * rings alone on their links with as many members on a node as is fastest, but for those that dp_overlap lets passes
 * hide and that zero2 and zero3 have inside passes.
 *
 * @param setting  of one virtual stage, as request_setting has it
 */
double bound_after_passes_s(const struct cost_setting *setting, const struct scenario_plan *layout);

/**
 * Bounds of a layout whose states all DP x CP ranks share, on one batch. Below, a stage is all chunks of a rank
 * (plan.vpp): their passes are a stage's in parts, one after the other on its compute stream, and what a pass takes is
 * linear in its layers or more.
 *
 * TIME. W, the seconds of the compute streams of all places (dag/dag.h) together, is at least the sum of
 *   - GEMMs: FLOPs / (peak x efficiency). A tile of a GEMM does no more (scenario/device.h: waves are never less than
 *     tiles / multiprocessors, slowdown is at least 1), and FLOPs of the parts of a batch add up to the batch's.
 *   - memory-bound kernels: bytes / bandwidth, without launches; bytes are linear in tokens, so they add up.
 *   - tensor-parallel collectives of layers that tp_overlap hides under no GEMM (cost/overlap.h), of one message of all
 *     tokens: their seconds are concave in the bytes and not negative at 0, hence subadditive: no way to divide the
 *     tokens takes less.
 *   - attention, sample by sample: FLOPs of slices add up to the sample's; a slice [a, b) of a sample of L tokens
 *     enters with queries (b - a)(a + b + 1)/b <= L + 1 and keys a + b + 1 <= 2L + 1, over the context degree, in the
 *     blocks of other ranks of a ring with 2(b - a) queries, which are not divided where documents are whole on a rank
 *     (cost_of_pass); and seconds a FLOP fall with both. So each FLOP takes at least what it takes at 2L + 1 keys and
 *     L + 1 queries, with a ring 2L. Tails, longest tiles and launches are left out. Every rank of a contiguous ring
 *     takes the seconds of the last one, which computes more than an even share (cost/attention.h): that only adds.
 *   - full recomputation: the forward of the layers that recompute, once more. Selective: left out, and all of it
 *     if the system decides recomputation itself.
 *
 * A unit with context degree c divides tokens by c and has c ranks: the sums above do not change. Padding, rings, zero
 * and waiting only add. The work of a stage falls on DP x CP places, and only on those: one of the last stage's (layers
 * and head) is busy for at least their mean, and none of that can overlap. If the system tells which ranks share a
 * sample (training_system.shares), the same holds for the CP places of each rank and its share of the work alone; a
 * message of a rank's tokens takes at least their part of what one of all tokens takes, again by concavity. The most
 * loaded rank counts. The plan has the shares of one of the system's variants, so it takes no less than the least of
 * their bounds. What follows the last pass is added.
 *
 * If the system keeps samples whole: the longest sample runs through all stages and back, one after the other, in a
 * unit that takes at least what it takes alone with the layout's CP: every term of cost_of_pass grows with slices and
 * padding but the end of attention's kernel, which others may shorten, so of attention its work alone is taken
 * (cost_attention_least_s; work adds up). Attention that a list of outputs repeats is left out.
 *
 * MEMORY. States of a rank stand throughout, but for gradients that are freed, which stand at least before the
 * optimizer and may be missing at any other time; there is the larger of all states alone and of the following with the
 * others. A system that keeps samples whole: when the forward pass of the longest sample starts, its activations are
 * there (what goes to the host goes afterwards; but on one stage it streams and is never there) with the workspace, and
 * on the last stage the logits; the unit may hold more, never less. With chunks that is so when the last of them
 * starts: none of them has run backward, though what goes to the host may have gone. Any other system: the backward of
 * a sample starts when all its slices have run forward (plan/plan.h), so at that moment the activations of all its
 * tokens are there but for what is offloaded, divided over at most DP x CP ranks, or the ranks that share the sample.
 * If the system decides itself what it offloads, that may be all, and states alone are left. If it decides
 * recomputation: what needs least of all.
 *
 * A system that keeps a state may leave any sample of the batch to later iterations and run others, none longer than
 * the context. TIME is then of as much work as the batch has: that of the iteration over the share of the batch's model
 * FLOPs that ran (search/search.h). Each sample takes at least its FLOPs times the least seconds a FLOP of all samples
 * up to the context, in the largest message of all; so passes take no less than the batch's FLOPs times that, whatever
 * runs. Keys and values that all context ranks gather before attention (cp_type all-gather) add up like TP's
 * collectives. What follows the last pass is over the largest share. Where it runs phases in layouts of its own nothing
 * of passes is known. Of MEMORY the states are left.
 *
 * @param most_work_share  of a system with a state: FLOPs of all samples so far over the batch's; else 1
 */
struct bound bound_of(const struct training_system *system, const struct plan_request *asked, double most_work_share);

#endif
