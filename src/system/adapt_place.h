/* SPDX-License-Identifier: GPL-3.0-or-later */
/** One round of adapt_plan, and what it changes on one place (adapt.h). */
#ifndef SLIMSIM_SYSTEM_ADAPT_PLACE_H
#define SLIMSIM_SYSTEM_ADAPT_PLACE_H

#include "dag/relations.h"
#include "system/adapt.h"

/** One pipeline of the plan as a round sees it. */
struct adapt_pipe {
    struct plan_pipeline *plan;
    const struct relations *relations;
    int32_t *consumer;     /* of each forward unit: the first backward unit that consumes tokens of it */
    int32_t *last;         /* and the last one */
    enum recompute *begun; /* of each forward unit: as the round began, and the timeline has it */
    double *all_bytes;     /* of each forward unit: what of it can go on a stage of all_layers; NULL: not known yet */
    int32_t all_layers;
};

struct adapt_round {
    const struct plan_request *request;
    struct adapt_rule rule;
    struct plan_phase *phase;
    struct adapt_pipe *pipes;
    const struct dag *dag;
    const struct timeline *timeline;
    const struct memory *memory;
    double *peak_before_bytes, makespan_before_s; /* [n_places] in the round before */
};

/** A place above the limit. */
struct adapt_excess {
    struct adapt_pipe *pipe;
    struct cost_setting own; /* of the stage */
    int32_t place, stage;
    double bytes, time_s; /* the most, and its first moment */
};

static inline struct plan_unit *adapt_forward_unit(const struct adapt_pipe *pipe, int32_t unit)
{
    return &pipe->plan->cut[PASS_FORWARD].units[unit];
}

/** Walk the memory of a place in time, and offload; excess: what is left of it. @return whether something changed */
bool adapt_relieve(const struct adapt_round *adapting, struct adapt_excess *excess);

/** Recompute more units at the moment of the excess, until it is gone or nothing is left; what other places of the
 * pipeline began to recompute in this round frees here too. @return whether something changed */
bool adapt_recompute(const struct adapt_round *adapting, struct adapt_excess *excess);

#endif
