/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module says which work the seconds of the critical path are. */
#ifndef SLIMSIM_BOUNDS_PATH_TIME_H
#define SLIMSIM_BOUNDS_PATH_TIME_H

#include "bounds/critical_path.h"

/** Kinds of work on the critical path. */
enum path_class {
    PATH_PRODUCTS,
    PATH_ATTENTION,
    PATH_OTHER_KERNELS, /* of passes */
    PATH_LAUNCHES,      /* waits for the host's launches */
    PATH_TENSOR,        /* exposed tensor-parallel collectives */
    PATH_SHARDS,        /* exposed collectives of zero2 and zero3 inside passes */
    PATH_EXPERTS,       /* tokens to experts and back */
    PATH_CONTEXT,       /* context parallelism, and attention by blocks */
    PATH_BOUNDARY,
    PATH_HOST, /* copies to and from the host */
    PATH_GRADIENTS,
    PATH_OPTIMIZER,
    PATH_PARAMETERS,
    PATH_RESHARD,
    PATH_N_CLASSES
};

/** Names for a sentence: "GEMMs", "attention". */
extern const char *const path_class_name[PATH_N_CLASSES];

/** Seconds of a critical path; their sum is its length. */
struct path_time {
    double seconds[PATH_N_CLASSES];
};

/**
 * Walk one critical path from its end and sum up the durations by class.
 *
 * 1. The walk starts at the first task that finishes last.
 * 2. A task's predecessor on the path is its first in-edge that finishes when the task starts.
 *
 * @param timeline  of critical_path()
 * @param setting   setting that the graph was built with
 */
struct path_time path_time_of(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting,
                              const struct timeline *timeline);

#endif
