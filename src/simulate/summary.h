/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module summarises the measured iterations of one system of a point. */
#ifndef SLIMSIM_SIMULATE_SUMMARY_H
#define SLIMSIM_SIMULATE_SUMMARY_H

#include "simulate/point_runner.h"

/** Mean, 5th and 95th percentile of time_s over the measured iterations. */
struct point_summary {
    double time_mean_s, time_p5_s, time_p95_s;
    double tokens_per_s_per_gpu; /* sum of tokens / sum of time / GPUs */
    double mfu, hfu;
    double speed_up; /* ratio of model FLOPs a second to the first system's */
    /* half widths of tokens_per_s_per_gpu and speed_up (simulate/interval.h); NaN: one iteration */
    double tokens_interval, speed_up_interval;
    bool over_misfit;      /* the first system does not fit */
    double token_delay;    /* mean iterations that a token waits: sum of tokens x iterations / sum of tokens */
    double unit_imbalance; /* mean */
    double dp_imbalance, imbalance[N_PASSES]; /* means of units_spread.imbalance */
    struct traffic traffic;                   /* mean */
    double tensor_s;                          /* summed over measured iterations */
    double shard_s;                           /* summed over measured iterations */
    struct bubble bubble;                     /* summed over measured iterations */
    double peak_bytes;
    int32_t peak_stage;
    double at_peak[MEMORY_N_CLASSES];
    enum memory_class peak_class; /* class with most of peak_bytes; ties: the first */
    struct memory_host host;      /* of the measured iteration with most bytes */
    enum exceeded_limit misfit;
    double critical_path_mean_s, simgrid_mean_s;
    /* energy and money of the measured iterations (operation/energy.h, money.h); NaN: unknown or not given */
    double power_w, energy_j_per_token, usd_per_1t_tokens, kg_co2_per_1t_tokens;
};

/** @param index  of the system */
struct point_summary point_summary_of(const struct scenario *scenario, const struct point *point, int32_t index);

/** Return the summaries of all systems. The caller frees them. */
struct point_summary *point_summaries_of(const struct scenario *scenario, const struct point *point);

#endif
