/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file plans the messages between ranks when a model changes its layout (HotSPa's switch planner). */
#ifndef SLIMSIM_PACKING_RESHARD_H
#define SLIMSIM_PACKING_RESHARD_H

#include "cost/setting.h"
#include "plan/plan.h"

/** Messages between ranks from one layout to another. */
struct reshard_messages {
    int64_t from_tp, from_pp, to_tp, to_pp;
    bool gradients;
    int32_t n;
    struct plan_reshard *message; /* in the order of reshard_plan */
};

/** Planned switches of one model on one cluster, so that none is planned twice. {0} is empty. */
struct reshard_memory {
    int32_t n;
    size_t capacity;
    struct reshard_messages *planned;
};

/** Free all switches. */
void reshard_forget(struct reshard_memory *memory);

/**
 * Fill phase->reshards with the messages that bring parameters, and gradients if wanted, from one layout to another.
 * Both are Megatron's orders on the same ranks, with CP 1.
 *
 * 1. Tied embeddings are one table on a stage of all layers. Otherwise there is one on the first and one on the last
 *    stage. MTP has a table on the last stage, too, and its layers are there.
 * 2. Every layer, the embedding and the head is cut into equal slices. Their number is the least common multiple of
 *    both tensor degrees.
 * 3. bf16 parameters, for each slice and each rank that needs it: if that rank has it, nothing moves. Otherwise the
 *    rank of the same NVLink domain that has it and has sent least inside domains sends it. If there is none, the one
 *    that has sent least across domains does.
 * 4. Gradients (4 or 2 bytes) are sums of each replica's own micro-batches, which the update adds up. Each rank's slice
 *    goes to one rank that needs it: to itself if it does. Otherwise it goes to the one in its domain that has received
 *    least inside domains. If there is none, it goes to the one that has received least across.
 * 5. Ties go to the lowest rank.
 * 6. All slices from one rank to another are one message.
 * 7. Messages inside domains are listed first, then those across. Every rank sends and receives one at a time. The next
 *    message is the one that can begin first (ties: to the nearest higher rank, around the cluster). So no receiver has
 *    several senders while another has none.
 *
 * @param memory  switches of this model and cluster
 * Source: HotSPa (SOSP '24), its code's planner for parameters, from a summary; gradients are inferred.
 */
void reshard_plan(const struct cost_setting *setting, const struct scenario_plan *from, const struct scenario_plan *to,
                  bool gradients, struct reshard_memory *memory, struct plan_phase *phase);

#endif
