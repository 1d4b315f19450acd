/* SPDX-License-Identifier: GPL-3.0-or-later */
/** How the units of a pipeline's two cuts depend on each other, token by token; the same on every stage. */
#ifndef SLIMSIM_DAG_RELATIONS_H
#define SLIMSIM_DAG_RELATIONS_H

#include "plan/plan.h"

/** Tokens of one forward unit that one backward unit consumes, before division by the context degree. */
struct relations_share {
    int32_t forward;       /* unit */
    int32_t whole_tokens;  /* of samples that stand in one unit of each cut, and padding */
    int32_t sliced_tokens; /* of samples that stand in several units of a cut */
};

/**
 * shares: the forward units whose tokens backward unit j consumes; a backward unit's padding is
 * that of its padding_of. after: of each unit, the units of its own cut that hold the neighbouring slice of one of its
 * samples: forward the slice before (its keys and values), backward the slice after (it adds to this one's gradients);
 * no unit twice, the unit itself never.
 *
 * A sample's later slices read its keys and values in both passes, so it is sliced whichever cut divides it.
 */
struct relations {
    int32_t *share_first; /* [backward units + 1] into shares */
    struct relations_share *shares;
    int32_t *after_first[N_PASSES], *after[N_PASSES]; /* [units + 1] into after */
    int32_t *last_share, *last_after[N_PASSES];       /* the highest unit of each list, -1: it is empty */
    int64_t *sliced_tokens;                           /* of each forward unit: as those of its shares */
    int64_t *opened_tokens; /* of each backward unit: prefixes whose key and value gradients it begins */
    int64_t *closed_tokens; /* of each backward unit: tokens whose key and value gradients it takes up */
};

/** From the cuts alone. Backward slices of a sample must run from its end to its start without a gap (plan/check.h). */
void relations_of(const struct plan_pipeline *pipeline, struct relations *relations);

void relations_free(struct relations *relations);

#endif
