/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module is the result of a plan search. search/search.h gives the steps of the search. */
#ifndef SLIMSIM_SEARCH_SEARCH_RESULT_H
#define SLIMSIM_SEARCH_SEARCH_RESULT_H

#include "bounds/evaluate.h"
#include "search/bound.h"
#include "search/deciding.h"

enum { SEARCH_FEW = 4, SEARCH_NEAR_PERCENT = 5, SEARCH_TIE_PERCENT = 1 };

/** The result for one plan. */
enum search_verdict {
    SEARCH_CHOSEN,
    SEARCH_RUNNER_UP,     /* decided on */
    SEARCH_SLOWER,        /* it fits, and others are faster */
    SEARCH_MISFIT,        /* fastest, but does not fit in an iteration of the scenario */
    SEARCH_TIGHT,         /* fits only tightly, and is the fastest of those that are faster than the chosen one */
    SEARCH_TOO_LARGE,     /* planned by the system, but does not fit */
    SEARCH_REFUSED,       /* the system cannot plan it */
    SEARCH_BOUND_PRUNED,  /* takes longer than plans that were decided on */
    SEARCH_MEMORY_PRUNED, /* its least possible memory is above a rank's limit */
    SEARCH_NOT_DEMANDED,  /* has an on_demand feature, and a plan with fewer of them fits */
    SEARCH_OPEN,          /* not settled yet */
    SEARCH_N_VERDICTS = SEARCH_OPEN
};

/** A resolved plan over n_iterations. */
struct search_score {
    int32_t n_iterations; /* 0: it was not resolved */
    double time_s;     /* weighted mean, multiplied by SimGrid's factor; of a plan that stopped early: a lower bound */
    double contention; /* SimGrid's factor less 1; 0 if SimGrid did not run it */
    bool executed;     /* SimGrid ran it */
    double iteration_s[SEARCH_DECIDING_ITERATIONS]; /* [n_iterations] of the work that ran, without the factor */
    double work_share[SEARCH_DECIDING_ITERATIONS];  /* [n_iterations] model FLOPs that ran over those of the batch */
    /* of a runner-up: time_s over that of the chosen plan, less 1, and its standard error (score_compare); NaN: it
     * stopped early */
    double slower, slower_error;
    /* worst of these iterations; if the plan does not fit in an iteration of the scenario, that one's */
    struct evaluation worst;
    double gpu_s; /* GPUs' time, weighted sum */
    /*
     * shares of gpu_s: passes and optimizer without collectives; bubble_fraction; tensor and shard collectives, exposed
     * context parallelism and gradients
     */
    double compute, bubble, communication;
};

struct search_plan {
    struct scenario_plan layout;
    int32_t n_demanded; /* number of plan_space.on_demand features that it has */
    enum search_verdict verdict;
    struct bound bound;                         /* best bound known when it was settled */
    double least_s[SEARCH_DECIDING_ITERATIONS]; /* bound of its time on each deciding iteration; 0: none */
    double ranking_s;                           /* expected time by which it ranked; 0: it was not resolved */
    struct search_score score;
};

/** {0} is empty: nothing was searched. */
struct search_result {
    int32_t n_plans;
    struct search_plan *plans; /* in the order of the space */
    int32_t n_ranked;
    int32_t *ranked; /* indices of plans: the chosen one, runners-up by time, SEARCH_SLOWER, SEARCH_MISFIT */
    int32_t count[SEARCH_N_VERDICTS];
    int32_t n_resolved;                                             /* plans resolved on the first iteration */
    int64_t seed;                                                   /* of the search's batches */
    struct search_iteration iterations[SEARCH_DECIDING_ITERATIONS]; /* iterations that decided; the first one ranked */
    int32_t n_warm_up; /* iterations before them, numbered from SEARCH_CANDIDATES on; 0 if the system keeps no state */
    bool fits;         /* whether the chosen plan fits in the iterations that decided and those of the scenario */
    bool tight;        /* no plan fits surely, so limits are those of plans that fit tightly */
    int32_t faster;    /* index of the plan with SEARCH_TIGHT; -1: none */
    double faster_by;  /* the chosen plan's time over its time, less 1 */
    bool engine;       /* SimGrid was used */
    struct evaluation_limits limits;
    int32_t n_iterations; /* of the scenario, with warm-up */
    /* [n_iterations] plans that the system makes with the chosen plan; no phases: it was not asked */
    struct plan *planned;
};

/**
 * Resolve a DAG with contention. simulate/point_runner.h has one, point_execute(); simulate/ is to the right of
 * search/. With status ERROR_FOLDED it needs the DAG with all_tensor_ranks.
 */
typedef bool search_engine(const struct scenario *scenario, const struct dag *dag, struct timeline *timeline,
                           struct error *err);

/** Empty the plans that the system made; their memory stays. */
void search_result_free_planned(struct search_result *result);

void search_result_free(struct search_result *result);

#endif
