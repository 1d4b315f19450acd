/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * `plan: auto`: the plan of a training system that a scenario did not name.
 *
 * The space: TP inside a node that divides heads and kv heads, PP that divides the layers (or, where it does not, those
 * and the head, or embedding and head, counted as one each), CP where the system takes it, DP what is left of the GPUs,
 * recompute, and the share of activations offloaded where the system leaves that to the plan; the virtual stages and
 * the sharding that plan_space lists (else vpp 1 and the system's own, mostly zero1); gradients in fp32; restricted by
 * plan_space (scenario/plan_space.h). What a system chooses by itself (slimpack's units per replica, dynapipe's
 * recomputation) it chooses in each plan anew.
 *
 * The batches: iterations of a seed of the search's own, derived from the scenario's, five of them chosen among many by
 * their work, each weighted by how many it stands for (search/deciding.h).
 *
 * 1. The first of them ranks. Plans are resolved, by critical path and memory timeline, in the order of their lower
 *    bounds (search/bound.h), and the system is told the time to reach: it may leave a plan that cannot reach it or
 *    does not fit (plan_request.limit_s). A plan that it makes is left if its own lower bound (bounds/lower_bound.h)
 *    cannot reach it. So a time to beat is wanted early: until SEARCH_FEW layouts fit, plans go by their least possible
 *    memory, for what fits easily is planned quickly. The order changes the work, not what is found. What ranks is the
 *    time expected of all five: in proportion to their work, but not below the bounds on each. With t on the first, w_j
 *    the weights, f_j the works over that of the first, b_j the bounds,
 *
 *        t + sum_j w_j max(0, b_j - f_j t) / sum_j w_j f_j
 *
 *    So a plan that is fast on the first counts as slow if the longest sample of another must take long in it.
 * 2. Decided on is, of each layout (TP, PP, CP) with its virtual stages, sharding and recomputation, the fastest plan
 *    that fits, if it takes at most SEARCH_NEAR_PERCENT longer than the fastest of the layout and than the
 *    SEARCH_FEW-th fastest layout: what recomputes a little more is a little slower where memory suffices, and may be
 *    much faster in batches where it does not. A plan whose bound exceeds that time is not resolved.
 * 3. All five decide, by the weighted mean of their times, which makes the tokens a second of many iterations, sum over
 *    sum, greatest. A plan that does not fit in all five is out, and the ranking goes on without it. With SimGrid,
 *    their times are multiplied by what SimGrid makes of the first of the five (its makespan over the critical path's),
 *    and its timeline's memory must fit, too.
 * 4. The fastest is run over the measured iterations of the scenario; if it does not fit in one of them (SEARCH_MISFIT)
 *    it is out, too, and ranking and deciding go on without it.
 *
 * Ties go to the plan that comes first in the space (TP, PP, CP, vpp, sharding, recompute, offload ascending). To fit
 * is to stay within the memory of a GPU and, with what is offloaded, of a node's host. No plan fits: the one that
 * exceeds a memory by the least share is the result.
 *
 * A system that keeps a state runs, before the iteration that ranks and again before the five that decide, as many
 * iterations of other batches as the scenario has warm-up, planned only: its queues are as full as where the scenario
 * measures. Where samples wait for later iterations, times are those of as much work (model FLOPs) as the batch has: in
 * proportion.
 */
#ifndef SLIMSIM_SEARCH_SEARCH_H
#define SLIMSIM_SEARCH_SEARCH_H

#include "lengths/lengths.h"
#include "search/search_result.h"

/** Called as plans are settled. @return false to stop, with err or without */
typedef bool search_progress(void *context, const struct scenario_system *entry, int32_t n_settled, int32_t n_plans);

struct search_options {
    search_engine *engine;     /* NULL: the critical path alone */
    search_progress *progress; /* NULL: nobody listens */
    void *context;
    bool exhaustive; /* resolve every plan: for tests */
};

/** Every entry with `plan: auto` has a space that holds a plan; else a line of err each, with its place. */
bool search_check(const struct scenario *scenario, struct error *err);

/**
 * Search the plans of one entry.
 * @param result  {0}; the caller frees, whatever the answer
 * @return        false with err when a plan cannot be built or run, or when progress stopped it
 */
bool search_system(const struct scenario *scenario, const struct lengths *lengths, int32_t system,
                   const struct search_options *options, struct search_result *result, struct error *err);

/** search_system for every entry with `plan: auto`, which becomes an entry with that plan. results: [n_systems] {0}.
 */
bool search_scenario(struct scenario *scenario, const struct lengths *lengths, const struct search_options *options,
                     struct search_result *results, struct error *err);

#endif
