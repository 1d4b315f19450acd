/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module evaluates one plan of a search on one iteration: the system plans, and the plan is resolved. */
#ifndef SLIMSIM_SEARCH_PLAN_EVALUATION_H
#define SLIMSIM_SEARCH_PLAN_EVALUATION_H

#include "bounds/bubble.h"
#include "bounds/evaluate.h"
#include "cost/cache.h"
#include "search/search_result.h"

/** Data that all evaluations of one search share: the system, the batches, and arrays that are reused. */
struct plan_evaluator {
    const struct scenario *scenario;
    const struct training_system *system;
    search_engine *engine;        /* NULL: the critical path only */
    struct search_result *result; /* read: seed, iterations, n_warm_up, limits */
    void *knobs;
    struct batch batches[SEARCH_DECIDING_ITERATIONS];
    struct batch *warm_up; /* [result->n_warm_up] */
    struct evaluator evaluator;
    struct timeline executed;
    struct cost_cache costs;
    struct error refused; /* the first refusal */
};

/**
 * When SimGrid runs, too. Only copies to the host make memory depend on times, since each rank's passes have one order
 * (bounds/memory.h). So a plan without offload has the same memory on both engines.
 */
enum plan_evaluation_engine { ENGINE_NEVER, ENGINE_IF_OFFLOADED, ENGINE_ALWAYS };

/** One evaluation of a plan. */
struct plan_evaluation {
    struct scenario_plan layout;
    const struct batch *batch;
    int64_t iteration, seed; /* of the batch */
    double memory_bytes;
    double limit_s; /* 0: none; otherwise a plan that takes longer is rejected */
    enum plan_evaluation_engine engine;
    bool tells_limit; /* the system is told the limit, and may give up a plan that does not fit, too */
    bool plan_only;   /* only whether it can be planned is found */
};

/** The outcome of one plan on one iteration. */
struct plan_outcome {
    bool planned;      /* false: the system refused */
    double work_share; /* model FLOPs that ran over those of the batch; makespan covers the work that ran */
    /* makespan: of the critical path; memory: the worse of both engines, if SimGrid ran */
    struct evaluation evaluation;
    double contention;
    bool given_up;  /* planned, and rejected by its limit: only least_s is known */
    double least_s; /* lower bound of its time for as much work as the batch has; 0: not computed */
    struct bubble bubble;
    double collective_s; /* inside passes, included in bubble.busy_s */
};

/** Choose the iterations that decide (search/deciding.h), and draw them with those that warm a state up. */
void plan_evaluator_draw(struct plan_evaluator *evaluations, const struct lengths *lengths);

/** Return the evaluation of a plan on one of the iterations that decide. */
struct plan_evaluation plan_evaluation_of(const struct plan_evaluator *evaluations, const struct scenario_plan *layout,
                                          int32_t which);

/** Return the request to the system. */
struct plan_request plan_evaluation_request(const struct plan_evaluator *evaluations,
                                            const struct cost_setting *setting,
                                            const struct plan_evaluation *evaluation);

/**
 * Plan one iteration and resolve it. If the system refuses the plan, that is an outcome, not an error.
 * @param state  of the system, from plan_evaluation_open_state
 * @param keep   {0}, takes the plan; NULL: the plan is freed
 */
bool plan_evaluation_run(struct plan_evaluator *evaluations, const struct plan_evaluation *evaluation, void *state,
                         struct plan *keep, struct plan_outcome *outcome, struct error *err);

/**
 * Open the state that a system keeps between iterations, after the warm-up of the layout of `first`. The caller gives
 * *state to plan_evaluation_close_state in any case. @param outcome  of the last of these iterations
 */
bool plan_evaluation_open_state(struct plan_evaluator *evaluations, const struct plan_evaluation *first, void **state,
                                struct plan_outcome *outcome, struct error *err);
void plan_evaluation_close_state(const struct plan_evaluator *evaluations, void *state);

/** Call plan_evaluation_run after the warm-up of a state of its own. */
bool plan_evaluation_run_first(struct plan_evaluator *evaluations, const struct plan_evaluation *evaluation,
                               struct plan_outcome *outcome, struct error *err);

/** Free all that they share and own, knobs too. */
void plan_evaluator_free(struct plan_evaluator *evaluations);

#endif
