/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file has one round of memory_fit, and its changes on one rank of the graph (memory_fit.h). */
#ifndef SLIMSIM_PACKING_MEMORY_FIT_PLACE_H
#define SLIMSIM_PACKING_MEMORY_FIT_PLACE_H

#include "bounds/memory.h"
#include "plan/request.h"

/** The allowed changes, starting from the micro-batches' own settings. */
struct memory_fit_rule {
    bool offload, recompute;
    double limit_s; /* a plan that ends later is useless; 0: no limit */
};

/** One pipeline of the plan in a round. */
struct memory_fit_pipe {
    struct plan_pipeline *plan;
    const struct relations *relations;
    int32_t *consumer; /* of each forward micro-batch: the first backward micro-batch that consumes its tokens */
    int32_t *last;     /* of each forward micro-batch: the last such micro-batch */
    enum recompute
        *begun;        /* of each forward micro-batch: recomputation at the start of the round, as in the timeline */
    double *all_bytes; /* of each forward micro-batch: bytes that can go on a stage; NULL: not computed yet */
    struct cost_setting all_setting; /* of that stage; without layers: none */
};

struct memory_fit_round {
    const struct plan_request *request;
    struct memory_fit_rule rule;
    struct plan_phase *phase;
    struct memory_fit_pipe *pipes;
    const struct dag *dag;
    const struct timeline *timeline;
    const struct memory *memory;
    double *peak_before_bytes, makespan_before_s; /* [ranks] peaks in the round before, and its makespan */
};

/** A rank above the limit. */
struct memory_fit_excess {
    struct memory_fit_pipe *pipe;
    struct cost_setting stage_setting; /* of the stage */
    int32_t dag_rank, stage;
    double bytes, time_s; /* the most, and its first moment */
};

static inline struct plan_micro_batch *memory_fit_forward_micro_batch(const struct memory_fit_pipe *pipe,
                                                                      int32_t micro_batch)
{
    return &pipe->plan->partition[PASS_FORWARD].micro_batches[micro_batch];
}

/**
 * Walk the memory of a rank in time and offload micro-batches. excess receives the excess that is left.
 *
 * @return whether something changed
 */
bool memory_fit_relieve(const struct memory_fit_round *fitting, struct memory_fit_excess *excess);

/**
 * Recompute more micro-batches at the moment of the excess, until it has gone or nothing is left. Recomputation that
 * other ranks of the pipeline began in this round frees bytes here too.
 *
 * @return whether something changed
 */
bool memory_fit_recompute(const struct memory_fit_round *fitting, struct memory_fit_excess *excess);

#endif
