/* SPDX-License-Identifier: GPL-3.0-or-later */
/** How alike the units of a plan are, and which of its system's parts it uses. */
#ifndef SLIMSIM_SIMULATE_UNITS_H
#define SLIMSIM_SIMULATE_UNITS_H

#include "dag/dag.h"

/** Seconds of a unit's pass on stage 0, its ring apart: of what stages exchange, what stage 0 computes. Of sound
 * devices, as planned: without faults. */
double units_pass_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                    int32_t unit);

/** Over the units of one pipeline, merged ones included; mean over the pipelines that have two of them at least; NaN
 * where none has, of imbalance 1. flop and time: p95/p5, by linear interpolation. */
struct units_spread {
    double flop;      /* of one rank, without head and padding; units of padding alone do not count */
    double own_flop;  /* the same of the units that no other pipeline shares: mean where there are two of these */
    double time;      /* units_pass_s */
    double imbalance; /* largest of these seconds over their mean */
};

struct units_spread units_spread_of(const struct plan *plan, const struct cost_setting *setting, enum pass pass);

/** Largest over mean of the seconds of passes of a pipeline, side by side: each the mean of its places, the mean over
 * all places of the phase. Of several phases the largest are summed, and the means. Tasks as long as in `dag`. */
double units_pipeline_imbalance(const struct dag *dag);

/** Pipelines that use a part (enum plan_feature). */
int32_t units_using(const struct plan *plan, enum plan_feature part);

#endif
