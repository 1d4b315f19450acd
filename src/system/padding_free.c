/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system runs random documents without padding and without packing by length.
 *
 * 1. The batch's samples come in a random order. `micro_batch` successive ones make a micro-batch.
 * 2. The number of micro-batches is a multiple of the DP ranks (interleaved: and of the stages). Micro-batches differ
 *    by at most one sample.
 * 3. Micro-batch k goes to rank k mod DP. The order is 1F1B; CP is static.
 * 4. Attention has variable lengths, so each sample attends to itself only.
 *
 * Source: Kundu et al. 2024 (arXiv:2407.09105), DataCollatorWithFlattening of Hugging Face's transformers, whose
 * Trainer has 8 samples a micro-batch by default. Even micro-batches are inferred.
 */
#include "system/system.h"

#include "bounds/batch_bound.h"
#include "packing/packing.h"

struct padding_free_knobs {
    int64_t micro_batch;
};

static bool padding_free_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    const struct padding_free_knobs *knobs = request->knobs;
    struct packing packing;
    packing_random(request, knobs->micro_batch, &packing);
    bool ok = packing_plan(request, request->batch->tokens, &packing, plan, err);
    packing_free(&packing);
    return ok;
}

static const struct schema_key knobs[] = {
    {"micro_batch", SCHEMA_INT, "-", 1, 1000000, "8", NULL, "most samples of a micro-batch",
     offsetof(struct padding_free_knobs, micro_batch)},
};

const struct training_system system_padding_free = {
    .name = "padding-free",
    .source = "Kundu et al. 2024 (arXiv:2407.09105)",
    .meaning = "random documents, as many in each micro-batch, with attention of variable length; 1F1B (interleaved "
               "with plan.vpp), static context parallelism",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct padding_free_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_CP | SYSTEM_EP,
    .whole_samples = true,
    .plan = padding_free_plan,
    .lower_bound_s = batch_bound_whole_samples_s,
};
