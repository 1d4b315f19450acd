/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module chooses HotSPa's buckets and their strategies before the training. */
#ifndef SLIMSIM_SYSTEM_HOTSPA_STRATEGIES_H
#define SLIMSIM_SYSTEM_HOTSPA_STRATEGIES_H

#include "plan/request.h"

enum { HOTSPA_MAX_BUCKETS = SCHEMA_LIST_MOST + 1 };

/** The buckets, shortest first. The longest has the plan's own TP and PP. */
struct hotspa_choice {
    int32_t n;                         /* 0: not chosen yet */
    int64_t bound[HOTSPA_MAX_BUCKETS]; /* longest sample and pack [tokens] */
    int64_t tp[HOTSPA_MAX_BUCKETS], pp[HOTSPA_MAX_BUCKETS];
};

/**
 * Return whether the model and the cluster allow this layout. If so, `request` has it, with DP from
 * the remaining GPUs.
 */
bool hotspa_lay_out(const struct plan_request *from, int64_t tp, int64_t pp, struct plan_request *request);

/**
 * Pack the samples of one bucket. The longest remaining sample begins a pack, which takes the shortest remaining ones
 * as long as they fit the bound.
 *
 * @param sample  n of them, shortest first
 * @param pack    of each sample: its pack, those of the longest samples first; NULL: not needed
 * @return        number of packs
 */
int32_t hotspa_pack(const int32_t *tokens, const int32_t *sample, int32_t n, int64_t bound, int32_t *pack);

/**
 * Choose strategies of all buckets except the longest, and their bounds if these are not given. Bounds are at most
 * three of 1/2, 1/4, ... 1/64 of the context, or none. They are compared by the seconds of a mean iteration on the
 * request's batch.
 *
 * 1. A bucket of P packs on DP replicas runs in a share r of the iterations. For the shortest bucket r is 1, otherwise
 *    min(1, max(P / DP, 1 / (wait + 1))). With wait 0, P / DP is rounded up.
 * 2. When it runs it takes t + (max(1, P / DP) - 1) s. The time t is the mean seconds of its packs on all stages,
 *    forward and backward. The time s is that on the slowest stage. It has an equal share of the layers, and the slower
 *    one of head and embedding.
 * 3. When it runs it adds its switches. The bf16 parameters of a GPU move to its strategy, unless it is the longest
 *    bucket's. The gradients of a GPU move to the next longer bucket's strategy, unless it is the same. The side that
 *    gives parameters or takes gradients decides the links. With all of the model in an NVLink domain (one
 *    stage) they move by NVLink, otherwise by NICs.
 * 4. From the longest bucket down, each takes the strategy of the least sum that has memory. It needs memory for the
 *    packs, and for its weights and gradients beside the states of the next longer bucket. Ties: the fewest TP x PP,
 *    then the most TP. If there is none, it takes the plan's own.
 * 5. The bounds with the least sum over buckets are chosen (ties: the fewest, then the longest). Bounds come last if
 *    samples share packs, as many in flight as stages, that their strategy has no memory for.
 *
 * @param bounds  given ones, ascending; those from the context on do not count
 * @param wait    iterations that packs that do not fill all replicas may wait
 */
void hotspa_choose(const struct plan_request *request, const struct schema_ints *bounds, int64_t wait,
                   struct hotspa_choice *choice);

#endif
