/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What moves between ranks when a model changes its layout (HotSPa's switch planner). */
#ifndef SLIMSIM_PACKING_RESHARD_H
#define SLIMSIM_PACKING_RESHARD_H

#include "cost/cost.h"
#include "plan/plan.h"

/** What ranks send each other from one layout to another. */
struct reshard_messages {
    int64_t from_tp, from_pp, to_tp, to_pp;
    bool gradients;
    int32_t n;
    struct plan_reshard *message; /* in the order of reshard_plan */
};

/** Switches of one model on one cluster that have been planned: none is planned twice. {0} is empty. */
struct reshard_memory {
    int32_t n;
    size_t capacity;
    struct reshard_messages *of;
};

/** Free all. */
void reshard_forget(struct reshard_memory *memory);

/**
 * Fill phase->reshards with what brings parameters, and gradients if wanted, from one layout of Megatron's order to
 * another on the same ranks. CP must be 1 in both. Tied embeddings are one table on a stage of all layers, else one on
 * the first and one on the last.
 *
 * Every layer, the embedding and the head is cut into as many equal slices as both tensor degrees have in common.
 * bf16 parameters: for each slice and each rank that needs it: if that rank has it, nothing moves; else the rank of
 * the same node that has it and has sent least inside nodes so far sends it; else the one that has sent least across
 * nodes. Gradients (4 or 2 bytes) are sums of each replica's own micro-batches, which the update adds up: each rank's
 * slice goes to one rank that needs it: itself if it does; else the one on its node that has received least inside
 * nodes, else the one that has received least across. Ties: the lowest rank. What a pair of ranks exchanges is one
 * message. Those inside nodes, then those across are listed such that the next one is the one that can begin first,
 * when every rank sends and receives one at a time (ties: to the nearest higher rank, around the cluster): so that no
 * receiver has several senders while another has none.
 *
 * @param memory  of this model and cluster
 * Source: HotSPa (SOSP '24), its code's planner for parameters, from a summary; gradients are inferred.
 */
void reshard_plan(const struct cost_setting *setting, const struct scenario_plan *from, const struct scenario_plan *to,
                  bool gradients, struct reshard_memory *memory, struct plan_phase *phase);

#endif
