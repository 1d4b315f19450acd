/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Offload and recomputation of single units, so that a plan just fits: what the memory timeline asks for. */
#ifndef SLIMSIM_PACKING_MEMORY_FIT_H
#define SLIMSIM_PACKING_MEMORY_FIT_H

#include "bounds/evaluate.h"
#include "packing/memory_fit_place.h"

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
 * It ends, too, once a node's host is full; a plan of some of the ranks has their share of it. With offload alone
 * rounds only add copies and lengthen them, in the same orders, so none makes the plan end earlier: they end, too, once
 * it ends after rule.limit_s.
 *
 * @param evaluation  of the plan as it is left, without the gradients' traffic
 */
bool memory_fit(const struct plan_request *request, struct memory_fit_rule rule, struct plan *plan,
                struct evaluator *evaluator, struct evaluation *evaluation, struct error *err);

enum { MEMORY_FIT_MAX_ROUNDS = 60 };

#endif
