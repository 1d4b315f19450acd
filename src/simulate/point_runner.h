/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module runs one scenario point: every system over all its iterations. */
#ifndef SLIMSIM_SIMULATE_POINT_RUNNER_H
#define SLIMSIM_SIMULATE_POINT_RUNNER_H

#include "bounds/bubble.h"
#include "bounds/memory.h"
#include "bounds/traffic.h"
#include "bounds/work.h"
#include "lengths/lengths.h"
#include "search/search.h"
#include "simulate/stage_peak.h"
#include "simulate/units.h"
#include "system/system.h"

/** Results of one iteration of one system. */
struct point_iteration {
    int64_t iteration;
    bool measured;   /* false: warm-up */
    bool every_rank; /* SimGrid ran every rank of tensor-parallel groups though the scenario does not ask for it */
    double critical_path_s, simgrid_s; /* simgrid_s: NaN if the engine did not run */
    double time_s;                     /* of SimGrid if it ran, otherwise of the critical path */
    int64_t tokens, samples, documents, delayed_tokens, candidates, resolved, nodes;
    double gap;     /* of the plan (plan/plan.h) */
    double solve_s; /* CPU time of planning, 0 if a search did it; in no result */
    double model_flop, hardware_flop;
    double tensor_s; /* exposed tensor-parallel collectives, summed over GPUs; included in bubble.busy_s */
    /* exposed collectives of zero2 and zero3 inside passes, summed over GPUs; included in bubble.busy_s */
    double shard_s;
    double pass_s; /* all passes, summed over GPUs */
    /* share of pass_s in shapes beyond those that the device's curves were fitted to */
    double extrapolated_s[COST_N_FAMILIES];
    double peak_bytes;
    int32_t peak_stage, peak_pipeline;
    double at_peak[MEMORY_N_CLASSES];
    struct memory_host host;
    struct bubble bubble; /* of the requested engine */
    int32_t forward_units, backward_units;
    int64_t padding_tokens;           /* of forward units */
    int32_t listed_units, full_units; /* forward units that recompute listed kernels; whole layers */
    struct units_spread spread[N_PASSES];
    double unit_imbalance; /* largest forward seconds of a unit over their mean, over all pipelines */
    double dp_imbalance;   /* units_pipeline_imbalance */
    struct traffic traffic;
    int32_t pipelines; /* number of pipelines; of those that use each feature of enum plan_feature */
    int32_t sliced_pipelines, asymmetric_pipelines;
    int32_t just_in_time_pipelines, persistent_pipelines, long_warm_up_pipelines;
    int32_t merged_samples; /* samples that groups of pipelines run */
};

struct point_system {
    struct scenario_system *entry; /* borrowed */
    const struct training_system *system;
    int64_t dp;
    int32_t n_iterations;
    struct point_iteration *iterations;
    struct stage_peaks stages; /* over the measured iterations */
    bool fits;                 /* every measured iteration stayed within the memory of GPU and host */
};

/** Data of one iteration while the runner has it, for the trace and the exports. */
struct point_view {
    const struct scenario *scenario;
    const struct point_system *system;
    int32_t system_index;
    const struct point_iteration *iteration;
    const struct batch *batch;
    const struct plan *plan;
    const struct dag *dag;              /* every task with SimGrid or a full trace, otherwise with fold_equal */
    struct graph *graph;                /* the same graph in igraph; NULL with fold_equal */
    const struct timeline *timeline;    /* of the requested engine */
    const double *slack_s;              /* of the critical path; NULL, except in point_run_again */
    const struct work_exposed *exposed; /* of each task; NULL, except in point_run_again */
    const struct memory *memory;        /* with events in point_run_again */
};

struct point {
    int32_t n_systems;
    struct point_system *systems;
    double memory_bytes; /* limit of one rank */
};

/**
 * Check conditions beyond scenario_read: FLOPs of the longest sample are exact, systems take their entries, and entries
 * that are left to a search have plans.
 */
bool point_check(const struct scenario *scenario, struct error *err);

/** Call lengths_open for a scenario's data. Errors of its keys have file and line. */
bool point_lengths(const struct scenario *scenario, struct lengths *lengths, struct error *err);

/** Execute the DAG on SimGrid, with the platform and the options of the scenario. This is a search_engine. */
bool point_execute(const struct scenario *scenario, const struct dag *dag, struct timeline *timeline,
                   struct error *err);

/** Called after each iteration of each system. @return false to stop with err */
typedef bool point_observer(void *context, const struct point_view *view, struct error *err);

struct point_options {
    /*
     * [n_systems] searches that found the plans, with the iterations that they planned, which are not planned again;
     * NULL: every system plans every iteration
     */
    const struct search_result *searches;
    point_observer *observer; /* NULL: none */
    void *context;            /* of the observer */
    int32_t n_children;       /* iterations that SimGrid runs side by side; 0 counts as 1; no result depends on it */
};

/**
 * Run a scenario's systems over its iterations, with warm-up. Every system has the same batches of `lengths`. Plans
 * must exist (search/search.h fills in `plan: auto`). Iterations of warm-up run on the critical path only.
 */
bool point_run(const struct scenario *scenario, const struct lengths *lengths, const struct point_options *options,
               struct point *point, struct error *err);

/**
 * Return the measured iteration that is most like the others: the sum over systems of |time / mean time - 1| is least.
 * Ties: the first.
 */
int64_t point_typical_iteration(const struct scenario *scenario, const struct point *point);

/**
 * Run one iteration of every system once more, as point_run ran it with the same lengths and searches, and call the
 * observer after each. The graph has every task. A system that holds a state plans the iterations before it again.
 */
bool point_run_again(const struct scenario *scenario, const struct lengths *lengths,
                     const struct point_options *options, int64_t iteration, struct error *err);

void point_free(struct point *point);

#endif
