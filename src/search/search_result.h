/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What a search of plans found. search/search.h says how it searches. */
#ifndef SLIMSIM_SEARCH_SEARCH_RESULT_H
#define SLIMSIM_SEARCH_SEARCH_RESULT_H

#include "bounds/evaluate.h"
#include "search/bound.h"
#include "search/deciding.h"

enum { SEARCH_FEW = 4, SEARCH_NEAR_PERCENT = 5 };

/** What became of a plan. */
enum search_verdict {
    SEARCH_CHOSEN,
    SEARCH_RUNNER_UP,     /* among those that were decided on */
    SEARCH_SLOWER,        /* it fits, and others are faster */
    SEARCH_MISFIT,        /* the fastest, but it does not fit in an iteration of the scenario */
    SEARCH_TOO_LARGE,     /* the system planned it: it does not fit */
    SEARCH_REFUSED,       /* the system cannot plan it */
    SEARCH_BOUND_PRUNED,  /* it takes longer than those that were decided on */
    SEARCH_MEMORY_PRUNED, /* its least possible memory is above what a rank may use */
    SEARCH_NOT_DEMANDED,  /* it has an on_demand feature, and a plan with fewer of them fits */
    SEARCH_OPEN,          /* while searching */
    SEARCH_N_VERDICTS = SEARCH_OPEN
};

/** A plan resolved, over n_iterations. */
struct search_score {
    int32_t n_iterations;                           /* 0: it was not resolved */
    double time_s;                                  /* weighted mean, with the factor of SimGrid */
    double contention;                              /* that factor less 1; 0 without SimGrid */
    double iteration_s[SEARCH_DECIDING_ITERATIONS]; /* [n_iterations] of what ran, without it */
    double work_share[SEARCH_DECIDING_ITERATIONS];  /* of it: model FLOPs that ran over those of the batch */
    double slower, slower_error; /* of a runner-up: time_s over that of the chosen plan, less 1; its standard error
                                    from the times of the same batches, as if these had been drawn at random with
                                    their weights: that they were chosen by work makes it smaller */
    struct evaluation worst;     /* of these; of a plan that does not fit in an iteration of the scenario: there */
    double gpu_s;                /* the GPUs' time, weighted sum */
    double compute, bubble, communication; /* shares of it: passes and optimizer without collectives; bubble_fraction;
                                              tensor and shard collectives, exposed rings, gradients */
};

struct search_plan {
    struct scenario_plan layout;
    int32_t n_demanded; /* features of plan_space.on_demand that it has */
    enum search_verdict verdict;
    struct bound bound;                         /* the best known when it was settled */
    double least_s[SEARCH_DECIDING_ITERATIONS]; /* bound on its time on each of the iterations that decide; 0: none */
    double ranking_s;                           /* expected time that ranked it; 0: it was not resolved */
    struct search_score score;
};

/** {0} is empty: nothing was searched. */
struct search_result {
    int32_t n_plans;
    struct search_plan *plans; /* in the order of the space */
    int32_t n_ranked;
    int32_t *ranked; /* into plans: the chosen, the runners-up by time, then the slower, then SEARCH_MISFIT */
    int32_t count[SEARCH_N_VERDICTS];
    int32_t n_resolved;                                             /* plans resolved on the first iteration */
    int64_t seed;                                                   /* of its batches */
    struct search_iteration iterations[SEARCH_DECIDING_ITERATIONS]; /* that decided; the first ranked */
    int32_t n_warm_up; /* iterations before them, SEARCH_CANDIDATES and on; 0 where no state is kept */
    bool fits;         /* the chosen plan, in the iterations that decided and those of the scenario */
    bool engine;       /* SimGrid had its say */
    struct evaluation_limits limits;
    int32_t n_iterations; /* of the scenario, warm-up included */
    struct plan *planned; /* [n_iterations] what the system plans with the chosen plan; no phases: it was not asked */
};

/** Resolve a DAG with contention: point_execute() (simulate/point_runner.h), which lies to the right. */
typedef bool search_engine(const struct scenario *scenario, const struct dag *dag, struct timeline *timeline,
                           struct error *err);

/** Empty the plans that the system made; their room stays. */
void search_result_free_planned(struct search_result *result);

void search_result_free(struct search_result *result);

#endif
