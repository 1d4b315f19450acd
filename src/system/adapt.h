/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Offload and recomputation of single units, so that a plan just fits: what the memory timeline asks for. */
#ifndef SLIMSIM_SYSTEM_ADAPT_H
#define SLIMSIM_SYSTEM_ADAPT_H

#include "bounds/memory.h"
#include "system/system.h"

/** What may be changed, from the units' own settings on. */
struct adapt_rule {
    bool offload, recompute;
    double limit_s; /* a plan that ends later is of no use; 0: none is */
};

/** What a plan comes to without the gradients' traffic. */
struct adapt_outcome {
    double makespan_s, peak_bytes;
};

/**
 * Resolve a plan (critical path and memory timeline), and while a rank needs more than request->memory_bytes change
 * units and resolve it again:
 *
 * - On each place above the limit, look at the first moment of its peak: forward units that have begun and whose
 *   tokens no backward unit has begun to consume are held. Of these as many are changed as the excess asks for.
 * - offload: those whose forward has ended, the one whose backward comes last first (it stays longest on the host;
 * ties: lower unit), each up to its whole share; the last one by just what is missing. The copies are in the graph, so
 * what they delay is counted in the next round, and if one comes too late another unit is taken then.
 * - recompute, where nothing is left to offload: one step (none, selective, full) of the unit that adds the least
 *   seconds of backward pass for each byte it frees (ties: lower unit), so short samples first.
 *
 * A backward unit recomputes all its tokens as the strongest of the forward units it consumes does: it runs layer by
 * layer as one batch. Units that pipelines share get the strongest setting of any. Every round changes something, so
 * it ends; at ADAPT_MAX_ROUNDS, or where nothing is left to change, the plan stays as it is and does not fit.
 * With offload alone rounds only add copies and lengthen them, in the same orders, so none makes the plan end earlier:
 * they end, too, once it ends after rule.limit_s.
 *
 * @param timeline  arrays to use
 */
bool adapt_plan(const struct system_request *request, struct adapt_rule rule, struct plan *plan,
                struct timeline *timeline, struct adapt_outcome *outcome, struct error *err);

enum { ADAPT_MAX_ROUNDS = 60 };

#endif
