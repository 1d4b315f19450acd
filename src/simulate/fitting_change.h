/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module finds the smallest change of a plan with which a system would fit into memory. */
#ifndef SLIMSIM_SIMULATE_FITTING_CHANGE_H
#define SLIMSIM_SIMULATE_FITTING_CHANGE_H

#include "simulate/point_runner.h"

struct fitting_change {
    char text[64];                /* "plan.recompute=norm+activation"; "": the system takes none of the changes */
    bool fits;                    /* as the scenario's `fits` asks; false: none does, and this one comes nearest */
    struct evaluation evaluation; /* with the change, on the iteration with the largest excess */
};

/**
 * Change one part of the plan of a system that does not fit, the mildest first:
 *
 * 1. recompute norm+activation, then full
 * 2. sharding zero1, zero2, then zero3; zero2 needs one stage, zero3 with stages FSDP2
 * 3. offload, in steps of a fifth, unless the entry says `offload: never`
 * 4. twice, 4 or 8 times the degree of ep, for a model with experts
 * 5. twice the degree of cp, pp or tp, with half the replicas
 *
 * A change counts if layout and system allow it and if it comes nearer to the limits. Sharding needs ranks that share.
 * It goes beyond zero1 only if the framework's file does not say zero1, or the plan is beyond it already. The system
 * plans the measured iteration with the largest excess anew. The plan is resolved on the critical path.
 */
struct fitting_change fitting_change_of(const struct scenario *scenario, const struct lengths *lengths,
                                        const struct point_system *system);

/**
 * Return the largest imbalance of experts with which the plan of a system that fits would still fit, in quarters, at
 * most 8 or plan.ep. The iteration that needs most memory is planned anew for each. The critical path resolves it.
 */
double fitting_imbalance_of(const struct scenario *scenario, const struct lengths *lengths,
                            const struct point_system *system);

#endif
