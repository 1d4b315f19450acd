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

/** The graph has the traffic of gradients; all_ranks: one place for each tensor rank. */
void hand_open_run(struct hand_run *run, const struct plan *plan, const struct cost_setting *setting, bool all_ranks);
void hand_close_run(struct hand_run *run);

/** Largest bytes of a class on a place. */
double hand_highest(const struct memory *memory, int32_t place, enum memory_class class);

/** Activations of a token in a layer of hand_setting's model [bytes]. */
double hand_activation(enum recompute recompute, bool sliced);

/** Bytes that the head of hand_setting's model keeps for the backward of so many tokens: 4V + 4h a token. */
double hand_head_kept(double tokens);

#endif
