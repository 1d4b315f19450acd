/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads what published runs say about a GPU whose memory is nearly full: model/memory_pressure.yaml. */
#ifndef SLIMSIM_SCENARIO_PRESSURE_H
#define SLIMSIM_SCENARIO_PRESSURE_H

#include "document/schema.h"

/** Observations of nearly full memories, where a plan fits only tightly. No time is modelled from them. */
struct memory_pressure {
    char source[512];
    double reserve_most; /* reserved over allocated memory, less 1, that nine of ten measured steps did not exceed */
    int64_t runs, slow_runs; /* published runs that are so full, and those of them that were slower than predicted */
    int64_t other_runs, other_slow_runs;
    double slower_least, slower_most; /* range of predicted over measured throughput, less 1 */
};

/** @return false with err: the file cannot be read */
bool pressure_read(const char *data_dir, struct memory_pressure *pressure, struct error *err);

#endif
