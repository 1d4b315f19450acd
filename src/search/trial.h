/* SPDX-License-Identifier: GPL-3.0-or-later */
/** One plan of a search on one iteration: planned by the system, resolved, and what the search wants to know of it. */
#ifndef SLIMSIM_SEARCH_TRIAL_H
#define SLIMSIM_SEARCH_TRIAL_H

#include "bounds/bubble.h"
#include "bounds/evaluate.h"
#include "cost/cache.h"
#include "search/search_result.h"

/** What the trials of one search share: whose plans, on which batches, and arrays that are kept from trial to trial. */
struct trials {
    const struct scenario *scenario;
    const struct training_system *system;
    search_engine *engine;        /* NULL: the critical path alone */
    struct search_result *result; /* of it seed, iterations, n_warm_up, memory_bytes */
    void *knobs;
    struct batch batches[SEARCH_DECIDING_ITERATIONS];
    struct batch *warm_up; /* [result->n_warm_up] */
    struct evaluator evaluator;
    struct timeline executed;
    struct cost_cache costs;
    struct error refused; /* the first refusal */
};

/** How a plan is resolved. */
struct trial {
    struct scenario_plan layout;
    const struct batch *batch;
    int64_t iteration, seed; /* of the batch */
    double memory_bytes;
    double limit_s; /* 0: none; else a plan that takes longer, or that does not fit, is of no use */
    bool engine;    /* on SimGrid, too */
    bool plan_only; /* no more is known than that it could be planned */
};

/** What one iteration of one plan came to. */
struct trial_outcome {
    bool planned;                 /* else refused */
    double work_share;            /* model FLOPs that ran over those of the batch; the makespan is of what ran */
    struct evaluation evaluation; /* makespan: of the critical path; memory: on SimGrid, too, if it ran */
    double contention;
    bool given_up;  /* planned, and left as of no use: no more of it is known than least_s */
    double least_s; /* lower bound of its time for as much work as the batch has; 0: not asked for */
    struct bubble bubble;
    double collective_s; /* inside passes, part of bubble.busy_s */
};

/** Choose the iterations that decide (search/deciding.h), and draw them with those that warm a state up. */
void trials_draw(struct trials *trials, const struct lengths *lengths);

/** A plan on one of the iterations that decide. */
struct trial trial_of(const struct trials *trials, const struct scenario_plan *layout, int32_t which);

/** What the system is asked. */
struct plan_request trial_request(const struct trials *trials, const struct cost_setting *setting,
                                  const struct trial *trial);

/** Plan one iteration and resolve it. A plan that the system refuses is an outcome, not an error.
 * @param state  of the system, as trial_open_state gives it
 * @param keep   {0}, takes the plan; NULL: nobody does */
bool trial_run(struct trials *trials, const struct trial *trial, void *state, struct plan *keep,
               struct trial_outcome *outcome, struct error *err);

/** Systems keep a state from one iteration to the next: what it is after the warm-up of the layout of `first`. The
 * caller gives *state to trial_close_state, whatever the answer. @param outcome  of the last of these iterations */
bool trial_open_state(struct trials *trials, const struct trial *first, void **state, struct trial_outcome *outcome,
                      struct error *err);
void trial_close_state(const struct trials *trials, void *state);

/** trial_run after the warm-up of a state of its own. */
bool trial_run_alone(struct trials *trials, const struct trial *trial, struct trial_outcome *outcome,
                     struct error *err);

/** All that they share and own, knobs too. */
void trials_free(struct trials *trials);

#endif
