/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module computes the bytes of the model's states on a rank: weights, gradients, optimizer. */
#ifndef SLIMSIM_BOUNDS_STATES_H
#define SLIMSIM_BOUNDS_STATES_H

#include "dag/dag.h"

/**
 * Return the bytes of all states of a rank. They are those of its stage with all chunks and gradients, and tensors that
 * zero2 and zero3 gather from them. Each block is rounded as the allocator rounds it.
 */
double states_standing_bytes(const struct plan *plan, const struct cost_setting *setting,
                             const struct dag_rank *dag_rank);

/**
 * Return the bytes that a rank still holds of the layout before while the model moves to its own layout. They are
 * weights, and gradients of the iteration. 0: nothing is re-sharded before its phase.
 */
double states_moving_bytes(const struct plan *plan, const struct cost_setting *setting,
                           const struct dag_rank *dag_rank);

/** Return the bytes that a rank's optimizer copies of gradients while it steps. */
double states_copy_bytes(const struct plan *plan, const struct cost_setting *setting, const struct dag_rank *dag_rank);

/** Return the bytes of the optimizer that a rank's host holds. */
double states_host_bytes(const struct plan *plan, const struct cost_setting *setting, const struct dag_rank *dag_rank);

/** Gradients of a virtual stage that are not kept, in the order in which its backward adds them [bytes]. */
struct states_gradients {
    int32_t layers;
    double head;   /* of the head and the last norm, before the layers; zero2, zero3: included in tables */
    double layer;  /* of each layer, of several kinds the mean */
    double tables; /* of the embedding, after the layers */
};

struct states_gradients states_gradients_of(const struct plan *plan, const struct cost_setting *setting,
                                            const struct dag_rank *dag_rank, int32_t chunk);

#endif
