/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module evaluates one plan of a search on one iteration: the system plans, and the plan is resolved. */
#ifndef SLIMSIM_SEARCH_TRIAL_H
#define SLIMSIM_SEARCH_TRIAL_H

#include "bounds/bubble.h"
#include "bounds/evaluate.h"
#include "cost/cache.h"
#include "search/search_result.h"

/** Data that all evaluations of one search share: the system, the batches, and arrays that are reused. */
struct trials {
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

/** One evaluation of a plan. */
struct trial {
    struct scenario_plan layout;
    const struct batch *batch;
    int64_t iteration, seed; /* of the batch */
    double memory_bytes;
    double limit_s; /* 0: none; otherwise a plan that takes longer, or that does not fit, is rejected */
    bool engine;    /* run SimGrid, too */
    bool plan_only; /* only whether it can be planned is found */
};

/** The outcome of one plan on one iteration. */
struct trial_outcome {
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
void trials_draw(struct trials *trials, const struct lengths *lengths);

/** Return the evaluation of a plan on one of the iterations that decide. */
struct trial trial_of(const struct trials *trials, const struct scenario_plan *layout, int32_t which);

/** Return the request to the system. */
struct plan_request trial_request(const struct trials *trials, const struct cost_setting *setting,
                                  const struct trial *trial);

/**
 * Plan one iteration and resolve it. If the system refuses the plan, that is an outcome, not an error.
 * @param state  of the system, from trial_open_state
 * @param keep   {0}, takes the plan; NULL: the plan is freed
 */
bool trial_run(struct trials *trials, const struct trial *trial, void *state, struct plan *keep,
               struct trial_outcome *outcome, struct error *err);

/**
 * Open the state that a system keeps between iterations, after the warm-up of the layout of `first`. The caller gives
 * *state to trial_close_state in any case. @param outcome  of the last of these iterations
 */
bool trial_open_state(struct trials *trials, const struct trial *first, void **state, struct trial_outcome *outcome,
                      struct error *err);
void trial_close_state(const struct trials *trials, void *state);

/** Call trial_run after the warm-up of a state of its own. */
bool trial_run_alone(struct trials *trials, const struct trial *trial, struct trial_outcome *outcome,
                     struct error *err);

/** Free all that they share and own, knobs too. */
void trials_free(struct trials *trials);

#endif
