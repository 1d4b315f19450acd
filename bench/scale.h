/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module measures how the cost of one iteration grows with GPUs and micro-batches. */
#ifndef SLIMSIM_BENCH_SCALE_H
#define SLIMSIM_BENCH_SCALE_H

#include "base/error.h"

/** Print a table of CPU and memory of one iteration by GPUs and micro-batches. Each row runs in its own process. */
bool bench_scale(struct error *err);

#endif
