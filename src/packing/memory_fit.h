/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Offload and recomputation of single units, so that a plan just fits: what the memory timeline asks for. */
#ifndef SLIMSIM_PACKING_MEMORY_FIT_H
#define SLIMSIM_PACKING_MEMORY_FIT_H

#include "bounds/memory.h"
#include "packing/memory_fit_place.h"

/** What a plan comes to without the gradients' traffic. */
struct memory_fit_outcome {
    double makespan_s;
    double peak_bytes; /* of the rank that needs most; if the plan has more on a host than it may, this is at least as
                          far above its limit as that */
    double host_share; /* what it has on the host over the even shares of its GPUs; of the node where that is most */
    bool offloads, recomputes; /* some unit was changed so */
    bool host_ends;            /* offload took more of a host than it may */
};

/** What resolving takes: kept from plan to plan. */
struct memory_fit_arrays {
    struct dag dag;
    struct timeline timeline;
    struct memory memory;
};

void memory_fit_arrays_free(struct memory_fit_arrays *arrays);

/** The most that a GPU of a plan of so many DP ranks can have on the host: a node's memory is shared evenly by its GPUs
 * that train, and those of the plan have their shares together. */
double memory_fit_host_bytes(const struct plan_request *request, int32_t n_ranks, bool even);

/**
 * Resolve a plan (critical path and memory timeline), and while a rank needs more than request->memory_bytes change
 * units and resolve it again:
 *
 * - offload: each place above the limit decides for its stage alone (plan_pipeline.offload). Its memory is walked in
 *   time. At each moment above the limit units go that have run forward and need not come back yet, first the one whose
 *   backward comes last (it stays away longest, so the least goes that covers all moments; ties: lower unit), each up
 *   to its whole share, the last one by just what is missing. Units whose copy would be over by then go before those
 *   whose copy would not. The copies are in the graph: what they delay is counted in the next round. On one stage units
 *   stream: what goes is of all layers but two, and is away from the start of the forward to the end of the last
 *   backward that consumes of it. Where nothing more of other units can go, more of the unit goes whose forward runs.
 * - recompute, at the moment where a place is furthest above the limit with nothing left to offload: one step (none,
 *   selective, full) of the held unit (begun forward, its consumer not begun) that adds the least seconds of backward
 *   pass for each byte it frees (ties: lower unit), so short samples first. A unit recomputes on all stages, so what it
 *   frees counts on each of them at once.
 *
 * A backward unit recomputes all its tokens as the strongest of the forward units it consumes does: it runs layer by
 * layer as one batch. Units that pipelines share get the strongest recomputation of any. Every round changes something,
 * so it ends; at MEMORY_FIT_MAX_ROUNDS, or where nothing is left to change, the plan stays as it is and does not fit.
 * It ends, too, once the plan has more on a node's host than it may; then it does not fit either. With offload alone
 * rounds only add copies and lengthen them, in the same orders, so none makes the plan end earlier: they end, too, once
 * it ends after rule.limit_s.
 *
 * @param arrays  {0} at first: their room is used again
 */
bool memory_fit(const struct plan_request *request, struct memory_fit_rule rule, struct plan *plan,
                struct memory_fit_arrays *arrays, struct memory_fit_outcome *outcome, struct error *err);

enum { MEMORY_FIT_MAX_ROUNDS = 60 };

#endif
