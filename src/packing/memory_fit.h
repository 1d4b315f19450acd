/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file offloads and recomputes single micro-batches, so that a plan just fits the memory timeline. */
#ifndef SLIMSIM_PACKING_MEMORY_FIT_H
#define SLIMSIM_PACKING_MEMORY_FIT_H

#include "bounds/evaluate.h"
#include "packing/memory_fit_place.h"

/**
 * Resolve a plan (critical path and memory timeline). While a rank needs more than request->memory_bytes, change
 * micro-batches and resolve it again.
 *
 * 1. Offload: each rank above the limit decides for its stage only (plan_pipeline.offload). Its memory is walked in
 *    time. At each moment above the limit it sends micro-batches that have run forward and are not needed yet. The
 * micro-batch with the last backward goes first, because it is away longest (ties: lower micro-batch). Each goes up to
 * its whole share, the last one by just the missing bytes. Micro-batches whose copy would be over by then go before
 * others.
 * 2. The copies are in the graph, so the next round counts their delays.
 * 3. On one stage micro-batches stream. Then all layers except two can go. They are away from the start of the forward
 * to the end of the last backward that consumes the micro-batch. If other micro-batches have nothing left, more goes of
 * the micro-batch whose forward runs.
 * 4. Recompute: it acts at the moment at which a rank is furthest above the limit with nothing left to offload. It
 *    takes one step (none, selective, full) of a held micro-batch: begun forward, its consumer not begun. The step adds
 * the fewest seconds of backward pass for each byte that it frees (ties: lower micro-batch). So short samples go first.
 * A micro-batch recomputes on all stages, so each of them counts the freed bytes.
 * 5. A backward micro-batch recomputes all its tokens like the strongest of its forward micro-batches. It runs layer by
 * layer as one batch. Micro-batches that pipelines share get the strongest recomputation of any.
 * 6. It ends if nothing is left to change, or after MEMORY_FIT_MAX_ROUNDS. The plan then does not fit. Every round
 *    changes something.
 * 7. It also ends once a node's host is full. A plan of some of the ranks has their share of the host.
 * 8. With offload only, rounds add and lengthen copies in the same orders, so no round makes the plan end earlier. It
 *    therefore ends once the plan ends after rule.limit_s.
 *
 * @param evaluation  of the final plan, without the gradients' traffic
 */
bool memory_fit(const struct plan_request *request, struct memory_fit_rule rule, struct plan *plan,
                struct evaluator *evaluator, struct evaluation *evaluation, struct error *err);

enum { MEMORY_FIT_MAX_ROUNDS = 60 };

#endif
