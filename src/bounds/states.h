/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Bytes of the model's states on a dag_rank: weights, gradients, optimizer. */
#ifndef SLIMSIM_BOUNDS_STATES_H
#define SLIMSIM_BOUNDS_STATES_H

#include "dag/dag.h"

/** All states of a dag_rank [bytes]: those of its stage with all chunks, gradients included, and what zero2 and zero3
 * gather of them; each block as the allocator rounds it. */
double states_standing_bytes(const struct plan *plan, const struct cost_setting *setting,
                             const struct dag_rank *dag_rank);

/** What a dag_rank still holds of the layout before while the model moves to the dag_rank's own: weights, and gradients
 * of the iteration [bytes]. 0: nothing is re-sharded before its phase. */
double states_moving_bytes(const struct plan *plan, const struct cost_setting *setting,
                           const struct dag_rank *dag_rank);

/** Gradients of a virtual stage that are not kept, in the order in which its backward brings them [bytes]. */
struct states_gradients {
    int32_t layers;
    double head;   /* of the head and the last norm: before the layers; zero2, zero3: among the tables' */
    double layer;  /* of each layer */
    double tables; /* of the embedding: behind the layers */
};

struct states_gradients states_gradients_of(const struct plan *plan, const struct cost_setting *setting,
                                            const struct dag_rank *dag_rank, int32_t chunk);

#endif
