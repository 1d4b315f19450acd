/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Candidates of a system for one batch, of which the fastest stays. */
#ifndef SLIMSIM_SYSTEM_FASTEST_H
#define SLIMSIM_SYSTEM_FASTEST_H

#include "bounds/critical_path.h"
#include "cost/cache.h"
#include "dag/dag.h"
#include "system/system.h"

/** {0} at first. */
struct fastest {
    struct plan plan; /* the one whose passes end first (critical path, without the gradients' traffic; ties: the first
                         that came); its n_candidates and n_resolved are those of all */
    double end_s;
    struct dag dag; /* the room of these two is used again */
    struct timeline timeline;
    struct cost_cache costs; /* candidates have units in common; unused where the request brings one */
};

/**
 * One more candidate, which is taken over. It is not resolved if the last stage of a rank alone has more to do than the
 * fastest so far takes, or than request->limit_s allows: if none is resolved, the plan has no phases. false with err:
 * it cannot run, and nothing is left.
 */
bool fastest_add(const struct system_request *request, struct plan *candidate, struct fastest *fastest,
                 struct error *err);

/** The plan, to the caller; all else is freed. */
struct plan fastest_take(struct fastest *fastest);

/** M and its halves are the tokens a rank that dynamic degrees are tried with, largest first. @return M / 2^i, 0: it
 * is no candidate (i above FASTEST_N_HALVINGS, or nothing left of M). [tokens] */
int32_t fastest_half(int64_t most, int32_t i);

enum { FASTEST_N_HALVINGS = 5 };

#endif
