/* SPDX-License-Identifier: GPL-3.0-or-later */
/** One round of memory_fit, and what it changes on one place (memory_fit.h). */
#ifndef SLIMSIM_PACKING_MEMORY_FIT_PLACE_H
#define SLIMSIM_PACKING_MEMORY_FIT_PLACE_H

#include "bounds/memory.h"
#include "plan/request.h"

/** The changes that are allowed, from the units' own settings on. */
struct memory_fit_rule {
    bool offload, recompute;
    double limit_s; /* a plan that ends later is of no use; 0: none is */
};

/** One pipeline of the plan as a round sees it. */
struct memory_fit_pipe {
    struct plan_pipeline *plan;
    const struct relations *relations;
    int32_t *consumer;     /* of each forward unit: the first backward unit that consumes tokens of it */
    int32_t *last;         /* and the last one */
    enum recompute *begun; /* of each forward unit: as the round began, and the timeline has it */
    double *all_bytes;     /* of each forward unit: what of it can go on a stage of all_layers; NULL: not known yet */
    int32_t all_layers;
};

struct memory_fit_round {
    const struct plan_request *request;
    struct memory_fit_rule rule;
    struct plan_phase *phase;
    struct memory_fit_pipe *pipes;
    const struct dag *dag;
    const struct timeline *timeline;
    const struct memory *memory;
    double *peak_before_bytes, makespan_before_s; /* [n_places] in the round before */
};

/** A place above the limit. */
struct memory_fit_excess {
    struct memory_fit_pipe *pipe;
    struct cost_setting own; /* of the stage */
    int32_t dag_rank, stage;
    double bytes, time_s; /* the most, and its first moment */
};

static inline struct plan_unit *memory_fit_forward_unit(const struct memory_fit_pipe *pipe, int32_t unit)
{
    return &pipe->plan->cut[PASS_FORWARD].units[unit];
}

/** Walk the memory of a place in time, and offload; excess: what is left of it. @return whether something changed */
bool memory_fit_relieve(const struct memory_fit_round *fitting, struct memory_fit_excess *excess);

/** Recompute more units at the moment of the excess, until it is gone or nothing is left; what other places of the
 * pipeline began to recompute in this round frees here too. @return whether something changed */
bool memory_fit_recompute(const struct memory_fit_round *fitting, struct memory_fit_excess *excess);

#endif
