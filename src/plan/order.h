/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file builds orders of steps for any training system. docs/model/simulation.md, Proofs about step orders, has
 * the proofs. */
#ifndef SLIMSIM_PLAN_ORDER_H
#define SLIMSIM_PLAN_ORDER_H

#include "plan/plan.h"

/**
 * Most forwards beyond plain 1F1B's that are kept ahead of a backward when no backward needs them. n(j) is the number
 * of forwards that the last stage runs before backward j, n(-1) = 0. With a lead of at most L it is max(need(j),
 * n(j-1), min(n(j-1)+1, j+1+L)). Any L from 0 on is allowed.
 */
enum {
    ORDER_JUST_IN_TIME = 0,       /* inject when needed, let the lead shrink again: n(j) = max(j+1, need(j), n(j-1)) */
    ORDER_PERSISTENT = INT32_MAX, /* keep the lead: n(j) = max(n(j-1)+1, need(j)) */
};

/**
 * Order m micro-batches by 1F1B. Reads need[] and the partitions' n_micro_batches; replaces step_first and steps.
 *
 * 1. Stage s of p runs min(m, n(j) + p-1-s) forwards before backward j. `most` gives n(j).
 * 2. If backward j needs forward j only, need(j) = j+1. This is plain 1F1B: p-1-s warm-up forwards, then one forward,
 *    one backward.
 * 3. Forwards that no backward needs come last.
 * 4. Pipelines that share micro-batches cannot wait for each other in a circle under two conditions. Every shared
 * micro-batch has the same number in all its pipelines. All micro-batches before a shared one are shared by the same
 * pipelines or more.
 *
 * Source: Narayanan et al. 2021 (arXiv:2104.04473) section 2.2; SlimPack section 4.2.
 */
void order_one_f_one_b(struct plan_pipeline *pipeline, int32_t most);

/** Return the forwards beyond plain 1F1B's that the last stage must have run before some backward: max(need(j) -
 * (j+1)), at least 0. */
int32_t order_lead(const struct plan_pipeline *pipeline);

/**
 * Order micro-batches by 1F1B without injected forwards. Its warm-up is long enough for all: n(j) = j+1 + lead.
 * Otherwise it equals order_one_f_one_b.
 *
 * `lead` is at least order_lead of the pipeline. It must be equal in pipelines that share micro-batches.
 */
void order_long_warm_up(struct plan_pipeline *pipeline, int32_t lead);

/** Return n(j) of both orders before any cap. It counts the forwards that the last of p stages has run before
 * backward j, of all forwards. Stage s runs p-1-s more. Caps apply to both, and this gives the whole order. The
 * caller frees the result. */
int32_t *order_leads(const struct plan_pipeline *pipeline, int32_t most);
int32_t *order_long_leads(const struct plan_pipeline *pipeline, int32_t lead);

/**
 * Order micro-batches by 1F1B in step. Stage s of p runs n(j) + 2(p-1-s) forwards before backward j, with n(j) of
 * ORDER_PERSISTENT. With passes of one length on all stages, all run a forward and then all run a backward. It takes as
 * long as 1F1B; stage s holds p-1-s micro-batches more.
 *
 * @param ahead  receives n(j) of each backward micro-batch, or NULL
 */
void order_in_step(struct plan_pipeline *pipeline, int32_t *ahead);

/** Return the ticks of order_in_step, in each of which all stages run a forward and then all run a backward. */
int32_t order_n_ticks(const struct plan_pipeline *pipeline, const int32_t *ahead);

/**
 * Fill in the micro-batch that each stage runs in a tick, -1: none. Stage s runs forward micro-batch tick - s, and
 * backward j with n(j) = tick + 1 + s - 2(p-1).
 * @return  number of stages that run one
 */
int32_t order_tick(const struct plan_pipeline *pipeline, const int32_t *ahead, int32_t tick, enum pass pass,
                   int32_t *micro_batch);

/**
 * Order micro-batches by DynaPipe's adaptive schedule. The partitions must have equal micro-batches.
 *
 * 1. In each cycle every stage runs at most one backward and then one forward.
 * 2. It is the lowest micro-batch whose neighbour ran it in an earlier cycle. On the last stage its forward must have
 * run in an earlier cycle.
 * 3. A forward waits while the micro-batches that the stage holds and this one exceed the limit. It does not wait on a
 * stage that holds none, so every micro-batch runs.
 * 4. The order is kept without the cycles.
 *
 * @param size   size of each micro-batch, in the unit of `limit`
 * Source: Jiang et al. 2024 (arXiv:2311.10418), section 5.
 */
void order_adaptive(struct plan_pipeline *pipeline, const double *size, double limit);

/**
 * Order micro-batches by 1F1B over slots.
 *
 * 1. Micro-batch u, forward and backward (need[u] = u + 1), has slot[u], ascending.
 * 2. On stage s of p the forward of slot t runs before the backward of slot u if t <= u + p-1-s. This is 1F1B of a
 *    pipeline with a micro-batch in every slot. Slots 0, 1, 2, ... give order_one_f_one_b.
 * 3. Pipelines that share micro-batches cannot wait for each other in a circle if a shared micro-batch has one slot in
 * all of them. This holds for any groups.
 */
void order_slots(struct plan_pipeline *pipeline, const int32_t *slot);

/**
 * Order micro-batches by interleaved 1F1B over p stages of v chunks, as Megatron-LM does. Replaces step_first and
 * steps. The partitions must have equal micro-batches, m each, and p must divide m.
 *
 * 1. Forwards go p micro-batches by p micro-batches through chunk 0, then through chunk 1 and so on. Backwards do the
 * same from the last chunk down.
 * 2. Stage s first runs min(m v, 2(p-1-s) + (v-1) p) forwards of a chunk. Then one forward and one backward alternate.
 *
 * With passes of f and b seconds for all chunks and a free network it takes (m + (p-1)/v)(f + b). Bubbles are (p-1)/(v
 * m) of the work.
 *
 * Source: Narayanan et al. 2021 (arXiv:2104.04473) section 2.3.
 */
void order_interleaved(struct plan_pipeline *pipeline);

/**
 * Order micro-batches by GPipe: all forwards, then all backwards, each in the order of its partition. Replaces
 * step_first and steps. Call slicing_mirror first, as GPipe does: then the micro-batch that ran forward last comes back
 * first.
 *
 * With passes of f and b seconds and a free network it takes (m + p - 1)(f + b). Every micro-batch's activations are
 * held at once.
 *
 * Source: Huang et al. 2019 (arXiv:1811.06965) section 2.3.
 */
void order_gpipe(struct plan_pipeline *pipeline);

/**
 * Order micro-batches by ZB-H1, which is 1F1B with split backwards. Sets splits_backward; replaces step_first and
 * steps. The partitions must have equal micro-batches.
 *
 * 1. Stage s runs the weights' gradients of a micro-batch after s more backwards. The first stage runs them at once.
 * The rest run at the end.
 * 2. With f, b and w seconds of forward, input gradient and weight gradient, m >= p and a free network it takes
 *
 *     m (f + b + w) + (p - 1) max(f + b - w, f, b)
 *
 * 3. Stage s holds at most p - s micro-batches' activations, as in 1F1B. It also holds s micro-batches' inputs and
 * output gradients (cost_weight_bytes).
 *
 * Source: Qi et al. 2023 (arXiv:2401.10241) section 2.2, table 2. The order is that of
 * github.com/sail-sg/zero-bubble-pipeline-parallelism, branch zb-h1-quick-start.
 */
void order_zero_bubble(struct plan_pipeline *pipeline);

#endif
