/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module adds up the work of all ranks in a plan in any order: FLOPs, and the seconds that are communication. */
#ifndef SLIMSIM_BOUNDS_WORK_H
#define SLIMSIM_BOUNDS_WORK_H

#include "dag/dag.h"

/** Sums over GPUs. */
struct work {
    double hardware_flop;          /* with recomputation */
    double product_flop;           /* of GEMMs, within hardware_flop */
    double fp8_flop;               /* of GEMMs in fp8, within product_flop */
    double kernels_s;              /* all kernels of passes */
    double product_s, attention_s; /* GEMMs and attention within kernels_s */
    double cast_s;                 /* casts to fp8 within kernels_s */
    double expert_product_s;       /* GEMMs of experts within product_s */
    double expert_product_flop;    /* theirs within product_flop */
    double tensor_s;               /* exposed tensor-parallel collectives */
    double shard_s;                /* exposed collectives of zero2 and zero3 */
    double expert_s;               /* tokens to experts and back */
    double combine_s;              /* outputs back within expert_s */
    double wait_s;                 /* waits for the host's launches */
    double pass_s;                 /* all passes, with tensor_s, shard_s, expert_s and wait_s */
    /* share of pass_s in shapes beyond those that the device's curves were fitted to */
    double extrapolated_s[COST_N_FAMILIES];
};

/** @param dag  of the plan: its costs are read */
struct work work_of(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting);

/** Return the cost of the pass that a COMPUTE or ATTENTION belongs to, on its GPU. */
struct cost_pass work_cost_of_task(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting,
                                   const struct dag_task *task);

/** Exposed collectives inside a task, on each of its GPUs. */
struct work_exposed {
    double tensor_s, shard_s, expert_s;
};

/**
 * Fill in the exposed collectives inside each task. Only a COMPUTE has some. With all_tensor_ranks the tensor-parallel
 * ones are tasks of their own.
 * @param dag      without fold_equal
 * @param exposed  [tasks]
 */
void work_exposed_of(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting,
                     struct work_exposed *exposed);

#endif
