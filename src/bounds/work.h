/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What all ranks execute in a plan, whatever the order: FLOPs, and what of the seconds is communication. */
#ifndef SLIMSIM_BOUNDS_WORK_H
#define SLIMSIM_BOUNDS_WORK_H

#include "dag/dag.h"

/** Summed over GPUs. */
struct work {
    double hardware_flop;              /* recomputation included */
    double tensor_s;                   /* exposed tensor-parallel collectives */
    double shard_s;                    /* exposed collectives of zero2 and zero3 */
    double pass_s;                     /* all passes, the two above among them */
    double outside_s[COST_N_FAMILIES]; /* of it: shapes beyond what the device's curves were fitted to */
};

/** @param dag  of the plan: its costs */
struct work work_of(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting);

#endif
