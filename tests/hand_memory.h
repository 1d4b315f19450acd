/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Tests of memory build the graph, the times and the memory of a plan here. */
#ifndef SLIMSIM_TESTS_HAND_MEMORY_H
#define SLIMSIM_TESTS_HAND_MEMORY_H

#include "bounds/memory.h"

/** A plan's graph, times and memory. */
struct hand_run {
    struct dag dag;
    struct timeline timeline;
    struct memory memory;
};

/** Build and resolve a plan with the traffic of gradients. all_ranks: each tensor rank has a place. */
void hand_open_run(struct hand_run *run, const struct plan *plan, const struct cost_setting *setting, bool all_ranks);
void hand_close_run(struct hand_run *run);

/** Find the largest bytes of a class on a place. */
double hand_highest(const struct memory *memory, int32_t place, enum memory_class class);

/** Count the activations of a token in a layer of hand_setting's model [bytes]. */
double hand_activation(enum recompute recompute, bool sliced);

/** Count the bytes that the head of hand_setting's model keeps for the backward: 4V + 4h a token. */
double hand_head_kept(double tokens);

#endif
