/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module measures an iteration that ran: its time, work, micro-batches, memory, idle time and traffic. */
#ifndef SLIMSIM_SIMULATE_MEASURE_H
#define SLIMSIM_SIMULATE_MEASURE_H

#include "simulate/iteration_run.h"
#include "simulate/micro_batches.h"
#include "trace/table.h"

/** Results of one iteration of one system: the row of the trace, and data that no row has. */
struct point_iteration {
    struct trace_iteration row;
    bool every_rank; /* of iteration_run, like solve_s */
    double solve_s;
    int32_t n_phases;
    int32_t n_filled;         /* forward micro-batches with samples, all pipelines */
    int32_t n_idle_pipelines; /* pipelines without samples; 0 with several phases */
    double pass_s;            /* all passes, summed over GPUs */
    /* share of pass_s in shapes beyond those that the device's curves were fitted to */
    double extrapolated_s[COST_N_FAMILIES];
    struct memory_host host;
    struct micro_batches_spread spread[N_PASSES]; /* the row has 1 where a spread of FLOPs or time is NaN */
};

/** Rows of the rank of a stage with the highest peak, by stage; {0}: none yet. */
struct stage_peaks {
    int32_t n;
    struct trace_stage *at;
};

/** @param system  index in the point */
struct point_iteration measure_iteration(const struct iteration_run *run, int32_t system);

/**
 * Add an iteration. Ties: the earlier iteration, and in it the lower rank. If phases have layouts of their own, a stage
 * covers all of them.
 */
void measure_stages(const struct iteration_run *run, int32_t system, struct stage_peaks *peaks);

#endif
