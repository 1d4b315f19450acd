/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module checks the layout that a scenario gives a system against its model and platform. */
#ifndef SLIMSIM_SCENARIO_LAYOUT_H
#define SLIMSIM_SCENARIO_LAYOUT_H

#include "scenario/scenario.h"

/** Check that degrees, stages, shards, schedule and recomputation match each other, the model and the GPUs. dp is
 * filled in, and layout_fit is applied. The entry must have been read without errors. Every error is a line of err with
 * its place. */
bool layout_check(const struct scenario *scenario, struct scenario_system *system, struct error *err);

/** Return whether a plan's virtual stages hold at most SCENARIO_MOST_STAGE_KINDS different sequences of layers. */
bool layout_stages_are_few(const struct model *model, const struct scenario_plan *plan);

/** Return whether ep divides the experts of all kinds of layers, and ep x etp the GPUs of a stage and is a multiple or
 * divisor of tp and of tp x cp. */
bool layout_shares_experts(const struct model *model, const struct scenario_plan *plan);

/** Return whether every rank of a plan has the whole head, if the loss needs it. */
bool layout_takes_loss(const struct scenario *scenario, const struct scenario_plan *plan);

/** Check that DeepSpeed's BF16_Optimizer, which copies gradients to an fp32 sum, has this plan or this search. */
bool layout_check_accumulation(const struct scenario *scenario, const struct scenario_system *system,
                               struct error *err);

/**
 * Reset values of the framework that the plan cannot have. Keys that the entry itself sets stay.
 * - `early_stop` needs recompute full.
 * - `fsdp` needs sharding zero2 or zero3.
 * - `fsdp_ends` and `fsdp_prefetch` need their version of FSDP.
 *
 * @param node  the entry in the scenario's document; -1: the plan is a search's
 */
void layout_fit(const struct scenario *scenario, int32_t node, struct scenario_plan *plan);

/**
 * Return whether a plan can have this value of communication.ep_overlap. With it Megatron-LM refuses layers and experts
 * that are computed again, and stages that are not interleaved (transformer_config.py).
 * @param own_schedule  the system orders passes itself, not as Megatron-LM does
 */
bool layout_takes_ep_overlap(const struct scenario_plan *plan, bool ep_overlap, bool own_schedule);

#endif
