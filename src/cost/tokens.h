/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These functions compute cost_of_pass in two steps, for callers that know the first. It depends on a rank's tokens
 * only, and the slices add the second. */
#ifndef SLIMSIM_COST_TOKENS_H
#define SLIMSIM_COST_TOKENS_H

#include "cost/cost.h"

/** Compute a pass without attention and its transfers, without recomputation, and before shards are gathered and
 * reduced. */
struct cost_pass cost_of_tokens(const struct cost_setting *setting, enum pass pass, double tokens);

/**
 * Add these terms. The result equals cost_of_pass to the last bit.
 *
 * @param forward  cost_of_tokens of the forward that is repeated, if cost_repeats; otherwise it is not read
 */
void cost_add_slices(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                     const struct cost_unit *unit, const struct cost_pass *forward);

/** Return whether a pass repeats the forward of whole layers. cost_setting_again has these layers. */
bool cost_repeats(enum pass pass, const struct cost_unit *unit);
struct cost_setting cost_setting_again(const struct cost_setting *setting);

#endif
