/* SPDX-License-Identifier: GPL-3.0-or-later */
/** How alike the units of a plan are, and which of its system's parts it uses. */
#ifndef SLIMSIM_SWEEP_UNITS_H
#define SLIMSIM_SWEEP_UNITS_H

#include "cost/cost.h"
#include "plan/plan.h"

/** p95/p5 over the units of one pipeline, merged ones included, by linear interpolation; mean over the pipelines that
 * have two units at least; 1 where none has. */
struct units_spread {
    double flop; /* of one rank, without head and padding; units of padding alone do not count */
    double time; /* seconds of the pass on stage 0 */
};

struct units_spread units_spread_of(const struct plan *plan, const struct cost_setting *setting, enum pass pass);

/** Pipelines that use a part (enum plan_part). */
int32_t units_using(const struct plan *plan, enum plan_part part);

#endif
