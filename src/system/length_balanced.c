/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system packs samples by near-equal token sums.
 *
 * 1. Samples come longest first. Each goes into the pack of the fewest tokens that holds it within the context.
 * 2. The number of packs is that of context windows that the tokens would fill. It is rounded up to the same number for
 *    each DP rank (interleaved: a multiple of the stages). It grows if a sample finds no room.
 * 3. Pack k goes to rank k mod DP. The order is 1F1B; CP is static. Nothing is padded.
 *
 * Source: "Length-Based Strategies" of SlimPack section 4, read as bins of near-equal token sums. The number of bins
 * and their ranks are inferred.
 */
#include "system/system.h"

#include <stdlib.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "packing/packing.h"

static bool length_balanced_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    const struct batch *batch = request->batch;
    double *weight = check_malloc((size_t)batch->n_samples * sizeof *weight);
    struct packing packing;
    for (int32_t i = 0; i < batch->n_samples; i++)
        weight[i] = batch->tokens[i];
    packing_balance(request, weight, request->context, &packing);
    bool ok = packing_plan(request, batch->tokens, &packing, plan, err);
    packing_free(&packing);
    free(weight);
    return ok;
}

const struct training_system system_length_balanced = {
    .name = "length-balanced",
    .source = "SlimPack section 4, length-based strategies",
    .meaning = "packs of near-equal token sums, 1F1B (interleaved with plan.vpp), static context parallelism",
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_CP | SYSTEM_EP,
    .whole_samples = true,
    .plan = length_balanced_plan,
    .lower_bound_s = batch_bound_whole_samples_s,
};
