/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What published runs say of a GPU whose memory is nearly full: model/memory_pressure.yaml. */
#ifndef SLIMSIM_SCENARIO_PRESSURE_H
#define SLIMSIM_SCENARIO_PRESSURE_H

#include "scenario/schema.h"

/** Nothing of it is modelled: results carry it in words. */
struct memory_pressure {
    char source[512];
    double share;            /* of what a rank may use, from which on it counts as nearly full */
    int64_t runs, slow_runs; /* of published runs so full, and those slower than predicted */
    int64_t other_runs, other_slow_runs;
    double slower_least, slower_most; /* than which share of predicted over measured throughput, less 1 */
};

/** @return false with err: the file cannot be read */
bool pressure_read(const char *data_dir, struct memory_pressure *pressure, struct error *err);

#endif
