/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Bytes of the model's states on a place: weights, gradients, optimizer. */
#ifndef SLIMSIM_BOUNDS_STATES_H
#define SLIMSIM_BOUNDS_STATES_H

#include "dag/dag.h"

/** All states of a place [bytes]: those of its stage with all chunks, gradients included, and what zero2 and zero3
 * gather of them; each block as the allocator rounds it. */
double states_standing_bytes(const struct plan *plan, const struct cost_setting *setting,
                             const struct dag_place *place);

/** What a place still holds of the layout before while the model moves to the place's own: weights, and gradients of
 * the iteration [bytes]. 0: nothing is re-sharded before its phase. */
double states_moving_bytes(const struct plan *plan, const struct cost_setting *setting, const struct dag_place *place);

/** Gradients of a virtual stage that are not kept, in the order in which its backward brings them [bytes]. */
struct states_gradients {
    int32_t layers;
    double head;   /* of the head and the last norm: before the layers; zero2, zero3: among the tables' */
    double layer;  /* of each layer */
    double tables; /* of the embedding: behind the layers */
};

struct states_gradients states_gradients_of(const struct plan *plan, const struct cost_setting *setting,
                                            const struct dag_place *place, int32_t chunk);

#endif
