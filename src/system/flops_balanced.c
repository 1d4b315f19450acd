/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system packs samples by near-equal forward FLOPs.
 *
 * 1. Samples come most FLOPs first. Each goes into the pack of the least FLOPs (one layer's forward, without the head)
 *    that memory lets hold it. So a pack may exceed the context.
 * 2. The number of packs is that of context windows that the tokens would fill. It is rounded up to the same number for
 *    each DP rank (interleaved: a multiple of the stages). It grows if a sample finds no room.
 * 3. Pack k goes to rank k mod DP. The order is 1F1B; CP is static.
 *
 * Source: "TFLOPs-Based Strategies" of SlimPack section 4, read as longest processing time first, with a length that
 * only memory limits. The number of packs and their ranks are inferred.
 */
#include "system/system.h"

#include <stdlib.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "packing/packing.h"

struct flops_balanced_knobs {
    int64_t max_tokens;
};

static bool flops_balanced_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    const struct flops_balanced_knobs *knobs = request->knobs;
    const struct batch *batch = request->batch;
    struct flop_curve curve = flop_model_curve(request->setting->model, PASS_FORWARD);
    double *weight = check_malloc((size_t)batch->n_samples * sizeof *weight);
    struct packing packing;
    for (int32_t i = 0; i < batch->n_samples; i++)
        weight[i] = (double)flop_of_prefix(curve, batch->tokens[i]);
    packing_balance(request, weight, knobs->max_tokens > 0 ? knobs->max_tokens : packing_memory_tokens(request),
                    &packing);
    bool ok = packing_plan(request, batch->tokens, &packing, plan, err);
    packing_free(&packing);
    free(weight);
    return ok;
}

static const struct schema_key knobs[] = {
    {"max_tokens", SCHEMA_INT, "tokens", 0, 1073741824, "0", NULL,
     "longest pack, except for a longer sample; 0: the tokens that memory holds if all micro-batches in flight are as "
     "long",
     offsetof(struct flops_balanced_knobs, max_tokens)},
};

const struct training_system system_flops_balanced = {
    .name = "flops-balanced",
    .source = "SlimPack section 4, TFLOPs-based strategies",
    .meaning = "packs of near-equal forward FLOPs, as long as memory allows; 1F1B (interleaved with plan.vpp), static "
               "context parallelism",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct flops_balanced_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_CP | SYSTEM_EP,
    .whole_samples = true,
    .plan = flops_balanced_plan,
    .lower_bound_s = batch_bound_whole_samples_s,
};
