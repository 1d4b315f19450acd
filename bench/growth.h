/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module measures the exponents with which the cost of one iteration grows on the critical path. */
#ifndef SLIMSIM_BENCH_GROWTH_H
#define SLIMSIM_BENCH_GROWTH_H

#include "base/error.h"

/** Print a table of exponents: log of the ratio of CPU over log of the ratio of sizes. Plans count, too. */
bool bench_growth(struct error *err);

#endif
