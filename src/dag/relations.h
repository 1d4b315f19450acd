/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module finds how forward and backward micro-batches of a pipeline depend on each other, token by token. All
 * stages have the same relations.
 */
#ifndef SLIMSIM_DAG_RELATIONS_H
#define SLIMSIM_DAG_RELATIONS_H

#include "plan/plan.h"

/** Tokens of one forward micro-batch that one backward micro-batch consumes, before division by the context degree. */
struct relations_share {
    int32_t forward;       /* micro-batch */
    int32_t whole_tokens;  /* of samples that are in one micro-batch of each pass, and padding */
    int32_t sliced_tokens; /* of samples that are in several micro-batches of a pass */
};

/**
 * Relations of the micro-batches of a pipeline.
 *
 *  - shares: forward micro-batches whose tokens backward micro-batch j consumes. A backward micro-batch's padding is
 * that of its padding_of.
 *  - after: for each micro-batch the micro-batches of the same pass that hold the neighbouring slice of one of its
 * samples. Forward it is the slice before (its keys and values); backward the slice after (it adds to this one's
 * gradients). No micro-batch is listed twice, and none lists itself.
 *
 * A sample's later slices read its keys and values in both passes, so it is sliced whichever pass divides it.
 */
struct relations {
    int32_t *share_first; /* [backward micro-batches + 1] into shares */
    struct relations_share *shares;
    int32_t *after_first[N_PASSES], *after[N_PASSES]; /* [micro-batches + 1] into after */
    int32_t *last_share, *last_after[N_PASSES];       /* highest micro-batch of each list, -1: it is empty */
    int64_t *sliced_tokens;                           /* of each forward micro-batch: sum over its shares */
    int64_t
        *opened_tokens; /* of each backward micro-batch: tokens of prefixes whose key and value gradients it begins */
    int64_t *closed_tokens; /* of each backward micro-batch: tokens whose key and value gradients it consumes */
};

/**
 * Find the relations from the micro-batches and slices. Backward slices of a sample must run from its end to its start
 * without a gap (plan/check.h).
 */
void relations_of(const struct plan_pipeline *pipeline, struct relations *relations);

void relations_free(struct relations *relations);

#endif
