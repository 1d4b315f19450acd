/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system runs random documents, each padded to the longest of its micro-batch.
 *
 * 1. Micro-batches, ranks and orders are those of `padding-free`.
 * 2. Each sample of a micro-batch is as long as its longest. Attention and GEMMs run on the padding, too.
 * 3. Only the samples' own tokens count as trained.
 *
 * Source: DataCollatorWithPadding of Hugging Face's transformers, as measured by Kundu et al. 2024 (arXiv:2407.09105).
 */
#include "system/system.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "packing/packing.h"

struct padded_knobs {
    int64_t micro_batch;
};

/* Return the padded tokens of each sample. */
static int32_t *padded_tokens(const struct batch *batch, const struct packing *packing)
{
    int32_t *padded = check_malloc((size_t)batch->n_samples * sizeof *padded);
    for (int32_t pack = 0; pack < packing->n_packs; pack++) {
        int32_t longest = 0;
        for (int32_t i = packing->first[pack]; i < packing->first[pack + 1]; i++)
            longest = batch->tokens[packing->sample[i]] > longest ? batch->tokens[packing->sample[i]] : longest;
        for (int32_t i = packing->first[pack]; i < packing->first[pack + 1]; i++)
            padded[packing->sample[i]] = longest;
    }
    return padded;
}

static bool padded_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    const struct padded_knobs *knobs = request->knobs;
    const struct batch *batch = request->batch;
    struct packing packing;
    packing_random(request, knobs->micro_batch, &packing);
    int32_t *padded = padded_tokens(batch, &packing);
    bool ok = packing_plan(request, padded, &packing, plan, err);
    if (ok) {
        plan->n_padded = batch->n_samples;
        plan->real_tokens = check_malloc((size_t)batch->n_samples * sizeof *plan->real_tokens);
        memcpy(plan->real_tokens, batch->tokens, (size_t)batch->n_samples * sizeof *plan->real_tokens);
    }
    packing_free(&packing);
    free(padded);
    return ok;
}

static const struct schema_key knobs[] = {
    {"micro_batch", SCHEMA_INT, "-", 1, 1000000, "8", NULL, "most samples of a micro-batch",
     offsetof(struct padded_knobs, micro_batch)},
};

const struct training_system system_padded = {
    .name = "padded",
    .source = "Kundu et al. 2024 (arXiv:2407.09105)",
    .meaning = "random documents, as many in each micro-batch, padded to its longest, with attention on the padding; "
               "1F1B (interleaved with plan.vpp), static context parallelism",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct padded_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_CP | SYSTEM_EP,
    .whole_samples = true,
    .plan = padded_plan,
    .lower_bound_s = batch_bound_whole_samples_s,
};
