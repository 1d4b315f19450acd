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
 *    does not fit (plan_request.limit_s). So a time to beat is wanted early: until SEARCH_FEW layouts fit, plans go
 *    by their least possible memory, for what fits easily is planned quickly. The order changes the work, not what is
 *    found. What ranks is the time expected of all five: in proportion to their work, but not below the bounds on each.
 *    With t on the first, w_j the weights, f_j the works over that of the first, b_j the bounds,
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

#include "bounds/critical_path.h"
#include "lengths/lengths.h"
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
    double slower, slower_error;    /* of a runner-up: time_s over that of the chosen plan, less 1; its standard error
                                       from the times of the same batches, as if these had been drawn at random with
                                       their weights: that they were chosen by work makes it smaller */
    double peak_bytes;              /* of a plan that does not fit in an iteration of the scenario: there */
    double host_bytes;              /* likewise, the most that a node's host holds */
    int32_t peak_stage, peak_class; /* class: enum memory_class, the largest at the peak */
    double gpu_s;                   /* the GPUs' time, weighted sum */
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
    int32_t n_resolved; /* plans resolved on the first iteration, relaxed ones included */
    int64_t seed;       /* of its batches */
    struct search_iteration iterations[SEARCH_DECIDING_ITERATIONS]; /* that decided; the first ranked */
    int32_t n_warm_up; /* iterations before them, SEARCH_CANDIDATES and on; 0 where no state is kept */
    bool fits;         /* the chosen plan, in the iterations that decided and those of the scenario */
    bool engine;       /* SimGrid had its say */
    double memory_bytes;
    int32_t n_iterations; /* of the scenario, warm-up included */
    struct plan *planned; /* [n_iterations] what the system plans with the chosen plan; no phases: it was not asked */
};

/** Resolve a DAG with contention: point_execute() (simulate/point_runner.h), which lies to the right. */
typedef bool search_engine(const struct scenario *scenario, const struct dag *dag, struct timeline *timeline,
                           struct error *err);

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

void search_result_free(struct search_result *result);

#endif
