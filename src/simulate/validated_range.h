/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module says in which respects a point lies outside the measured runs: model/validated_range.yaml. */
#ifndef SLIMSIM_SIMULATE_VALIDATED_RANGE_H
#define SLIMSIM_SIMULATE_VALIDATED_RANGE_H

#include "simulate/point_runner.h"

/** The limits of some measured runs. Names are separated by blanks, and numbers are the largest. */
struct measured_limits {
    char devices[512], frameworks[512], systems[512];
    bool windows;
    int64_t gpus, tp, pp, vpp, cp, context;
    int64_t nvlink_domain;      /* of the largest rack with NVLink over several nodes; 0: none */
    char precisions[64];        /* of runs in fp8 and on Blackwell */
    int64_t experts, top_k, ep; /* of runs with experts */
};

/** The range of the measured runs. Runs in fp8, with experts, with experts in fp8, and those on Blackwell without and
 * with experts have limits of their own. */
struct validated_range {
    char source[512];
    char varying_lengths[512]; /* shardings of the runs whose lengths vary */
    struct measured_limits dense, fp8, experts, experts_fp8, blackwell, experts_blackwell;
};

/** @return false with err: the file cannot be read */
bool validated_range_read(const char *data_dir, struct validated_range *range, struct error *err);

/** Return whether a scenario's lengths vary, and runs with varying lengths were measured for this sharding of a plan.
 * None of these has experts. */
bool validated_range_varies(const struct validated_range *range, const struct scenario *scenario, int32_t sharding);

enum { OUTSIDE_MOST = 16, OUTSIDE_SIZE = 96 };

/**
 * List what of a point lies outside: "varying lengths", "cp 32 (to 2)".
 * @return number of items
 */
int32_t validated_range_outside(const struct validated_range *range, const struct scenario *scenario,
                                const struct point *point, char items[OUTSIDE_MOST][OUTSIDE_SIZE]);

enum { RANGE_N_RESPECTS = 9 };

/**
 * List the respects in which the model's error is wider: "varying lengths", "device", "framework", "context", "cp",
 * "precision". A model with experts is compared with the runs that have some, so it may also be "experts", "latent
 * attention" or "MTP".
 * @param cp        largest context-parallel degree of the systems
 * @param sharding  of the plan whose rate is told
 * @return          number of names
 */
int32_t validated_range_respects(const struct validated_range *range, const struct scenario *scenario, int64_t cp,
                                 int32_t sharding, const char *names[RANGE_N_RESPECTS]);

#endif
