/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Candidates of a system for one batch, of which the fastest stays. */
#ifndef SLIMSIM_SYSTEM_FASTEST_H
#define SLIMSIM_SYSTEM_FASTEST_H

#include "system/system.h"

/** A system's plan with so many tokens a rank. */
typedef void fastest_with(const struct system_request *request, int32_t tokens, struct plan *plan);

enum { FASTEST_N_HALVINGS = 5 };

/**
 * The fastest of the plans with `most` tokens a rank, half of it, a quarter, ... halved up to FASTEST_N_HALVINGS times,
 * while above 0: the one whose passes end first (critical path, without the gradients' traffic; ties: the most tokens).
 * They are resolved in the order of their lower bounds (system/alone.h), those whose bound is above the fastest so far,
 * or above request->limit_s, not at all: if none is, or the fastest ends later than that, the plan has no phases.
 * n_candidates and n_resolved are those of all. false with err: one cannot run.
 */
bool fastest_of_halves(const struct system_request *request, int32_t most, fastest_with *with, struct plan *plan,
                       struct error *err);

#endif
