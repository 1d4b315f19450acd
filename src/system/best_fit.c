/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is Megatron-LM with Best-fit Packing, with which the paper compares.
 *
 * 1. Best-fit decreasing packs all samples of the global batch into bins of `context` tokens. Samples come longest
 *    first (ties: by index). Each goes into the fullest bin that still holds it (ties: the lowest), otherwise into a
 *    new one.
 * 2. A bin is a sequence. Bins go round-robin, in order, to the DP ranks.
 * 3. `micro_batch` successive bins of a rank make a micro-batch; the last micro-batch takes the remaining bins.
 * 4. The order is 1F1B, interleaved with `plan.vpp` above 1. CP is static: `plan.cp` ranks share every sample.
 * 5. With `pad` a bin is filled up to the context. Ranks with fewer bins run empty ones, so that all run the same
 *    number. Interleaved, the number of micro-batches is a multiple of the stages. Without `pad` no padding is
 * computed.
 *
 * Source: Ding et al. 2024 (arXiv:2404.10830) for the packing. Inferred are the round-robin, the padding and 1F1B, as
 * Megatron-LM would use it.
 */
#include "system/system.h"

#include <stdlib.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "packing/packing.h"
#include "packing/samples.h"
#include "plan/schedule.h"

struct best_fit_knobs {
    bool pad;
    int64_t micro_batch;
};

static void add_bin(const struct plan_request *request, const struct packing *packing, int32_t bin,
                    struct plan_partition *partition)
{
    for (int32_t i = packing->first[bin]; i < packing->first[bin + 1]; i++) {
        int32_t sample = packing->sample[i];
        plan_add_slice(partition, (struct slice){sample, 0, request->batch->tokens[sample]});
    }
}

/* Add a micro-batch of the n bins first, first + stride, ...; bins that do not exist are padding only. */
static void add_micro_batch(const struct plan_request *request, const struct packing *packing, int32_t first, int32_t n,
                            struct plan_pipeline *pipeline)
{
    const struct best_fit_knobs *knobs = request->knobs;
    int32_t stride = (int32_t)request->layout.dp;
    for (int pass = 0; pass < N_PASSES; pass++) {
        struct plan_partition *partition = &pipeline->partition[pass];
        for (int32_t i = 0; i < n && first + i * stride < packing->n_packs; i++)
            add_bin(request, packing, first + i * stride, partition);
        struct plan_micro_batch *micro_batch = packing_close_micro_batch(request, pipeline, partition);
        if (knobs->pad)
            micro_batch->padding_tokens =
                (int32_t)(n * request->context - plan_micro_batch_tokens(partition, partition->n_micro_batches - 1));
    }
}

/* Return the bins of one rank; with padding, as many as the first rank has. */
static int32_t bins_of(const struct plan_request *request, const struct packing *packing, int32_t rank)
{
    const struct best_fit_knobs *knobs = request->knobs;
    int32_t n_ranks = (int32_t)request->layout.dp;
    return (packing->n_packs + n_ranks - 1 - (knobs->pad ? 0 : rank)) / n_ranks;
}

/* Return the number of micro-batches of n_each bins for n bins; with padding and interleaved it is whole groups of
 * micro-batches. */
static int32_t grouped(const struct plan_request *request, int32_t n, int32_t n_each)
{
    const struct best_fit_knobs *knobs = request->knobs;
    int64_t group = knobs->pad && request->layout.vpp > 1 ? request->layout.pp * n_each : 1;
    return (int32_t)((n + group - 1) / group * group);
}

static void add_micro_batches(const struct plan_request *request, const struct packing *packing, int32_t rank,
                              struct plan_pipeline *pipeline)
{
    const struct best_fit_knobs *knobs = request->knobs;
    int32_t n = bins_of(request, packing, rank), n_ranks = (int32_t)request->layout.dp;
    int32_t n_each = knobs->micro_batch < n ? (int32_t)knobs->micro_batch : n, n_bins = grouped(request, n, n_each);
    for (int32_t bin = 0; bin < n_bins; bin += n_each)
        add_micro_batch(request, packing, rank + bin * n_ranks, n_bins - bin < n_each ? n_bins - bin : n_each,
                        pipeline);
}

static bool make_plan(const struct plan_request *request, const struct packing *packing, struct plan *plan,
                      struct error *err)
{
    bool ok = true;
    *plan = (struct plan){.n_phases = 1, .n_candidates = 1};
    plan->shards = scenario_plan_shards(&request->layout);
    plan->phases = check_calloc(1, sizeof *plan->phases);
    request_megatron_layout(request, plan->phases);
    for (int32_t rank = 0; ok && rank < plan->phases->n_pipelines; rank++) {
        add_micro_batches(request, packing, rank, &plan->phases->pipelines[rank]);
        ok = schedule_pipeline(&plan->phases->pipelines[rank], &request->layout, request->setting, err);
    }
    if (!ok)
        plan_free(plan);
    return ok;
}

static bool best_fit_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    const struct best_fit_knobs *knobs = request->knobs;
    struct packing packing;
    if (knobs->micro_batch * request->context > INT32_MAX)
        return error_set(err, "best-fit: micro_batch x data.context is %lld tokens; at most 2147483647 are allowed",
                         (long long)(knobs->micro_batch * request->context));
    packing_best_fit_batch(request->batch, (int32_t)request->context, &packing);
    bool ok = make_plan(request, &packing, plan, err);
    packing_free(&packing);
    return ok;
}

static const struct schema_key knobs[] = {
    {"pad", SCHEMA_BOOL, "-", 0, 0, "true", NULL,
     "fill bins up to the context, and give ranks with fewer bins empty ones; with plan.vpp above 1 up to a "
     "multiple of plan.pp micro-batches",
     offsetof(struct best_fit_knobs, pad)},
    {"micro_batch", SCHEMA_INT, "-", 1, 1000000, "1", NULL, "bins in a micro-batch",
     offsetof(struct best_fit_knobs, micro_batch)},
};

const struct training_system system_best_fit = {
    .name = "best-fit",
    .source = "Ding et al. 2024 (arXiv:2404.10830); Megatron-LM",
    .meaning = "best-fit-decreasing packs of the batch, 1F1B (interleaved with plan.vpp), static context "
               "parallelism",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct best_fit_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_CP | SYSTEM_EP,
    .whole_samples = true,
    .plan = best_fit_plan,
    .lower_bound_s = batch_bound_whole_samples_s,
};
