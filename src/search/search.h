/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module is `plan: auto`: it chooses the plan of a training system that a scenario did not name. The space, the
 * batches and the reasons are in docs/model/simulation.md, "Plan search".
 *
 * 1. The space is all layouts that system, model and platform allow, restricted by plan_space (scenario/plan_space.h).
 * 2. Five iterations of a seed of the search's own decide. They are chosen among many by their work; each has a weight
 *    (search/deciding.h). The first of them ranks.
 * 3. Plans are resolved on it, by critical path and memory timeline, in the order of their lower bounds
 *    (search/bound.h). Until SEARCH_FEW layouts fit, they are resolved in the order of least possible memory.
 * 4. While plans rank, the system is told the time to reach (plan_request.limit_s). It may give up a plan that exceeds
 *    it or does not fit. A plan is rejected if its own lower bound (bounds/lower_bound.h) exceeds that time.
 * 5. Plans rank by the time expected of all five.
 * 6. For each layout (TP, PP, CP) with its virtual stages, sharding and recomputation, the fastest plan that fits is
 *    decided on. It must take at most SEARCH_NEAR_PERCENT longer than the fastest of the layout and than the
 *    SEARCH_FEW-th fastest layout. A plan whose bound exceeds that time is not resolved.
 * 7. All five decide, by the weighted mean of their times. A plan that does not fit in all five is rejected. A plan
 *    stops once its times and the bounds of the rest are SEARCH_TIE_PERCENT above the fastest so far, unless the system
 *    keeps a state. If it would win after all, its other iterations run.
 * 8. With SimGrid, the time of the fastest plan is multiplied by SimGrid's makespan over the critical path's on the
 *    first of the five. Its timeline's memory must fit, too. The step repeats until SimGrid ran the fastest plan.
 * 9. The fastest plan runs over the measured iterations of the scenario. If it does not fit in one of them
 *    (SEARCH_MISFIT) it is rejected, and ranking and deciding continue without it. SimGrid runs them only if the plan
 *    offloads, since otherwise its memory is that of the critical path.
 * 10. Ties go to the plan that comes first in the space.
 * 11. If no plan fits surely, the steps repeat with the memory of plans that fit tightly (plan/request.h). If none fits
 *     then either, the plan with the least excess is the result.
 * 12. Otherwise the plans that memory excluded are resolved with that memory, if their bounds are below the chosen
 *     plan's time. The fastest is named if it is over SEARCH_TIE_PERCENT faster. It does not rank.
 */
#ifndef SLIMSIM_SEARCH_SEARCH_H
#define SLIMSIM_SEARCH_SEARCH_H

#include "lengths/lengths.h"
#include "search/search_result.h"

/**
 * Called after plans are settled, by one thread at a time.
 * @param best  the fastest plan that fits so far, by ranking_s; NULL: none fits yet
 * @return      false to stop, with err or without
 */
typedef bool search_progress(void *context, const struct scenario_system *entry, int32_t n_settled, int32_t n_plans,
                             const struct search_plan *best);

struct search_options {
    search_engine *engine;     /* NULL: the critical path only */
    search_progress *progress; /* NULL: no calls */
    void *context;
    bool exhaustive;   /* resolve every plan, for tests */
    int32_t n_threads; /* systems that search_scenario searches side by side; 0 counts as 1; no result depends on it */
};

/**
 * Check that every entry with `plan: auto` has a plan in its space. Otherwise err has a line for each, with its
 * position.
 */
bool search_check(const struct scenario *scenario, struct error *err);

/**
 * Search the plans of one entry.
 * @param result  {0}; the caller frees it in any case
 * @return        false with err if a plan cannot be built or run, or if progress stopped it
 */
bool search_system(const struct scenario *scenario, const struct lengths *lengths, int32_t system,
                   const struct search_options *options, struct search_result *result, struct error *err);

/** Call search_system for every entry with `plan: auto`, and give it the chosen plan. results: [n_systems] {0}. */
bool search_scenario(struct scenario *scenario, const struct lengths *lengths, const struct search_options *options,
                     struct search_result *results, struct error *err);

#endif
