/* SPDX-License-Identifier: GPL-3.0-or-later */
/** HotSPa's buckets and their strategies, chosen before the training. */
#ifndef SLIMSIM_SYSTEM_HOTSPA_STRATEGIES_H
#define SLIMSIM_SYSTEM_HOTSPA_STRATEGIES_H

#include "plan/request.h"

enum { HOTSPA_MAX_BUCKETS = SCHEMA_LIST_MOST + 1 };

/** The buckets, shortest first. The longest has the plan's own TP and PP. */
struct hotspa_choice {
    int32_t n;                         /* 0: nothing was chosen */
    int64_t bound[HOTSPA_MAX_BUCKETS]; /* longest sample and pack [tokens] */
    int64_t tp[HOTSPA_MAX_BUCKETS], pp[HOTSPA_MAX_BUCKETS];
};

/** Whether the model and the cluster can be laid out so; then `request` has that layout, DP what is left. */
bool hotspa_lay_out(const struct plan_request *from, int64_t tp, int64_t pp, struct plan_request *request);

/**
 * Packs of one bucket: the longest sample left begins one, which takes the shortest left as long as they fit the bound.
 *
 * @param sample  n of them, shortest first
 * @param pack    of each: its pack, those of the longest samples first; NULL: not wanted
 * @return        how many packs
 */
int32_t hotspa_pack(const int32_t *tokens, const int32_t *sample, int32_t n, int64_t bound, int32_t *pack);

/**
 * Strategies of the buckets but the longest, and their bounds if these are not given: of 1/2, 1/4, ... 1/64 of the
 * context at most three, or none.
 *
 * What they come to is estimated on the request's batch, as seconds of a mean iteration. A bucket of P packs on DP
 * replicas runs in a share r of the iterations and then takes
 *
 *     t + (max(1, P / DP) - 1) s,   r = 1 for the shortest bucket, else min(1, max(P / DP, 1 / (wait + 1)))
 *
 * with t the mean seconds of its packs on all stages, forward and backward, and s on the slowest stage: its share of
 * the layers, as if all stages had equally many, with the head or, if that takes longer, the embedding. So packs that
 * fill the replicas run every time, fewer wait until they do, but for those of the shortest bucket that samples are in:
 * something has to run. With wait 0 P / DP is rounded up.
 *
 * Whenever a bucket runs it adds its switches: the bf16 parameters of a GPU of its strategy, unless that is the longest
 * bucket's, and the gradients of a GPU to the next longer bucket's strategy, unless that is the same. They move inside
 * nodes if the side that gives parameters or takes gradients has all of the model in a node (one stage), else across.
 *
 * From the longest bucket down, each takes the strategy of the least sum that has memory for its packs, and whose
 * weights and gradients fit beside what the next longer one holds (ties: the fewest TP x PP, then the most TP); where
 * there is none, the plan's own. Those bounds are chosen of which the sum over buckets is least (ties: the fewest, then
 * the longest); those with which samples share packs that their strategy has no memory for, as many in flight as
 * stages, stand behind all others.
 *
 * @param bounds  those given, ascending; those from the context on do not count
 * @param wait    iterations that packs that do not fill all replicas may wait
 */
void hotspa_choose(const struct plan_request *request, const struct schema_ints *bounds, int64_t wait,
                   struct hotspa_choice *choice);

#endif
