/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This function computes transfers that share links, without SimGrid. */
#ifndef SLIMSIM_TESTS_HAND_FLUID_H
#define SLIMSIM_TESTS_HAND_FLUID_H

#include "bounds/critical_path.h"

/** Find the start and finish of every task on hand_platform's links, from GPU to GPU only. A transfer takes NVLink out
 * of one GPU and into the other inside a node, and their NICs between nodes. All running transfers get the max-min
 * fair share at every moment, by progressive filling (Bertsekas, Gallager: Data Networks, 6.5.2). It is slow and
 * plain. The caller frees the timeline with timeline_free. */
struct timeline hand_fluid(const struct dag *dag);

#endif
