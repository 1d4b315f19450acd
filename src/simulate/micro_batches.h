/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module measures how equal the micro-batches of a plan are, and which features of its system it uses. */
#ifndef SLIMSIM_SIMULATE_UNITS_H
#define SLIMSIM_SIMULATE_UNITS_H

#include "dag/dag.h"

/**
 * Return the seconds of a micro-batch's pass on stage 0 of a pipeline, without its ring. With blocks the attention is
 * what the stage computes. Devices are sound, as for plans: without faults.
 */
double micro_batches_pass_s(const struct plan_phase *phase, int32_t pipeline, const struct cost_setting *setting,
                            enum pass pass, int32_t micro_batch);

/**
 * Spread over the micro-batches of one pipeline, with merged ones. Values are means over the pipelines with at least
 * two micro-batches. Without such pipelines they are NaN, and imbalance is 1. Fields flop and time are p95/p5, by
 * linear interpolation.
 */
struct micro_batches_spread {
    double flop; /* FLOPs of one rank, without head and padding; micro-batches of padding only do not count */
    /* flop of the micro-batches that no other pipeline shares: mean over pipelines with at least two of them */
    double own_flop;
    double time;      /* seconds by micro_batches_pass_s */
    double imbalance; /* largest of these seconds over their mean */
};

struct micro_batches_spread micro_batches_spread_of(const struct plan *plan, const struct cost_setting *setting,
                                                    enum pass pass);

/**
 * Return the largest over the mean of the seconds of passes of a pipeline, for pipelines that run at the same time.
 * Seconds of a pipeline are the mean of its ranks; the mean is over all ranks of the phase. With several phases the
 * largest are summed, and the means. Durations are those in `dag`.
 */
double micro_batches_pipeline_imbalance(const struct dag *dag);

/** Return the number of pipelines that use a feature (enum plan_feature). */
int32_t micro_batches_using(const struct plan *plan, enum plan_feature part);

#endif
