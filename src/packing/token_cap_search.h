/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Candidates of a system for one batch, of which the fastest stays. */
#ifndef SLIMSIM_PACKING_TOKEN_CAP_SEARCH_H
#define SLIMSIM_PACKING_TOKEN_CAP_SEARCH_H

#include "plan/request.h"

/** A system's plan with so many tokens a rank, in one of its variants, from 0 on. false: there is no such variant. */
typedef bool token_cap_planner(const struct plan_request *request, int32_t tokens, int32_t variant, struct plan *plan);

enum { TOKEN_CAP_N_HALVINGS = 5, TOKEN_CAP_N_VARIANTS = 2 };

/**
 * The fastest of the plans, in all variants (at most TOKEN_CAP_N_VARIANTS), with `most` tokens a rank, half of it, a
 * quarter, ... halved up to n_halvings (at most TOKEN_CAP_N_HALVINGS) times, while above 0: of those that fit GPUs and
 * nodes' hosts the one whose passes end first (critical path, without the gradients' traffic; ties: the most tokens,
 * the lower variant); where none fits, the one that lacks the least share. They are resolved in the order of their
 * lower bounds (bounds/lower_bound.h), those whose bound is above the fastest so far that fits, or above
 * request->limit_s, not at all: if none is, or the fastest ends later than that, the plan has no phases. Where there is
 * but one, it is the plan, not resolved. n_candidates and n_resolved are those of all. false with err: one cannot run.
 */
bool token_cap_search(const struct plan_request *request, int32_t most, int32_t n_halvings, token_cap_planner *with,
                      struct plan *plan, struct error *err);

#endif
