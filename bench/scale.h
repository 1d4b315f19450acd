/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef SLIMSIM_BENCH_SCALE_H
#define SLIMSIM_BENCH_SCALE_H

#include "base/error.h"

/** Print a table: CPU and memory of one iteration by GPUs and units, each row in a process of its own. */
bool bench_scale(struct error *err);

#endif
