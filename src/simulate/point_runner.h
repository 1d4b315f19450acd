/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module runs one scenario point: every system over all its iterations. */
#ifndef SLIMSIM_SIMULATE_POINT_RUNNER_H
#define SLIMSIM_SIMULATE_POINT_RUNNER_H

#include "bounds/work.h"
#include "simulate/measure.h"

struct point_system {
    struct scenario_system *entry; /* borrowed */
    const struct training_system *system;
    int64_t dp;
    int32_t n_iterations;
    struct point_iteration *iterations;
    struct stage_peaks stages; /* over the measured iterations */
    bool fits;                 /* every measured iteration stayed within the memory of GPU and host */
    double flash2;             /* model FLOPs a second with flash2 over those with a scaled attention curve, in up to
                                  four measured iterations on the critical path; NAN: the curve is not scaled */
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
 * must exist (search/search.h fills in `plan: auto`). Iterations of warm-up run on the critical path only. If the
 * attention's curve is scaled (cost/attention_choice.h), up to four measured iterations run again with flash2.
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
