/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module explains a system's MFU: where the GPUs' time goes, and what the iteration would take without a cost. */
#ifndef SLIMSIM_SIMULATE_EXPLAIN_H
#define SLIMSIM_SIMULATE_EXPLAIN_H

#include "bounds/path_time.h"
#include "simulate/point_runner.h"

/** Steps from the peak of all GPUs to MFU. */
enum explain_step {
    EXPLAIN_PRODUCTS,      /* time of GEMMs beyond that of their FLOPs at peak */
    EXPLAIN_ATTENTION,     /* the same of attention */
    EXPLAIN_OTHER_KERNELS, /* kernels whose FLOPs do not count: element-wise ones, the optimizer, copies */
    EXPLAIN_PADDING,
    EXPLAIN_RECOMPUTATION,
    EXPLAIN_UNCOUNTED, /* other FLOPs that the model does not count, such as scores in attention's backward */
    EXPLAIN_TENSOR,
    EXPLAIN_SHARDS,
    EXPLAIN_CONTEXT,
    EXPLAIN_WARM_UP,
    EXPLAIN_IMBALANCE,
    EXPLAIN_COOL_DOWN,
    EXPLAIN_WAITING,
    EXPLAIN_GRADIENTS,
    EXPLAIN_RESHARD,
    EXPLAIN_MFU,
    EXPLAIN_N_STEPS
};

/** Costs that are set to zero, each alone. */
enum explain_free {
    EXPLAIN_FREE_NIC, /* infinite bandwidth; latencies stay */
    EXPLAIN_FREE_NVLINK,
    EXPLAIN_FREE_PCIE,
    EXPLAIN_FREE_LATENCY, /* latencies of transfers and collectives */
    EXPLAIN_FREE_PADDING,
    EXPLAIN_FREE_RECOMPUTATION,
    EXPLAIN_FREE_WAITING,
    EXPLAIN_N_FREE
};

/** Keys of results, in these orders, and names for a person. */
extern const char *const explain_step_key[EXPLAIN_N_STEPS], *const explain_step_name[EXPLAIN_N_STEPS];
extern const char *const explain_free_key[EXPLAIN_N_FREE], *const explain_free_name[EXPLAIN_N_FREE];

/** An explanation of one system, over its measured iterations. */
struct explanation {
    double share[EXPLAIN_N_STEPS]; /* of peak x GPUs x time; their sum is 1 */
    struct path_time path;         /* mean critical path of an iteration [s] */
    double gain[EXPLAIN_N_FREE];   /* time of the critical path over that without the cost, less 1 */
};

/** Plans of the measured iterations of all systems. */
struct explain_plans {
    struct plan *plans; /* [systems x measured] */
};

/** Reserve room for a scenario's plans. The caller frees it. */
struct explain_plans explain_plans_of(const struct scenario *scenario);
void explain_plans_free(const struct scenario *scenario, struct explain_plans *plans);

/** Keep the plan of a measured iteration. This is a point_observer; its context is a struct explain_plans. */
bool explain_keep_plan(void *context, const struct point_view *view, struct error *err);

/**
 * Explain a system of a point that ran.
 *
 * 1. The time is that of the scenario's engine. GPUs without a pipeline in a phase count as waiting.
 * 2. Recomputation takes the seconds of kernels that the same plan saves without it. Padding takes those that the plan
 *    then saves without padding.
 * 3. Other kernels lose their seconds less those of their FLOPs at peak.
 * 4. A gain builds the same plan's graph with costs in which one is zero, and takes its critical path.
 * 5. Without waiting each pipeline of a phase ends its passes at the mean of all.
 *
 * @param index  of the system
 */
bool explain_system(const struct scenario *scenario, const struct point *point, int32_t index,
                    const struct explain_plans *plans, struct explanation *explanation, struct error *err);

#endif
