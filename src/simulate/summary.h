/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module summarises the measured iterations of one system of a point. */
#ifndef SLIMSIM_SIMULATE_SUMMARY_H
#define SLIMSIM_SIMULATE_SUMMARY_H

#include "simulate/point_runner.h"

/** Return the summary of one system without its rank. @param index  of the system */
struct trace_summary point_summary_of(const struct scenario *scenario, const struct point *point, int32_t index);

/**
 * Return what a system that does not fit lacks: "stage 3 needs 95.2 of 74.9 GiB, mostly activations", or "node 0 needs
 * 812 of 800 GiB of host memory, mostly of stage 1", or both. The caller frees it.
 */
char *summary_lack_text(const struct trace_summary *summary);

#endif
