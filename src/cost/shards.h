/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These are gathers of parameters and reductions of gradients inside passes, for zero2 and zero3. */
#ifndef SLIMSIM_COST_SHARDS_H
#define SLIMSIM_COST_SHARDS_H

#include "cost/pass_cost.h"
#include "cost/setting.h"

/**
 * Add what a run's layers gather and reduce in a pass. The pass's kernels must be in `cost`. Each layer is gathered by
 * itself. One of L layers takes c seconds in this pass, and beside is overlap_beside_s (cost/overlap.h).
 *
 * 1. zero3 forward: a layer's bf16 parameters are gathered (g s) while the layer before computes. The first gather is
 *    before all layers:  g + (L - 1) (beside(c, g) - c)
 * 2. zero3 backward: parameters are gathered again, the first ones beside the head's backward (shards_of_tables). A
 *    layer's gradients are reduce-scattered (r s) while the next one computes. Both share one stream of NCCL:  (L - 1)
 *    (beside(c, g + r) - c) + r
 * 3. zero2 backward:  (L - 1) (beside(c, r) - c) + r, with dp_overlap none (DeepSpeed's default)  L r
 *    If no forward frees what it gathered (keeps_gathered), the backward gathers nothing.
 * 4. If m groups hold the same shards (HSDP), r also has the all-reduce of a rank's shard of the gradients. Each of m
 *    ranks sends 2 (m - 1)/m of it, in every backward pass.
 * 5. Each collective takes multiprocessors by its own extent (enum overlap_extent). For g and the reduce-scatter it is
 *    a group, for the all-reduce it is all groups.
 * 6. Copies and conversions count as computation, in c too. They are memory-bound, with one launch for all of a layer
 *    and pass. FSDP1 and FSDP2 (`fsdp`) differ in them.
 * 7. A layer hides the collectives of its own kind, also if the next layer is of another kind.
 * 8. The kind of the first layer has these sums (`first`). Other kinds hide all their collectives, L in place of L - 1.
 *
 * 9. With zero2's optimizer on the host each reduction is followed by a copy on its stream (cost_host_gradient_bytes).
 * 10. With stages (`staged`) the backward only adds the layers' bf16 gradients to the whole ones, in the precision of
 *    their reduction. shards_gather has the gathers.
 *
 * 11. On demand (cost_shards_on_demand) a rank reads and sends by itself. Its NIC carries on_demand_slowdown times the
 *    bytes of a ring, because no neighbour passes on what it has read.
 *
 * docs/model/memory.md, Sharded parameters and gradients, has the bytes of copies, what is left out, and the sources.
 */
void shards_of_layers(const struct cost_setting *setting, bool first, enum pass pass, struct cost_pass *cost);

/** Add the collectives of embedding, last norm and head, which are FSDP's root unit: cost_of_head. With stages these
 * are the additions of gradients of last norm and head. */
void shards_of_tables(const struct cost_setting *setting, enum pass pass, struct cost_pass *cost);

/**
 * Add the gathers of a pass that finds the parameters of its stage sharded, to components of its cost: cost/cache.h.
 * Only stages of zero3 (`staged`) have them.
 *
 * 1. Layers take what zero3's forward takes with one stage:  g + (L - 1) (beside(c, g) - c)
 * 2. Embedding, and last norm with head, are exposed. Backwards do not gather them.
 */
void shards_gather_layers(const struct cost_setting *setting, struct cost_pass *layers);
void shards_gather_ends(const struct cost_setting *setting, bool first, bool last, struct cost_pass *end);

/** Traffic of a rank in the collectives of a pass with one stage. */
struct shards_traffic {
    double all_s;                    /* of all collectives, one after the other, without other traffic */
    bool hides;                      /* they run beside kernels */
    int32_t each;                    /* ranks of a group in an NVLink domain, whose rings leave the domain */
    double inside_bytes, rail_bytes; /* to the next rank of a domain; by a rail. Over the links' efficiency */
    double replica_bytes;            /* to the same shard in the next domain, if several groups hold it */
};

/** Return the traffic of all layers and both ends in a pass of zero2 or zero3. */
struct shards_traffic shards_traffic_of(const struct cost_setting *setting, enum pass pass);

#endif
