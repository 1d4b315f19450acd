/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file searches the fastest of a system's candidates for one batch, which differ in tokens a rank. */
#ifndef SLIMSIM_PACKING_TOKEN_CAP_SEARCH_H
#define SLIMSIM_PACKING_TOKEN_CAP_SEARCH_H

#include "plan/request.h"

/** Make a system's plan with so many tokens a rank, in one of its variants, counted from 0. The result is false if
 * there is no such variant. */
typedef bool token_cap_planner(const struct plan_request *request, int32_t tokens, int32_t variant, struct plan *plan);

enum { TOKEN_CAP_N_HALVINGS = 5, TOKEN_CAP_N_VARIANTS = 2 };

/**
 * Return the fastest plan of all candidates.
 *
 * 1. Candidates have `most` tokens a rank, half of it, a quarter, and so on. They are halved up to n_halvings times (at
 *    most TOKEN_CAP_N_HALVINGS), while above 0. Each has all variants (at most TOKEN_CAP_N_VARIANTS).
 * 2. Prefer candidates that fit GPUs and nodes' hosts, then the one whose passes end first (critical path, without the
 *    gradients' traffic). Ties go to the most tokens, then to the lower variant. If none fits, take the one that
 *    exceeds memory by the least share.
 * 3. Candidates are resolved in the order of their lower bounds (bounds/lower_bound.h). A candidate is not resolved if
 *    its bound is above the fastest so far that fits, or above request->limit_s.
 * 4. If none is resolved, or the fastest ends later than request->limit_s, the plan has no phases.
 * 5. A single candidate is the plan and is not resolved.
 * 6. n_candidates and n_resolved count all candidates. Without any the plan has neither phases nor candidates.
 *
 * @return false with err if a candidate cannot run
 */
bool token_cap_search(const struct plan_request *request, int32_t most, int32_t n_halvings, token_cap_planner *planner,
                      struct plan *plan, struct error *err);

/**
 * Search likewise for the tokens that a user may give. With `given` above 0 it is the only candidate. Otherwise the
 * candidates are packing_memory_tokens and TOKEN_CAP_N_HALVINGS halves. Either is at most the context, at least 1.
 */
bool token_cap_search_given(const struct plan_request *request, int64_t given, token_cap_planner *planner,
                            struct plan *plan, struct error *err);

#endif
