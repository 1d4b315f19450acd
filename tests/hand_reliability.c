/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_reliability.h"

struct reliability hand_reliability(double failures, double restart_s, double blocked_s, double interval_s)
{
    return (struct reliability){.present = true,
                                .failures = {[FAILURE_OTHER] = failures},
                                .weibull_shape = 1,
                                .detect_s = restart_s,
                                .interval_s = interval_s,
                                .blocked_s = blocked_s,
                                .bytes_per_parameter = 1,
                                .storage_bytes_per_s = 1e18,
                                .slow_factor = 1};
}

struct goodput_setting hand_training(const struct reliability *reliability, int64_t n_nodes)
{
    return (struct goodput_setting){reliability, n_nodes, 8, 1, 64e9};
}
