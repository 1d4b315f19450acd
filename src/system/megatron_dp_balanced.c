/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is Megatron-Core's scheduler for packs that are dealt out to the DP ranks. It balances their number, not
 * their FLOPs, in spite of its name.
 *
 * 1. Samples come in the order of arrival. One joins the open pack if that then has at most L x CP tokens. Otherwise it
 *    opens a new pack. A longer sample has a pack of its own. L is `max_tokens`, the tokens of a context rank.
 * 2. The number of packs must be a multiple of DP (interleaved: of DP x PP). While it is not, the last pack of several
 *    samples gives its last one. It becomes a pack of its own, behind all others.
 * 3. Pack i DP + d is micro-batch i of DP rank d. The order is that of plan.schedule; CP is static. Nothing is padded,
 *    because packs are of variable length (THD).
 *
 * Source: Megatron-Core, megatron/core/datasets/data_schedule.py@d98e8a64 (2026), DpBalancedScheduler, with L called
 * max_seqlen_per_dp_cp_rank. The default of L is inferred: a pack holds one context.
 *
 * Deviates: The public scheduler stops if no pack has a sample to give. Here the last ranks then have one micro-batch
 * less, so that a small batch runs. Interleaved stages cannot run it, and the plan is refused.
 */
#include "system/system.h"

#include <stdlib.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "packing/packing.h"

struct dp_balanced_knobs {
    int64_t max_tokens;
};

/* Return the most tokens of a pack. */
static int64_t room_of(const struct plan_request *request)
{
    const struct dp_balanced_knobs *knobs = request->knobs;
    int64_t context_ranks = request->layout.cp;
    int64_t room = knobs->max_tokens > 0 ? knobs->max_tokens : (request->context + context_ranks - 1) / context_ranks;
    return room * context_ranks;
}

/* Fill in the pack of each sample. @return the number of packs */
static int32_t next_fit(const struct batch *batch, int64_t room, int32_t *pack)
{
    int32_t n_packs = 0;
    int64_t open = 0; /* tokens of the last pack */
    for (int32_t i = 0; i < batch->n_samples; i++) {
        if (n_packs == 0 || open + batch->tokens[i] > room) {
            n_packs++;
            open = 0;
        }
        open += batch->tokens[i];
        pack[i] = n_packs - 1;
    }
    return n_packs;
}

/* Move last samples to packs of their own until the number of packs is a multiple, or all have one. @return it */
static int32_t spread(int32_t n_samples, int32_t n_packs, int32_t multiple, int32_t *pack)
{
    for (int32_t i = n_samples - 1; i > 0 && n_packs % multiple != 0; i--)
        if (pack[i] == pack[i - 1])
            pack[i] = n_packs++;
    return n_packs;
}

static bool dp_balanced_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    const struct batch *batch = request->batch;
    int32_t n = batch->n_samples, multiple = packing_multiple(&request->layout);
    int32_t *order = check_malloc((size_t)n * sizeof *order), *pack = check_malloc((size_t)n * sizeof *pack);
    struct packing packing;
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    int32_t n_packs = spread(n, next_fit(batch, room_of(request), pack), multiple, pack);
    packing_of(order, pack, n, n_packs, &packing);
    bool ok = request->layout.vpp == 1 || n_packs % multiple == 0;
    if (ok)
        ok = packing_plan(request, batch->tokens, &packing, plan, err);
    else
        error_set(err,
                  "megatron-dp-balanced: plan.vpp: interleaved stages need packs in multiples of %d (dp x pp), and %d "
                  "samples are too few for that; allowed: vpp 1 or a larger batch",
                  multiple, n);
    packing_free(&packing);
    free(order);
    free(pack);
    return ok;
}

static const struct schema_key knobs[] = {
    {"max_tokens", SCHEMA_INT, "tokens", 0, 1073741824, "0", NULL,
     "tokens of a pack on a context rank (Megatron's max_seqlen_per_dp_cp_rank); 0: a pack holds one context",
     offsetof(struct dp_balanced_knobs, max_tokens)},
};

const struct training_system system_megatron_dp_balanced = {
    .name = "megatron-dp-balanced",
    .source = "Megatron-Core, dp_balanced sequence packing (2026)",
    .meaning = "packs in the order of arrival, as many for each DP rank, 1F1B (interleaved with plan.vpp), static "
               "context parallelism",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct dp_balanced_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_CP | SYSTEM_EP,
    .whole_samples = true,
    .plan = dp_balanced_plan,
    .lower_bound_s = batch_bound_whole_samples_s,
};
