/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Transfers that share links, without SimGrid. */
#ifndef SLIMSIM_TESTS_HAND_FLUID_H
#define SLIMSIM_TESTS_HAND_FLUID_H

#include "bounds/critical_path.h"

/**
 * Start and finish of every task on hand_platform's links, GPU to GPU only: NVLink out of one and into the other inside
 * a node, their NICs between nodes. All that is on the way gets the max-min fair share at every moment, by progressive
 * filling (Bertsekas, Gallager: Data Networks, 6.5.2). Slow, and plain. The caller frees with timeline_free.
 */
struct timeline hand_fluid(const struct dag *dag);

#endif
